package tree

import (
	"os"
	"path/filepath"
	"testing"

	"mpps/internal/must"
)

// TestTooLarge: of a file that is too large nothing is returned that a caller could go on to parse.
func TestTooLarge(t *testing.T) {
	root := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(root, "large"), nil, 0o644))
	must.Do(t, os.Truncate(filepath.Join(root, "large"), maxFile+1))
	m := must.Get(Open(root))(t)
	if text, err := m.Read("large"); text != "" || err == nil {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	must.Do(t, os.WriteFile(filepath.Join(root, "line"), make([]byte, maxLine+1), 0o644))
	must.Equal(t, m.Line("line"), "", "a line of bytes")
}
