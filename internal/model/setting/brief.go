package setting

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// Brief is a reading for messages of one line: the value, or of a whole file its size and a hash.
func (a Address) Brief(r Reading) string {
	if !a.Kind.Whole() || r.State != Known {
		return r.String()
	}
	sum := sha256.Sum256([]byte(r.Value))
	return fmt.Sprintf("a text of %d lines (sha256 %x…)", strings.Count(r.Value, "\n"), sum[:4])
}
