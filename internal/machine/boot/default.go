package boot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"mpps/internal/machine/tree"
	"mpps/internal/model/setting"
)

// bootKernel reads and writes the version of the kernel that boots by default (setting.BootKernel).
type bootKernel struct{ kernelArg }

// savedEntry is the variable of GRUB's environment block that names the default entry if grub.cfg says so. It is all
// that grub-set-default(8) and grubby --set-default write.
const savedEntry = "saved_entry"

// How the default is written, besides byDropIn.
const (
	byEnvironment = "grubenv"
	bySettings    = "loader.conf"
)

// defaultWriter returns how the default kernel is chosen on this machine, or why it cannot be.
func defaultWriter(m *tree.Tree, l *loader) (how, frozen string) {
	if frozen := keeper(m, l); frozen != "" {
		return "", frozen
	}
	switch {
	case l.kind == systemdBoot && loaderVariable(m, "LoaderEntryDefault") != "":
		return "", "the default is kept in an EFI variable: 'bootctl set-default' changes it"
	case l.kind == systemdBoot:
		return bySettings, ""
	case strings.Contains(l.fallback, savedEntry):
		return byEnvironment, ""
	case l.kind == grub && readsDropIns(m) && programPath(m, "grubby") == "":
		if !m.Runs() {
			return byDropIn, "a recorded tree has no programs of a boot loader to run"
		}
		return byDropIn, ""
	}
	return "", "/etc/default/grub names an entry where it could say GRUB_DEFAULT=saved"
}

// settings returns the file that names the loader's default.
func (l *loader) settings(how string) string {
	if how == bySettings {
		return l.config + "/loader/loader.conf"
	}
	return path.Dir(l.config) + "/grubenv"
}

func (k bootKernel) Read(context.Context, setting.Address) setting.Reading {
	l, err := readLoader(k.m)
	switch {
	case tree.Unprivileged(err):
		return setting.CouldNotTell("the boot loader's files: needs root")
	case err != nil:
		return setting.CouldNotTell(err.Error())
	case slices.Contains(unfinished(k.m), menuDefault):
		return setting.CouldNotTell("a change of it is under way, or was cut short")
	}
	next, err := l.nextEntry()
	switch {
	case err != nil:
		return setting.CouldNotTell(err.Error())
	case next.Version == "":
		return setting.CouldNotTell("the version of " + next.Linux + " is not known")
	}
	r := setting.Value(next.Version)
	if _, frozen := defaultWriter(k.m, l); frozen != "" && k.run == nil {
		r.ReadOnly, r.Why = true, frozen
	}
	return r
}

// WriteAll calls Write for each; there is only one default.
func (k bootKernel) WriteAll(ctx context.Context, all []setting.Assignment) error {
	var problems []error
	for _, one := range all {
		problems = append(problems, k.Write(ctx, one.Address, one.To))
	}
	return errors.Join(problems...)
}

func (k bootKernel) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	if err := k.setDefault(ctx, to); err != nil {
		return tree.Refusal(a, to.String(), err)
	}
	return nil
}

func (k bootKernel) setDefault(ctx context.Context, to setting.Reading) error {
	former := unfinished(k.m)
	if err := restoreEmptied(k.m, former); err != nil {
		return err
	}
	l, err := readLoader(k.m)
	if err != nil {
		return err
	}
	how, frozen := defaultWriter(k.m, l)
	if frozen != "" && k.run == nil {
		return errors.New(frozen)
	}
	if how == byDropIn {
		if l, err = k.regenerateUnfinished(ctx, l, former, []string{menuDefault}); err != nil {
			return err
		}
	}
	var versions []string
	chosen := -1
	for i, e := range l.entries {
		versions = append(versions, e.Version)
		if e.Recovery || to.State != setting.Known || e.Version != to.Value {
			continue
		}
		// Prefer an entry whose ID has the version: GRUB's first entry boots whichever kernel is the newest.
		if chosen < 0 || strings.Contains(e.ID, to.Value) && !strings.Contains(l.entries[chosen].ID, to.Value) {
			chosen = i
		}
	}
	if chosen < 0 {
		return fmt.Errorf("no entry of the boot menu is for it; there are %s",
			strings.Join(slices.Compact(versions), ", "))
	}
	was := ""
	if next, _ := l.nextEntry(); next != nil {
		was = next.Version
	}
	if how != byDropIn {
		return k.writeDefault(l.settings(how), l.entries[chosen].ID, was, to.Value)
	}
	if err := addUnfinished(k.m, []string{menuDefault}); err != nil {
		return err
	}
	undone, err := k.editDropIn(ctx, l, func(edits []argumentEdit) []argumentEdit {
		edits = addEdit(edits, menuDefault, setting.Value(was), to)
		if i := slices.IndexFunc(edits, func(e argumentEdit) bool { return e.Argument == menuDefault }); i >= 0 {
			edits[i].Entry = l.entries[chosen].ID
		}
		return edits
	}, func() error { return k.verifyDefault(to.Value) })
	if err == nil || undone {
		err = errors.Join(err, removeUnfinished(k.m, []string{menuDefault}))
	}
	return err
}

