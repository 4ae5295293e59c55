package tune

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"
)

// wholeTitle is the title of the whole plan as one candidate.
const wholeTitle = "the whole plan: everything that is planned for the goal, at once"

// nextGroup returns the next group of candidates to try as one: first everything that is planned, and if that is not
// kept, what is planned of each stage. What is left after that is tried one by one.
func (l *loop) nextGroup(all []Candidate) (Candidate, expectation, bool) {
	open := func(c Candidate) bool {
		_, tried := l.tried[c.Key]
		return c.Planned && c.Needs.IsZero() && !tried
	}
	if !l.grouped {
		l.grouped, l.groups = true, [][]Candidate{slices.Clone(all)}
	}
	for len(l.groups) > 0 {
		first := !l.wholeTried
		group := slices.DeleteFunc(l.groups[0], func(c Candidate) bool {
			return !open(c) || !slices.ContainsFunc(all, hasKey(c.Key))
		})
		l.groups, l.wholeTried = l.groups[1:], true
		if len(group) < 2 {
			continue
		}
		e := expectation{log: usual, reason: []string{"the planned changes of one stage, as one"}}
		c := l.combine(group...)
		if first {
			c.Title, e.reason = wholeTitle, []string{"what is known to help is tried first, as one"}
		}
		for _, part := range group {
			e.chance = max(e.chance, expect(part, l.diagnosis, l.named, l.Learned, l.Class).chance)
		}
		return c, e, true
	}
	return Candidate{}, expectation{}, false
}

// splitGroup queues what to try instead of a group that was not kept: without what the host refuses, or by stage.
func (l *loop) splitGroup(ctx context.Context, c Candidate) error {
	parts, whole := l.parts(c), len(l.groups) == 0 && !l.split
	if !whole {
		return nil
	}
	if l.tried[c.Key].outcome == Refused && !l.sieved {
		l.sieved = true
		accepted, err := l.sieve(ctx, parts)
		l.groups, l.wholeTried = [][]Candidate{accepted}, false
		return err
	}
	l.split = true
	byStage := map[string][]Candidate{}
	score := map[string]float64{}
	var stages []string
	for _, part := range parts {
		if byStage[part.Stage] == nil {
			stages = append(stages, part.Stage)
		}
		byStage[part.Stage] = append(byStage[part.Stage], part)
		score[part.Stage] += l.worth(part)
	}
	if len(stages) < 2 {
		return nil
	}
	slices.SortStableFunc(stages, func(a, b string) int { return cmp.Compare(score[b], score[a]) })
	for _, stage := range stages {
		l.groups = append(l.groups, byStage[stage])
	}
	return nil
}

// sieve returns the candidates that the host accepts, and records the others as refused. It measures nothing.
func (l *loop) sieve(ctx context.Context, parts []Candidate) ([]Candidate, error) {
	if l.spent() {
		return nil, nil
	}
	l.Progress(Progress{What: "which changes of the plan the host accepts", Rate: l.lastRate})
	switch err := l.host.Try(ctx, l.combine(parts...)); {
	case err == nil:
		return parts, l.host.Back(ctx)
	case !errors.Is(err, ErrRefused):
		return nil, err
	case len(parts) == 1:
		a := l.newAttempt(parts[0], len(l.result.Attempts), 0, "the whole plan was refused, because of it")
		a.Outcome, a.Why = Refused, err.Error()
		l.describe(l.compare(l.MinEffect, false), &a)
		l.result.Attempts = append(l.result.Attempts, a)
		l.tried[a.Key] = history{times: 1, outcome: Refused}
		return nil, nil
	}
	half := (len(parts) + 1) / 2
	first, err := l.sieve(ctx, parts[:half])
	if err != nil {
		return nil, err
	}
	second, err := l.sieve(ctx, parts[half:])
	return slices.Concat(first, second), err
}

// worth is the expected gain of a candidate for the time and the risk that it costs.
func (l *loop) worth(c Candidate) float64 {
	return expect(c, l.diagnosis, l.named, l.Learned, l.Class).score / l.relativeTime(c)
}

// relativeTime is the time of a pair with a candidate, in pairs of a change that takes no time.
func (l *loop) relativeTime(c Candidate) float64 {
	if l.trialTook <= 0 {
		return 1
	}
	changing := time.Duration(changesPerPair * float64(len(c.Changes)) * float64(l.changeTook))
	return 1 + changing.Seconds()/(2*l.trialTook.Seconds())
}

// nothingLost bounds what all parts dropped as useless may have gained together, as the log of a ratio.
const nothingLost = 0.004

// refine measures halves of what was kept as one, the least promising first. It drops a half that costs or gains
// nothing, and halves the others again until each part is known. Parts that no time is left for stay: the whole is
// proven.
func (l *loop) refine(ctx context.Context, parts []Candidate) error {
	sorted := slices.Clone(parts)
	slices.SortStableFunc(sorted, func(a, b Candidate) int { return cmp.Compare(l.worth(b), l.worth(a)) })
	kept := len(l.kept)
	if err := l.refineHalves(ctx, sorted); err != nil {
		return err
	}
	err := l.install(ctx, l.kept)
	if errors.Is(err, ErrRefused) { // the rest does not work without the parts that were dropped: drop all of it
		for _, c := range parts {
			if slices.ContainsFunc(l.kept, hasKey(c.Key)) {
				l.drop(c, "what is left of them was refused")
			}
		}
		err = l.install(ctx, l.kept)
	}
	if err != nil || len(l.kept) == kept || l.spent() {
		return err
	}
	now, err := l.sample(ctx, 1, l.byLoss)
	if err != nil {
		return err
	}
	l.lastRate = now.received
	if err := l.diagnose(ctx); err != nil {
		return err
	}
	l.met = false
	return l.checkTarget(ctx)
}

func (l *loop) refineHalves(ctx context.Context, parts []Candidate) error {
	if len(parts) < 2 {
		return nil
	}
	half := (len(parts) + 1) / 2
	for _, group := range [][]Candidate{parts[half:], parts[:half]} {
		if l.spent() {
			l.result.Verdict = OutOfBudget
			return nil
		}
		if len(group) < len(l.kept) {
			if err := l.remeasure(ctx, l.combine(group...)); err != nil {
				return err
			}
		}
		if !slices.ContainsFunc(l.kept, hasKey(group[0].Key)) {
			continue
		}
		if err := l.refineHalves(ctx, group); err != nil {
			return err
		}
	}
	return nil
}

// useless reports whether the pairs show a gain below the least that counts, and dropping it with all that was dropped
// so far loses next to nothing.
func (l *loop) useless(m *comparison) bool {
	if m.score.Pairs() < minPairs {
		return false
	}
	most, log := m.score.AtMost(1/wholeAlpha), max(0, math.Log(m.score.Ratio()))
	if m.byLoss {
		return most > 0 && most <= 1+lossEffect
	}
	return most > 0 && most <= 1+l.MinEffect && l.takenOut+log <= nothingLost
}
