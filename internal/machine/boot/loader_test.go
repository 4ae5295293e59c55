package boot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mpps/internal/machine/tree"
	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// bootTree copies a recorded machine's boot loader files so that they can be changed.
func bootTree(t *testing.T, name string) *tree.Tree {
	t.Helper()
	root := t.TempDir()
	must.Do(t, os.CopyFS(root, os.DirFS("testdata/boot/"+name)))
	must.Do(t, os.Chmod(filepath.Join(root, "etc"), 0o755))
	m := must.Get(tree.Open(root))(t)
	t.Cleanup(func() { m.Close() })
	return m
}

// contents returns all files below a root.
func contents(t *testing.T, m *tree.Tree) map[string]string {
	t.Helper()
	all := map[string]string{}
	must.Do(t, fs.WalkDir(m.Root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := m.Read(name)
		all[name] = text
		return err
	}))
	return all
}

func differences(before, after map[string]string) []string {
	var all []string
	for name, text := range after {
		if old, there := before[name]; !there || old != text {
			all = append(all, name)
		}
	}
	for name := range before {
		if _, there := after[name]; !there {
			all = append(all, name+" (gone)")
		}
	}
	slices.Sort(all)
	return all
}

func TestReadBootLoaders(t *testing.T) {
	for name, want := range map[string]struct {
		loader, next, version, writer string
		arguments                     string
		entries, rescue               int
	}{
		"debian12": {
			grub, "gnulinux-simple-6fb441ef-c9ed-4df8-8f94-51a61b314603", "6.12.48+deb12-amd64", byDropIn,
			"root=/dev/vda1 ro console=tty0 console=ttyS0,115200 quiet", 5, 2,
		},
		"rhel9": {
			grubBLS, "d30fac14f2344115850f8ee089af7047-5.14.0-427.13.1.el9_4.x86_64", "5.14.0-427.13.1.el9_4.x86_64",
			byGrubby,
			"root=/dev/mapper/rhel-root ro crashkernel=1G-4G:192M,4G-64G:256M,64G-:512M resume=/dev/mapper/rhel-swap " +
				"rd.lvm.lv=rhel/root rd.lvm.lv=rhel/swap rhgb quiet skew_tick=1 tsc=reliable", 3, 1,
		},
		"rhel8": {
			grubBLS, "f620e5ae41694b8499fd1f338b4f2d03-4.18.0-147.el8.x86_64", "4.18.0-147.el8.x86_64", byGrubby,
			"root=UUID=80c961de-0c21-44a3-b8e2-e7916053edea ro crashkernel=auto " +
				"resume=UUID=2872386b-5c35-4987-a8ff-67fe1989616a rhgb quiet", 1, 0,
		},
		"el7": {
			grub, "CentOS Linux (3.10.0-957.el7.x86_64) 7 (Core)", "3.10.0-957.el7.x86_64", byGrubby,
			"root=/dev/mapper/centos-root ro crashkernel=auto rd.lvm.lv=centos/root rd.lvm.lv=centos/swap rhgb quiet " +
				"LANG=en_US.UTF-8", 2, 0,
		},
		"el7-uefi": {
			grub, "CentOS Linux (3.10.0-1160.119.1.el7.x86_64) 7 (Core)", "3.10.0-1160.119.1.el7.x86_64", byGrubby,
			"root=/dev/mapper/centos-root ro crashkernel=auto rd.lvm.lv=centos/root rd.lvm.lv=centos/swap rhgb quiet " +
				"LANG=en_US.UTF-8", 3, 1,
		},
		"systemd-boot": {
			systemdBoot, "4f6e1c2b7a5d4e0c9b3a8f7d6c5b4a39-6.12.48+deb13-amd64.conf", "6.12.48+deb13-amd64", byEntries,
			"root=UUID=6fb441ef-c9ed-4df8-8f94-51a61b314603 ro quiet " +
				"systemd.machine_id=4f6e1c2b7a5d4e0c9b3a8f7d6c5b4a39", 2, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var h facts.Host
			Inventory(t.Context(), bootTree(t, name), &h)
			if h.Boot == nil {
				t.Fatal("no boot loader found")
			}
			b := h.Boot
			next, known := b.NextEntry()
			must.Hold(t, b.Loader == want.loader && known && next.ID == want.next && next.Version == want.version &&
				b.Writer == want.writer && next.Arguments == want.arguments,
				"found %s, %s, %+v (%s)", b.Loader, b.Writer, next, b.Why)
			rescues := 0
			for _, e := range b.Entries {
				if e.Recovery {
					rescues++
				}
			}
			must.Hold(t, len(b.Entries) == want.entries && rescues == want.rescue,
				"%d entries, %d for rescue: %+v", len(b.Entries), rescues, b.Entries)
		})
	}
}

