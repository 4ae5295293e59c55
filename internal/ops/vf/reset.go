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
	"mpps/internal/machine/vf"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/ops"
	"mpps/internal/ops/change"
	"mpps/internal/outcome"
)

// ResetOptions select the VFs to reset, by exactly one of Words, Guest and Free.
type ResetOptions struct {
	Words          []string // name one VF
	Guest          string   // all VFs of this guest
	Free           string   // all unassigned VFs of this NIC
	AttributesOnly bool     // do not reset the PCI functions themselves
}

func (a *ResetOptions) functions(h *facts.Host) ([]*facts.VF, error) {
	switch {
	case a.Guest != "":
		return sriov.OfGuest(h, a.Guest)
	case a.Free != "":
		return sriov.FreeOf(h, a.Free)
	}
	f, err := findOne(h, a.Words)
	return []*facts.VF{f}, err
}

// Reset gives VFs the attributes of new ones and resets their PCI functions.
func Reset(ctx context.Context, env *ops.Env, options ResetOptions, o change.Options) (*change.Outcome, error) {
	var functions []*facts.VF
	w := change.Wish{Goal: explicitGoal, Changes: func(h *ops.Host) (_ []plan.Change, _ []outcome.Warning, err error) {
		if functions, err = options.functions(h.Facts); err != nil {
			return nil, nil, err
		}
		kept, err := desiredAddresses(h.Facts, func(lasting.Value) bool { return true })
		if err != nil {
			return nil, nil, err
		}
		for _, f := range functions {
			h.Read(ctx, sriov.Attributes(f)...)
		}
		changes, err := sriov.PlanReset(h.Facts, functions, kept)
		return changes, nil, err
	}}
	if !options.AttributesOnly && !o.DryRun {
		w.After = func(ctx context.Context, m *machine.Machine) ([]outcome.Warning, error) {
			return resetAll(ctx, env, m, functions)
		}
	}
	return change.CarryOut(ctx, env, w, o)
}

// resetAll resets PCI functions. If one could not be reset, it returns an error with the exit code.
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

// reset resets a PCI function, under the lock so that no other mpps assigns it meanwhile.
func reset(ctx context.Context, env *ops.Env, m *machine.Machine, pci string) vf.FunctionReset {
	done := vf.FunctionReset{PCI: pci}
	e, err := change.Open(env, nil)
	if err == nil {
		err = errors.Join(e.Alone("sriov reset", func() { done = vf.ResetFunction(ctx, m.Tree, pci) }), e.Close())
	}
	if err != nil && done.Why == "" {
		done.Why = err.Error()
	}
	return done
}

// Recover examines a VF and, unless dryRun, repairs what can be repaired. It returns the name of the host too.
func Recover(ctx context.Context, env *ops.Env, words []string, dryRun bool) (string, *sriov.Recovery, error) {
	h, r, err := examine(ctx, env, words)
	if err != nil {
		return "", nil, err
	}
	defer h.Close()
	if work := r.Verdict != sriov.Taken && (r.Reset || len(r.Changes) > 0); work && !dryRun {
		if err := repair(ctx, env, h, &r); err != nil {
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

// examine reads the host and diagnoses one VF.
func examine(ctx context.Context, env *ops.Env, words []string) (*ops.Host, sriov.Recovery, error) {
	h, err := env.Host(ctx, ops.Look{Guest: ops.NoGuest})
	if err != nil {
		return nil, sriov.Recovery{}, err
	}
	var r sriov.Recovery
	f, err := findOne(h.Facts, words)
	if err == nil {
		h.Read(ctx, append(sriov.RecoverAddresses(f), lasting.Addresses()...)...)
		r, err = sriov.Recover(h.Facts, f)
	}
	if err != nil {
		return nil, r, errors.Join(err, h.Close())
	}
	return h, r, nil
}

// repair resets the PCI function and makes the changes of a recovery, as a transaction.
func repair(ctx context.Context, env *ops.Env, h *ops.Host, r *sriov.Recovery) error {
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
	p := plan.OfChanges(h.Facts, goal.Goal{}, r.Changes)
	if err := lasting.Add(p, h.Facts); err != nil {
		return err
	}
	d, err := change.Transact(ctx, env, p, h, apply.Options{})
	if d != nil {
		r.Transaction = d.Result.TX
	}
	if d != nil && err != nil { // changes were tried and undone
		return outcome.Failed(err, r.LastResort)
	}
	return err
}
