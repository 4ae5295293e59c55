package initramfs

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mpps/internal/must"
)

func TestModules(t *testing.T) {
	m := must.Get(ReadModules("testdata/modules"))(t)
	got := must.Get(m.resolve([]string{"virtio-net", "af_packet", "e1000", "vfio-pci"}))(t)
	want := []string{"failover", "net_failover", "virtio_net", "e1000", "vfio", "vfio_pci_core", "vfio_pci"}
	must.NoDiff(t, cmp.Diff(want, got), "difference")
	must.Fail(m.resolve([]string{"nonesuch"}))(t, "an unknown module was accepted")
	list := moduleList(m, []string{"virtio-net", "af_packet"}, got)
	if want := "load virtio_net 00-failover.ko 01-net_failover.ko 02-virtio_net.ko\nalias virtio_net " +
		"virtio:d00000001v*\n"; list != want {
		t.Errorf("list: found %q, want %q", list, want)
	}
}

func TestCPIO(t *testing.T) {
	var b bytes.Buffer
	c := newWriter(&b)
	for _, err := range []error{
		c.Dir("dev"),
		c.entry("dev/console", modeChar|0o600, 5, 1, 0, nil),
		c.entry("odd", modeFile|0o644, 0, 0, 5, strings.NewReader("12345")),
		c.entry("init", modeFile|0o755, 0, 0, 4, strings.NewReader("1234")),
		c.close(),
	} {
		must.Do(t, err)
	}
	must.Hold(t, b.Len()%4 == 0, "length %d is no multiple of 4", b.Len())
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
	must.NoDiff(t,
		cmp.Diff([]string{"drwxr-xr-x dev", "crw------- dev/console", "-rw-r--r-- odd", "-rwxr-xr-x init"}, got),
		"difference")
}

func TestInitramfsRefusesADynamicProgram(t *testing.T) {
	sh, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Skip(err)
	}
	err = Build(Image{Init: sh, ModulesDir: t.TempDir()}, filepath.Join(t.TempDir(), "x"))
	var hinted interface{ Hint() string }
	must.Hold(t, errors.As(err, &hinted) && strings.Contains(hinted.Hint(), "CGO_ENABLED=0"),
		"found %v, expected a hint how to build a static one", err)
}

// TestPackedModules: a kernel may be unable to unpack modules, so the archive has them unpacked. A module that is built
// in needs no file; one that is missing is an error.
func TestPackedModules(t *testing.T) {
	self := must.Get(os.Executable())(t)
	if err := CheckStatic(self); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"modules.dep":     "kernel/net/b.ko.xz: kernel/net/a.ko.xz\nkernel/net/a.ko.xz:\n",
		"modules.builtin": "kernel/drivers/virtio_pci.ko\n", "modules.alias": "alias virtio:d00000001v* b\n",
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	out := filepath.Join(t.TempDir(), "initrd")
	i := Image{Init: self, ModulesDir: dir, Modules: []string{"virtio_pci", "b"}}
	must.Refuse(t, Build(i, out), "a packed module was taken for one that is not")
	i.Unpack = func(file string) (string, error) { return "unpacked " + filepath.Base(file), nil }
	must.Do(t, Build(i, out))
	text := must.Get(os.ReadFile(out))(t)
	for _, want := range []string{"mods/00-a.ko", "unpacked a.ko.xz", "mods/01-b.ko", "unpacked b.ko.xz",
		"load b 00-a.ko 01-b.ko\nalias b virtio:d00000001v*\n"} {
		must.Hold(t, bytes.Contains(text, []byte(want)), "the archive has no %q", want)
	}
	if info := must.Get(os.Stat(out))(t); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v: it may hold a secret", info.Mode())
	}
	m := must.Get(ReadModules(dir))(t)
	var none *NoModule
	if _, err := m.Files("virtio_pci", "e1000"); !errors.As(err, &none) || none.Name != "e1000" {
		t.Errorf("found %v", err)
	}
	if files, err := m.Files("b"); err != nil || len(files) != 2 {
		t.Errorf("files %q, %v", files, err)
	}
}
