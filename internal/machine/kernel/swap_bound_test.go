package kernel

import (
	"strings"
	"testing"
)

// TestSwapsAreBounded: a table of a recorded tree has no more areas than a kernel, each of which is read from it again.
func TestSwapsAreBounded(t *testing.T) {
	if n := len(ParseSwaps("Filename\n" + strings.Repeat("/swap file 1024 0 -2\n", 100))); n != 32 {
		t.Errorf("%d areas", n)
	}
}
