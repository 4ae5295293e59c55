// Package golden compares what tests make of the code with the files of the tree that show it: pages, schemas,
// drawings, expected output. With MPPS_UPDATE=1 in the environment it writes them, to be looked at before they are
// committed.
package golden

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Updating reports whether files are written and not compared.
func Updating() bool { return os.Getenv("MPPS_UPDATE") != "" }

// File requires that a file has this text.
func File(t testing.TB, file, text string) {
	t.Helper()
	kept, err := os.ReadFile(file)
	switch {
	case err == nil && string(kept) == text:
	case Updating():
		if err := replace(file, text); err != nil {
			t.Error(err)
		}
	case err != nil:
		t.Errorf("%v; MPPS_UPDATE=1 go test -run %s in the package of the test writes it", err, t.Name())
	default:
		t.Errorf("%s is not current (−), MPPS_UPDATE=1 go test -run %s in the package of the test writes it:\n%s", file,
			t.Name(), cmp.Diff(string(kept), text))
	}
}

// Part requires that a document has this text, and no other, between the comments NAME and /NAME.
func Part(t testing.TB, file, name, text string) {
	t.Helper()
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
	head, rest, _ := strings.Cut(string(kept), begin)
	_, tail, found := strings.Cut(rest, end)
	if !found {
		t.Fatalf("%s has no %s … %s", file, strings.TrimSpace(begin), end)
	}
	File(t, file, head+begin+text+end+tail)
}

// replace writes a file in one step: tests beside this one may read it.
func replace(file, text string) error {
	folder, name := filepath.Split(file)
	f, err := os.CreateTemp(folder, "."+name+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // it is gone where all went well
	_, err = f.WriteString(text)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	return err
}
