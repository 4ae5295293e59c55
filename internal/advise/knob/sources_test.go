package knob

import (
	"strings"
	"testing"
)

// isUnchecked reports whether a source names nothing that somebody else can look up: only that the founding
// measurements or their experience say so.
func isUnchecked(s Source) bool {
	for part := range strings.SplitSeq(s.Where, ";") {
		if !strings.HasPrefix(strings.TrimSpace(part), "founding ") {
			return false
		}
	}
	return true
}

// TestSourcesCanBeChecked: every source names a file and a function, a document and a section, or what was measured and
// how.
func TestSourcesCanBeChecked(t *testing.T) {
	t.Parallel()
	for _, k := range Catalogue() {
		for _, s := range k.Doc().Sources {
			if isUnchecked(s) {
				t.Errorf("%s: %s: %s: what can somebody else look up?", k.ID, s.Fact, s.Where)
			}
		}
	}
}
