package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/setting"
)

// Mechanisms are the ways in which the values of each kind are read and written on this machine. Those that need the
// running kernel answer on a recorded tree that they cannot tell.
func (m *Machine) Mechanisms() setting.Mechanisms {
	threads := &threads{machine: m}
	return setting.Mechanisms{
		setting.Sysctl:         sysctl{m},
		setting.Sysfs:          sysfsFile{m},
		setting.SysfsCPUs:      sysfsMask{m},
		setting.NICRing:        driverValue{m, readRing, writeRing},
		setting.NICChannels:    driverValue{m, readChannels, writeChannels},
		setting.NICCoalesce:    driverValue{m, readCoalesce, writeCoalesce},
		setting.NICFeature:     driverValue{m, readFeature, writeFeature},
		setting.NICFlowHash:    driverValue{m, readFlowHash, writeFlowHash},
		setting.IRQAffinity:    irqAffinity{m},
		setting.NetfilterRule:  netfilterRule{m},
		setting.Service:        service{m},
		setting.File:           file{m},
		setting.Directory:      directories{m},
		setting.Unit:           unit{m},
		setting.Domain:         domains{m},
		setting.DomainDevice:   devices{m, letGo},
		setting.VirtNetwork:    virtNetworks{m},
		setting.ThreadAffinity: threads,
		setting.DomainLive:     livePins{m, threads},
		setting.KernelArg:      kernelArg{m: m},
		setting.BootKernel:     bootKernel{kernelArg{m: m}},
		setting.ModuleParam:    moduleParam{m},
		setting.ThreadSched:    &threadSched{machine: m},
		setting.ThreadCPUs:     threadCPUs{m},
		setting.KSM:            ksm{m},
		setting.Swap:           swap{m},
		setting.TraceEvents:    traceEvents{m},
		setting.IRQCPUs:        irqCPUs{m},
		setting.RuleSet:        wholeRules{m},
		setting.VFAttr:         vfAttr{m},
		setting.VFCount:        vfCount{m: m},
		setting.NICState:       nicState{m},
		setting.QueueLanes:     queueLanes{m},
		setting.RootQdisc:      rootQdisc{m},
		setting.PCIDriver:      pciDriver{m},
		setting.Inside:         insideValue{m: m},
	}
}

// How long the kernel may take over one value where the caller's context has no deadline of its own. Changing rings or
// channels takes a NIC down and up: with a slow link's firmware that is seconds.
const (
	readPatience  = 5 * time.Second
	writePatience = 20 * time.Second
)

// patient is the context with a deadline.
func patient(ctx context.Context, patience time.Duration) (context.Context, context.CancelFunc) {
	if _, limited := ctx.Deadline(); limited {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer within %v", patience))
}

// refused words a write that did not come about: the value, what was wanted, what the kernel said.
func refused(a setting.Address, wanted string, err error) error {
	switch {
	case errors.Is(err, ErrInDoubt):
		return a.Errorf("setting it to %q: %w", wanted, err)
	case unprivileged(err):
		return a.Errorf("refused to be set to %q (needs root): %w", wanted, err)
	}
	return a.Errorf("refused to be set to %q: %w", wanted, err)
}

// written is the value that a Known reading wants written; other readings cannot be written to kinds whose values are
// always there.
func written(a setting.Address, to setting.Reading) (string, error) {
	if to.State != setting.Known {
		return "", a.Errorf("expected a value to write, found %s", to)
	}
	value, err := setting.Kinds[a.Kind].Canonical(to.Value)
	if err != nil {
		return "", a.Errorf("%w", err)
	}
	return value, nil
}

// failedReading turns an error of reading into one of the two answers that are no value.
func failedReading(what string, err error) setting.Reading {
	switch {
	case errors.Is(err, unix.ENODEV), errors.Is(err, fs.ErrNotExist):
		return setting.Missing("there is no " + what)
	case errors.Is(err, unix.EOPNOTSUPP):
		return setting.Reading{State: setting.Absent, Why: what + ": not offered by this device", Unsupported: true}
	case unprivileged(err):
		return setting.CouldNotTell(what + ": needs root")
	}
	return setting.CouldNotTell(what + ": " + err.Error())
}

// readFile reads one value of a kind below a directory of the machine. Resolving starts at that directory, so neither dots
// nor links in a recorded tree lead out of it.
func (m *Machine) readFile(dir, name string, canonical func(string) (string, error)) setting.Reading {
	below, err := m.below(dir)
	if err != nil {
		return failedReading("/"+dir, err)
	}
	defer below.Close()
	text, err := below.read(name)
	if err != nil {
		return failedReading("/"+dir+"/"+name, err)
	}
	value, err := canonical(text)
	if err != nil {
		return setting.CouldNotTell(fmt.Sprintf("/%s/%s: %v", dir, name, err))
	}
	r := setting.Value(value)
	if info, err := below.root.Stat(name); err == nil && info.Mode().Perm()&0o222 == 0 {
		r.ReadOnly, r.Why = true, "the kernel offers no way to change it"
	}
	return r
}

// writeFile writes one value below a directory of the machine.
func (m *Machine) writeFile(ctx context.Context, dir, name, text string) error {
	below, err := m.below(dir)
	if err != nil {
		return err
	}
	if !m.live {
		return errors.Join(below.record(name, text), below.Close())
	}
	ctx, cancel := patient(ctx, writePatience)
	defer cancel()
	err = below.write(ctx, name, text)
	if errors.Is(err, ErrInDoubt) {
		return err // the write still uses the directory
	}
	return errors.Join(err, below.Close())
}
