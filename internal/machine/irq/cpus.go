package irq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/tree"
	"mpps/internal/model/setting"
)

// irqCPUs reads and writes the CPU affinity of an interrupt that belongs to no NIC. The address is its number and the
// name of one of its handlers, or "default": the affinity of interrupts that are requested from now on.
type irqCPUs struct{ m *tree.Tree }

// file returns the address's file below /proc/irq, and whether it has a mask instead of a list.
func (i irqCPUs) file(a setting.Address) (name string, mask bool, err error) {
	if a.Path == "default" {
		return "default_smp_affinity", true, nil
	}
	number, err := strconv.Atoi(a.Object())
	if err != nil || a.Rest() == "" {
		return "", false, a.Errorf("expected NUMBER/NAME or default")
	}
	if !slices.Contains(actions(i.m, number), a.Rest()) {
		return "", false, tree.NoSuch(fmt.Sprintf("interrupt %d has no handler %q", number, a.Rest()))
	}
	return a.Object() + "/smp_affinity_list", false, nil
}

func (i irqCPUs) Read(_ context.Context, a setting.Address) setting.Reading {
	name, mask, err := i.file(a)
	switch {
	case errors.Is(err, unix.ENODEV):
		return setting.NoObject(err.Error())
	case err != nil:
		return setting.CouldNotTell(err.Error())
	}
	r := i.m.Value(Proc, name, func(text string) (string, error) {
		if !mask {
			return setting.Kinds[setting.IRQCPUs].Canonical(text)
		}
		set, err := setting.ParseCPUMask(text)
		return set.String(), err
	})
	if r.ReadOnly {
		r.Why = "an interrupt that the kernel places itself"
	}
	return r
}

func (i irqCPUs) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	return tree.Set(a, to, func(value string) error {
		name, mask, err := i.file(a)
		if err != nil {
			return err
		}
		if mask {
			set, err := setting.ParseCPUs(value)
			if err != nil {
				return err
			}
			value = strings.TrimSpace(set.Mask())
		}
		err = i.m.SetValue(ctx, Proc, name, value)
		if placedByKernel(err) {
			return fmt.Errorf("the kernel places this interrupt itself: %w", err)
		}
		return err
	})
}
