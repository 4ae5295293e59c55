// Package initramfs makes the user space of a small guest: one static program as /init, and the kernel modules for its
// devices, in an archive that the kernel unpacks. What that init does is in guestinit.
package initramfs

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Image describes a guest's user space.
type Image struct {
	Init       string   // static program that becomes /init
	ModulesDir string   // lib/modules/RELEASE
	Modules    []string // names; dependencies are added, built-in ones left out
	Programs   []string // more static programs, in /opt

	// Unpack returns the content of a module that is packed (.xz, .zst, .gz); nil: a packed module is an error.
	Unpack func(file string) (string, error)
	// More adds files; nil: none.
	More func(*Writer) error
}

// Build writes a newc archive to the file out, through a temporary file that only its owner can read, as the archive
// then. The modules become /mods/NN-NAME.ko, plain ELF, in load order; /mods/list tells guestinit which of them belong
// to which device.
func Build(i Image, out string) error {
	for _, program := range append([]string{i.Init}, i.Programs...) {
		if err := CheckStatic(program); err != nil {
			return err
		}
	}
	mods, err := ReadModules(i.ModulesDir)
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
	err = i.write(newWriter(f), mods, order)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("initramfs: %w", err)
	}
	return os.Rename(f.Name(), out)
}

func (i *Image) write(c *Writer, mods *Modules, order []string) error {
	for _, d := range []string{"dev", "proc", "sys", "run", "tmp", "mods", "opt"} {
		if err := c.Dir(d); err != nil {
			return err
		}
	}
	// The kernel opens it as init's standard streams before anything is mounted.
	if err := c.entry("dev/console", modeChar|0o600, 5, 1, 0, nil); err != nil {
		return err
	}
	if err := c.Text("mods/list", moduleList(mods, i.Modules, order), 0o644); err != nil {
		return err
	}
	for n, name := range order {
		if err := i.module(c, fmt.Sprintf("mods/%02d-%s.ko", n, name), mods.path(name)); err != nil {
			return err
		}
	}
	if err := c.File("init", i.Init, 0o755); err != nil {
		return err
	}
	for _, program := range i.Programs {
		if err := c.File("opt/"+filepath.Base(program), program, 0o755); err != nil {
			return err
		}
	}
	if i.More != nil {
		if err := i.More(c); err != nil {
			return err
		}
	}
	return c.close()
}

// module writes a module, unpacked: a kernel unpacks them only if it was built to (CONFIG_MODULE_DECOMPRESS).
func (i *Image) module(c *Writer, name, source string) error {
	if filepath.Ext(source) == ".ko" {
		return c.File(name, source, 0o644)
	}
	if i.Unpack == nil {
		return fmt.Errorf("module %s: want an unpacked .ko", source)
	}
	text, err := i.Unpack(source)
	if err != nil {
		return fmt.Errorf("module %s: %w", source, err)
	}
	return c.Text(name, text, 0o644)
}

// moduleList returns /mods/list: "load NAME FILE..." in load order, and "alias NAME PATTERN" for the devices that NAME
// drives.
func moduleList(mods *Modules, wanted, order []string) string {
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

// DynamicError is the error for a program that needs a loader: the guest has none.
type DynamicError struct{ Program string }

func (e *DynamicError) Error() string {
	return "guest program " + e.Program + ": is linked dynamically, expected static"
}

// Hint returns what to do.
func (e *DynamicError) Hint() string { return "build it with CGO_ENABLED=0" }

// CheckStatic refuses a program that needs a loader.
func CheckStatic(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("guest program %s: %w", path, err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return &DynamicError{path}
		}
	}
	return nil
}
