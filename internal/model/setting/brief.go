package setting

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// Brief returns a reading for one-line messages: the value, or size and hash of a text.
func (a Address) Brief(r Reading) string {
	if !a.Kind.IsText() || r.State != Known {
		return r.String()
	}
	sum := sha256.Sum256([]byte(r.Value))
	return fmt.Sprintf("a text of %d lines (sha256 %x…)", strings.Count(r.Value, "\n"), sum[:4])
}

// BriefWhy is Brief with the reason of a reading without a value.
func (a Address) BriefWhy(r Reading) string {
	if r.State != Known && r.Why != "" {
		return fmt.Sprintf("%s (%s)", r, r.Why)
	}
	return a.Brief(r)
}