// TestKernelArguments changes arguments with each boot loader, checks that nothing else changed, and restores all of
// them: every file is as it was, and nothing is left.
func TestKernelArguments(t *testing.T) {
	type change struct {
		argument string
		to       setting.Reading
	}
	changes := []change{
		{"iommu", setting.Value("pt")},
		{"quiet", setting.Missing("")},
		{"isolcpus", setting.Value("managed_irq,domain,2-5,8-11")},
		{"hugepagesz+hugepages", setting.Value("hugepagesz=1G hugepages=0:8,1:8")},
		{"processor.max_cstate", setting.Value("1")},
		{"nohz-full", setting.Value("2-5")},
		{"iommu", setting.Value("nopt")},
		{"nosmt", setting.Value(setting.Flag)},
	}
	for _, name := range []string{"debian12", "rhel9", "rhel8", "el7", "el7-uefi", "systemd-boot"} {
		t.Run(name, func(t *testing.T) {
			m := bootTree(t, name)
			stand := &standIn{t: t, m: m}
			k := kernelArg{m, stand.run}
			at := func(c change) setting.Address { return setting.Of(setting.KernelArg, c.argument) }
			before := contents(t, m)
			var was []setting.Reading
			for _, c := range changes {
				found := k.Read(t.Context(), at(c))
				must.Need(t, found.State != setting.Unknown && !found.ReadOnly, "%s: %+v", c.argument, found)
				was = append(was, found)
				line := next(t, m)
				must.Do(t, k.Write(t.Context(), at(c), c.to))
				if found := k.Read(t.Context(), at(c)); !found.Same(c.to) {
					t.Errorf("%s: wrote %s, found %s", c.argument, c.to, found)
				}
				if now := next(t, m); !now.Without(c.argument).SameWords(line.Without(c.argument)) {
					t.Errorf("%s: %q became %q", c.argument, line, now)
				}
			}
			changed := differences(before, contents(t, m))
			for _, name := range changed {
				switch {
				case strings.HasPrefix(name, "var/lib/mpps/boot/"), strings.Contains(name, "loader/entries/"),
					strings.HasSuffix(name, "grubenv"), name == "etc/default/grub",
					name == "etc/kernel/cmdline", strings.HasSuffix(name, "grub.cfg"), name == dropIn:
				default:
					t.Errorf("%s was changed", name)
				}
			}
			if name == "debian12" && slices.Contains(changed, "etc/default/grub") {
				t.Error("the administrator's own file was changed")
			}
			for i, c := range slices.Backward(changes) {
				must.Do(t, k.Write(t.Context(), at(c), was[i]))
				if found := k.Read(t.Context(), at(c)); !found.Same(was[i]) {
					t.Errorf("%s: put back %s, found %s", c.argument, was[i], found)
				}
			}
			if left := differences(before, contents(t, m)); len(left) > 0 {
				t.Errorf("not as it was: %v", left)
				for _, name := range left {
					t.Logf("%s:\n%s", name, contents(t, m)[name])
				}
			}
		})
	}
}

func next(t *testing.T, m *tree.Tree) setting.CommandLine {
	t.Helper()
	l := must.Get(readLoader(m))(t)
	e := must.Get(l.nextEntry())(t)
	return e.commandLine()
}

// TestRefusedArguments: a failed change leaves every file as it was.
func TestRefusedArguments(t *testing.T) {
	boom := errors.New("no space left")
	for name, c := range map[string]struct {
		tree, argument string
		to             setting.Reading
		stand          standIn
		why            string
	}{
		"grub-mkconfig fails":            {"debian12", "iommu", setting.Value("pt"), standIn{fail: boom}, "no space left"},
		"what grub.cfg has by itself":    {"debian12", "root", setting.Value("/dev/sda1"), standIn{}, "booted next"},
		"grubby fails":                   {"rhel9", "iommu", setting.Value("pt"), standIn{fail: boom}, "no space left"},
		"grubby takes other words too":   {"rhel9", "lvm", setting.Missing(""), standIn{old: true}, "expected"},
		"TuneD's words are not grubby's": {"rhel9", "tsc", setting.Missing(""), standIn{}, "tsc"},
		"grubby and the same name twice": {"rhel9", "console", setting.Value("tty0 ttyS0"), standIn{},
			"more than once"},
		"a value that a shell looks into": {"debian12", "iommu", setting.Value("$(reboot)"), standIn{},
			"cannot be written"},
		"a name that a shell looks into": {"debian12", "a;b", setting.Value("1"), standIn{}, "cannot be written"},
		"a value that GRUB looks into":   {"systemd-boot", "iommu", setting.Value("'x'"), standIn{}, "cannot be written"},
		"an unknown value":               {"systemd-boot", "iommu", setting.CouldNotTell(""), standIn{}, "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			m := bootTree(t, c.tree)
			c.stand.t, c.stand.m = t, m
			before := contents(t, m)
			a := setting.Address{Kind: setting.KernelArg, Path: c.argument}
			err := kernelArg{m, c.stand.run}.Write(t.Context(), a, c.to)
			must.Hold(t, err != nil && strings.Contains(err.Error(), c.why) &&
				strings.Contains(err.Error(), a.String()), "error %v, expected one about %q", err, c.why)
			c.stand.fail = nil
			must.Empty(t, differences(before, contents(t, m)), "not as it was")
		})
	}
}

