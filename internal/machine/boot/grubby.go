package boot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"mpps/internal/model/setting"
)

// writeGrubby changes all entries with grubby, which also updates /etc/default/grub, /etc/kernel/cmdline and
// kernelopts, from which the entries of later kernels are made. Its older versions remove every word that contains the
// name of an argument (grubby-bls, update_args), so the result is compared with the intended command lines and
// restored if it differs.
func (k kernelArg) writeGrubby(ctx context.Context, l *loader, changes []argumentChange) (undone bool, err error) {
	args, err := grubbyArguments(changes)
	if err != nil {
		return true, err
	}
	files := []string{"etc/default/grub", kernelCmdline}
	if l.kind == grub {
		files = append(files, l.config)
	}
	if environment := strings.TrimSuffix(l.config, "grub.cfg") + "grubenv"; l.kind == grubBLS {
		files = append(files, environment)
	}
	intended := map[string]setting.CommandLine{}
	for _, e := range l.entries {
		if e.file != "" {
			files = append(files, e.file)
		}
		if intended[e.ID], err = applyChanges(e.commandLine(), changes); err != nil {
			return true, err
		}
	}
	before := map[string]string{}
	for _, name := range files {
		text, err := k.m.Read(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			before[name] = text
			err = backUp(k.m, name)
		}
		if err != nil {
			return true, fmt.Errorf("keep a copy of /%s: %w", name, err)
		}
	}
	err = k.runProgram(ctx, "grubby", args...)
	if err == nil {
		err = k.m.SyncFiles(files)
	}
	if err == nil {
		err = k.verifyEntries(intended)
	}
	if err == nil {
		err = k.verify(changes)
	}
	if err != nil {
		var undo error
		for name, text := range before {
			if now, failed := k.m.Read(name); failed != nil || now != text {
				undo = errors.Join(undo, k.m.Replace(name, text))
			}
		}
		undo = errors.Join(undo, removeUnusedBackups(k.m))
		return undo == nil, errors.Join(err, undo)
	}
	return false, settleBackups(k.m, changes)
}

// verifyEntries returns an error unless every entry has the intended command line.
func (k kernelArg) verifyEntries(meant map[string]setting.CommandLine) error {
	l, err := readLoader(k.m)
	if err != nil {
		return err
	}
	for _, e := range l.entries {
		if wanted, known := meant[e.ID]; known && !e.commandLine().SameWords(wanted) {
			return fmt.Errorf("grubby made entry %s to %q, expected %q", e.ID, e.Arguments, wanted)
		}
	}
	return nil
}

// grubbyArguments returns grubby's arguments for changes.
func grubbyArguments(changes []argumentChange) ([]string, error) {
	var removed, added []string
	seen := map[string]bool{}
	for _, c := range changes {
		if c.to.State == setting.Absent {
			removed = append(removed, strings.Split(c.argument, "+")...)
			continue
		}
		words, err := setting.Words(c.argument, c.to.Value)
		if err != nil {
			return nil, err
		}
		for _, word := range words {
			name, _, _ := setting.Argument(word)
			if seen[name] {
				return nil, fmt.Errorf("grubby cannot set %s more than once", name)
			}
			seen[name] = true
		}
		added = append(added, words...)
	}
	args := []string{"--update-kernel=ALL"}
	if len(removed) > 0 {
		args = append(args, "--remove-args="+strings.Join(removed, " "))
	}
	if len(added) > 0 {
		args = append(args, "--args="+strings.Join(added, " "))
	}
	return args, nil
}
