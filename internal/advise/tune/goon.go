package tune

import (
	"context"
	"fmt"
	"slices"
)

// Ahead measures what a run needs that goes on behind a restart: some trials at the load of the last ones, fewer where
// enough says so.
func Ahead(ctx context.Context, h Host, pps float64, enough func() bool) ([]float64, error) {
	var samples []float64
	for len(samples) < aroundRestart && (len(samples) < fewest || !enough()) {
		v, err := h.Sample(ctx, pps, 1)
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

// aroundRestart is how many trials are taken before a restart and behind it.
const aroundRestart = 8

// goOn judges what took effect with a restart, and takes over what an earlier run found. Before and after could not be
// measured in turns: only where each trial behind the restart is ahead of each before it, by the least gain that
// counts, it counts as one.
func (l *loop) goOn(ctx context.Context) error {
	e, r := l.Earlier, l.result
	after, err := Ahead(ctx, l.host, e.LoadPPS, l.spent)
	if err != nil {
		return err
	}
	r.Trials += len(after)
	r.Restarted, r.Baseline, r.UndoEarlier = e.Restart, e.Baseline, e.Undo
	r.Attempts = append(r.Attempts, e.Attempts...)
	a := Attempt{
		N: len(r.Attempts) + 1, Key: e.Restart, IDs: e.Keys, Title: e.Restart, Stage: "guest", Changes: e.Changes,
		Because: []string{"all that needed a " + e.Restart + ", together"},
	}
	n := min(len(e.Samples), len(after))
	m := l.match(0, false)
	for i := range n {
		m.rates.Add(e.Samples[i], after[i])
		a.Gain.Pairs = append(a.Gain.Pairs, Pair{Before: e.Samples[i], After: after[i], Length: 1})
	}
	l.describe(m, &a)
	a.Gain.Lo, a.Gain.Hi = 0, 0 // no lot decided their order
	const apart = "measured before and behind the restart, not in turns"
	switch {
	case n == 0:
		a.Outcome, a.Why = NotShown, "nothing was measured before the restart"
		l.unproven("restart-not-shown", "was not shown to help")
	case slices.Min(after) > slices.Max(e.Samples)*(1+l.MinEffect):
		a.Outcome, a.Why = Kept, fmt.Sprintf("%s: each of %d trials behind it is ahead of each before it; %s", a.Gain,
			n, apart)
	case slices.Max(after) < slices.Min(e.Samples)*(1-l.MinEffect):
		a.Outcome, a.Why = Hurts, fmt.Sprintf("%s: each of %d trials behind it is slower than each before it; %s",
			a.Gain, n, apart)
		l.unproven("restart-hurts", "made it slower")
	default:
		a.Outcome, a.Why = NotShown, fmt.Sprintf("%s: trials before and behind it overlap; %s", a.Gain, apart)
		l.unproven("restart-not-shown", "was not shown to help")
	}
	r.Attempts = append(r.Attempts, a)
	r.Kept = append(r.Kept, e.Kept...)
	if a.Outcome == Kept {
		r.Kept = append(r.Kept, a.Key)
	}
	l.stood = slices.Clone(r.Kept)
	return nil
}

// unproven offers as the next step to take back what took effect with the restart. The loop cannot do so: it takes
// another restart.
func (l *loop) unproven(code, what string) {
	e := l.Earlier
	l.result.Advice = append(l.result.Advice,
		Advice{code, fmt.Sprintf("what took effect with the %s %s, and stands: 'mpps rollback %s', then a %s, takes "+
			"it back", e.Restart, what, e.TX, e.Restart)})
	l.undo = &Wait{For: fmt.Sprintf("rollback of %s and a %s", e.TX, e.Restart), Keys: e.Keys, Undo: e.TX}
}
