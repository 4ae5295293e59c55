package lab

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Initramfs describes a guest's user space: one static program, a few modules, and optionally an agent.
type Initramfs struct {
	Binary  string   // static program that becomes /init
	Tree    string   // root folder of the programs
	Kernel  string   // root folder of lib/modules/RELEASE; empty: Tree
	Release string   // kernel release
	Modules []string // names; dependencies are added, built-in ones left out
	Agent   bool     // with the guest agent and programs for it to run (see agentPrograms)

	Programs []string // more static programs, in /opt
}

// BuildInitramfs writes a newc archive to the file out, through a temporary file. The modules become /mods/NN-NAME.ko,
// plain ELF, in load order; /mods/list tells guestinit which of them belong to which device.
func BuildInitramfs(i Initramfs, out string) error {
	for _, program := range append([]string{i.Binary}, i.Programs...) {
		if err := checkStatic(program); err != nil {
			return err
		}
	}
	mods, err := readModules(filepath.Join(cmp.Or(i.Kernel, i.Tree), "usr/lib/modules", i.Release))
	if err != nil {
		return err
	}
	order, err := mods.resolve(i.Modules)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(out), ".initramfs-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	err = writeInitramfs(newCPIO(f), i, mods, order)
	if err := errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return fmt.Errorf("initramfs: %w", err)
	}
	return os.Rename(f.Name(), out)
}

func writeInitramfs(c *cpioWriter, i Initramfs, mods *moduleTree, order []string) error {
	for _, d := range []string{"dev", "proc", "sys", "run", "tmp", "mods", "opt"} {
		if err := c.dir(d); err != nil {
			return err
		}
	}
	// The kernel opens it as init's standard streams before anything is mounted.
	if err := c.entry("dev/console", modeChar|0o600, 5, 1, 0, nil); err != nil {
		return err
	}
	list := moduleList(mods, i.Modules, order)
	if err := c.entry("mods/list", modeFile|0o644, 0, 0, int64(len(list)), strings.NewReader(list)); err != nil {
		return err
	}
	for n, name := range order {
		src := filepath.Join(mods.dir, mods.file[name])
		if filepath.Ext(src) != ".ko" {
			return fmt.Errorf("module %s: want an unpacked .ko, found %s", name, src)
		}
		if err := addFile(c, fmt.Sprintf("mods/%02d-%s.ko", n, name), src, 0o644); err != nil {
			return err
		}
	}
	if err := addFile(c, "init", i.Binary, 0o755); err != nil {
		return err
	}
	for _, program := range i.Programs {
		if err := addFile(c, "opt/"+filepath.Base(program), program, 0o755); err != nil {
			return err
		}
	}
	if i.Agent {
		if err := addAgent(c, i.Tree); err != nil {
			return err
		}
	}
	return c.close()
}

// moduleList returns /mods/list: "load NAME FILE..." in load order, and "alias NAME PATTERN" for the devices that NAME
// drives.
func moduleList(mods *moduleTree, wanted, order []string) string {
	number := map[string]int{}
	for n, name := range order {
		number[name] = n
	}
	var b strings.Builder
	for _, w := range wanted {
		n := moduleName(w)
		if _, ok := number[n]; !ok {
			continue
		}
		b.WriteString("load " + n)
		for _, d := range append(slices.Clone(mods.needs[n]), n) {
			fmt.Fprintf(&b, " %02d-%s.ko", number[d], d)
		}
		b.WriteByte('\n')
		for _, a := range mods.aliases[n] {
			fmt.Fprintf(&b, "alias %s %s\n", n, a)
		}
	}
	return b.String()
}

func addFile(c *cpioWriter, name, src string, mode uint32) error {
	f, err := os.Open(src)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	return c.entry(name, modeFile|mode, 0, 0, st.Size(), f)
}

// checkStatic refuses a program that needs a loader: the guest has none.
func checkStatic(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("guest program %s: %w", path, err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return advise(fmt.Errorf("guest program %s: is linked dynamically, expected static", path),
				"build it with CGO_ENABLED=0")
		}
	}
	return nil
}
