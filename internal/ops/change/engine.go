// Package change implements the verbs that change the host (plan, apply, confirm, resume, rollback, restore) and those
// that report its state. Other verbs make their changes through CarryOut.
package change

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"mpps/internal/advise/lasting"
	"mpps/internal/advise/plan"
	"mpps/internal/advise/sriov"
	"mpps/internal/change/apply"
	"mpps/internal/change/journal"
	"mpps/internal/machine"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/ops"
	"mpps/internal/owner"
)

// Engine is the transaction engine of the machine below the root.
type Engine struct {
	*apply.Engine
	Name    string // of the host
	Machine *machine.Machine
}

// Open opens the journal and the machine. If mechanisms is nil, it uses those of the machine.
func Open(env *ops.Env, mechanisms setting.Mechanisms) (*Engine, error) {
	m, err := env.Open()
	if err != nil {
		return nil, err
	}
	j, err := journal.Open(env.Root)
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	if mechanisms == nil {
		mechanisms = m.Mechanisms()
	}
	name, boot := m.Identity()
	return &Engine{
		Engine: &apply.Engine{
			Mechanisms: mechanisms, Journal: j, Host: name, BootID: boot, Version: env.Version,
			Writable: func(at setting.Address) error { return m.Writable(at.Kind) },
		},
		Name: name, Machine: m,
	}, nil
}

// withEngine opens the engine, calls do and closes it.
func withEngine(env *ops.Env, do func(*Engine) error) error {
	e, err := Open(env, nil)
	if err != nil {
		return err
	}
	return errors.Join(do(e), e.Close())
}

// Close closes the journal and the machine.
func (e *Engine) Close() error { return errors.Join(e.Journal.Close(), e.Machine.Close()) }

// Explain makes the engine report what values wait for, who else sets them and which guest has them on loan.
func (e *Engine) Explain(ctx context.Context) {
	e.WatchGuests(ctx)
	e.watchOwners(ctx)
	e.watchFunctions(ctx)
}

// watchOwners makes the engine report who else sets a value that has drifted. Files and daemons are read only if there
// is such a value, guests only if it is one of a guest, and Open vSwitch only if it is in its database.
func (e *Engine) watchOwners(ctx context.Context) {
	owners := sync.OnceValue(func() *facts.Host { return e.Machine.Owners(ctx) })
	guests := sync.OnceValue(func() *facts.Host {
		h := *owners()
		h.Guests = e.Machine.GuestOwners(ctx)
		return &h
	})
	switches := sync.OnceValue(func() *facts.Host {
		h := *owners()
		h.OpenVSwitch = e.Machine.SwitchOwners(ctx)
		return &h
	})
	e.Owner = func(c journal.Change, found setting.Reading) string {
		h := owners
		switch {
		case plan.IsGuests(c.Address):
			h = guests
		case c.Address.Kind == setting.OVSDB:
			h = switches
		}
		for _, o := range lasting.Owners(h(), c.Address) {
			if o.Value == "" || found.State == setting.Known && o.Value == found.Value {
				return o.String()
			}
		}
		return ""
	}
}

// watchFunctions makes the engine report VF attributes that are kept for another guest than the one that has the VF
// now. The host is read once, and only if such an attribute has drifted.
func (e *Engine) watchFunctions(ctx context.Context) {
	lent := sync.OnceValue(func() map[setting.Address]string {
		list, err := e.desired(ctx)
		if err != nil {
			return nil // as far as is known, no attribute is on loan
		}
		due, err := (&vfKeeper{machine: e.Machine, had: sriov.NewMemory()}).due(ctx, nil, list)
		if err != nil {
			return nil
		}
		return due.Lent
	})
	e.Lent = func(a setting.Address) string {
		if a.Kind != setting.VFAttr {
			return ""
		}
		return lent()[a]
	}
}

// desired reads the list of values to put back. No list means no values. One that others than root can write is
// refused.
func (e *Engine) desired(ctx context.Context) ([]lasting.Value, error) {
	if info, err := e.Machine.Lstat(lasting.DesiredFile); err == nil {
		if err := owner.Check(info); err != nil {
			return nil, fmt.Errorf("/%s: %w", lasting.DesiredFile, err)
		}
	}
	switch found := e.Mechanisms.Read(ctx, setting.Of(setting.File, lasting.DesiredFile)); found.State {
	case setting.Absent:
		return nil, nil
	case setting.Unknown:
		return nil, errors.New(found.Why)
	default:
		return lasting.ParseDesired(found.Value)
	}
}
