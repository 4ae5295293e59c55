package vf

import (
	"context"
	"time"

	"mpps/internal/advise/lasting"
	"mpps/internal/advise/plan"
	"mpps/internal/advise/sriov"
	"mpps/internal/change/apply"
	"mpps/internal/model/setting"
	"mpps/internal/ops"
	"mpps/internal/ops/change"
	"mpps/internal/outcome"
)

// Assigned is a function that was given to a guest.
type Assigned struct {
	sriov.Gift
	Transaction apply.Result `json:"transaction"`
}

// Assign gives a guest a function. If the transaction was undone, its outcome comes with the error.
func Assign(ctx context.Context, env *ops.Env, w sriov.Wish, o change.Options, wait time.Duration) (*Assigned,
	*change.Done, error) {
	var gift *sriov.Gift
	d, err := change.Again(ctx, env,
		change.Wish{Goal: askedFor, Changes: func(h *ops.Host) ([]plan.Change, []outcome.Warning, error) {
			var err error
			if gift, err = sriov.Choose(h.Facts, w); err != nil {
				return nil, nil, err
			}
			h.Read(ctx, gift.Addresses()...)
			kept, err := keeps(h.Facts, forAll)
			if err != nil {
				return nil, nil, err
			}
			changes, err := gift.Changes(h.Facts, kept)
			return changes, nil, err
		}}, o, wait)
	if d == nil {
		return nil, nil, err
	}
	d.Warnings = append(warnings(gift.Notes), d.Warnings...)
	return &Assigned{Gift: *gift, Transaction: d.Result}, d, err
}

// Released is a function that was taken back.
type Released struct {
	sriov.Returned
	Transaction apply.Result `json:"transaction"`
}

// Release takes a function back from a guest. If the transaction was undone, its outcome comes with the error.
func Release(ctx context.Context, env *ops.Env, w sriov.Return, o change.Options, wait time.Duration) (*Released,
	*change.Done, error) {
	var back *sriov.Returned
	watched := false
	d, err := change.Again(ctx, env,
		change.Wish{Goal: askedFor, Changes: func(h *ops.Host) ([]plan.Change, []outcome.Warning, error) {
			var err error
			if back, err = sriov.Take(h.Facts, w); err != nil {
				return nil, nil, err
			}
			h.Read(ctx, back.Addresses()...)
			watched = h.Facts.Readings.At(setting.Of(setting.Unit, lasting.UnitName)).State == setting.Known
			kept, err := keeps(h.Facts, forAll)
			if err != nil {
				return nil, nil, err
			}
			changes, err := back.Changes(h.Facts, kept)
			return changes, nil, err
		}}, o, wait)
	if d == nil {
		return nil, nil, err
	}
	back.Left = back.Later(watches(d.Plan, watched))
	return &Released{Returned: *back, Transaction: d.Result}, d, err
}

// watches reports whether mpps-restore.service is installed after a plan: it is removed when it has nothing left to
// put back.
func watches(p *plan.Plan, before bool) bool {
	for _, c := range p.Changes {
		if c.Address == setting.Of(setting.Unit, lasting.UnitName) {
			return c.To.State == setting.Known
		}
	}
	return before
}
