package owner

import (
	"os"
	"path/filepath"
	"testing"

	"mpps/internal/must"
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
		must.Do(t, os.WriteFile(file, nil, 0o600))
		must.Do(t, os.Chmod(file, c.mode))
		if c.owner != 0 {
			if os.Geteuid() != 0 {
				continue
			}
			must.Do(t, os.Chown(file, c.owner, -1))
		}
		info := must.Get(os.Stat(file))(t)
		if err := Check(info); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestProgram(t *testing.T) {
	// What is above the directories of tests may be open to all: /tmp is.
	must.Refuse(t, Program("/proc/self"), "a symbolic link: expected an error")
	if err := Program("/usr/bin/env"); err != nil && os.Geteuid() == 0 {
		if resolved, linked := filepath.EvalSymlinks("/usr/bin/env"); linked != nil || Program(resolved) != nil {
			t.Error(err)
		}
	}
	file := filepath.Join(t.TempDir(), "mpps")
	must.Do(t, os.WriteFile(file, nil, 0o755))
	must.Do(t, os.Chmod(filepath.Dir(file), 0o777))
	must.Refuse(t, Program(file), "in a directory that everybody can write: expected an error")
}
