package tune

import (
	"context"
	"fmt"
	"slices"
	"time"

	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// RestartSamples takes restartTrials trials of a second or more at a load, to be compared across a restart, given the
// usual length of a trial; after minPairs of them it stops once enough returns true. It returns the packets per second
// that arrived in each.
func RestartSamples(ctx context.Context, h Host, pps float64, trial time.Duration, enough func() bool) ([]float64,
	error) {
	length := Options{Trial: trial}.longer(1)
	var samples []float64
	for len(samples) < restartTrials && (len(samples) < minPairs || !enough()) {
		v, err := h.Sample(ctx, pps, length, false)
		if err != nil {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		samples = append(samples, v)
	}
	return samples, nil
}

// restartTrials is the number of trials on each side of a restart.
const restartTrials = 8

// resume takes over what an earlier run found and judges what took effect with the restart. Trials on the two sides of
// a restart cannot alternate, so a gain counts only if the slowest trial after the restart exceeds the fastest one
// before it by the least gain that counts.
func (l *loop) resume(ctx context.Context) error {
	e, r := l.Earlier, l.result
	after, err := RestartSamples(ctx, l.host, e.LoadPPS, l.Trial, l.spent)
	if err != nil {
		return err
	}
	r.Trials += len(after)
	r.Restarted, r.Baseline, r.UndoEarlier, r.Earlier = e.Restart, e.Baseline, e.Undo, e.Gain
	r.Attempts = append(r.Attempts, e.Attempts...)
	a := Attempt{
		N: len(r.Attempts) + 1, Key: e.Restart, IDs: e.Keys, Title: e.Restart, Stage: "guest", Changes: e.Changes,
		Because: []string{"all that needed a " + e.Restart + ", together"},
	}
	for i := range max(1, len(after)) - 1 {
		l.rateNoise.Add(after[i], after[i+1])
	}
	n := min(len(e.Samples), len(after))
	m := l.compare(0, false)
	for i := range n {
		m.rates.Add(e.Samples[i], after[i], m.rates.noise.Scale())
		a.Gain.Pairs = append(a.Gain.Pairs, Pair{Before: e.Samples[i], After: after[i], Length: 1})
	}
	l.describe(m, &a)
	a.Gain.Lo, a.Gain.Hi = 0, 0 // the order was not random
	const apart = "measured before and after the restart, not in turns"
	switch {
	case n == 0:
		a.Outcome, a.Why = NotShown, "nothing was measured before the restart"
		l.offerRollback("restart-not-shown", "was not shown to help")
	case slices.Min(after) > slices.Max(e.Samples)*(1+l.MinEffect):
		a.Outcome, a.Why = Kept, fmt.Sprintf("%s: each of %d trials after it is faster than each before it; %s", a.Gain,
			n, apart)
	case slices.Max(after) < slices.Min(e.Samples)*(1-l.MinEffect):
		a.Outcome, a.Why = Hurts, fmt.Sprintf("%s: each of %d trials after it is slower than each before it; %s",
			a.Gain, n, apart)
		l.offerRollback("restart-hurts", "made it slower")
	default:
		a.Outcome, a.Why = NotShown, fmt.Sprintf("%s: trials before and after it overlap; %s", a.Gain, apart)
		l.offerRollback("restart-not-shown", "was not shown to help")
	}
	r.Attempts = append(r.Attempts, a)
	r.Kept = append(r.Kept, e.Kept...)
	if a.Outcome == Kept {
		r.Kept = append(r.Kept, a.Key)
	}
	l.inherited = slices.Clone(r.Kept)
	return nil
}

// waitFirst ends the run as Waiting if a planned change needs a guest's restart. What only the host's reboot brings
// comes last: it stops all guests.
func (l *loop) waitFirst(ctx context.Context) (bool, error) {
	all, err := l.host.Candidates(ctx)
	if err != nil {
		return false, err
	}
	// What can cut the way to the host is not applied for a restart either.
	if !slices.ContainsFunc(all, func(c Candidate) bool {
		return c.Planned && c.Risk != goal.Connectivity && c.Needs.Kind == setting.GuestRestart
	}) {
		return false, nil
	}
	l.choose(Together(all)) // lists what waits
	l.result.Waits = slices.DeleteFunc(l.result.Waits,
		func(w Wait) bool { return w.needs.Kind != setting.GuestRestart })
	l.restartFirst = true
	l.conclude()
	return true, nil
}

// offerRollback offers the rollback of what took effect with the restart as the next step. The loop cannot do it
// itself: it needs another restart.
func (l *loop) offerRollback(code, what string) {
	e := l.Earlier
	l.result.Advice = append(l.result.Advice,
		Advice{code, fmt.Sprintf("what took effect with the %s %s, and stands: 'mpps rollback %s', then a %s, takes "+
			"it back", e.Restart, what, e.TX, e.Restart)})
	l.undo = &Wait{For: fmt.Sprintf("rollback of %s and a %s", e.TX, e.Restart), Keys: e.Keys, Undo: e.TX}
}
