package knob

import (
	"os"
	"slices"
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
// how. testdata/unchecked.txt lists the knobs that still have others; a knob that is mended leaves the list for good.
func TestSourcesCanBeChecked(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/unchecked.txt")
	if err != nil {
		t.Fatal(err)
	}
	listed := strings.Fields(string(text))
	for _, k := range Catalogue() {
		sources := k.Doc().Sources
		at := slices.IndexFunc(sources, isUnchecked)
		switch is := slices.Contains(listed, k.ID); {
		case at >= 0 && !is:
			t.Errorf("%s: %s: %s: what can somebody else look up?", k.ID, sources[at].Fact, sources[at].Where)
		case at < 0 && is:
			t.Logf("%s is mended: take it out of testdata/unchecked.txt", k.ID)
		}
	}
}
