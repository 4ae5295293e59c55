// Package tuning runs the closed loop on a machine: it tries changes as transactions, keeps what the loop proves, makes
// that
// last and goes on behind a restart.
package tuning

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"mpps/internal/advise/plan"
	"mpps/internal/advise/tune"
	"mpps/internal/model/goal"
	"mpps/internal/ops"
	"mpps/internal/ops/bench"
	"mpps/internal/ops/change"
	"mpps/internal/outcome"
)

// Options are what 'mpps tune' is asked for.
type Options struct {
	Goal          goal.Goal
	Budget, Trial time.Duration
	Seed          uint64
	Only          []string                             // knobs that may be tried; none: all
	Learned       []string                             // files of what was learned on other hosts
	Propose       bool                                 // leave nothing
	RuntimeOnly   bool                                 // what is kept need not last
	Restarts      bool                                 // make what needs a restart, too
	Resume        bool                                 // behind it
	Earlier       *tune.Earlier                        // of the run that waited; nil: none
	Flags         map[string][]string                  // of the command, for the run that goes on
	PlanFile      string                               // for the plans of what was kept; empty: none
	Write         func(name string, text []byte) error // writes such a file
	Keep          bench.Keep
}

// Run tunes. by opens what measures. The result is nil where there is nothing to show; the error is what the command
// ends
// in.
func Run(ctx context.Context, env *ops.Env, o Options, by func(context.Context) (Gauge, error)) (r *tune.Result,
	saved []string, err error) {
	own, known, err := learned(env, o.Learned)
	if err != nil {
		return nil, nil, err
	}
	if err := unhindered(env); err != nil {
		return nil, nil, err
	}
	gauge, err := by(ctx)
	if err != nil {
		return nil, nil, err
	}
	h, err := open(env, &o, gauge)
	if err != nil {
		return nil, nil, errors.Join(err, gauge.Close())
	}
	class, r, plans, failure := h.loop(ctx, &o, known)
	failure = errors.Join(failure, gauge.Close(), h.close())
	if r == nil {
		return nil, nil, failure
	}
	if r.Verdict != tune.Interrupted && r.Verdict != tune.Failed {
		if err := learn(env, own, class, newAttempts(r, o.Earlier)); err != nil {
			r.Warnings = append(r.Warnings, tune.Warning{Code: "not-learned",
				Text: "what was found could not be kept for the next run: " + err.Error()})
		}
	}
	return finish(ctx, env, &o, r, plans, failure)
}

// finish saves a result. failure is what ended it early, or nil.
func finish(ctx context.Context, env *ops.Env, o *Options, r *tune.Result, plans []*plan.Plan,
	failure error) (*tune.Result, []string, error) {
	if err := o.writePlans(plans, r); err != nil {
		return nil, nil, errors.Join(failure, err)
	}
	saved, err := bench.Save(env, o.Keep, r, r.Started, "tune",
		func(w outcome.Warning) { r.Warnings = append(r.Warnings, w) })
	switch {
	case err != nil:
		return nil, nil, errors.Join(failure, err)
	case bench.Interrupted(ctx, failure):
		text := fmt.Errorf("interrupted after %s: %s", ops.Count(len(r.Attempts), "attempt"), whatStands(r, failure))
		failure = errors.Join(outcome.Failed(text, ""), beyond(ctx, failure))
	case failure == nil:
		failure = outcome.Exit(codeOf(r.Verdict))
	}
	return r, saved, failure
}

func codeOf(v tune.Verdict) int {
	switch v {
	case tune.Met, tune.Good:
		return outcome.CodeOK
	case tune.NotDevice:
		return outcome.CodeNotDevice
	}
	return outcome.CodeChanges
}

// loop tunes and makes lasting what was kept. plans are those of what is kept, each on top of the one before.
func (h *trialHost) loop(ctx context.Context, o *Options, known tune.Effects) (class string, r *tune.Result,
	plans []*plan.Plan, err error) {
	if o.Earlier != nil { // what comes of the same knobs behind the restart is a candidate of its own
		for _, key := range o.Earlier.Kept {
			for _, part := range keysOf(tune.Candidate{Key: key}) {
				h.proven[part] = true
			}
		}
	}
	h.load = o.Goal.PPS / 10 // while it is looked at for the first time
	if err := h.look(ctx); err != nil {
		return "", nil, nil, err
	}
	class = hostClass(h.host.Facts)
	r, err = tune.Run(ctx, h, tune.Options{
		Goal: o.Goal, Budget: o.Budget, Seed: o.Seed, Class: class, Learned: known, Propose: o.Propose,
		Progress: h.progress, Earlier: o.Earlier,
		Trial: o.Trial,
	})
	if r == nil {
		return class, nil, nil, err
	}
	r.Host, r.Emulated = h.host.Facts.Name, h.host.Facts.Emulated
	r.Untried = append(r.Untried, h.untried()...)
	if r.Emulated {
		r.Warnings = append(r.Warnings, tune.Warning{Code: "emulated",
			Text: "measured under full emulation: rates say nothing about hardware, ratios little",
			Hint: "repeat on the real host"})
	}
	if err != nil {
		return class, r, nil, err
	}
	if len(r.Added) > 0 {
		if plans, err = h.final(ctx, o, r); err != nil {
			return class, r, nil, err
		}
	}
	if o.Resume {
		err = os.Remove(filepath.Join(h.env.Root, waitingPath))
	}
	if err != nil || !o.Restarts || len(r.Waits) == 0 || r.Verdict == tune.Met || r.Verdict == tune.Good ||
		r.Verdict == tune.NotDevice {
		return class, r, plans, err
	}
	later, err := h.restart(ctx, o, r)
	if later != nil {
		plans = append(plans, later)
	}
	return class, r, plans, err
}

// unhindered refuses to begin where the first change would be refused: another mpps is at work, or something is not
// settled.
func unhindered(env *ops.Env) error {
	e, err := change.Open(env, nil)
	if err != nil {
		return err
	}
	return errors.Join(e.Settled(), e.Close())
}

// whatStands says what an interrupted run leaves behind.
func whatStands(r *tune.Result, failure error) string {
	switch {
	case r.UndoCommand() != "":
		return "what was kept until then is proven and stands; '" + r.UndoCommand() + "' undoes it"
	case asFound(failure):
		return "everything is as it was found"
	}
	return "not everything is as it was found"
}

// newAttempts is a result with those attempts alone that this run made: what an earlier one made, which it goes on
// with, is learned
// already, and a restart is no candidate.
func newAttempts(r *tune.Result, e *tune.Earlier) *tune.Result {
	if e == nil {
		return r
	}
	own := *r
	own.Attempts = r.Attempts[min(len(r.Attempts), len(e.Attempts)+1):]
	return &own
}

// progress shows the steps of a run.
func (h *trialHost) progress(p tune.Progress) {
	at := ""
	if p.Rate > 0 {
		at = fmt.Sprintf("; %s packets/s so far", goal.FormatRate(p.Rate))
	}
	switch a1 := p.Attempt; {
	case p.What == "done" && a1 != nil:
		h.env.Out.Step("%2d %-9s %s: %s", a1.N, a1.Outcome, a1.Name(), a1.Gain)
	case a1 != nil:
		h.env.Out.Progress("try %s: pair %d%s", a1.Name(), len(a1.Gain.Pairs)+1, at)
	default:
		h.env.Out.Progress("%s%s", p.What, at)
	}
}
