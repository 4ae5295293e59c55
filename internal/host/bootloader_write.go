package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"mpps/internal/setting"
)

// kernelArg reads and writes the arguments that the kernel gets at the next boot (setting.KernelArg). The running kernel
// has those of /proc/cmdline until then; nothing here reboots.
type kernelArg struct {
	m   *Machine
	run func(ctx context.Context, program string, args ...string) error // nil: as the machine runs programs
}

// How arguments are written.
const (
	byDropIn  = "/etc/default/grub.d" // a file of our own that grub-mkconfig reads, then update-grub
	byGrubby  = "grubby"
	byEntries = "loader entries" // the files themselves
)

// bootWriter tells how arguments are changed on this machine, or why they cannot be.
func (m *Machine) bootWriter(l *loader) (how, frozen string) {
	switch {
	case l.kind == systemdBoot:
		return byEntries, ""
	case m.installed("grubby") != "":
		how = byGrubby
	case l.kind == grub && m.readsDropIns():
		how = byDropIn
	case l.kind == grub:
		return "", "this system's grub-mkconfig does not read /etc/default/grub.d, and there is no grubby"
	default:
		return "", "grubby, which changes the entries of this boot loader, is not installed"
	}
	if !m.live {
		return how, "a recorded tree has no programs of a boot loader to run"
	}
	return how, ""
}

// installed is the path of a program, empty where there is none.
func (m *Machine) installed(name string) string {
	for _, dir := range []string{"usr/sbin", "sbin", "usr/bin", "bin"} {
		if m.exists(dir + "/" + name) {
			return "/" + dir + "/" + name
		}
	}
	return ""
}

// readsDropIns tells whether grub-mkconfig reads /etc/default/grub.d, which Debian added: the script is asked itself.
func (m *Machine) readsDropIns() bool {
	text, err := m.read("usr/sbin/grub-mkconfig")
	return err == nil && strings.Contains(text, "default/grub.d")
}

// bootPatience is for programs that look at every disk (update-grub with os-prober).
const bootPatience = 3 * time.Minute

func (k kernelArg) runs(ctx context.Context, program string, args ...string) error {
	if k.run != nil {
		return k.run(ctx, program, args...)
	}
	ctx, cancel := patient(ctx, bootPatience)
	defer cancel()
	return k.m.change(ctx, "", program, args...)
}

func (k kernelArg) Read(_ context.Context, a setting.Address) setting.Reading {
	l, err := k.m.loader()
	switch {
	case unprivileged(err):
		return setting.CouldNotTell("the boot loader's files: needs root")
	case err != nil:
		return setting.CouldNotTell(err.Error())
	}
	next, why := l.nextEntry()
	if next == nil {
		return setting.CouldNotTell(why)
	}
	r := next.commandLine().Get(a.Path)
	if _, frozen := k.m.bootWriter(l); frozen != "" && k.run == nil {
		r.ReadOnly, r.Why = true, frozen
	}
	return r
}

// RunningArgument is the reading that a KernelArg address would have on the running kernel's command line.
func (m *Machine) RunningArgument(a setting.Address) setting.Reading {
	text, err := m.read("proc/cmdline")
	if err != nil {
		return failedReading("/proc/cmdline", err)
	}
	return setting.ParseCommandLine(text).Get(a.Path)
}

func (k kernelArg) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	if err := k.write(ctx, a.Path, to); err != nil {
		return refused(a, to.String(), err)
	}
	return nil
}

func (k kernelArg) write(ctx context.Context, argument string, to setting.Reading) error {
	l, err := k.m.loader()
	if err != nil {
		return err
	}
	next, why := l.nextEntry()
	if next == nil {
		return errors.New(why)
	}
	how, frozen := k.m.bootWriter(l)
	if frozen != "" && k.run == nil {
		return errors.New(frozen)
	}
	for name := range strings.SplitSeq(argument, "+") {
		if err := setting.CheckWord(name); err != nil {
			return err
		}
	}
	if _, err := next.commandLine().With(argument, to); err != nil {
		return err
	}
	switch how {
	case byDropIn:
		return k.writeDropIn(ctx, l, argument, next.commandLine().Get(argument), to)
	case byGrubby:
		return k.writeGrubby(ctx, l, argument, to)
	case byEntries:
		return k.writeEntries(l, argument, to)
	}
	return errors.New("no way to change the arguments of this boot loader is known")
}