// TestSomebodyElseChangedIt: restoring keeps what an administrator has changed in the files since.
func TestSomebodyElseChangedIt(t *testing.T) {
	m := bootTree(t, "systemd-boot")
	k := kernelArg{m: m}
	a := setting.Of(setting.KernelArg, "quiet")
	must.Do(t, k.Write(t.Context(), a, setting.Missing("")))
	for _, name := range []string{"6.12.48", "6.12.43"} {
		file := "efi/loader/entries/4f6e1c2b7a5d4e0c9b3a8f7d6c5b4a39-" + name + "+deb13-amd64.conf"
		text := must.Get(m.Read(file))(t)
		must.Do(t, m.Replace(file, strings.Replace(text, " ro ", " ro panic=10 ", 1)))
	}
	must.Do(t, k.Write(t.Context(), a, setting.Value(setting.Flag)))
	if line := next(t, m); line.Get("panic").Value != "10" || line.Get("quiet").State != setting.Known {
		t.Errorf("the next command line is %q", line)
	}
	must.Hold(t, !m.Exists(backupFolder), "kept files are left behind")
}

func TestWhichEntryIsNext(t *testing.T) {
	advanced := "gnulinux-advanced-6fb441ef-c9ed-4df8-8f94-51a61b314603"
	for name, c := range map[string]struct {
		tree  string
		files map[string]string
		next  string
		why   string
	}{
		"a number": {"debian12", map[string]string{"grub/default": "1>2"}, advanced +
			">gnulinux-6.1.0-40-amd64-advanced-6fb441ef-c9ed-4df8-8f94-51a61b314603", ""},
		"a title": {"debian12", map[string]string{"grub/default": "Advanced options for Debian " +
			"GNU/Linux>Debian GNU/Linux, with Linux 6.1.0-40-amd64"}, advanced +
			">gnulinux-6.1.0-40-amd64-advanced-6fb441ef-c9ed-4df8-8f94-51a61b314603", ""},
		"a menu": {"debian12", map[string]string{"grub/default": "1"}, "", "not one of its kernels"},
		"no such entry": {"debian12", map[string]string{"grub/default": "windows"},
			"gnulinux-simple-6fb441ef-c9ed-4df8-8f94-51a61b314603", ""},
		"asked for once": {"debian12",
			map[string]string{"boot/grub/grubenv": "# GRUB Environment Block\nnext_entry=1>2\n####"}, advanced +
				">gnulinux-6.1.0-40-amd64-advanced-6fb441ef-c9ed-4df8-8f94-51a61b314603", ""},
		"saved by number": {"rhel9", map[string]string{"boot/grub2/grubenv": "saved_entry=1\n"},
			"d30fac14f2344115850f8ee089af7047-5.14.0-362.24.1.el9_3.x86_64", ""},
		"none saved": {"rhel9", map[string]string{"boot/grub2/grubenv": "boot_success=0\n"},
			"d30fac14f2344115850f8ee089af7047-5.14.0-427.13.1.el9_4.x86_64", ""},
		"a pattern": {"systemd-boot", map[string]string{"efi/loader/loader.conf": "default *-6.12.43*\n"},
			"4f6e1c2b7a5d4e0c9b3a8f7d6c5b4a39-6.12.43+deb13-amd64.conf", ""},
		"the one before": {"systemd-boot", map[string]string{"efi/loader/loader.conf": "default @saved\n"}, "",
			"works out"},
		"a unified image": {"systemd-boot", map[string]string{"efi/EFI/Linux/debian-6.12.efi": "MZ",
			"efi/loader/loader.conf": "default debian-*\n"}, "", "unified"},
		"unified images beside": {"systemd-boot", map[string]string{"efi/EFI/Linux/debian-6.12.efi": "MZ"}, "",
			"unified"},
		"by an EFI variable": {"systemd-boot",
			map[string]string{"sys/firmware/efi/efivars/LoaderEntryOneShot-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f": "\x07\x00\x00\x00*\x006\x00.\x001\x002\x00.\x004\x003\x00*\x00\x00\x00"},
			"4f6e1c2b7a5d4e0c9b3a8f7d6c5b4a39-6.12.43+deb13-amd64.conf", ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := bootTree(t, c.tree)
			for file, text := range c.files {
				if file == "grub/default" {
					cfg := must.Get(m.Read("boot/grub/grub.cfg"))(t)
					file, text = "boot/grub/grub.cfg", strings.Replace(cfg, `set default="0"`, `set default="`+text+`"`,
						1)
				}
				full := filepath.Join(m.Path, file)
				must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(full), 0o755), os.WriteFile(full, []byte(text), 0o644)))
			}
			l := must.Get(readLoader(m))(t)
			e, why := l.nextEntry()
			id := ""
			if e != nil {
				id = e.ID
			}
			must.Hold(t, id == c.next && strings.Contains(fmt.Sprint(why), c.why),
				"next is %q (%s), expected %q (%s)", id, why, c.next, c.why)
		})
	}
}

