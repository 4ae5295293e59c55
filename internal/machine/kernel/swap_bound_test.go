package kernel

import (
	"strings"
	"testing"

	"mpps/internal/must"
)

// TestSwapsAreBounded: a table of a recorded tree has no more areas than a kernel, each of which is read from it again.
func TestSwapsAreBounded(t *testing.T) {
	must.Equal(t, len(ParseSwaps("Filename\n"+strings.Repeat("/swap file 1024 0 -2\n", 100))), 32, "areas")
}
