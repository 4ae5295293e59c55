package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"mpps/internal/facts"
	"mpps/internal/queuepath"
	"mpps/internal/queuepath/trace"
	"mpps/internal/report"
)

// watchToSteer watches packets; nil where that is not asked for, or not possible: then what the host is has to do.
func (a *app) watchToSteer(ctx context.Context, interval time.Duration, h *facts.Host) (*queuepath.Observation, error) {
	if interval == 0 || a.root != "/" {
		return nil, nil
	}
	seen, err := trace.Watch(ctx, trace.Config{For: interval, Host: h, Progress: func(done time.Duration) {
		a.out.Progress("watching queues: %.0f of %.0f s", done.Seconds(), interval.Seconds())
	}})
	switch {
	case ctx.Err() != nil:
		return nil, errors.Join(context.Cause(ctx), err)
	case err != nil:
		a.notes = append(a.notes, report.Warning{
			Code: "not-watched", Text: "packets could not be watched: " + err.Error(), Hint: "the plan is made of what the host is; --for 0 does not ask",
		})
		return nil, nil
	}
	a.notes = append(a.notes, steerCaveats(seen)...)
	return seen, nil
}

// steerCaveats are what must be known of what a plan is made from: where packets' ways were not seen it is made of what the host is, and where
// part of them was not, of the rest. Waits for locks decide nothing here.
func steerCaveats(o *queuepath.Observation) []report.Warning {
	some := *o
	some.Unseen = slices.DeleteFunc(slices.Clone(o.Unseen), func(u queuepath.Unseen) bool {
		return u.Blind == queuepath.BlindLocks || u.Blind == queuepath.BlindFirst
	})
	all := pathCaveats(&some)
	if !o.Joined() {
		all = append(all, report.Warning{Code: "not-watched", Text: "packets' ways could not be watched: the plan is made of what the host is", Hint: "--for 0 does not ask"})
	}
	return all
}

// watchSteered looks for a moment whether lanes come out where they were planned: somebody else's program or filter, or a driver that chooses
// queues itself, may come in between.
func (a *app) watchSteered(ctx context.Context, interval time.Duration, h *facts.Host, planned *queuepath.Steering) ([]report.Warning, error) {
	if planned == nil || !slices.ContainsFunc(planned.Groups, func(g queuepath.Steered) bool { return g.Means != queuepath.AsItIs }) {
		return nil, nil
	}
	seen, err := trace.Watch(ctx, trace.Config{For: min(interval, time.Second), Host: h})
	if err != nil {
		return []report.Warning{notSeenAfter(err.Error())}, nil
	}
	return steeredCaveats(seen, planned), nil
}

// steeredCaveats are what is told of a look at lanes that were steered: those that go astray, and where none could be followed that nobody knows.
func steeredCaveats(o *queuepath.Observation, planned *queuepath.Steering) []report.Warning {
	if !o.Joined() {
		return []report.Warning{notSeenAfter("this kernel tells only what each queue carries")}
	}
	var warnings []report.Warning
	if o.Lost.Rows > 0 {
		warnings = append(warnings, notSeenAfter("there was no room to count all packets"))
	}
	for _, text := range queuepath.Astray(o, planned) {
		warnings = append(warnings, report.Warning{
			Code: "astray", Text: text, Hint: "see what else chooses: 'tc filter show dev TAP ingress', 'bpftool net', the NIC's driver; mpps path shows the lanes, mpps rollback undoes",
		})
	}
	return warnings
}

func notSeenAfter(why string) report.Warning {
	return report.Warning{Code: "not-watched", Text: "whether lanes come out where they were planned could not be watched: " + why, Hint: "the NIC's counters by queue tell: ethtool -S"}
}
