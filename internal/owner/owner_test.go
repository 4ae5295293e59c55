package owner

import (
	"os"
	"path/filepath"
	"testing"
)

func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		mode  os.FileMode
		owner int
		good  bool
	}{
		"private":         {0o600, 0, true},
		"readable":        {0o644, 0, true},
		"for the group":   {0o664, 0, false},
		"for all":         {0o646, 0, false},
		"somebody else's": {0o600, 65534, false},
	} {
		file := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, c.mode); err != nil {
			t.Fatal(err)
		}
		if c.owner != 0 {
			if os.Geteuid() != 0 {
				continue
			}
			if err := os.Chown(file, c.owner, -1); err != nil {
				t.Fatal(err)
			}
		}
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := Check(info); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}
