package tune

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"mpps/internal/goal"
)

// wholeAlpha is the chance that the proof of the whole passes what does nothing. It is on fresh pairs, so that a run keeps
// something on a host where nothing helps with a chance of no more than the product of both.
const wholeAlpha = 0.05 // both ways together: 0.025 for a gain

// finish proves what was kept against the beginning, in turns and by a last search, and keeps or undoes it as a whole.
func (l *loop) finish(ctx context.Context) error {
	r := l.result
	for i := range r.Untried {
		r.Untried[i].Why = map[bool]string{true: "the target holds without it", false: "the budget was spent"}[l.target]
	}
	if len(l.kept) == 0 {
		l.conclude()
		return nil
	}
	if err := l.revisit(ctx); err != nil {
		return err
	}
	if err := l.whole(ctx); err != nil {
		return err
	}
	if len(l.kept) == 0 {
		l.conclude()
		return nil
	}
	l.Progress(Progress{What: "final", Rate: l.last})
	final, err := l.search(ctx)
	if err != nil {
		return err
	}
	final.Loaded = l.last
	if r.After, err = l.host.Diagnose(ctx, l.load); err != nil {
		return err
	}
	l.state = r.After
	if final.UpperPPS != nil && *final.UpperPPS < l.found.PPS {
		if err := l.host.Begin(ctx); err != nil {
			return err
		}
		l.overcome(fmt.Sprintf("the last search found %s where the first had found %s", rate(final.PPS), rate(l.found.PPS)))
		l.conclude()
		return nil
	}
	r.Final = final
	if l.Propose {
		if err := l.host.Begin(ctx); err != nil {
			return err
		}
	}
	l.conclude()
	return nil
}

// whole measures everything that was kept against the beginning, on fresh pairs. In the end it stands, or nothing does.
func (l *loop) whole(ctx context.Context) error {
	if err := l.host.Begin(ctx); err != nil {
		return err
	}
	c, err := l.host.Whole(ctx, l.kept)
	if err != nil {
		return err
	}
	l.Budget = 0 // what follows has the rest of it
	l.Progress(Progress{What: "whole", Rate: l.last})
	a := Attempt{Key: c.Key, Title: "everything that was kept", Needed: 2 / wholeAlpha}
	if err := l.measure(ctx, c, &a); err != nil {
		return err
	}
	l.result.Whole = a.Gain
	if a.Outcome != Kept {
		l.overcome("all that was kept, measured anew against the beginning: " + a.Why)
		return nil
	}
	return l.host.Keep(ctx)
}

// overcome takes back in the result what was taken back on the host.
func (l *loop) overcome(why string) {
	l.undone()
	l.result.Warnings = append(l.result.Warnings, Warning{
		Code: "not-confirmed", Text: "what was kept did not stand the proof of the whole and was undone: " + why,
		Hint: "run it again with less else going on, or with longer trials",
	})
}

func (l *loop) undone() {
	l.result.Kept, l.kept, l.target = []string{}, nil, false
	for i := range l.result.Attempts {
		if a := &l.result.Attempts[i]; a.Outcome == Kept && !slices.Contains(l.stood, a.Key) {
			a.Outcome = Overcome
		}
	}
	l.result.Kept = append(l.result.Kept, l.stood...)
	l.result.Final = l.found
}

// baselineVerdict tells where there is nothing to do.
func (l *loop) baselineVerdict() {
	r := l.result
	b := r.Final
	switch {
	case l.reached(b.PPS) && l.Earlier != nil:
		l.conclude()
	case l.reached(b.PPS) && l.reached(l.last):
		r.Verdict = Good
		r.Why = fmt.Sprintf("the host is good: it carries %s packets/s, %s were asked for, and a trial at %s let %s through; nothing was changed", rate(b.PPS), rate(l.Goal.PPS), rate(l.load), rate(l.last))
	case b.LimitedBy == "generator" || b.LimitedBy == "receiver":
		r.Verdict = NotDevice
		r.Why = fmt.Sprintf("the %s is the limit at %s packets/s, not the host: no change of the host could be seen; nothing was changed", b.LimitedBy, rate(b.PPS))
	}
}

