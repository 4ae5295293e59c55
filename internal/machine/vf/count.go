// Package vf creates, counts and resets VFs and binds PCI functions to drivers. It reads who uses VFs, which ones mpps
// has reserved, and what passing them through to guests needs.
package vf

import (
	"cmp"
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

// vfCount reads and writes the number of VFs of a PF (setting.VFCount). The kernel changes the count only by way of 0
// (drivers/pci/iov.c, sriov_numvfs_store: EBUSY), and that removes VFs from whoever uses them: the write hangs while a
// process has one open.
type vfCount struct {
	m        *tree.Tree
	answers  bool          // of a test's tree: the test creates VFs as the kernel would
	patience time.Duration // how long to wait for VFs; 0: settlePatience
}

// deviceDir returns the directory of a PF's bus device, below sys.
func (v vfCount) deviceDir(a setting.Address) (string, error) {
	if a.Path == "" || strings.Contains(a.Path, "/") {
		return "", fmt.Errorf("expected the name of a device, found %q", a.Path)
	}
	return path.Join("class/net", a.Path, "device"), nil
}

func (v vfCount) Read(_ context.Context, a setting.Address) setting.Reading {
	dir, err := v.deviceDir(a)
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

// Write creates the VFs and waits until they are ready. The error has the current count.
func (v vfCount) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	return tree.Set(a, to, func(value string) error {
		wanted, err := strconv.Atoi(value)
		if err != nil {
			return err
		}
		return v.make(ctx, a, wanted)
	})
}

func (v vfCount) make(ctx context.Context, a setting.Address, wanted int) error {
	dir, err := v.deviceDir(a)
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
		if err := pf.checkCount(wanted); err != nil {
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
			return fmt.Errorf("%w: %s", err, pf.currentCount())
		}
	}
	if before != wanted && wanted > 0 {
		v.m.ReportProgress("making %s of %s", functionCount(wanted), a.Path)
		if err := v.m.SetValue(ctx, tree.Sys, path.Join(dir, "sriov_numvfs"), strconv.Itoa(wanted)); err != nil {
			return fmt.Errorf("%w%s: %s", err, pf.explain(err), pf.currentCount())
		}
	}
	if !v.m.Live() && !v.answers {
		return nil
	}
	pf.count = wanted
	if err := pf.settle(ctx, cmp.Or(v.patience, settlePatience)); err != nil {
		return fmt.Errorf("%w: %s", err, pf.currentCount())
	}
	return nil
}

// physical is a PF whose VFs are counted or created.
type physical struct {
	m     *tree.Tree
	name  string
	dir   string // sys/class/net/NAME/device
	count int    // of VFs: read or wanted
}

// checkCount returns an error if a count is more than the card or its driver supports.
func (p physical) checkCount(wanted int) error {
	total := p.m.Number(path.Join(p.dir, "sriov_totalvfs"), -1)
	if total < 0 {
		return nil // netdevsim has no such file; its own limit is in debugfs
	}
	most, says := facts.MaxVFs(p.m.Target(path.Join(p.dir, "driver")), total, trafficClasses(p.m, p.name))
	if wanted > most {
		return fmt.Errorf("expected at most %d: %s", most, says)
	}
	return nil
}

// trafficClasses returns the number of traffic classes (DCB) of a device's transmit queues; 0 or 1 without DCB.
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

// explain explains the kernel's errno for a write of sriov_numvfs.
func (p physical) explain(err error) string {
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

// currentCount returns a sentence with the current count.
func (p physical) currentCount() string {
	count := p.m.Number(path.Join(p.dir, "sriov_numvfs"), -1)
	if count < 0 {
		return "how many there are now could not be read"
	}
	return fmt.Sprintf("%s has %s now", p.name, functionCount(count))
}

// function returns the directory of a VF and its PCI address, which is empty if there is no such VF.
func (p physical) function(number int) (dir, pci string) {
	dir = path.Join(p.dir, "virtfn"+strconv.Itoa(number))
	return dir, p.m.Target(dir)
}

// functionCount returns "1 virtual function", "2 virtual functions" …
func functionCount(n int) string {
	if n == 1 {
		return "1 virtual function"
	}
	return fmt.Sprintf("%d virtual functions", n)
}
