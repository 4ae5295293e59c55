package lab

import (
	"bytes"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mpps/internal/must"
)

func TestModules(t *testing.T) {
	m := must.Get(readModules("testdata/modules"))(t)
	got := must.Get(m.resolve([]string{"virtio-net", "af_packet", "e1000", "vfio-pci"}))(t)
	want := []string{"failover", "net_failover", "virtio_net", "e1000", "vfio", "vfio_pci_core", "vfio_pci"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if _, err := m.resolve([]string{"nonesuch"}); err == nil {
		t.Error("an unknown module was accepted")
	}
	list := moduleList(m, []string{"virtio-net", "af_packet"}, got)
	if want := "load virtio_net 00-failover.ko 01-net_failover.ko 02-virtio_net.ko\nalias virtio_net " +
		"virtio:d00000001v*\n"; list != want {
		t.Errorf("list: found %q, want %q", list, want)
	}
}

func TestCPIO(t *testing.T) {
	var b bytes.Buffer
	c := newCPIO(&b)
	for _, err := range []error{
		c.dir("dev"),
		c.entry("dev/console", modeChar|0o600, 5, 1, 0, nil),
		c.entry("odd", modeFile|0o644, 0, 0, 5, strings.NewReader("12345")),
		c.entry("init", modeFile|0o755, 0, 0, 4, strings.NewReader("1234")),
		c.close(),
	} {
		must.Do(t, err)
	}
	if b.Len()%4 != 0 {
		t.Errorf("length %d is no multiple of 4", b.Len())
	}
	cpio, err := exec.LookPath("cpio")
	if err != nil {
		t.Skip("no cpio to read it with")
	}
	cmd := exec.Command(cpio, "-itv", "--quiet", "--numeric-uid-gid")
	cmd.Stdin = &b
	out := must.Get(cmd.Output())(t)
	var got []string
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		got = append(got, f[0]+" "+f[len(f)-1])
	}
	if d := cmp.Diff([]string{"drwxr-xr-x dev", "crw------- dev/console", "-rw-r--r-- odd", "-rwxr-xr-x init"},
		got); d != "" {
		t.Error(d)
	}
}

func TestInitramfsRefusesADynamicProgram(t *testing.T) {
	sh, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Skip(err)
	}
	err = BuildInitramfs(Initramfs{Binary: sh, Tree: t.TempDir()}, filepath.Join(t.TempDir(), "x"))
	var hinted interface{ Hint() string }
	if !errors.As(err, &hinted) || !strings.Contains(hinted.Hint(), "CGO_ENABLED=0") {
		t.Errorf("found %v, expected a hint how to build a static one", err)
	}
}

// TestLibrariesOfPrograms: the test's own shell is a program with a loader and libraries, in a tree that is this
// machine.
func TestLibrariesOfPrograms(t *testing.T) {
	const tree = "/"
	sh, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Skip(err)
	}
	loader, libraries, err := dependencies(sh)
	if err != nil || loader == "" || !slices.Contains(libraries, "libc.so.6") {
		t.Fatalf("%s: loader %q, libraries %v: %v", sh, loader, libraries, err)
	}
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
	if _, err := withLibraries(t.TempDir(), []string{"usr/sbin/qemu-ga"}); err == nil {
		t.Error("a tree without the agent was accepted")
	}
}
