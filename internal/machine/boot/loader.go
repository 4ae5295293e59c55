// Package boot reads and writes the kernel arguments and the default kernel of the next boot: GRUB's menus and
// drop-ins, grubby, and the entries of the Boot Loader Specification.
package boot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// The boot loaders whose files are read.
const (
	grub        = "grub"         // a generated grub.cfg
	grubBLS     = "grub-bls"     // GRUB that reads loader/entries (Fedora and RHEL since 8)
	systemdBoot = "systemd-boot" // loader/entries on the EFI system partition
)

// loader is the content of a boot loader's files.
type loader struct {
	kind    string
	config  string // grub.cfg, or the folder that holds loader/
	entries []bootEntry
	next    int    // index of the entry that is booted next, −1 if unknown
	why     string // next is unknown
	// fallback is the default in GRUB's configuration, variables not expanded
	fallback string
	files    []string
}

// bootEntry is one kernel of the boot menu.
type bootEntry struct {
	facts.BootEntry
	file string // of its own, if it has one
}

// errNoLoader is returned if the files of no known boot loader exist.
var errNoLoader = errors.New("no boot loader was found: neither grub.cfg nor loader/entries in /boot, /boot/efi or " +
	"/efi")

// ziplConfig is the configuration of zipl, the boot loader of s390x. It reads loader/entries only when it runs, and
// writes what it boots to the disk (zipl(8)).
const ziplConfig = "etc/zipl.conf"

// Errors of boot loaders whose files do not show what is booted next.
var (
	errZipl = errors.New("zipl starts this machine from what it last wrote to the disk, not from loader/entries: " +
		"grubby, or an edit and zipl, sets kernel arguments there")
	errUnified = errors.New("systemd-boot or a unified kernel image started this machine: its menu is on a file " +
		"system that is not mounted, or its arguments are part of the image")
)

// readLoader finds the boot loader's files and reads them. The files show which loader is in use; if two loaders have
// files, the one that booted last is read (EFI variable LoaderInfo).
func readLoader(m *tree.Tree) (*loader, error) {
	config, text, err := grubConfig(m)
	if err != nil {
		return nil, err
	}
	dir, entries, err := loaderEntries(m)
	if err != nil && config == "" {
		return nil, err
	}
	started := strings.HasPrefix(loaderVariable(m, "LoaderInfo"), "systemd-boot")
	switch {
	case config == "" && dir != "" && m.Exists(ziplConfig):
		return nil, errZipl
	case dir == "" && (started || loaderVariable(m, "StubInfo") != ""):
		return nil, errUnified
	case dir != "" && (config == "" || started):
		return readSystemdBoot(m, dir, entries), nil
	case config == "":
		return nil, errNoLoader
	case usesBLS(text) && dir != "":
		return readGrubBLS(m, config, text, entries), nil
	}
	return readGrub(m, config, text), nil
}

// grubConfig returns the path and text of GRUB's configuration; empty if there is none. On EFI machines EL7 and RHEL 8
// have it on the EFI system partition and ignore a grub.cfg below /boot. Others have only a few lines there that load
// the one below /boot.
func grubConfig(m *tree.Tree) (name, text string, err error) {
	var places []string
	for _, vendor := range m.List("boot/efi/EFI") {
		places = append(places, "boot/efi/EFI/"+vendor+"/grub.cfg")
	}
	below := []string{"boot/grub/grub.cfg", "boot/grub2/grub.cfg"}
	if m.Exists("sys/firmware/efi") {
		places = append(places, below...)
	} else {
		places = append(below, places...)
	}
	for _, place := range places {
		text, err := readMenu(m, place)
		switch {
		case err == nil && (strings.Contains(text, "menuentry ") || usesBLS(text)):
			return place, text, nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return "", "", err
		}
	}
	return "", "", nil
}

// usesBLS reports whether a grub.cfg takes its menu from loader/entries.
func usesBLS(text string) bool {
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == "blscfg" {
			return true
		}
	}
	return false
}

// loaderEntries returns the folder that holds loader/entries, and the entries' paths.
func loaderEntries(m *tree.Tree) (dir string, names []string, err error) {
	for _, dir := range []string{"boot", "efi", "boot/efi"} {
		entries := dir + "/loader/entries"
		if _, err := m.Stat(entries); err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				return "", nil, err
			}
			continue
		}
		var names []string
		for _, name := range m.List(entries) {
			if strings.HasSuffix(name, ".conf") {
				names = append(names, entries+"/"+name)
			}
		}
		if len(names) > maxEntries {
			return "", nil, fmt.Errorf("/%s: %d entries, expected at most %d", entries, len(names), maxEntries)
		}
		if len(names) > 0 {
			return dir, names, nil
		}
	}
	return "", nil, nil
}

// loaderVariable returns one of the EFI variables between boot loaders and systemd (systemd.io/BOOT_LOADER_INTERFACE);
// empty if it is not set. The file has four bytes of attributes, then UTF-16.
func loaderVariable(m *tree.Tree, name string) string {
	text, err := m.Read("sys/firmware/efi/efivars/" + name + "-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f")
	if err != nil || len(text) < 4 {
		return ""
	}
	var b strings.Builder
	for i := 4; i+1 < len(text); i += 2 {
		unit := rune(text[i]) | rune(text[i+1])<<8
		if unit == 0 {
			break
		}
		b.WriteRune(unit)
	}
	return b.String()
}