// settled proves that the boot loader will do as was wanted.
func (k kernelArg) settled(argument string, to setting.Reading) error {
	l, err := k.m.loader()
	if err != nil {
		return err
	}
	next, why := l.nextEntry()
	if next == nil {
		return errors.New(why)
	}
	if found := next.commandLine().Get(argument); !found.Same(to) {
		return fmt.Errorf("the entry that is booted next, %s, has %s", next.ID, found)
	}
	return nil
}

// writeEntries changes the files of loader/entries, all of them, and /etc/kernel/cmdline, from which kernel-install makes
// the entries of later kernels. Where one cannot be written those before it are put back.
func (k kernelArg) writeEntries(l *loader, argument string, to setting.Reading) error {
	changed := map[string]string{} // the text before
	names := []string{}
	edit := func(name string, edit func(string) (string, error)) error {
		before, err := k.m.read(name)
		if err != nil {
			return err
		}
		after, err := edit(before)
		if err != nil || after == before {
			return err
		}
		if err := k.m.keep(name, before); err != nil {
			return fmt.Errorf("keep a copy of /%s: %w", name, err)
		}
		changed[name] = before
		names = append(names, name)
		return k.m.replace(name, after)
	}
	var err error
	for _, e := range l.entries {
		if err == nil {
			err = edit(e.file, func(text string) (string, error) { return editOptions(text, argument, to) })
		}
	}
	if err == nil && k.m.exists(kernelCmdline) {
		err = edit(kernelCmdline, func(text string) (string, error) {
			line, err := setting.ParseCommandLine(text).With(argument, to)
			if err != nil || line.String() == setting.ParseCommandLine(text).String() {
				return text, err
			}
			return line.String() + "\n", nil
		})
	}
	if err == nil {
		err = k.settled(argument, to)
	}
	if err != nil {
		for _, name := range slices.Backward(names) {
			err = errors.Join(err, k.m.replace(name, changed[name]))
		}
		return errors.Join(err, k.m.forgetUnused())
	}
	return k.m.keptSettle(argument)
}

// kernelCmdline holds the command line of kernels that kernel-install adds (kernel-install(8)).
const kernelCmdline = "etc/kernel/cmdline"

// replace writes a whole file so that after a crash there is the old text or the new one: beside it, to disk, renamed.
// Permissions and owner of a file that is there stay.
func (m *Machine) replace(name, text string) error {
	for range 8 { // grubenv of RHEL is a link to the EFI system partition
		target, err := m.root.Readlink(name)
		if err != nil {
			break
		}
		if name = path.Join(path.Dir(name), target); path.IsAbs(target) {
			name = strings.TrimPrefix(target, "/")
		}
	}
	mode := os.FileMode(0o644)
	info, err := m.root.Stat(name)
	if err == nil {
		mode = info.Mode().Perm()
	}
	beside := path.Join(path.Dir(name), "."+path.Base(name)+".mpps-new")
	f, err := m.root.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Chmod(mode), owner(f, info), f.Sync(), f.Close())
	if err == nil {
		err = m.root.Rename(beside, name)
	}
	if err != nil {
		return errors.Join(err, m.remove(beside))
	}
	return m.syncFolder(path.Dir(name))
}

// remove takes a file away for good; one that is not there is no error.
func (m *Machine) remove(name string) error {
	if err := m.root.Remove(name); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	return m.syncFolder(path.Dir(name))
}

// syncFolder brings a directory's entries to disk.
func (m *Machine) syncFolder(name string) error {
	d, err := m.root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
