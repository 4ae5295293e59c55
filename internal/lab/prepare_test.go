package lab

import (
	"os"
	"path/filepath"
	"testing"
)

// TestCopyFile: a file is replaced, and what is no regular file stays what it is.
func TestCopyFile(t *testing.T) {
	dir := t.TempDir()
	src := filepath.Join(dir, "src")
	if err := os.WriteFile(src, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	dst := filepath.Join(dir, "dst")
	for range 2 {
		if err := copyFile(src, dst, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(dst); err != nil || string(got) != "text" {
		t.Errorf("found %q, %v", got, err)
	}
	null := filepath.Join(dir, "null")
	if err := os.Symlink(os.DevNull, null); err != nil {
		t.Fatal(err)
	}
	if err := copyFile(src, null, 0o644); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(null); err != nil || info.Mode().IsRegular() {
		t.Errorf("a device became a file: %v, %v", info, err)
	}
}
