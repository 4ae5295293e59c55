package boot

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"mpps/internal/machine/tree"
	"mpps/internal/model/setting"
)

// Mechanisms returns the mechanisms of boot arguments and of the default kernel.
func Mechanisms(m *tree.Tree) setting.Mechanisms {
	return setting.Mechanisms{
		setting.KernelArg:  kernelArg{m: m},
		setting.BootKernel: bootKernel{kernelArg{m: m}},
	}
}

// Writer is the mechanism of boot arguments.
type Writer interface {
	setting.BatchWriter
	Tidy(ctx context.Context, a setting.Address) error // removes what interrupted changes have left behind
}

// Arguments returns the mechanism of boot arguments on a machine, which is this one or a guest.
func Arguments(m *tree.Tree) Writer { return kernelArg{m: m} }

// kernelArg reads and writes the kernel arguments of the next boot (setting.KernelArg). Until then the running kernel
// has those of /proc/cmdline; nothing here reboots.
type kernelArg struct {
	m   *tree.Tree
	run func(ctx context.Context, program string, args ...string) error // nil: run on the machine
}

// How arguments are written.
const (
	byDropIn  = "/etc/default/grub.d" // our own file for grub-mkconfig, which regenerates the menu
	byGrubby  = "grubby"
	byEntries = "loader entries" // the files themselves
)

// proxmoxDisks is the list of the ESPs that proxmox-boot-tool keeps (Proxmox VE's guide, chapter Host Bootloader).
const proxmoxDisks = "etc/kernel/proxmox-boot-uuids"

// keeper returns a sentence that names the program that manages the boot menu, if it is not the boot loader's own, and
// how to pass it a kernel argument; else "". An edit of the menu would last only until that program rewrites it.
func keeper(m *tree.Tree, l *loader) string {
	switch {
	case slices.ContainsFunc(l.entries, func(e bootEntry) bool {
		return e.commandLine().Get("ostree").State == setting.Known // of a deployment (ostree-prepare-root(1))
	}):
		return "the boot entries are OSTree's, one for each deployment: 'rpm-ostree kargs --append-if-missing=…' " +
			"makes one with other arguments, on OpenShift a MachineConfig, with bootc /usr/lib/bootc/kargs.d"
	case m.Exists(proxmoxDisks):
		return "proxmox-boot-tool writes the menus, on partitions that are not mounted: arguments belong in " +
			"/etc/kernel/cmdline where systemd-boot starts the host, else in /etc/default/grub, and " +
			"'proxmox-boot-tool refresh' takes them over"
	}
	return ""
}

// bootWriter returns how arguments are changed on this machine, or why they cannot be.
func bootWriter(m *tree.Tree, l *loader) (how, frozen string) {
	if frozen := keeper(m, l); frozen != "" {
		return "", frozen
	}
	switch {
	case l.kind == systemdBoot:
		return byEntries, ""
	case programPath(m, "grubby") != "":
		how = byGrubby
	case l.kind == grub && readsDropIns(m):
		how = byDropIn
	case l.kind == grub:
		return "", "this system's grub-mkconfig does not read /etc/default/grub.d, and there is no grubby"
	default:
		return "", "grubby, which changes the entries of this boot loader, is not installed"
	}
	if !m.Runs() {
		return how, "a recorded tree has no programs of a boot loader to run"
	}
	return how, ""
}

// programPath returns the path of a program; empty if it is not installed.
func programPath(m *tree.Tree, name string) string {
	for _, dir := range []string{"usr/sbin", "sbin", "usr/bin", "bin"} {
		if m.Exists(dir + "/" + name) {
			return "/" + dir + "/" + name
		}
	}
	return ""
}

// readsDropIns reports whether grub-mkconfig reads /etc/default/grub.d. Debian added that, so the script is searched.
func readsDropIns(m *tree.Tree) bool {
	text, err := m.Read("usr/sbin/grub-mkconfig")
	return err == nil && strings.Contains(text, "default/grub.d")
}

// bootPatience is how long a program may run that looks at every disk (grub-mkconfig with os-prober).
const bootPatience = 3 * time.Minute

