package machine

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mpps/internal/must"
)

// live opens the machine that the test runs on.
func live(t *testing.T) *Machine {
	t.Helper()
	m := must.Get(Open("/"))(t)
	t.Cleanup(func() { m.Close() })
	return m
}

// tree returns a machine with a few files, for cases without a recording.
func lines(tb testing.TB, files map[string]string) *Machine {
	tb.Helper()
	root := tb.TempDir()
	for name, text := range files {
		target := filepath.Join(root, name)
		must.Do(tb, errors.Join(os.MkdirAll(filepath.Dir(target), 0o755),
			os.WriteFile(target, []byte(text+"\n"), 0o644)))
	}
	m := must.Get(Open(root))(tb)
	tb.Cleanup(func() { m.Close() })
	return m
}

// recorded writes files and opens them as a recorded machine. A text "-> target" makes a symbolic link, a name that
// ends in a slash a directory.
func recorded(t testing.TB, files map[string]string) *Machine {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		file := filepath.Join(root, name)
		must.Do(t, os.MkdirAll(filepath.Dir(file), 0o755))
		target, isLink := strings.CutPrefix(text, "-> ")
		var err error
		switch {
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(file, 0o755)
		case isLink:
			err = os.Symlink(target, file)
		default:
			err = os.WriteFile(file, []byte(text), 0o644)
		}
		must.Do(t, err)
	}
	m := must.Get(Open(root))(t)
	t.Cleanup(func() { m.Close() })
	return m
}
