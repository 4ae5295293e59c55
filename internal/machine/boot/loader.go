// Package boot reads and writes the kernel arguments and the default kernel of the next boot: GRUB's menus and drop-
// ins, grubby, and the entries of the Boot Loader Specification.
package boot

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
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

// readLoader reads what a boot loader's files say.
type loader struct {
	kind    string
	config  string // grub.cfg, or the folder that holds loader/
	entries []bootEntry
	next    int    // index of the entry that is booted next, −1 where it could not be told
	why     string // it could not be told
	// fallback is what the configuration of GRUB sets as default, variables not filled in
	fallback string
	files    []string
}

// bootEntry is one kernel of the boot menu.
type bootEntry struct {
	facts.BootEntry
	file string // of an entry that has one of its own
}

// errNoLoader says that none of the known boot loaders' files are there.
var errNoLoader = errors.New("no boot loader was found: neither grub.cfg nor loader/entries in /boot, /boot/efi or " +
	"/efi")

// readLoader finds the boot loader's files and reads them. Which loader is in use is told by their files; where those
// of two are there, by what the firmware was told at the last boot (LoaderInfo).
func readLoader(m *tree.Tree) (*loader, error) {
	config, text, err := grubConfig(m)
	if err != nil {
		return nil, err
	}
	dir, entries, err := loaderEntries(m)
	if err != nil && config == "" {
		return nil, err
	}
	info := loaderVariable(m, "LoaderInfo")
	switch {
	case dir != "" && (config == "" || strings.HasPrefix(info, "systemd-boot")):
		return readSystemdBoot(m, dir, entries), nil
	case config == "":
		return nil, errNoLoader
	case usesBLS(text) && dir != "":
		return readGrubBLS(m, config, text, dir, entries), nil
	}
	return readGrub(m, config, text), nil
}

// grubConfig is GRUB's configuration and where it stands; empty where there is none. On EFI machines EL7 and RHEL 8
// have it on the EFI system partition, where others have but a few lines that lead to the one below /boot; what an
// administrator has made below /boot there is not read by anybody.
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
		text, err := m.Read(place)
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

// loaderEntries is the folder that holds loader/entries, and their names.
func loaderEntries(m *tree.Tree) (dir string, names []string, err error) {
	for _, dir := range []string{"boot", "efi", "boot/efi"} {
		entries := dir + "/loader/entries"
		if _, err := m.Root.Stat(entries); err != nil {
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
		if len(names) > 0 {
			return dir, names, nil
		}
	}
	return "", nil, nil
}

// loaderVariable is one of the EFI variables that boot loaders and systemd talk by (systemd.io/BOOT_LOADER_INTERFACE);
// empty where there is none. The file holds four bytes of attributes and UTF-16.
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

// nextEntry is the entry that is booted next, or why it is not known.
func (l *loader) nextEntry() (*bootEntry, string) {
	if l.next < 0 || l.next >= len(l.entries) {
		return nil, l.why
	}
	return &l.entries[l.next], ""
}

// commandLine is what the kernel gets at the next boot.
func (e *bootEntry) commandLine() setting.CommandLine { return setting.ParseCommandLine(e.Arguments) }

// Inventory reads what the boot loader's files say.
func Inventory(_ context.Context, m *tree.Tree, h *facts.Host) {
	h.System = system(m)
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
	if next, _ := l.nextEntry(); next != nil {
		b.Next = next.ID
		lines = append(lines, next.Arguments)
	}
	b.Writer, b.Frozen = bootWriter(m, l)
	b.Modules = moduleArguments(m, h.Kernel.Release, lines)
	h.Boot = b
}

// moduleArguments looks up the arguments MODULE.PARAMETER of command lines in the running kernel.
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
	named, told := false, false
	for record := range strings.SplitSeq(builtin, "\x00") {
		rest, ours := strings.CutPrefix(setting.ArgumentName(record), module+".parm=")
		if ours {
			name, _, _ := strings.Cut(rest, ":")
			told = true
			named = named || name == parameter
		}
	}
	switch {
	case named:
		return facts.ParameterKnown
	case told || len(m.List(dir+"/parameters")) > 0:
		return facts.ParameterMissing
	case m.Exists(dir):
		return facts.ModuleSilent
	}
	return facts.ModuleNotLoaded
}

// system reads which distribution runs (os-release(5)).
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

// kernelVersion is the version in the name of a kernel's file ("/vmlinuz-6.1.0-13-amd64").
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

// rescue reports whether an entry is one for mending the system.
func rescue(title, id string) bool {
	text := strings.ToLower(title + " " + id)
	return strings.Contains(text, "recovery") || strings.Contains(text, "rescue") || strings.Contains(text, "fallback")
}

// sortedBy orders entries newest first and gives the place of each in the unsorted list.
func sortedBy(entries []bootEntry, compare func(a, b bootEntry) int) []bootEntry {
	out := slices.Clone(entries)
	slices.SortStableFunc(out, compare)
	return out
}