func (k kernelArg) runProgram(ctx context.Context, program string, args ...string) error {
	if k.run != nil {
		return k.run(ctx, program, args...)
	}
	ctx, cancel := tree.Deadline(ctx, bootPatience)
	defer cancel()
	return k.m.Change(ctx, "", program, args...)
}

func (k kernelArg) Read(_ context.Context, a setting.Address) setting.Reading {
	l, err := readLoader(k.m)
	switch {
	case tree.Unprivileged(err):
		return setting.CouldNotTell("the boot loader's files: needs root")
	case err != nil:
		return setting.CouldNotTell(err.Error())
	case slices.Contains(unfinished(k.m), a.Path):
		return setting.CouldNotTell("a change of it is under way, or was cut short: the boot loader's files may not " +
			"agree with each other")
	}
	next, err := l.nextEntry()
	if err != nil {
		return setting.CouldNotTell(err.Error())
	}
	r := next.commandLine().Get(a.Path)
	if _, frozen := bootWriter(k.m, l); frozen != "" && k.run == nil {
		r.ReadOnly, r.Why = true, frozen
	}
	return r
}

// AtBoot returns the reading of an address for the running kernel: an argument of its command line (setting.KernelArg)
// or its version (setting.BootKernel).
func AtBoot(m *tree.Tree, a setting.Address) setting.Reading {
	file := "proc/cmdline"
	if a.Kind == setting.BootKernel {
		file = "proc/sys/kernel/osrelease"
	}
	text, err := m.Read(file)
	switch {
	case err != nil:
		return tree.Unreadable("/"+file, err)
	case a.Kind == setting.BootKernel:
		return setting.Value(strings.TrimSpace(text))
	}
	return setting.ParseCommandLine(text).Get(a.Path)
}

func (k kernelArg) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	return k.WriteAll(ctx, []setting.Assignment{{Address: a, To: to}})
}

// WriteAll changes all arguments in one run of the boot loader's program.
func (k kernelArg) WriteAll(ctx context.Context, all []setting.Assignment) error {
	changes := make([]argumentChange, len(all))
	for i, one := range all {
		changes[i] = argumentChange{one.Address.Path, one.To}
	}
	if err := k.write(ctx, changes); err != nil {
		return tree.Refusal(all[0].Address, all[0].To.String(), err)
	}
	return nil
}

// argumentChange is the wanted value of one argument.
type argumentChange struct {
	argument string
	to       setting.Reading
}

// applyChanges returns a command line after changes.
func applyChanges(line setting.CommandLine, changes []argumentChange) (setting.CommandLine, error) {
	for _, c := range changes {
		var err error
		if line, err = line.With(c.argument, c.to); err != nil {
			return nil, err
		}
	}
	return line, nil
}

func (k kernelArg) write(ctx context.Context, changes []argumentChange) error {
	former := unfinished(k.m)
	if err := restoreEmptied(k.m, former); err != nil {
		return fmt.Errorf("put back what a change that was cut short has emptied: %w", err)
	}
	l, err := readLoader(k.m)
	if err != nil {
		return err
	}
	next, err := l.nextEntry()
	if err != nil {
		return err
	}
	how, frozen := bootWriter(k.m, l)
	if frozen != "" && k.run == nil {
		return errors.New(frozen)
	}
	names := make([]string, len(changes))
	for i, c := range changes {
		names[i] = c.argument
		for name := range strings.SplitSeq(c.argument, "+") {
			if err := setting.CheckWord(name); err != nil {
				return err
			}
		}
	}
	if _, err := applyChanges(next.commandLine(), changes); err != nil {
		return err
	}
	if err := addUnfinished(k.m, names); err != nil {
		return fmt.Errorf("note what is changed: %w", err)
	}
	undone := false // every file is as it was
	switch how {
	case byDropIn:
		if l, err = k.regenerateUnfinished(ctx, l, former, names); err == nil {
			undone, err = k.writeDropIn(ctx, l, changes)
		}
	case byGrubby:
		undone, err = k.writeGrubby(ctx, l, changes)
	case byEntries:
		undone, err = k.writeEntries(l, changes)
	default:
		undone, err = true, errors.New("no way to change the arguments of this boot loader is known")
	}
	switch {
	case err == nil:
		err = removeUnfinished(k.m, names)
	case undone: // changes that were unfinished before still are
		err = errors.Join(err, removeUnfinished(k.m,
			slices.DeleteFunc(names, func(name string) bool { return slices.Contains(former, name) })))
	}
	return err
}

