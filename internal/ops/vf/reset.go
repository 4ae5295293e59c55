package vf

import (
	"context"
	"errors"
	"fmt"

	"mpps/internal/advise/lasting"
	"mpps/internal/advise/plan"
	"mpps/internal/advise/sriov"
	"mpps/internal/change/apply"
	"mpps/internal/machine"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/ops"
	"mpps/internal/ops/change"
	"mpps/internal/outcome"
)

// ResetAsk is which functions are reset: one of words, guest and free is given.
type ResetAsk struct {
	Words          []string // the one that they name
	Guest          string   // those of this guest
	Free           string   // those of this NIC that nobody has
	AttributesOnly bool     // and not the functions themselves
}

func (a *ResetAsk) functions(h *facts.Host) ([]*facts.VF, error) {
	switch {
	case a.Guest != "":
		return sriov.OfGuest(h, a.Guest)
	case a.Free != "":
		return sriov.FreeOf(h, a.Free)
	}
	f, err := only(h, a.Words)
	return []*facts.VF{f}, err
}

// Reset gives functions the attributes that new ones have, and resets them themselves.
func Reset(ctx context.Context, env *ops.Env, ask ResetAsk, o change.Options) (*change.Done, error) {
	var functions []*facts.VF
	w := change.Wish{Goal: askedFor, Changes: func(h *ops.Host) (_ []plan.Change, _ []outcome.Warning, err error) {
		if functions, err = ask.functions(h.Facts); err != nil {
			return nil, nil, err
		}
		kept, err := keeps(h.Facts, func(lasting.Value) bool { return true })
		if err != nil {
			return nil, nil, err
		}
		for _, f := range functions {
			h.Read(ctx, sriov.Attributes(f)...)
		}
		changes, err := sriov.PlanReset(h.Facts, functions, kept)
		return changes, nil, err
	}}
	if !ask.AttributesOnly && !o.DryRun {
		w.After = func(ctx context.Context, m *machine.Machine) ([]outcome.Warning, error) {
			return resetAll(ctx, env, m, functions)
		}
	}
	return change.CarryOut(ctx, env, w, o)
}

// resetAll resets the functions themselves. The error is how the verb ends if one of them could not be.
func resetAll(ctx context.Context, env *ops.Env, m *machine.Machine, functions []*facts.VF) (all []outcome.Warning,
	err error) {
	for _, f := range functions {
		if f.PCI == "" {
			continue
		}
		name := fmt.Sprintf("%s/%d (%s)", f.PF, f.Index, f.PCI)
		done := reset(ctx, env, m, f.PCI)
		if done.Why != "" {
			all = append(all, outcome.Warning{
				Code: "function-not-reset", Text: name + " itself was not reset: " + done.Why,
			})
			err = outcome.Exit(outcome.CodeFailed)
			continue
		}
		all = append(all, outcome.Warning{
			Code: "function-reset",
			Text: fmt.Sprintf("%s itself was reset (%s), which no rollback undoes", name, done.Method),
		})
	}
	return all, err
}

// reset resets a function itself, under the lock so that no other mpps gives it away.
func reset(ctx context.Context, env *ops.Env, m *machine.Machine, pci string) machine.FunctionReset {
	done := machine.FunctionReset{PCI: pci}
	e, err := change.Open(env, nil)
	if err == nil {
		err = errors.Join(e.Alone("sriov reset", func() { done = m.ResetFunction(ctx, pci) }), e.Close())
	}
	if err != nil && done.Why == "" {
		done.Why = err.Error()
	}
	return done
}

// Recover examines a function and, unless dryRun, repairs what can be repaired. It returns the name of the host.
func Recover(ctx context.Context, env *ops.Env, words []string, dryRun bool) (string, *sriov.Recovery, error) {
	h, r, err := examine(ctx, env, words)
	if err != nil {
		return "", nil, err
	}
	defer h.Close()
	if work := r.Verdict != sriov.Taken && (r.Reset || len(r.Changes) > 0); work && !dryRun {
		if err := mend(ctx, env, h, &r); err != nil {
			return "", nil, err
		}
		again, after, err := examine(ctx, env, words)
		if err != nil {
			return "", nil, err
		}
		defer again.Close()
		r.After = after.Verdict
	}
	return h.Facts.Name, &r, nil
}

// examine looks at one function.
func examine(ctx context.Context, env *ops.Env, words []string) (*ops.Host, sriov.Recovery, error) {
	h, err := env.Host(ctx, ops.Look{Guest: ops.NoGuest})
	if err != nil {
		return nil, sriov.Recovery{}, err
	}
	var r sriov.Recovery
	f, err := only(h.Facts, words)
	if err == nil {
		h.Read(ctx, append(sriov.RecoverAddresses(f), lasting.Addresses()...)...)
		r, err = sriov.Recover(h.Facts, f)
	}
	if err != nil {
		return nil, r, errors.Join(err, h.Close())
	}
	return h, r, nil
}

// mend resets the function and makes the changes, as a transaction.
func mend(ctx context.Context, env *ops.Env, h *ops.Host, r *sriov.Recovery) error {
	if err := env.NeedsRoot("sriov recover"); err != nil {
		return err
	}
	if r.Reset {
		done := reset(ctx, env, h.Machine, r.PCI)
		if r.WasReset = done.Method; done.Why != "" {
			r.WasReset = "not done: " + done.Why
		}
	}
	if len(r.Changes) == 0 {
		return nil
	}
	p := plan.Of(h.Facts, goal.Goal{}, r.Changes)
	if err := lasting.Add(p, h.Facts); err != nil {
		return err
	}
	d, err := change.Transact(ctx, env, p, h, apply.Options{})
	if d != nil {
		r.Transaction = d.Result.TX
	}
	if d != nil && err != nil { // and not where another mpps is at work, or nothing was tried
		return outcome.Failed(err, r.LastResort)
	}
	return err
}
