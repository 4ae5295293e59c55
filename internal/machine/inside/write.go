package inside

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"mpps/internal/machine/irq"
	"mpps/internal/machine/libvirt"
	"mpps/internal/machine/systemd"
	"mpps/internal/machine/tree"
	"mpps/internal/model/setting"
)

// Write writes one value. An error has the message of the program in the guest.
func (in *Guests) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	return in.WriteAll(ctx, []setting.Assignment{{Address: a, To: to}})
}

// WriteAll writes several values, those of each guest in about the time of one. If one is refused, it restores the
// others.
func (in *Guests) WriteAll(ctx context.Context, all []setting.Assignment) error {
	ctx, cancel := setting.WithPatience(ctx, tree.WritePatience, libvirt.ErrAgentHangs)
	defer cancel()
	var done []setting.Assignment // the former values
	for len(all) > 0 {
		guest := all[0].Address.Object()
		n := slices.IndexFunc(all, func(other setting.Assignment) bool { return other.Address.Object() != guest })
		if n < 0 {
			n = len(all)
		}
		before, err := in.writeIn(ctx, guest, all[:n])
		if err != nil {
			for _, one := range done {
				_, undone := in.writeIn(context.WithoutCancel(ctx), one.Address.Object(), []setting.Assignment{one})
				err = errors.Join(err, undone)
			}
			return err
		}
		done, all = append(done, before...), all[n:]
	}
	return nil
}

// writeIn writes values inside one guest and returns the former ones.
func (in *Guests) writeIn(ctx context.Context, guest string, all []setting.Assignment) (before []setting.Assignment,
	err error) {
	failed := func(i int, err error) error {
		if (errors.Is(err, setting.ErrInDoubt) || errors.Is(err, libvirt.ErrNoAgent) ||
			errors.Is(err, libvirt.ErrAgentHangs)) && in.hasEnded(guest) {
			err = libvirt.ErrNotRunning
		}
		return tree.Refusal(all[i].Address, all[i].To.String(),
			fmt.Errorf("guest %s: %w", guest, in.noteHang(guest, err)))
	}
	addresses := make([]setting.Address, len(all))
	for i := range all {
		addresses[i] = all[i].Address
		if _, err := tree.Canonical(all[i].Address, all[i].To); err != nil {
			return nil, err
		}
	}
	a, err := in.ask(guest)
	if err != nil {
		return nil, failed(0, err)
	}
	l, err := in.look(ctx, guest, addresses)
	if err != nil {
		return nil, failed(0, err)
	}
	programs, back := make([]libvirt.Call, len(all)), make([]libvirt.Call, len(all))
	before = make([]setting.Assignment, len(all))
	for i, one := range all {
		if programs[i], err = l.writer(one.Address, one.To.Value); err != nil {
			return nil, failed(i, err)
		}
		before[i] = setting.Assignment{Address: one.Address, To: l.reading(ctx, one.Address)}
		if before[i].To.State == setting.Known {
			if back[i], err = l.writer(one.Address, before[i].To.Value); err != nil {
				return nil, failed(i, err)
			}
		}
	}
	results, err := libvirt.Execute(ctx, a, guest, programs...)
	if err != nil {
		return nil, failed(0, err)
	}
	var undo []libvirt.Call
	for i, r := range results {
		switch problem := r.Problem(); {
		case problem != nil:
			err = errors.Join(err, failed(i, problem))
		case back[i].Argv != nil:
			undo = append(undo, back[i])
		}
	}
	if err != nil && len(undo) > 0 && !errors.Is(err, libvirt.ErrNotRunning) {
		undone, problem := libvirt.Execute(context.WithoutCancel(ctx), a, guest, undo...)
		err = errors.Join(err, problem)
		for _, r := range undone {
			err = errors.Join(err, r.Problem())
		}
	}
	return before, err
}

// hasEnded reports whether a guest has ended; then everything written there is gone. libvirt may notice only after a
// moment, on a busy host up to a second or two.
func (in *Guests) hasEnded(guest string) bool {
	for range 20 {
		if errors.Is(libvirt.Unreachable(in.tree, guest), libvirt.ErrNotRunning) {
			return true
		}
		time.Sleep(100 * time.Millisecond)
	}
	return false
}

// writer returns the program that writes a value. An interrupt's number comes from the files that were fetched.
func (l *valueLook) writer(a setting.Address, value string) (libvirt.Call, error) {
	inner, err := a.Inner()
	if err != nil {
		return libvirt.Call{}, err
	}
	file, _, err := sourceOf(inner)
	if err != nil {
		return libvirt.Call{}, err
	}
	if value, err = setting.Kinds[inner.Kind].Canonical(value); err != nil {
		return libvirt.Call{}, err
	}
	tee := func(file, text string) libvirt.Call {
		return libvirt.Call{Argv: []string{"tee", file}, Stdin: text + "\n"}
	}
	switch inner.Kind {
	case setting.SysfsCPUs:
		set, err := setting.ParseCPUs(value)
		if err != nil {
			return libvirt.Call{}, err
		}
		return tee(file, strings.TrimSpace(set.Mask())), nil
	case setting.IRQAffinity:
		number, err := irq.Find(l.tree.Tree("guest "+a.Object()), inner)
		if err != nil {
			return libvirt.Call{}, err
		}
		return tee("/"+path.Join(irq.Proc, strconv.Itoa(number), "smp_affinity_list"), value), nil
	case setting.NICChannels:
		return libvirt.Call{Argv: []string{"ethtool", "-L", inner.Object(), "combined", value}}, nil
	case setting.Service:
		verb, known := map[string]string{systemd.Running: "start", systemd.Stopped: "stop"}[value]
		if !known {
			return libvirt.Call{}, fmt.Errorf("expected %s or %s", systemd.Running, systemd.Stopped)
		}
		return libvirt.Call{Argv: []string{"systemctl", verb, "--", inner.Path + ".service"}}, nil
	case setting.Swap:
		priority, given := strings.CutPrefix(value, "on ")
		switch {
		case value == "off":
			return libvirt.Call{Argv: []string{"swapoff", "/" + inner.Path}}, nil
		case given:
			return libvirt.Call{Argv: []string{"swapon", "-p", priority, "/" + inner.Path}}, nil
		}
		return libvirt.Call{Argv: []string{"swapon", "/" + inner.Path}}, nil
	}
	return tee(file, value), nil
}