// conclude words the verdict.
func (l *loop) conclude() {
	r := l.result
	for _, c := range l.kept {
		r.Added = append(r.Added, c.Key)
	}
	from, to := r.Baseline.PPS, r.Final.PPS
	if from == 0 || to == 0 { // no rate is without loss
		from, to = r.Baseline.Loaded, r.Final.Loaded
	}
	change := fmt.Sprintf("%s → %s packets/s (×%.3g)", rate(from), rate(to), ratioOf(to, from))
	missed := ""
	if l.Goal.PPS > 0 {
		missed = fmt.Sprintf(", %s were asked for", rate(l.Goal.PPS))
	}
	switch {
	case (len(r.Kept) > 0 || l.Earlier != nil) && l.reached(r.Final.PPS):
		r.Verdict, r.Why = Met, fmt.Sprintf("the target holds: %s with %s", change, counted(len(r.Kept), "change"))
	case r.Verdict == OutOfBudget && len(r.Kept) > 0:
		r.Why = fmt.Sprintf("the budget is spent: %s with %s%s; %s not tried", change, counted(len(r.Kept), "change"), missed, counted(len(r.Untried), "candidate"))
	case r.Verdict == OutOfBudget:
		r.Why = fmt.Sprintf("the budget is spent and nothing was shown to help: %s packets/s%s; %s not tried", rate(from), missed, counted(len(r.Untried), "candidate"))
	case len(r.Waits) > 0:
		r.Verdict = Waiting
		r.Why = fmt.Sprintf("what is left needs a %s: so far %s%s", r.Waits[0].For, change, missed)
	case len(r.Kept) > 0:
		r.Verdict, r.Why = Better, fmt.Sprintf("nothing is left to try: %s with %s%s", change, counted(len(r.Kept), "change"), missed)
	default:
		r.Verdict = NoGain
		r.Why = fmt.Sprintf("nothing helps: %s tried, none kept; %s packets/s%s", counted(len(r.Attempts), "candidate"), rate(from), missed)
	}
	if r.Verdict != Met && r.Verdict != Good {
		r.Advice = append(r.Advice, l.host.Advise(r, l.state)...)
	}
}

func ratioOf(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func rate(pps float64) string { return goal.FormatRate(pps) }

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Bounds of revisit: gains of this ratio and more are taken to last, and so many changes are looked at again by so many pairs.
const (
	lastingRatio   = 1.15
	mostRevisited  = 3
	revisitedPairs = 16
)

// revisit measures anew, on top of all others, what was kept for a small gain while another bottleneck held the path back, and the two of a pair:
// what paid there may cost since. What is not the faster with it is taken out.
func (l *loop) revisit(ctx context.Context) error {
	limit, n := l.limit(), 0
	for _, c := range slices.Clone(l.kept) {
		h := l.held[c.Key]
		lasts := h.outcome == Kept && (h.limit == limit || h.ratio >= lastingRatio) // not one of a pair
		if len(l.kept) < 2 || n == mostRevisited || lasts || l.spent() {
			continue
		}
		n++
		if err := l.again(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// again measures one kept candidate on top of the others and takes it out where these are no slower without it.
func (l *loop) again(ctx context.Context, c Candidate) error {
	others := slices.DeleteFunc(slices.Clone(l.kept), func(o Candidate) bool { return o.Key == c.Key })
	whole, err := l.host.Whole(ctx, others)
	if err != nil {
		return err
	}
	if err := errors.Join(l.host.Begin(ctx), l.host.Try(ctx, whole)); err != nil {
		return err
	}
	if err := l.host.Keep(ctx); err != nil {
		return err
	}
	test, a := &Sign{}, Attempt{Key: c.Key, Needed: 2 / wholeAlpha}
	err = l.measureBy(ctx, c, &a, test, func() bool {
		n := test.Pairs()
		switch {
		case n >= fewest && test.Slower() == n && test.Ratio() < 1-l.MinEffect, test.Futile() >= 1/wholeAlpha:
			a.Outcome = Hurts
			return true
		case test.Gain() >= 1/wholeAlpha, n >= revisitedPairs && test.Ratio() >= 1:
			a.Outcome = Kept
			return true
		case n >= revisitedPairs:
			a.Outcome = Useless
			return true
		}
		return false
	})
	if err != nil || a.Outcome == Kept {
		return errors.Join(err, l.host.Keep(ctx))
	}
	for i := range l.result.Attempts {
		t := &l.result.Attempts[i]
		if two, is := l.twos[t.Key]; t.Outcome == Kept && t.Key == c.Key {
			t.Outcome = Overcome
			t.Why += "; beside what was kept later it costs: " + a.Gain.String()
		} else if is && t.Outcome == Kept && (two[0].Key == c.Key || two[1].Key == c.Key) {
			t.Why += fmt.Sprintf("; of the two %s costs (%s) and was taken out", c.Key, a.Gain)
		}
	}
	l.kept = others
	l.result.Kept = slices.DeleteFunc(l.result.Kept, func(key string) bool { return key == c.Key })
	return nil
}
