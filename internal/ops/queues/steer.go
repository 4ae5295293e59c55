package queues

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"mpps/internal/advise/plan"
	"mpps/internal/advise/queuepath"
	"mpps/internal/machine"
	"mpps/internal/measure/trace"
	"mpps/internal/model/facts"
	"mpps/internal/ops"
	"mpps/internal/ops/change"
	"mpps/internal/outcome"
)

// SteerOptions say what to steer.
type SteerOptions struct {
	change.Options
	For      time.Duration      // how long to watch packets first; 0: plan from the configuration alone
	NIC      string             // only this NIC and those that the same guests send through; empty: all
	By       queuepath.Means    // empty: the least intrusive that works
	Weights  map[string]float64 // guests' shares if there are too few queues; default 1
	Announce bool               // report choices as they are made, not in the answer
}

// steering is one run of Steer.
type steering struct {
	SteerOptions
	env     *ops.Env
	host    *facts.Host
	planned *queuepath.Steering
}

// Steer assigns NIC queues to each guest's queues, as a transaction.
func Steer(ctx context.Context, env *ops.Env, a SteerOptions) (*change.Outcome, error) {
	s := &steering{SteerOptions: a, env: env}
	w := change.Wish{Changes: func(h *ops.Host) ([]plan.Change, []outcome.Warning, error) { return s.plan(ctx, h) }}
	if s.watches() && !a.DryRun {
		w.After = func(ctx context.Context, _ *machine.Machine) ([]outcome.Warning, error) { return s.check(ctx) }
	}
	return change.CarryOut(ctx, env, w, a.Options)
}

// watches reports whether packets are watched first.
func (s *steering) watches() bool { return s.For > 0 && s.env.Live() }

// plan plans from what was watched and the host's configuration.
func (s *steering) plan(ctx context.Context, h *ops.Host) (_ []plan.Change, notes []outcome.Warning, err error) {
	for name := range s.Weights {
		if err := ops.CheckGuest(h.Facts, name); err != nil {
			return nil, nil, err
		}
	}
	var seen *queuepath.Observation
	if s.watches() {
		if seen, notes, err = s.watch(ctx, h.Facts); err != nil {
			return nil, nil, err
		}
	}
	h.Machine.AskLanes(h.Facts)
	standing, err := h.Machine.SteeredNICs()
	if err != nil {
		return nil, nil, err
	}
	o := queuepath.SteerOptions{NIC: s.NIC, Weights: s.Weights, By: s.By, Standing: standing}
	h.Read(ctx, queuepath.SteerAddresses(h.Facts, seen, o)...)
	if s.planned, err = queuepath.Steer(h.Facts, seen, o); err != nil {
		return nil, nil, err
	}
	s.host = h.Facts
	return s.planned.Changes, append(notes, s.choices()...), nil
}

// watch watches packets. If that is not possible the observation is nil, and the plan is made from the host's
// configuration.
func (s *steering) watch(ctx context.Context, h *facts.Host) (*queuepath.Observation, []outcome.Warning, error) {
	seen, err := trace.Watch(ctx, trace.Config{For: s.For, Host: h, Progress: progress(s.env, s.For)})
	switch {
	case ctx.Err() != nil:
		return nil, nil, errors.Join(context.Cause(ctx), err)
	case err != nil:
		return nil, []outcome.Warning{{
			Code: "not-watched",
			Text: "packets could not be watched: " + err.Error(),
			Hint: "the plan is made of what the host is; --for 0 does not ask",
		}}, nil
	}
	return seen, steerCaveats(seen), nil
}

// choices returns what was chosen and why, and further advice; with Announce it reports the choices instead.
func (s *steering) choices() []outcome.Warning {
	var all []outcome.Warning
	for _, g := range s.planned.Groups {
		text := fmt.Sprintf("%s: %s: %s", strings.Join(g.NICs, ", "), g.Means.Words(), g.Why)
		if s.Announce {
			s.env.Out.Step("%s", text)
			continue
		}
		all = append(all, outcome.Warning{Code: "steering", Text: text})
	}
	for _, advice := range s.planned.Advice {
		all = append(all, outcome.Warning{Code: "advice", Text: advice.Text, Hint: advice.Command})
	}
	return all
}

// steerCaveats returns what limits an observation as the basis of a plan. Waits for locks do not matter here.
func steerCaveats(o *queuepath.Observation) []outcome.Warning {
	relevant := *o
	relevant.Unseen = slices.DeleteFunc(slices.Clone(o.Unseen), func(u queuepath.Unseen) bool {
		return u.Blind == queuepath.BlindLocks || u.Blind == queuepath.BlindFirst
	})
	all := caveats(&relevant)
	if !o.Joined() {
		all = append(all, outcome.Warning{
			Code: "not-watched", Text: "packets' ways could not be watched: the plan is made of what the host is",
			Hint: "--for 0 does not ask",
		})
	}
	return all
}

// check watches briefly whether packets leave by the planned queues: another program or filter, or a driver that
// chooses queues itself, may interfere.
func (s *steering) check(ctx context.Context) ([]outcome.Warning, error) {
	if !slices.ContainsFunc(s.planned.Groups, func(g queuepath.Steered) bool { return g.Means != queuepath.AsItIs }) {
		return nil, nil
	}
	seen, err := trace.Watch(ctx, trace.Config{For: min(s.For, time.Second), Host: s.host})
	if err != nil {
		return []outcome.Warning{notVerified(err.Error())}, nil
	}
	return steeredCaveats(seen, s.planned), nil
}

// steeredCaveats warns about lanes that leave by other queues than planned, or that this could not be observed.
func steeredCaveats(o *queuepath.Observation, planned *queuepath.Steering) []outcome.Warning {
	if !o.Joined() {
		return []outcome.Warning{notVerified("this kernel tells only what each queue carries")}
	}
	var warnings []outcome.Warning
	if o.Lost.Rows > 0 {
		warnings = append(warnings, notVerified("there was no room to count all packets"))
	}
	for _, text := range queuepath.Astray(o, planned) {
		warnings = append(warnings, outcome.Warning{
			Code: "astray",
			Text: text,
			Hint: "see what else chooses: 'tc filter show dev TAP ingress', 'bpftool net', the NIC's driver; " +
				"mpps path shows the lanes, mpps rollback undoes",
		})
	}
	return warnings
}

func notVerified(why string) outcome.Warning {
	return outcome.Warning{
		Code: "not-watched", Text: "whether lanes come out where they were planned could not be watched: " + why,
		Hint: "the NIC's counters by queue tell: ethtool -S",
	}
}
