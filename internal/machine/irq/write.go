package irq

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/tree"
	"mpps/internal/model/setting"
)

// Mechanisms returns the mechanisms of interrupts.
func Mechanisms(m *tree.Tree) setting.Mechanisms {
	return setting.Mechanisms{
		setting.IRQAffinity: irqAffinity{m},
		setting.IRQCPUs:     irqCPUs{m},
	}
}

// Proc is the directory of the interrupts' affinities.
const Proc = "proc/irq"

// irqAffinity reads and writes the CPU affinity of a NIC's interrupt. The address is the device, the interrupt's name
// on it and its number (facts.NIC.Address). The number is a hint: a driver that sets up its vectors again gets other
// numbers. An interrupt is found by its name; the number only distinguishes interrupts of the same name.
type irqAffinity struct{ m *tree.Tree }

func (i irqAffinity) Read(_ context.Context, a setting.Address) setting.Reading {
	number, err := Find(i.m, a)
	if errors.Is(err, unix.ENODEV) {
		return setting.Missing(err.Error())
	}
	if err != nil {
		return setting.CouldNotTell(err.Error())
	}
	name := strconv.Itoa(number) + "/smp_affinity_list"
	r := i.m.Value(Proc, name, setting.Kinds[setting.IRQAffinity].Canonical)
	if r.ReadOnly {
		r.Why = "a managed interrupt: the kernel places it itself"
	}
	return r
}

func (i irqAffinity) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	return tree.Set(a, to, func(value string) error {
		number, err := Find(i.m, a)
		if err != nil {
			return err
		}
		err = i.m.SetValue(ctx, Proc, strconv.Itoa(number)+"/smp_affinity_list", value)
		switch {
		case placedByKernel(err):
			return fmt.Errorf("interrupt %d is managed, the kernel places it itself: %w", number, err)
		case errors.Is(err, unix.ENOSPC):
			return fmt.Errorf("interrupt %d: no vector left on these CPUs: %w", number, err)
		case err != nil:
			return fmt.Errorf("interrupt %d: %w", number, err)
		}
		return nil
	})
}

// placedByKernel reports whether a write failed because only the kernel may place the interrupt.
func placedByKernel(err error) bool {
	return errors.Is(err, unix.EIO) || errors.Is(err, os.ErrPermission) && !tree.Unprivileged(err)
}

// Find returns the current number of the addressed interrupt. The error unwraps to ENODEV if there is none.
func Find(m *tree.Tree, a setting.Address) (int, error) {
	elements := strings.Split(a.Path, "/")
	if len(elements) < 3 {
		return 0, a.Errorf("expected DEVICE/NAME/NUMBER")
	}
	device, on := elements[0], strings.Join(elements[1:len(elements)-1], "/")
	hint, err := strconv.Atoi(elements[len(elements)-1])
	if err != nil {
		return 0, a.Errorf("expected an interrupt number at the end")
	}
	dir := path.Join(tree.ClassNet, device)
	if !m.Exists(dir) {
		return 0, tree.NoSuch("there is no device " + device)
	}
	candidates := ownedIRQs(m, dir)
	if candidates == nil { // a device without MSI: it may be any interrupt
		for _, name := range m.List(Proc) {
			if n, err := strconv.Atoi(name); err == nil {
				candidates = append(candidates, n)
			}
		}
	}
	if at := slices.Index(candidates, hint); at > 0 { // the most likely first
		candidates[0], candidates[at] = candidates[at], candidates[0]
	}
	bus, driver := m.BusDevice(device), m.Target(path.Join(dir, "device", "driver"))
	owned := m.Exists(m.Function(dir) + "/msi_irqs")
	names := []string{device, bus}
	for _, number := range candidates {
		for _, action := range actions(m, number) {
			if irqNameOn(action, device, bus, driver) == on && (owned || containsName(action, names)) {
				return number, nil
			}
		}
	}
	return 0, tree.NoSuch(fmt.Sprintf("there is no interrupt %q of %s", on, device))
}

// actions returns the sorted names of an interrupt's handlers: the kernel makes a directory for each
// (kernel/irq/proc.c, register_handler_proc).
func actions(m *tree.Tree, number int) []string {
	dir := path.Join(Proc, strconv.Itoa(number))
	return slices.DeleteFunc(m.List(dir), func(name string) bool {
		info, err := m.Lstat(path.Join(dir, name))
		return err != nil || !info.IsDir()
	})
}