// verifyDefault returns an error unless a version is booted next.
func (k bootKernel) verifyDefault(version string) error {
	next, err := nextEntry(k.m)
	if err == nil && next.Version != version {
		err = fmt.Errorf("%s is booted next all the same", next.ID)
	}
	return err
}

// writeDefault writes the ID of an entry into the file that names the default. If that is the default from before mpps
// first changed it, the original line is restored instead.
func (k bootKernel) writeDefault(file, id, was, to string) error {
	now, err := k.m.Read(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	there := err == nil
	first, err := k.m.Read(formerDefault)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	line := savedEntry + "=" + id
	if path.Base(file) == bySettings {
		line = "default " + withoutTries(id) + ".conf"
	}
	back := first != "" && strings.TrimSuffix(first, "\n") == to
	if back {
		before, err := k.m.Read(backupFolder + "/" + file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		line = defaultLine(file, before)
	}
	after, err := withDefaultLine(file, now, line)
	if err != nil {
		return err
	}
	if !back && first == "" {
		if there {
			err = backUp(k.m, file)
		} else {
			err = k.m.MakeFolder(backupFolder)
		}
		if err = errors.Join(err, k.m.Replace(formerDefault, was+"\n")); err != nil {
			return fmt.Errorf("keep a copy of /%s: %w", file, err)
		}
	}
	if back && onlyComments(after) && !k.m.Exists(backupFolder+"/"+file) {
		err = k.m.Remove(file) // it did not exist before mpps
	} else {
		err = k.m.Replace(file, after)
	}
	if err == nil {
		err = k.verifyDefault(to)
	}
	if err != nil {
		undo := k.m.Remove(file)
		if there {
			undo = k.m.Replace(file, now)
		}
		if first == "" && undo == nil {
			undo = errors.Join(k.m.Remove(formerDefault), removeUnusedBackups(k.m))
		}
		return errors.Join(err, undo)
	}
	if !back {
		return nil
	}
	return errors.Join(k.m.Remove(formerDefault), settleBackups(k.m, nil), removeEmptyFolder(k.m))
}

// Tidy also removes the backup made for a new default that was never written.
func (k bootKernel) Tidy(ctx context.Context, a setting.Address) error {
	l, err := readLoader(k.m)
	if err != nil || !k.m.Exists(formerDefault) {
		return k.kernelArg.Tidy(ctx, a)
	}
	how, _ := defaultWriter(k.m, l)
	if how == byEnvironment || how == bySettings {
		file := l.settings(how)
		now, _ := k.m.Read(file)
		before, _ := k.m.Read(backupFolder + "/" + file)
		if defaultLine(file, now) == defaultLine(file, before) {
			return errors.Join(k.m.Remove(formerDefault), settleBackups(k.m, nil), k.kernelArg.Tidy(ctx, a))
		}
	}
	return k.kernelArg.Tidy(ctx, a)
}

// isDefault reports whether a line of grubenv or loader.conf names the default.
func isDefault(file, line string) bool {
	if path.Base(file) == bySettings {
		key, _ := splitKey(line)
		return key == "default"
	}
	return strings.HasPrefix(line, savedEntry+"=")
}

// defaultLine returns the last line that names the default, without its newline; empty if there is none.
func defaultLine(file, text string) string {
	found := ""
	for line := range strings.Lines(text) {
		if isDefault(file, line) {
			found = strings.TrimRight(line, "\r\n")
		}
	}
	return found
}

// onlyComments reports whether a file has only comments and blank lines.
func onlyComments(text string) bool {
	for line := range strings.Lines(text) {
		if key, _ := splitKey(line); key != "" {
			return false
		}
	}
	return true
}

// environmentSize is the size of GRUB's environment block in bytes. It is padded with # (grub_envblk,
// DEFAULT_ENVBLK_SIZE).
const environmentSize = 1024

// withDefaultLine returns the text with its default line replaced, or removed if line is empty.
func withDefaultLine(file, text, line string) (string, error) {
	block := path.Base(file) != bySettings
	body, size := text, 0
	if block {
		if body = strings.TrimRight(text, "#"); body == "" {
			body = "# GRUB Environment Block\n"
		}
		size = max(len(text), environmentSize)
		if strings.ContainsAny(line, "\\\n") {
			return "", fmt.Errorf("the name %q cannot be written", line)
		}
	}
	lines := strings.SplitAfter(body, "\n")
	last := -1
	for i, l := range lines {
		if isDefault(file, l) {
			last = i
		}
	}
	switch {
	case last >= 0 && line == "":
		lines[last] = ""
	case last >= 0:
		lines[last] = line + "\n"
	case line != "":
		if end := len(lines) - 1; lines[end] != "" {
			lines[end] += "\n"
		}
		lines = append(lines, line+"\n")
	}
	body = strings.Join(lines, "")
	if block {
		if len(body) > size {
			return "", fmt.Errorf("/%s has no room: %d bytes are needed, it holds %d", file, len(body), size)
		}
		body += strings.Repeat("#", size-len(body))
	}
	return body, nil
}
