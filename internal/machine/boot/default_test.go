package boot

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mpps/internal/machine/tree"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

var defaultKernel = setting.Of(setting.BootKernel, "default")

// TestDefaultKernel sets another default kernel with each boot loader, and then the former one: every file is as it
// was.
func TestDefaultKernel(t *testing.T) {
	for name, c := range map[string]struct {
		other, file, line string
		runs              int
	}{
		"debian12": {"6.1.0-40-amd64", "etc/default/grub.d/90-mpps.cfg",
			"GRUB_DEFAULT='gnulinux-advanced-6fb441ef-c9ed-4df8-8f94-51a61b314603>gnulinux-6.1.0-40-amd64-advanced-6fb441ef-c9ed-4df8-8f94-51a61b314603'", 1},
		"rhel9": {"5.14.0-362.24.1.el9_3.x86_64", "boot/grub2/grubenv",
			"saved_entry=d30fac14f2344115850f8ee089af7047-5.14.0-362.24.1.el9_3.x86_64", 0},
		"el7": {"5.4.17-2011.7.4.el7uek.x86_64", "boot/grub2/grubenv", "saved_entry=CentOS Linux " +
			"(5.4.17-2011.7.4.el7uek.x86_64) 7 (Core)", 0},
		"el7-uefi": {"3.10.0-1160.el7.x86_64", "boot/efi/EFI/centos/grubenv", "saved_entry=CentOS Linux " +
			"(3.10.0-1160.el7.x86_64) 7 (Core)", 0},
		"systemd-boot": {"6.12.43+deb13-amd64", "efi/loader/loader.conf",
			"default 4f6e1c2b7a5d4e0c9b3a8f7d6c5b4a39-6.12.43+deb13-amd64.conf", 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := bootTree(t, name)
			stand := &standIn{t: t, m: m}
			k := bootKernel{kernelArg{m, stand.run}}
			before := contents(t, m)
			was := k.Read(t.Context(), defaultKernel)
			must.Need(t, was.State == setting.Known && was.Value != c.other, "found %+v", was)
			put := func(to setting.Reading) {
				t.Helper()
				must.Do(t, k.Write(t.Context(), defaultKernel, to))
				if found := k.Read(t.Context(), defaultKernel); !found.Same(to) {
					t.Errorf("wrote %s, found %s", to, found)
				}
			}
			put(setting.Value(c.other))
			text, err := m.Read(c.file)
			must.Hold(t, err == nil && slices.Contains(strings.Split(text, "\n"), c.line),
				"/%s holds %q (%v), expected a line %q", c.file, text, err, c.line)
			if strings.HasSuffix(c.file, "grubenv") && len(text) != environmentSize {
				t.Errorf("/%s is %d bytes long, expected %d", c.file, len(text), environmentSize)
			}
			must.Equal(t, len(stand.calls), c.runs, "ran %q", stand.calls)
			put(was)
			must.Empty(t, differences(before, contents(t, m)), "not as it was")
			// Together with arguments, restored in either order.
			for _, argumentFirst := range []bool{true, false} {
				a := setting.Of(setting.KernelArg, "iommu")
				argument := k.kernelArg.Read(t.Context(), a)
				put(setting.Value(c.other))
				must.Do(t, k.kernelArg.Write(t.Context(), a, setting.Value("pt")))
				back := func() {
					t.Helper()
					must.Do(t, k.kernelArg.Write(t.Context(), a, argument))
				}
				if argumentFirst {
					back()
					put(was)
				} else {
					put(was)
					must.Equal(t, k.kernelArg.Read(t.Context(), a).String(), "pt", "with the former kernel iommu")
					back()
				}
				if left := differences(before, contents(t, m)); len(left) > 0 {
					t.Errorf("not as it was (argument first: %v): %v", argumentFirst, left)
					for _, name := range left {
						t.Logf("%s:\n%s", name, contents(t, m)[name])
					}
				}
			}
		})
	}
}

