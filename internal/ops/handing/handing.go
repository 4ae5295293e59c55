// Package handing implements 'mpps handover': what to set on the platforms of guests.
package handing

import (
	"context"
	"fmt"
	"slices"

	"mpps/internal/advise/audit"
	"mpps/internal/advise/handover"
	"mpps/internal/advise/knob"
	"mpps/internal/advise/plan"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/ops"
	"mpps/internal/ops/judging"
	"mpps/internal/outcome"
)

// Request says what is asked for.
type Request struct {
	Goal     goal.Goal
	Snapshot string // a file of 'mpps snapshot' instead of the machine
}

// Answer is what to set on the platforms.
type Answer struct {
	Guests []handover.Sheet `json:"guests"`

	Host     *facts.Host       `json:"-"`
	Warnings []outcome.Warning `json:"-"`
}

// Words returns what to set on the platforms of a host's guests, for the goal's guest or for all.
func Words(ctx context.Context, env *ops.Env, a Request) (*Answer, error) {
	h, err := env.Gather(ctx, ops.Look{Snapshot: a.Snapshot, Guest: ops.NoGuest})
	if err != nil {
		return nil, err
	}
	defer h.Close()
	if err := ops.CheckGoal(h.Facts, a.Goal); err != nil {
		return nil, err
	}
	if a.Goal.Guest != "" {
		g := facts.Find(h.Facts.Guests, func(g *facts.Guest) bool { return g.Name == a.Goal.Guest })
		if !g.Rewrites() {
			return nil, outcome.Failed(fmt.Errorf("guest %s is of no platform that regenerates its definition (%s)",
				g.Name, g.Platform().Title()), judging.ChangedBy(g))
		}
	}
	sheets, err := Sheets(h.Facts, a.Goal, h.Site.Adjust)
	if err != nil {
		return nil, err
	}
	return &Answer{Guests: sheets, Host: h.Facts, Warnings: ops.Caveats(h.Facts, a.Goal)}, nil
}

// Sheets returns what to set on the platforms, given a host with readings.
func Sheets(h *facts.Host, g goal.Goal, adjust audit.Adjust) ([]handover.Sheet, error) {
	p, err := plan.Make(judging.WithDefinitions(h), g, knob.Catalogue(), adjust)
	if err != nil {
		return nil, err
	}
	handed := slices.DeleteFunc(p.Handover, func(d plan.Handed) bool {
		guest := facts.Find(h.Guests, func(g *facts.Guest) bool { return g.Name == d.Guest })
		return guest != nil && !guest.Managed && !judging.SeenOnCommandLine(guest, d.ID, d.Setting)
	})
	return handover.Of(h, handed, g.Guest), nil
}
