// Package golden compares the output of tests with files in the tree: pages, schemas, drawings, expected output. With
// MPPS_UPDATE=1 in the environment it writes those files instead; review them before committing.
package golden

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mpps/internal/must"
)

// Updating reports whether files are written instead of compared.
func Updating() bool { return os.Getenv("MPPS_UPDATE") != "" }

// File requires that a file has this content.
func File(t testing.TB, file, text string) {
	t.Helper()
	kept, err := os.ReadFile(file)
	switch {
	case err == nil && string(kept) == text:
	case Updating():
		must.Try(t, writeFile(file, text))
	case err != nil:
		t.Errorf("%v; MPPS_UPDATE=1 go test -run %s in the package of the test writes it", err, t.Name())
	default:
		t.Errorf("%s is not current (−), MPPS_UPDATE=1 go test -run %s in the package of the test writes it:\n%s", file,
			t.Name(), cmp.Diff(string(kept), text))
	}
}

// Part requires that a document has exactly this text between the comments NAME and /NAME.
func Part(t testing.TB, file, name, text string) {
	t.Helper()
	kept := must.Get(os.ReadFile(file))(t)
	begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
	head, rest, _ := strings.Cut(string(kept), begin)
	_, tail, found := strings.Cut(rest, end)
	if !found {
		t.Fatalf("%s has no %s … %s", file, strings.TrimSpace(begin), end)
	}
	File(t, file, head+begin+text+end+tail)
}

// writeFile replaces a file atomically: parallel tests may read it.
func writeFile(file, text string) error {
	folder, name := filepath.Split(file)
	f, err := os.CreateTemp(folder, "."+name+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone after the rename
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), file)
}