// TestDefaultKernelForms covers less common contents of the files.
func TestDefaultKernelForms(t *testing.T) {
	const newer, older = "6.12.48+deb13-amd64", "6.12.43+deb13-amd64"
	for name, c := range map[string]struct {
		tree string
		file string
		text string // of that file; "-": it is not there
		to   string
	}{
		"no default in loader.conf": {"systemd-boot", "efi/loader/loader.conf", "timeout 3", older},
		"a pattern in loader.conf": {"systemd-boot", "efi/loader/loader.conf", "default *-6.12.43*\ntimeout 3\n",
			newer},
		"twice in loader.conf": {"systemd-boot", "efi/loader/loader.conf", "default *-6.12.48*\ntimeout " +
			"3\ndefault *-6.12.43*\n", newer},
		"no loader.conf": {"systemd-boot", "efi/loader/loader.conf", "-", older},
		"none saved": {"rhel9", "boot/grub2/grubenv",
			"# GRUB Environment Block\nboot_success=0\n" + strings.Repeat("#", 984), "5.14.0-362.24.1.el9_3.x86_64"},
		"no environment block": {"rhel9", "boot/grub2/grubenv", "-", "5.14.0-362.24.1.el9_3.x86_64"},
		"saved by number": {"rhel9", "boot/grub2/grubenv", "# GRUB Environment Block\nsaved_entry=1\n" +
			strings.Repeat("#", 985), "5.14.0-427.13.1.el9_4.x86_64"},
		"the administrator's own default": {"debian12", "etc/default/grub",
			"GRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\nGRUB_CMDLINE_LINUX=\"\"\n", "6.1.0-40-amd64"},
	} {
		t.Run(name, func(t *testing.T) {
			m := bootTree(t, c.tree)
			full := filepath.Join(m.Path, c.file)
			if c.text == "-" {
				must.Do(t, os.Remove(full))
			} else if err := os.WriteFile(full, []byte(c.text), 0o644); err != nil {
				t.Fatal(err)
			}
			stand := &standIn{t: t, m: m}
			k := bootKernel{kernelArg{m, stand.run}}
			before := contents(t, m)
			was := k.Read(t.Context(), defaultKernel)
			for _, to := range []setting.Reading{setting.Value(c.to), was} {
				must.Do(t, k.Write(t.Context(), defaultKernel, to))
				if found := k.Read(t.Context(), defaultKernel); !found.Same(to) {
					t.Errorf("wrote %s, found %s", to, found)
				}
			}
			must.Empty(t, differences(before, contents(t, m)), "not as it was")
		})
	}
}

// TestDefaultKernelRefused: a failed change leaves every file as it was.
func TestDefaultKernelRefused(t *testing.T) {
	for name, c := range map[string]struct {
		tree, to, why string
		spoil         func(m *tree.Tree, s *standIn) error
	}{
		"no such kernel":       {"rhel9", "4.18.0", "no entry of the boot menu", nil},
		"only a rescue kernel": {"rhel9", "0-rescue", "no entry of the boot menu", nil},
		"grub-mkconfig fails": {"debian12", "6.1.0-40-amd64", "no space left",
			func(_ *tree.Tree, s *standIn) error { s.fail = errors.New("no space left"); return nil }},
		"another one is once":    {"rhel9", "5.14.0-362.24.1.el9_3.x86_64", "all the same", once},
		"no room in the block":   {"rhel9", "5.14.0-362.24.1.el9_3.x86_64", "no room", full},
		"an EFI variable has it": {"systemd-boot", "6.12.43+deb13-amd64", "bootctl set-default", efiDefault},
	} {
		t.Run(name, func(t *testing.T) {
			m := bootTree(t, c.tree)
			stand := &standIn{t: t, m: m}
			if c.spoil != nil {
				must.Do(t, c.spoil(m, stand))
			}
			k := bootKernel{kernelArg{m, stand.run}}
			if name == "an EFI variable has it" {
				k.run = nil // as on a machine, where what cannot be written is refused before
			}
			before := contents(t, m)
			must.Say(t, k.Write(t.Context(), defaultKernel, setting.Value(c.to)), c.why, "error")
			must.Empty(t, differences(before, contents(t, m)), "not as it was")
		})
	}
}

func once(m *tree.Tree, _ *standIn) error {
	return os.WriteFile(filepath.Join(m.Path, "boot/grub2/grubenv"), []byte("# GRUB Environment Block\nnext_entry=0\n"),
		0o644)
}

