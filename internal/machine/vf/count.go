// Package vf makes, counts and resets virtual functions, binds PCI functions to drivers, and reads who uses or holds
// them, what mpps has reserved, and what passing them through to guests needs.
package vf

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// vfCount reads and writes how many virtual functions a physical one has (setting.VFCount). The kernel knows no other
// way from one count to another than through 0 (drivers/pci/iov.c, sriov_numvfs_store: EBUSY), and at 0 it takes a
// function away from whoever uses it: a process that has it open makes the write hang until it lets go.
type vfCount struct {
	m        *tree.Tree
	answers  bool      // of a test's tree: somebody makes functions there as the kernel would
	patience settleFor // how long to wait for functions; 0: the usual
}

// place is the directory of the bus device behind a physical function.
func (v vfCount) place(a setting.Address) (string, error) {
	if a.Path == "" || strings.Contains(a.Path, "/") {
		return "", fmt.Errorf("expected the name of a device, found %q", a.Path)
	}
	return path.Join("class/net", a.Path, "device"), nil
}

func (v vfCount) Read(_ context.Context, a setting.Address) setting.Reading {
	dir, err := v.place(a)
	if err != nil {
		return setting.CouldNotTell(err.Error())
	}
	if !v.m.Exists(path.Join(tree.ClassNet, a.Path)) {
		return setting.NoObject("there is no device " + a.Path)
	}
	r := v.m.Value(tree.Sys, path.Join(dir, "sriov_numvfs"), setting.Kinds[setting.VFCount].Canonical)
	if r.State == setting.Absent {
		r.Why = a.Path + " has no virtual functions: the card, its firmware or its driver does not offer SR-IOV"
	}
	return r
}

// Write makes the functions and waits until they have settled. The error says what stands.
func (v vfCount) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	value, err := tree.Canonical(a, to)
	if err != nil {
		return err
	}
	wanted, err := strconv.Atoi(value)
	if err == nil {
		err = v.make(ctx, a, wanted)
	}
	if err != nil {
		return tree.Refusal(a, value, err)
	}
	return nil
}

func (v vfCount) make(ctx context.Context, a setting.Address, wanted int) error {
	dir, err := v.place(a)
	if err != nil {
		return err
	}
	found := v.Read(ctx, a)
	if found.State != setting.Known {
		return errors.New(found.Why)
	}
	before, err := strconv.Atoi(found.Value)
	if err != nil {
		return err
	}
	pf := physical{m: v.m, name: a.Path, dir: path.Join(tree.Sys, dir), count: before}
	if before != wanted {
		if err := pf.takes(wanted); err != nil {
			return err
		}
		uses, err := pf.uses()
		if err != nil {
			return err
		}
		if len(uses) > 0 {
			return &InUse{PF: a.Path, Uses: uses}
		}
	}
	if before != wanted && before > 0 {
		v.m.ReportProgress("taking %s of %s away", functionCount(before), a.Path)
		if err := v.m.SetValue(ctx, tree.Sys, path.Join(dir, "sriov_numvfs"), "0"); err != nil {
			return fmt.Errorf("%w: %s", err, pf.stands())
		}
	}
	if before != wanted && wanted > 0 {
		v.m.ReportProgress("making %s of %s", functionCount(wanted), a.Path)
		if err := v.m.SetValue(ctx, tree.Sys, path.Join(dir, "sriov_numvfs"), strconv.Itoa(wanted)); err != nil {
			return fmt.Errorf("%w%s: %s", err, pf.because(err), pf.stands())
		}
	}
	if !v.m.Live() && !v.answers {
		return nil
	}
	pf.count = wanted
	if err := pf.settle(ctx, v.patience.orUsual()); err != nil {
		return fmt.Errorf("%w: %s", err, pf.stands())
	}
	return nil
}

// physical is a physical function while its virtual ones are made.
type physical struct {
	m     *tree.Tree
	name  string
	dir   string // sys/class/net/NAME/device
	count int    // of virtual functions, as it was read or is to become
}

// takes tells why a count is more than the card or its driver makes.
func (p physical) takes(wanted int) error {
	total := p.m.Number(path.Join(p.dir, "sriov_totalvfs"), -1)
	if total < 0 {
		return nil // netdevsim has no such file; its own limit is in debugfs
	}
	most, says := facts.VFMost(p.m.Target(path.Join(p.dir, "driver")), total, trafficClasses(p.m, p.name))
	if wanted > most {
		return fmt.Errorf("expected at most %d: %s", most, says)
	}
	return nil
}

// trafficClasses is how many traffic classes (DCB) a device's transmit queues are divided among; 0 without.
func trafficClasses(m *tree.Tree, nic string) int {
	most := 0
	queues := path.Join(tree.ClassNet, nic, "queues")
	for _, queue := range m.List(queues) {
		if !strings.HasPrefix(queue, "tx-") {
			continue
		}
		if class, err := strconv.Atoi(m.Line(path.Join(queues, queue, "traffic_class"))); err == nil {
			most = max(most, class+1)
		}
	}
	return most
}

// because explains what the kernel's numbers mean here.
func (p physical) because(err error) string {
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EINVAL), errors.Is(err, unix.ERANGE):
		return " (" + p.m.Target(path.Join(p.dir, "driver")) + " does not make so many just now; dmesg tells why)"
	case errors.Is(err, unix.ENOMEM), errors.Is(err, unix.ENOSPC):
		return " (there is not enough address space or bus numbers for them: the firmware gives too little to this " +
			"slot; see dmesg, pci=realloc or pci=assign-busses)"
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EOPNOTSUPP):
		return " (the driver that has the device now makes none)"
	}
	return ""
}

// stands says how many functions there are now.
func (p physical) stands() string {
	count := p.m.Number(path.Join(p.dir, "sriov_numvfs"), -1)
	if count < 0 {
		return "how many there are now could not be read"
	}
	return fmt.Sprintf("%s has %s now", p.name, functionCount(count))
}

// function is the directory of one of its virtual functions, and its PCI address; empty where there is none of that
// number.
func (p physical) function(number int) (dir, pci string) {
	dir = path.Join(p.dir, "virtfn"+strconv.Itoa(number))
	return dir, p.m.Target(dir)
}

// functionCount counts virtual functions for people.
func functionCount(n int) string {
	if n == 1 {
		return "1 virtual function"
	}
	return fmt.Sprintf("%d virtual functions", n)
}

// settleFor is how long functions may take to settle.
type settleFor time.Duration

func (s settleFor) orUsual() time.Duration {
	if s > 0 {
		return time.Duration(s)
	}
	return settlePatience
}
