package lab

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mpps/internal/must"
)

// TestCopyFile: a file is replaced, and what is no regular file stays what it is.
func TestCopyFile(t *testing.T) {
	dir := t.TempDir()
	src := filepath.Join(dir, "src")
	must.Do(t, os.WriteFile(src, []byte("text"), 0o644))
	dst := filepath.Join(dir, "dst")
	for range 2 {
		must.Do(t, copyFile(src, dst, 0o600))
	}
	if got, err := os.ReadFile(dst); err != nil || string(got) != "text" {
		t.Errorf("found %q, %v", got, err)
	}
	null := filepath.Join(dir, "null")
	must.Do(t, os.Symlink(os.DevNull, null))
	must.Do(t, copyFile(src, null, 0o644))
	if info, err := os.Stat(null); err != nil || info.Mode().IsRegular() {
		t.Errorf("a device became a file: %v, %v", info, err)
	}
}

// TestOutdated: a tree with the release's own QEMU is found out, and one that names no version is not.
func TestOutdated(t *testing.T) {
	for version, want := range map[string]bool{
		"QEMU emulator version 10.0.13 (Debian 1:10.0.13+ds-0+deb13u1)": true,
		"QEMU emulator version 11.1.3 (Debian 1:11.1.3+ds-1~bpo13+1)":   false, "": false, "QEMU": false,
	} {
		_, old := (&Tree{QEMU: version}).outdated()
		must.Equal(t, old, want, "%q", version)
	}
}

// TestTreeIsSigned: no base system is made of packages whose signature cannot be checked.
func TestTreeIsSigned(t *testing.T) {
	dir := t.TempDir()
	args := filepath.Join(dir, "args")
	must.Do(t, os.WriteFile(filepath.Join(dir, "unshare"), []byte("#!/bin/sh\necho \"$@\" >"+args+"\n"), 0o755))
	t.Setenv("PATH", dir)
	b := &builder{mirror: "http://mirror.example/debian", debs: filepath.Join(dir, "debs"), tree: &Tree{Dir: dir}}
	must.Do(t, b.debootstrap(t.Context()))
	words := strings.Fields(string(must.Get(os.ReadFile(args))(t)))
	must.Hold(t, slices.Contains(words, "debootstrap") && slices.Contains(words, "--force-check-gpg"), "%q", words)
}

// TestLocksAreClosed: no other user can open a lock, and keep labs from starting.
func TestLocksAreClosed(t *testing.T) {
	dir := t.TempDir()
	unlock := must.Get(tryLock(filepath.Join(dir, "lock")))(t)
	defer unlock()
	must.Is(t, must.Err(openPort(dir, "port0")), ErrGone, "a port without pipes")
	for _, name := range []string{"lock", "port0.lock"} {
		info := must.Get(os.Stat(filepath.Join(dir, name)))(t)
		must.Hold(t, info.Mode().Perm() == 0o600, "%s has mode %v", name, info.Mode())
	}
}
