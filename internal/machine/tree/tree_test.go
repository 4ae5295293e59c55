package tree

import (
	"os"
	"path/filepath"
	"testing"
)

// TestTooLarge: of a file that is too large nothing is returned that a caller could go on to parse.
func TestTooLarge(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "large"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(root, "large"), maxFile+1); err != nil {
		t.Fatal(err)
	}
	m, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := m.Read("large"); text != "" || err == nil {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	if err := os.WriteFile(filepath.Join(root, "line"), make([]byte, maxLine+1), 0o644); err != nil {
		t.Fatal(err)
	}
	if text := m.Line("line"); text != "" {
		t.Errorf("a line of %d bytes", len(text))
	}
}
