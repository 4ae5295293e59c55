package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"mpps/internal/host"
	"mpps/internal/journal"
	"mpps/internal/setting"
)

// guestNow is what a transaction must know of a guest: what waits for its restart, and since when it runs.
type guestNow struct {
	pending []string // paths in which its definition is not what it runs with
	began   time.Time
}

// watchGuests makes the engine tell which changes wait for a guest's restart, and which one has reset. Guests are looked
// at only where there are changes that concern them.
func (e *engine) watchGuests(ctx context.Context, root string) {
	var guests map[string]guestNow
	of := func(c journal.Change) guestNow {
		if guests == nil {
			guests = guestsNow(ctx, root)
		}
		return guests[c.Address.Object()]
	}
	e.Waiting = func(c journal.Change) string {
		if c.Address.Kind != setting.Domain || !slices.Contains(of(c).pending, c.Address.Rest()) {
			return ""
		}
		return fmt.Sprintf("guest %s runs with its former definition: takes effect when it is shut down and started", c.Address.Object())
	}
	e.Reset = func(c journal.Change, since time.Time) string {
		if c.Address.Kind != setting.ThreadAffinity || since.IsZero() || !of(c).began.After(since) {
			return ""
		}
		return fmt.Sprintf("guest %s was started anew", c.Address.Object())
	}
}

func guestsNow(ctx context.Context, root string) map[string]guestNow {
	guests := map[string]guestNow{}
	m, err := host.Open(root)
	if err != nil {
		return guests
	}
	defer m.Close()
	for _, g := range m.Inventory(ctx).Guests {
		now := guestNow{pending: g.Pending}
		if g.PID > 0 {
			now.began = m.ProcessBegan(g.PID)
		}
		guests[g.Name] = now
	}
	return guests
}