func full(m *tree.Tree, _ *standIn) error {
	return os.WriteFile(filepath.Join(m.Path, "boot/grub2/grubenv"),
		[]byte("# GRUB Environment Block\nsaved_entry=0\nx="+strings.Repeat("y", 982)+"\n"), 0o644)
}

func efiDefault(m *tree.Tree, _ *standIn) error {
	name := filepath.Join(m.Path, "sys/firmware/efi/efivars/LoaderEntryDefault-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f")
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, []byte("\x07\x00\x00\x00*\x00\x00\x00"), 0o644)
}

// TestDefaultKernelCutShort stops the machine while a default is set. Writing the former one or, if nothing was written
// yet, tidying up restores every file.
func TestDefaultKernelCutShort(t *testing.T) {
	for name, file := range map[string]string{"rhel9": "boot/grub2/grubenv", "systemd-boot": "efi/loader/loader.conf"} {
		t.Run(name, func(t *testing.T) {
			m := bootTree(t, name)
			k := bootKernel{kernelArg{m: m}}
			before := contents(t, m)
			was := k.Read(t.Context(), defaultKernel)
			must.Do(t, errors.Join(backUp(m, file), m.Replace(formerDefault, was.Value+"\n"),
				os.WriteFile(filepath.Join(m.Path, tree.Draft(file)), []byte("half"), 0o644)))
			if now := k.Read(t.Context(), defaultKernel); !now.Same(was) {
				t.Errorf("found %s, expected %s: nothing was written", now, was)
			}
			must.Do(t, k.Tidy(t.Context(), defaultKernel))
			must.Empty(t, differences(before, contents(t, m)), "not as it was")
		})
	}
	for _, dies := range []string{"before", "first", "behind"} {
		t.Run("debian12 "+dies, func(t *testing.T) {
			m := bootTree(t, "debian12")
			stand := &standIn{t: t, m: m, dies: dies}
			k := bootKernel{kernelArg{m, stand.run}}
			before := contents(t, m)
			was := k.Read(t.Context(), defaultKernel)
			func() {
				defer func() {
					if r := recover(); r != (stops{}) {
						t.Errorf("it did not stop: %v", r)
					}
				}()
				_ = k.Write(t.Context(), defaultKernel, setting.Value("6.1.0-40-amd64")) // it never returns
			}()
			stand.dies = ""
			if now := k.Read(t.Context(), defaultKernel); now.State != setting.Unknown {
				t.Errorf("found %s, expected unknown", now)
			}
			must.Do(t, errors.Join(k.Write(t.Context(), defaultKernel, was), k.Tidy(t.Context(), defaultKernel)))
			must.Empty(t, differences(before, contents(t, m)), "not as it was")
		})
	}
}

// TestDefaultKernelByItsName: for the newest kernel, its own entry is chosen and not the first of the menu, which boots
// whichever kernel is the newest tomorrow.
func TestDefaultKernelByItsName(t *testing.T) {
	m := bootTree(t, "debian12")
	stand := &standIn{t: t, m: m}
	k := bootKernel{kernelArg{m, stand.run}}
	newest := k.Read(t.Context(), defaultKernel)
	const own = "GRUB_DEFAULT='gnulinux-advanced-6fb441ef-c9ed-4df8-8f94-51a61b314603>gnulinux-6.1.0-40-amd64-advanced-6fb441ef-c9ed-4df8-8f94-51a61b314603'\n"
	text, err := m.Read("etc/default/grub")
	if err == nil {
		err = errors.Join(m.Replace("etc/default/grub", text+own), stand.mkconfig("boot/grub/grub.cfg"))
	}
	must.Do(t, err)
	if found := k.Read(t.Context(), defaultKernel); found.Value != "6.1.0-40-amd64" {
		t.Fatalf("the administrator's default is %s", found)
	}
	must.Do(t, k.Write(t.Context(), defaultKernel, newest))
	if text, err = m.Read("etc/default/grub.d/90-mpps.cfg"); err != nil ||
		!strings.Contains(text, ">gnulinux-"+newest.Value+"-advanced-") {
		t.Errorf("%v, found\n%s", err, text)
	}
}
