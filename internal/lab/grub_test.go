package lab

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mpps/internal/must"
)

func TestGrubDefault(t *testing.T) {
	text := must.Get(os.ReadFile("testdata/grub/grub.cfg"))(t)
	config := string(text)
	by := func(value string) string {
		return strings.Replace(config, `set default="0"`, `set default="`+value+`"`, 1)
	}
	const kernel = "/boot/vmlinuz-6.12.107+deb13-amd64"
	for name, c := range map[string]struct {
		config, environment string
		args                string // empty: an error about why
		why                 string
	}{
		"first":      {config, "", "root=/dev/vda1 ro isolcpus=managed_irq,domain,3 nohz_full=3", ""},
		"by numbers": {by("1>1"), "", "root=/dev/vda1 ro single dis_ucode_ldr", ""},
		"by IDs":     {by("gnulinux-advanced-00000000-0000-4000-8000-000000000001>gnulinux-6.12.107+deb13-amd64-advanced-00000000-0000-4000-8000-000000000001"), "", "root=/dev/vda1 ro isolcpus=managed_irq,domain,3 nohz_full=3", ""},
		"by title":   {by("Debian GNU/Linux"), "", "root=/dev/vda1 ro isolcpus=managed_irq,domain,3 nohz_full=3", ""},
		"saved": {by("${saved_entry}"), "# GRUB Environment Block\nsaved_entry=1>1\n####",
			"root=/dev/vda1 ro single dis_ucode_ldr", ""},
		"none saved":    {by("${saved_entry}"), "", "root=/dev/vda1 ro isolcpus=managed_irq,domain,3 nohz_full=3", ""},
		"a menu":        {by("1"), "", "", `no kernel at the default entry "1"`},
		"no such entry": {by("windows"), "", "", `no kernel at the default entry "windows"`},
		"once":          {config, "next_entry=1\n", "", "booted once"},
	} {
		t.Run(name, func(t *testing.T) {
			found, args, err := grubDefault(c.config, c.environment)
			switch {
			case c.why != "":
				must.Say(t, err, c.why, "error")
			case err != nil:
				t.Error(err)
			case found != kernel || strings.Join(args, " ") != c.args:
				t.Errorf("found %s %q, expected %s %q", found, args, kernel, c.args)
			}
		})
	}
}

// TestHostFile: what L1 wrote comes before its tree's, what it removed is gone.
func TestHostFile(t *testing.T) {
	base := t.TempDir()
	l := &Lab{data: base, tree: &Tree{Dir: base, Release: "6.12"}, st: &state{Config: Config{Persist: true}}}
	put := func(name, text string) {
		t.Helper()
		full := filepath.Join(base, name)
		must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(full), 0o755), os.WriteFile(full, []byte(text), 0o644)))
	}
	expect := func(name, want string) {
		t.Helper()
		got, err := l.hostFile(t.Context(), name)
		if want == "" && !errors.Is(err, fs.ErrNotExist) || want != "" && (err != nil || got != want) {
			t.Errorf("%s: found %q, %v, expected %q", name, got, err, want)
		}
	}
	expect("boot/x", "")
	put("root/boot/x", "of the tree")
	expect("boot/x", "of the tree")
	put("upper/u/boot/x", "of L1")
	expect("boot/x", "of L1")

	l.st.Config.Disk = true
	must.Do(t, makeDisk(t.Context(), filepath.Join(base, "upper.img")))
	expect("boot/x", "of the tree")
	put("commands", "mkdir u\nmkdir u/boot\nwrite "+filepath.Join(base, "upper/u/boot/x")+" u/boot/x\n")
	if out, err := exec.Command("debugfs", "-w", "-f", filepath.Join(base, "commands"),
		filepath.Join(base, "upper.img")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	expect("boot/x", "of L1")
	expect("boot/y", "")
}

func TestRebootWantsPersist(t *testing.T) {
	l := &Lab{dir: t.TempDir(), st: &state{Config: Config{Name: "r"}}}
	must.Say(t, l.Reboot(t.Context()), "Persist", "error")
}