// nextEntry returns the entry that is booted next, or an error with the reason why it is unknown.
func (l *loader) nextEntry() (*bootEntry, error) {
	if l.next < 0 || l.next >= len(l.entries) {
		return nil, errors.New(l.why)
	}
	return &l.entries[l.next], nil
}

// nextEntry reads the boot loader's files and returns the entry that is booted next.
func nextEntry(m *tree.Tree) (*bootEntry, error) {
	l, err := readLoader(m)
	if err != nil {
		return nil, err
	}
	return l.nextEntry()
}

// commandLine returns the entry's kernel arguments.
func (e *bootEntry) commandLine() setting.CommandLine { return setting.ParseCommandLine(e.Arguments) }

// Inventory reads the distribution and the boot loader's files into h.System and h.Boot.
func Inventory(_ context.Context, m *tree.Tree, h *facts.Host) {
	h.System = system(m)
	Loader(m, h)
}

// Loader reads the boot loader's files into h.Boot. Kernel and command line must have been read before.
func Loader(m *tree.Tree, h *facts.Host) {
	l, err := readLoader(m)
	switch {
	case errors.Is(err, errNoLoader):
		return
	case err != nil:
		tree.AddUnseen(h, "boot loader", err)
		return
	}
	b := &facts.Boot{Loader: l.kind, Files: l.files, Entries: []facts.BootEntry{}, Why: l.why}
	for _, e := range l.entries {
		b.Entries = append(b.Entries, e.BootEntry)
	}
	lines := []string{h.Kernel.CommandLine}
	if next, err := l.nextEntry(); err == nil {
		b.Next = next.ID
		lines = append(lines, next.Arguments)
	}
	b.Writer, b.Frozen = bootWriter(m, l)
	b.Modules = moduleArguments(m, h.Kernel.Release, lines)
	h.Boot = b
}

// moduleArguments returns whether the running kernel knows the MODULE.PARAMETER arguments of command lines, by name.
func moduleArguments(m *tree.Tree, release string, lines []string) map[string]facts.ModuleArgument {
	found := map[string]facts.ModuleArgument{}
	var builtin string
	for _, line := range lines {
		for _, word := range setting.ParseCommandLine(line).ForKernel() {
			name, _, _ := setting.Argument(word)
			name = setting.ArgumentName(name)
			module, parameter, dotted := strings.Cut(name, ".")
			if !dotted || module == "" || parameter == "" || strings.Contains(name, "/") {
				continue
			}
			if builtin == "" && release != "" && !strings.Contains(release, "/") {
				builtin, _ = m.Read("lib/modules/" + release + "/modules.builtin.modinfo")
			}
			found[name] = moduleArgument(m, module, parameter, builtin)
		}
	}
	return found
}

func moduleArgument(m *tree.Tree, module, parameter, builtin string) facts.ModuleArgument {
	dir := "sys/module/" + module
	if m.Exists(dir + "/parameters/" + parameter) {
		return facts.ParameterKnown
	}
	known, listed := false, false // the parameter, any parameter of the module
	for record := range strings.SplitSeq(builtin, "\x00") {
		rest, ours := strings.CutPrefix(setting.ArgumentName(record), module+".parm=")
		if ours {
			name, _, _ := strings.Cut(rest, ":")
			listed = true
			known = known || name == parameter
		}
	}
	switch {
	case known:
		return facts.ParameterKnown
	case listed || len(m.List(dir+"/parameters")) > 0:
		return facts.ParameterMissing
	case m.Exists(dir):
		return facts.ModuleSilent
	}
	return facts.ModuleNotLoaded
}

// system reads the distribution's name and version (os-release(5)).
func system(m *tree.Tree) facts.System {
	text := m.Line("etc/os-release")
	if text == "" {
		text = m.Line("usr/lib/os-release")
	}
	value := func(key string) string {
		for line := range strings.Lines(text) {
			if rest, ours := strings.CutPrefix(strings.TrimSpace(line), key+"="); ours {
				return strings.Trim(rest, `"'`)
			}
		}
		return ""
	}
	return facts.System{ID: value("ID"), Like: strings.Fields(value("ID_LIKE")), Version: value("VERSION_ID")}
}

// kernelVersion returns the version in the name of a kernel's file ("/vmlinuz-6.1.0-13-amd64"); empty if it has none.
func kernelVersion(linux string) string {
	base := path.Base(linux)
	for _, prefix := range []string{"vmlinuz-", "vmlinux-", "linux-", "kernel-", "bzImage-"} {
		if version, found := strings.CutPrefix(base, prefix); found {
			return version
		}
	}
	if dir := path.Base(path.Dir(linux)); base == "linux" &&
		strings.ContainsFunc(dir, func(r rune) bool { return r >= '0' && r <= '9' }) {
		return dir // TOKEN/VERSION/linux of kernel-install
	}
	return ""
}

// isRescue reports whether an entry boots a recovery system.
func isRescue(title, id string) bool {
	text := strings.ToLower(title + " " + id)
	return strings.Contains(text, "recovery") || strings.Contains(text, "rescue") || strings.Contains(text, "fallback")
}

// Bounds of a menu and of an entry in bytes, a menu of 50 kernels being 100 KiB, and of entries in files.
const (
	maxMenu    = 1 << 20
	maxEntries = 1000
)

// readMenu reads a menu or an entry.
func readMenu(m *tree.Tree, name string) (string, error) {
	text, err := m.Read(name)
	if err == nil && len(text) > maxMenu {
		return "", fmt.Errorf("/%s: larger than %d MiB", name, maxMenu>>20)
	}
	return text, err
}
