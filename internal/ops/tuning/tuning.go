// Package tuning runs the closed loop on a machine: it tries changes as transactions, keeps those that the loop proves,
// makes them last and continues after a restart.
package tuning

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mpps/internal/advise/plan"
	"mpps/internal/advise/tune"
	"mpps/internal/model/goal"
	"mpps/internal/ops"
	"mpps/internal/ops/bench"
	"mpps/internal/ops/change"
	"mpps/internal/outcome"
)

// Slice is the usual length of a trial of our own generator: a part of what is sent all the time.
const Slice = 250 * time.Millisecond

// Options are the options of 'mpps tune'.
type Options struct {
	Goal          goal.Goal
	Budget, Trial time.Duration
	Seed          uint64
	Only          []string                             // knobs and families that may be tried; none: all
	Learned       []string                             // files of effects measured on other hosts
	Propose       bool                                 // leave nothing changed
	RuntimeOnly   bool                                 // do not make lasting what is kept
	Restarts      bool                                 // also apply what needs a restart
	Resume        bool                                 // continue after that restart
	Earlier       *tune.Earlier                        // the run that waited; nil: none
	Flags         map[string][]string                  // of the command line, for the resumed run
	PlanFile      string                               // for the plans of what was kept; empty: none
	Write         func(name string, text []byte) error // writes a plan file
	Keep          bench.Keep
}

// Run tunes. by opens the gauge. The result is nil if there is nothing to show; the error is what the command ends in.
func Run(ctx context.Context, env *ops.Env, o Options, by func(context.Context) (Gauge, error)) (r *tune.Result,
	saved []string, err error) {
	own, known, err := readLearned(env, o.Learned)
	if err != nil {
		return nil, nil, err
	}
	if err := checkIdle(env); err != nil {
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
		if err := writeLearned(env, own, class, withoutEarlier(r, o.Earlier)); err != nil {
			r.Warnings = append(r.Warnings, tune.Warning{Code: "not-learned",
				Text: "what was found could not be kept for the next run: " + err.Error()})
		}
	}
	return finish(ctx, env, &o, r, plans, failure)
}

// finish saves a result. failure is what ended the run early, or nil.
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
		text := fmt.Errorf("interrupted after %s: %s", ops.Count(len(r.Attempts), "attempt"), whatRemains(r, failure))
		failure = errors.Join(outcome.Failed(text, ""), withoutInterruption(ctx, failure))
	case failure == nil:
		failure = outcome.Exit(exitCode(r.Verdict))
	}
	return r, saved, failure
}

func exitCode(v tune.Verdict) int {
	switch v {
	case tune.Met, tune.Good:
		return outcome.CodeOK
	case tune.NotDevice:
		return outcome.CodeNotDevice
	}
	return outcome.CodeChanges
}

// loop tunes and makes lasting what was kept. Each of the plans builds on the one before.
func (h *trialHost) loop(ctx context.Context, o *Options, known tune.Effects) (class string, r *tune.Result,
	plans []*plan.Plan, err error) {
	if o.Earlier != nil { // further changes of the same knobs after the restart are candidates of their own
		for _, key := range o.Earlier.Kept {
			for _, part := range keysOf(tune.Candidate{Key: key}) {
				h.keptKeys[part] = true
			}
		}
	}
	h.load = o.Goal.PPS / 10 // during the first reading of the host
	if err := h.refresh(ctx); err != nil {
		return "", nil, nil, err
	}
	class = hostClass(h.host.Facts)
	r, err = tune.Run(ctx, h, tune.Options{
		Goal: o.Goal, Budget: o.Budget, Seed: o.Seed, Class: class, Learned: known, Propose: o.Propose,
		Progress: h.showProgress, Earlier: o.Earlier,
		Trial: o.Trial, RestartFirst: o.Restarts,
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
		if plans, err = h.makeLasting(ctx, o, r); err != nil {
			return class, r, nil, err
		}
	}
	if o.Resume {
		err = h.env.RemoveState(waitingPath)
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

// checkIdle refuses to begin if the first change would be refused: another mpps is running, or a transaction is not
// settled.
func checkIdle(env *ops.Env) error {
	e, err := change.Open(env, nil)
	if err != nil {
		return err
	}
	return errors.Join(e.Settled(), e.Close())
}

// whatRemains describes what an interrupted run leaves changed.
func whatRemains(r *tune.Result, failure error) string {
	switch {
	case r.UndoCommand() != "":
		return "what was kept until then is proven and stands; '" + r.UndoCommand() + "' undoes it"
	case fullyRestored(failure):
		return "everything is as it was found"
	}
	return "not everything is as it was found"
}

// withoutEarlier returns a result with only this run's attempts: those of the run that it resumes are learned already,
// and the restart was not a candidate.
func withoutEarlier(r *tune.Result, e *tune.Earlier) *tune.Result {
	if e == nil {
		return r
	}
	trimmed := *r
	trimmed.Attempts = r.Attempts[min(len(r.Attempts), len(e.Attempts)+1):]
	return &trimmed
}

// showProgress shows the steps of a run.
func (h *trialHost) showProgress(p tune.Progress) {
	at := ""
	if p.Rate > 0 {
		at = fmt.Sprintf("; %s packets/s so far", goal.FormatRate(p.Rate))
	}
	switch a := p.Attempt; {
	case p.What == "done" && a != nil:
		h.env.Out.Step("%2d %-9s %s: %s", a.N, a.Outcome, a.Name(), a.Gain)
	case a != nil:
		h.env.Out.Progress("try %s: pair %d%s", a.Name(), len(a.Gain.Pairs)+1, at)
	default:
		h.env.Out.Progress("%s%s", p.What, at)
	}
}
