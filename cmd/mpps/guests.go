package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"mpps/internal/domain"
	"mpps/internal/host"
	"mpps/internal/journal"
	"mpps/internal/setting"
)

// guestNow is what a transaction must know of a guest: what waits for its restart, and since when it runs.
type guestNow struct {
	pending []string // paths in which its definition is not what it runs with
	began   time.Time
}

// watchGuests makes the engine tell which changes wait for a guest's restart, which of those that were put back a guest
// still runs with, and which one has reset. Guests are looked at only where there are changes that concern them, and
// for what waits not before it is asked for: a rollback asks when it is done.
func (e *engine) watchGuests(ctx context.Context, root string) {
	looked := func() func(c journal.Change) guestNow {
		var guests map[string]guestNow
		return func(c journal.Change) guestNow {
			if guests == nil {
				guests = guestsNow(ctx, root)
			}
			return guests[c.Address.Object()]
		}
	}
	before, after := looked(), looked()
	pending := func(c journal.Change) bool {
		return c.Address.Kind == setting.Domain && slices.ContainsFunc(after(c).pending, func(path string) bool {
			return domain.Within(path, c.Address.Rest())
		})
	}
	e.Waiting = func(c journal.Change) string {
		if c.Address.Kind.AtBoot() {
			if running := notYet(root, c); running != "" {
				return running + ": takes effect when the host is rebooted"
			}
			return ""
		}
		if !pending(c) {
			return ""
		}
		return fmt.Sprintf("guest %s runs with its former definition: takes effect when it is shut down and started", c.Address.Object())
	}
	e.Lingers = func(c journal.Change, from, until time.Time) string {
		if c.Address.Kind.AtBoot() {
			if running := notYet(root, c); running != "" {
				return running + ", which was put back: gone when the host is rebooted"
			}
			return ""
		}
		if !pending(c) || !between(after(c).began, from, until) {
			return ""
		}
		return fmt.Sprintf("guest %s still runs with what was put back in its definition: gone when it is shut down and started", c.Address.Object())
	}
	e.Reset = func(c journal.Change, since time.Time) string {
		gone := c.Address.Kind == setting.ThreadAffinity || c.Address.Kind == setting.DomainLive || c.Address.Kind == setting.DomainDevice || c.Address.Kind == setting.Inside
		if !gone || since.IsZero() || !before(c).began.After(since) {
			return ""
		}
		return fmt.Sprintf("guest %s was started anew", c.Address.Object())
	}
}

// notYet says what the running kernel is or has where that is not what the boot loader gives to the next one; empty where it
// is, or is not known.
func notYet(root string, c journal.Change) string {
	m, err := host.Open(root)
	if err != nil {
		return ""
	}
	defer m.Close()
	running := m.AtBoot(c.Address)
	switch {
	case running.State == setting.Unknown || c.Want.Met(running):
		return ""
	case c.Address.Kind == setting.BootKernel:
		return "the running kernel is " + running.Value
	}
	return fmt.Sprintf("the running kernel has %s %s", c.Address.Path, running)
}

// between tells whether a guest was started while something stood in its definition. Starts of processes are known to a
// second (btime of /proc/stat); where one is not known at all it may have been.
func between(began, from, until time.Time) bool {
	return began.IsZero() || began.After(from.Add(-time.Second)) && began.Before(until.Add(time.Second))
}

func guestsNow(ctx context.Context, root string) map[string]guestNow {
	guests := map[string]guestNow{}
	m, err := host.Open(root)
	if err != nil {
		return guests
	}
	defer m.Close()
	m.LookInside(host.NoGuest)
	for _, g := range m.Inventory(ctx).Guests {
		now := guestNow{pending: g.Pending}
		if g.PID > 0 {
			now.began = m.ProcessBegan(g.PID)
		}
		guests[g.Name] = now
	}
	return guests
}