func TestRecordedTreesHaveNoPrograms(t *testing.T) {
	r := kernelArg{m: bootTree(t, "debian12")}.Read(t.Context(), setting.Of(setting.KernelArg, "quiet"))
	must.Hold(t, r.Value == setting.Flag && r.ReadOnly, "found %+v, expected the flag, read only", r)
	r = kernelArg{m: treetest.Lines(t, map[string]string{"proc/cmdline": "ro"})}.Read(t.Context(),
		setting.Of(setting.KernelArg, "quiet"))
	must.Hold(t, r.State == setting.Unknown && strings.Contains(r.Why, "no boot loader"),
		"found %+v on a machine without a boot loader", r)
}

func TestModuleArguments(t *testing.T) {
	m := treetest.Lines(t, map[string]string{
		"lib/modules/6.1/modules.builtin.modinfo": "intel_idle.parm=max_cstate:int\x00pcie_aspm.parm=policy:xx\x00",
		"sys/module/kvm_intel/parameters/ple_gap": "128",
		"sys/module/nothing/refcnt":               "0",
	})
	got := moduleArguments(m, "6.1", []string{"ro kvm-intel.ple_gap=0 intel_idle.max_cstate=0 pcie_aspm.polici=x " +
		"kvm_intel.plegap=0 i915.x=1 nothing.y=2", "a/b.c=1 .x= y."})
	want := map[string]facts.ModuleArgument{
		"kvm_intel.ple_gap": facts.ParameterKnown, "intel_idle.max_cstate": facts.ParameterKnown,
		"pcie_aspm.polici": facts.ParameterMissing,
		"kvm_intel.plegap": facts.ParameterMissing, "i915.x": facts.ModuleNotLoaded, "nothing.y": facts.ModuleSilent,
	}
	for name, state := range want {
		must.Equal(t, got[name], state, "%s", name)
	}
	must.Equal(t, len(got), len(want), "found %v", got)
}

func FuzzBootFiles(f *testing.F) {
	for _, name := range []string{"debian12/boot/grub/grub.cfg", "rhel9/boot/grub2/grub.cfg",
		"rhel9/boot/grub2/grubenv", "systemd-boot/efi/loader/entries/4f6e1c2b7a5d4e0c9b3a8f7d6c5b4a39-6.12.48+deb13-amd64.conf"} {
		text := must.Get(os.ReadFile("testdata/boot/" + name))(f)
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		menu := parseGrub(text)
		for _, wanted := range []string{"", "0", "1>0", "x", menu.fallback} {
			if i := menu.find(wanted); i >= len(menu.entries) {
				t.Errorf("%q is entry %d of %d", wanted, i, len(menu.entries))
			}
		}
		expand(text, parseEnvironment(text), menu.variables)
		e := parseLoaderEntry(text)
		edited, err := editOptions(text, "iommu", setting.Value("pt"))
		if err != nil {
			return
		}
		after := setting.ParseCommandLine(parseLoaderEntry(edited)["options"])
		if !after.Without("iommu").SameWords(setting.ParseCommandLine(e["options"]).Without("iommu")) &&
			!strings.ContainsAny(text, "\"\x00") && !slices.Contains(after, "--") {
			t.Errorf("%q became %q", e["options"], after)
		}
		if before, now := strings.Count(text, "\n"), strings.Count(edited, "\n"); now < before || now > before+2 {
			t.Errorf("%d lines became %d", before, now)
		}
	})
}