// verify returns an error unless the next boot gets the changed arguments.
func (k kernelArg) verify(changes []argumentChange) error {
	next, err := nextEntry(k.m)
	if err != nil {
		return err
	}
	for _, c := range changes {
		if found := next.commandLine().Get(c.argument); !found.Same(c.to) {
			return fmt.Errorf("the entry that is booted next, %s, has %s for %s", next.ID, found, c.argument)
		}
	}
	return nil
}

// writeEntries changes all files of loader/entries and /etc/kernel/cmdline, from which kernel-install makes the entries
// of later kernels. If one cannot be written it restores those before it.
func (k kernelArg) writeEntries(l *loader, changes []argumentChange) (undone bool, err error) {
	changed := map[string]string{} // the text before
	names := []string{}
	edit := func(name string, edit func(string) (string, error)) error {
		before, err := k.m.Read(name)
		if err != nil {
			return err
		}
		after, err := edit(before)
		if err != nil || after == before {
			return err
		}
		if err := backUp(k.m, name); err != nil {
			return fmt.Errorf("keep a copy of /%s: %w", name, err)
		}
		changed[name] = before
		names = append(names, name)
		return k.m.Replace(name, after)
	}
	for _, e := range l.entries {
		if err != nil {
			break
		}
		err = edit(e.file, func(text string) (string, error) {
			var err error
			for _, c := range changes {
				if text, err = editOptions(text, c.argument, c.to); err != nil {
					return text, err
				}
			}
			return text, nil
		})
	}
	if err == nil && k.m.Exists(kernelCmdline) {
		err = edit(kernelCmdline, func(text string) (string, error) {
			line, err := applyChanges(setting.ParseCommandLine(text), changes)
			if err != nil || line.String() == setting.ParseCommandLine(text).String() {
				return text, err
			}
			return line.String() + "\n", nil
		})
	}
	if err == nil {
		err = k.verify(changes)
	}
	if err != nil {
		var undo error
		for _, name := range slices.Backward(names) {
			undo = errors.Join(undo, k.m.Replace(name, changed[name]))
		}
		undo = errors.Join(undo, removeUnusedBackups(k.m))
		return undo == nil, errors.Join(err, undo)
	}
	return false, settleBackups(k.m, changes)
}

// kernelCmdline is the file with the command line for kernels that kernel-install adds (kernel-install(8)).
const kernelCmdline = "etc/kernel/cmdline"

// Tidy removes what interrupted changes have left behind.
func (k kernelArg) Tidy(context.Context, setting.Address) error {
	var problems []error
	names := []string{dropIn, "etc/default/grub", kernelCmdline, changedArguments, unfinishedList, formerDefault}
	if l, err := readLoader(k.m); err == nil {
		names = append(names, l.config, path.Dir(l.config)+"/grubenv", l.config+"/loader/loader.conf")
		for _, left := range []string{newMenu(l), newMenu(l) + ".new"} {
			problems = append(problems, k.m.Remove(left))
		}
		for _, e := range l.entries {
			if e.file != "" {
				names = append(names, e.file)
			}
		}
	}
	for _, name := range names {
		if left := tree.Draft(k.m.Resolve(name)); k.m.Exists(left) {
			problems = append(problems, k.m.Remove(left))
		}
	}
	return errors.Join(append(problems, removeEmptyFolder(k.m))...)
}

// Writable returns an error with the reason if the values of a kind of this package cannot be written.
func Writable(m *tree.Tree, kind setting.Kind) error {
	l, err := readLoader(m)
	if err != nil {
		return err
	}
	_, frozen := bootWriter(m, l)
	if kind == setting.BootKernel {
		_, frozen = defaultWriter(m, l)
	}
	if frozen != "" {
		return errors.New(frozen)
	}
	return nil
}
