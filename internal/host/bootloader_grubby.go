package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"mpps/internal/setting"
)

// writeGrubby lets grubby change all entries: it also keeps /etc/default/grub, /etc/kernel/cmdline and kernelopts in step,
// from which the entries of later kernels are made. Its older versions take away every word that contains the name of
// an argument (grubby-bls, update_args), so what it made is compared with what was meant, and put back where it differs.
func (k kernelArg) writeGrubby(ctx context.Context, l *loader, argument string, to setting.Reading) error {
	args, err := grubbyArguments(argument, to)
	if err != nil {
		return err
	}
	files := []string{"etc/default/grub", kernelCmdline}
	if l.kind == grub {
		files = append(files, l.config)
	}
	if environment := strings.TrimSuffix(l.config, "grub.cfg") + "grubenv"; l.kind == grubBLS {
		files = append(files, environment)
	}
	meant := map[string]setting.CommandLine{}
	for _, e := range l.entries {
		if e.file != "" {
			files = append(files, e.file)
		}
		if meant[e.ID], err = e.commandLine().With(argument, to); err != nil {
			return err
		}
	}
	before := map[string]string{}
	for _, name := range files {
		text, err := k.m.read(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			before[name] = text
			err = k.m.keep(name, text)
		}
		if err != nil {
			return fmt.Errorf("keep a copy of /%s: %w", name, err)
		}
	}
	err = k.runs(ctx, "grubby", args...)
	if err == nil {
		err = k.asMeant(meant)
	}
	if err == nil {
		err = k.settled(argument, to)
	}
	if err != nil {
		for name, text := range before {
			if now, failed := k.m.read(name); failed != nil || now != text {
				err = errors.Join(err, k.m.replace(name, text))
			}
		}
		return errors.Join(err, k.m.forgetUnused())
	}
	return k.m.keptSettle(argument)
}

// asMeant compares every entry with what was meant.
func (k kernelArg) asMeant(meant map[string]setting.CommandLine) error {
	l, err := k.m.loader()
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

// grubbyArguments is the command line of grubby for one change.
func grubbyArguments(argument string, to setting.Reading) ([]string, error) {
	args := []string{"--update-kernel=ALL"}
	if to.State == setting.Absent {
		return append(args, "--remove-args="+strings.ReplaceAll(argument, "+", " ")), nil
	}
	words, err := setting.Words(argument, to.Value)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, word := range words {
		name, _, _ := setting.Argument(word)
		if seen[name] {
			return nil, fmt.Errorf("grubby cannot set %s more than once", name)
		}
		seen[name] = true
	}
	return append(args, "--args="+strings.Join(words, " ")), nil
}
