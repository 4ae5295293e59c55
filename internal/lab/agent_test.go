package lab

import (
	"path/filepath"
	"slices"
	"testing"

	"mpps/internal/must"
)

// TestLibrariesOfPrograms: the test's own shell is a program with a loader and libraries, in a tree that is this
// machine.
func TestLibrariesOfPrograms(t *testing.T) {
	const tree = "/"
	sh, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Skip(err)
	}
	loader, libraries, err := dependencies(sh)
	must.Need(t, err == nil && loader != "" && slices.Contains(libraries, "libc.so.6"),
		"%s: loader %q, libraries %v: %v", sh, loader, libraries, err)
	if _, err := libraryIn(tree, "libc.so.6"); err != nil {
		t.Skip("no Debian of 64 bits: ", err)
	}
	list := must.Get(withLibraries(tree, []string{sh}))(t)
	for _, name := range []string{"libc.so.6", filepath.Base(loader)} {
		if n := len(slices.DeleteFunc(slices.Clone(list),
			func(f string) bool { return filepath.Base(f) != name })); n != 1 {
			t.Errorf("%s stands %d times in %v", name, n, list)
		}
	}
	must.Fail(withLibraries(t.TempDir(), []string{"usr/sbin/qemu-ga"}))(t, "a tree without the agent was accepted")
}
