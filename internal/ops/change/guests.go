package change

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"mpps/internal/change/journal"
	"mpps/internal/machine"
	"mpps/internal/model/domain"
	"mpps/internal/model/setting"
	"mpps/internal/ops"
)

// guest is what a transaction needs to know about a guest.
type guest struct {
	pending []string  // paths where its definition differs from what it runs with
	began   time.Time // when it started; zero: not running or unknown
}

// WatchGuests makes the engine report which changes wait for a guest's restart, which undone changes a guest still runs
// with, and which changes a restart has reset. Guests are read only for changes that concern them, and their pending
// changes as late as possible: a rollback asks for them once it is done. A cancelled ctx does not end that, since what
// is undone then depends on it.
func (e *Engine) WatchGuests(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	look := func() map[string]guest { return guests(ctx, e.Machine) }
	before, after := sync.OnceValue(look), sync.OnceValue(look)
	pending := func(c journal.Change) bool {
		if c.Address.Kind != setting.Domain {
			return false
		}
		return slices.ContainsFunc(after()[c.Address.Object()].pending, func(path string) bool {
			return domain.Within(path, c.Address.Rest())
		})
	}
	var lock sync.Mutex
	lines := map[string]setting.CommandLine{} // of guests' running kernels; nil: unknown
	// argument describes the argument of a guest's running kernel if its next boot will change it.
	argument := func(c journal.Change) string {
		lock.Lock()
		defer lock.Unlock()
		guest := c.Address.Object()
		line, known := lines[guest]
		if !known {
			line, _ = e.Machine.Inside.CommandLine(ctx, guest)
			lines[guest] = line
		}
		if running := line.Get(c.Address.Rest()); line != nil && !c.Want.Met(running) {
			return fmt.Sprintf("the kernel of guest %s runs with %s %s", guest, c.Address.Rest(), running)
		}
		return ""
	}
	e.Waiting = func(c journal.Change) string {
		if c.Address.Kind == setting.GuestArg {
			if running := argument(c); running != "" {
				return running + ": takes effect when the guest is rebooted"
			}
			return ""
		}
		if c.Address.Kind.AtBoot() {
			if running := e.runningBoot(c); running != "" {
				return running + ": takes effect when the host is rebooted"
			}
			return ""
		}
		if !pending(c) {
			return ""
		}
		return "guest " + c.Address.Object() + " runs with its former definition: takes effect when it is shut down " +
			"and started"
	}
	e.Lingers = func(c journal.Change, from, until time.Time) string {
		if c.Address.Kind == setting.GuestArg {
			if running := argument(c); running != "" {
				return running + ", which was put back: gone when the guest is rebooted"
			}
			return ""
		}
		if c.Address.Kind.AtBoot() {
			if running := e.runningBoot(c); running != "" {
				return running + ", which was put back: gone when the host is rebooted"
			}
			return ""
		}
		if !pending(c) || !between(after()[c.Address.Object()].began, from, until) {
			return ""
		}
		return "guest " + c.Address.Object() +
			" still runs with what was put back in its definition: gone when it is shut down and started"
	}
	e.Reset = func(c journal.Change, since time.Time) string {
		switch c.Address.Kind {
		case setting.ThreadAffinity, setting.DomainLive, setting.DomainDevice, setting.Inside:
		default:
			return ""
		}
		if since.IsZero() || !before()[c.Address.Object()].began.After(since) {
			return ""
		}
		return fmt.Sprintf("guest %s was restarted", c.Address.Object())
	}
}

// runningBoot describes the running kernel's value of a boot setting if the next boot will change it; empty if it will
// not, or if that is unknown.
func (e *Engine) runningBoot(c journal.Change) string {
	running := e.Machine.AtBoot(c.Address)
	switch {
	case running.State == setting.Unknown || c.Want.Met(running):
		return ""
	case c.Address.Kind == setting.BootKernel:
		return "the running kernel is " + running.Value
	}
	return fmt.Sprintf("the running kernel has %s %s", c.Address.Path, running)
}

// between reports whether a guest was started while its definition held a value. Start times are exact to one second
// (btime of /proc/stat); an unknown start time counts as within.
func between(began, from, until time.Time) bool {
	return began.IsZero() || began.After(from.Add(-time.Second)) && began.Before(until.Add(time.Second))
}

// guests returns the guests of a machine by name.
func guests(ctx context.Context, m *machine.Machine) map[string]guest {
	all := map[string]guest{}
	m.Inside.Select(ops.NoGuest)
	for _, g := range m.Inventory(ctx).Guests {
		now := guest{pending: g.Pending}
		if g.PID > 0 {
			now.began = m.ProcessBegan(g.PID)
		}
		all[g.Name] = now
	}
	return all
}
