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

// AssignResult is a VF that was assigned to a guest.
type AssignResult struct {
	sriov.Gift
	Transaction apply.Result `json:"transaction"`
}

// Assign assigns a VF to a guest. If the transaction was undone, it returns both the result and the error.
func Assign(ctx context.Context, env *ops.Env, w sriov.Request, o change.Options, wait time.Duration) (*AssignResult,
	*change.Outcome, error) {
	var gift *sriov.Gift
	d, err := change.CarryOutRetrying(ctx, env,
		change.Wish{Goal: explicitGoal, Changes: func(h *ops.Host) ([]plan.Change, []outcome.Warning, error) {
			var err error
			if gift, err = sriov.Choose(h.Facts, w); err != nil {
				return nil, nil, err
			}
			h.Read(ctx, gift.Addresses()...)
			kept, err := desiredAddresses(h.Facts, forAnyGuest)
			if err != nil {
				return nil, nil, err
			}
			changes, err := gift.Changes(h.Facts, kept)
			return changes, nil, err
		}}, o, wait)
	if d == nil {
		return nil, nil, err
	}
	d.Warnings = append(noteWarnings(gift.Notes), d.Warnings...)
	return &AssignResult{Gift: *gift, Transaction: d.Result}, d, err
}

// ReleaseResult is a VF that was taken back.
type ReleaseResult struct {
	sriov.Returned
	Transaction apply.Result `json:"transaction"`
}

// Release takes a VF back from a guest. If the transaction was undone, it returns both the result and the error.
func Release(ctx context.Context, env *ops.Env, w sriov.Return, o change.Options, wait time.Duration) (*ReleaseResult,
	*change.Outcome, error) {
	var back *sriov.Returned
	watched := false
	d, err := change.CarryOutRetrying(ctx, env,
		change.Wish{Goal: explicitGoal, Changes: func(h *ops.Host) ([]plan.Change, []outcome.Warning, error) {
			var err error
			if back, err = sriov.ChooseReturn(h.Facts, w); err != nil {
				return nil, nil, err
			}
			h.Read(ctx, back.Addresses()...)
			watched = h.Facts.Readings.At(setting.Of(setting.Unit, lasting.UnitName)).State == setting.Known
			kept, err := desiredAddresses(h.Facts, forAnyGuest)
			if err != nil {
				return nil, nil, err
			}
			changes, err := back.Changes(h.Facts, kept)
			return changes, nil, err
		}}, o, wait)
	if d == nil {
		return nil, nil, err
	}
	back.Left = back.Later(serviceRemains(d.Plan, watched))
	return &ReleaseResult{Returned: *back, Transaction: d.Result}, d, err
}

// serviceRemains reports whether mpps-restore.service is still installed after a plan: it is removed when it has
// nothing left to put back.
func serviceRemains(p *plan.Plan, before bool) bool {
	for _, c := range p.Changes {
		if c.Address == setting.Of(setting.Unit, lasting.UnitName) {
			return c.To.State == setting.Known
		}
	}
	return before
}
