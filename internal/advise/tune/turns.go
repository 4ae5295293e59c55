package tune

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// comparison is the pairs of one attempt so far.
type comparison struct {
	rates  *track // of received rates
	score  *track // that decides: of rates, or of losses if byLoss
	byLoss bool
	short  int // pairs that do not count, because a trial sent less than the load
}

// track is the bet on one value of the pairs, and the noise of that value.
type track struct {
	Bet
	noise         *Noise
	value         func(trial) float64
	before, after trial // of the pair before
}

// add adds a pair, and to the noise the distances between its trials and those of the pair before.
func (k *track) add(before, after trial) {
	k.Add(k.value(before), k.value(after), k.noise.Scale())
	if k.before.load == before.load && k.before.length == before.length {
		k.noise.Add(k.value(k.before), k.value(before))
		k.noise.Add(k.value(k.after), k.value(after))
	}
	k.before, k.after = before, after
}

// leastLost is added to every loss: a difference of ten packets in a million means nothing.
const leastLost = 1e-5

// lossEffect is the least relative drop of the loss that counts when losses are compared.
const lossEffect = 0.1

func receivedRate(t trial) float64 { return t.received }

// arrival is a rate for losses: the higher, the less is lost.
func arrival(t trial) float64 { return 1 / (t.loss() + leastLost) }

// compare begins a comparison for gains of a least size, relative.
func (l *loop) compare(least float64, byLoss bool) *comparison {
	m := &comparison{byLoss: byLoss}
	m.rates = &track{Bet: Bet{Least: least}, noise: &l.rateNoise, value: receivedRate}
	if m.score = m.rates; byLoss {
		m.score = &track{noise: &l.lossNoise, value: arrival}
		if least > 0 {
			m.score.Least = lossEffect
		}
	}
	return m
}

// worse says how the trial with the change did in a pair that it lost.
func (m *comparison) worse() string {
	if m.byLoss {
		return "with more loss"
	}
	return "slower"
}

// add adds a pair. At the same load less loss means more packets, so betting on losses is the same bet on another
// scale.
func (m *comparison) add(before, after trial) {
	m.rates.add(before, after)
	if m.byLoss {
		m.score.add(before, after)
	}
}

// measure takes pairs of trials until decide has an outcome. The candidate is in force afterwards only if it is Kept.
func (l *loop) measure(ctx context.Context, c Candidate, a *Attempt, byLoss bool) error {
	m := l.compare(l.MinEffect, byLoss)
	return l.measureBy(ctx, c, a, m, func() bool { return l.decide(m, a) })
}

// measureBy is measure with another rule for when the pairs are enough.
func (l *loop) measureBy(ctx context.Context, c Candidate, a *Attempt, m *comparison, enough func() bool) error {
	err := l.runPairs(ctx, c, a, m, enough)
	l.describe(m, a)
	switch {
	case errors.Is(err, ErrRefused):
		a.Outcome, a.Why = Refused, err.Error()
		return nil
	case err != nil:
		a.Outcome, a.Why = Cut, "it was ended early and taken back"
		return err
	case a.Outcome == Kept:
		return nil
	}
	return l.host.Back(ctx)
}

// runPairs measures pairs until enough returns true. Afterwards a Kept candidate is in force; another one may be.
func (l *loop) runPairs(ctx context.Context, c Candidate, a *Attempt, m *comparison, enough func() bool) error {
	inForce := false
	var changing, between time.Duration // of all changes so far; of all pairs so far, without their trials
	changes := 0
	switchTo := func(after bool) (err error) {
		if after == inForce {
			return nil
		}
		began := l.Now()
		if after {
			err = l.host.Try(ctx, c)
		} else {
			err = l.host.Back(ctx)
		}
		changing, changes = changing+l.Now().Sub(began), changes+1
		l.changeTook = changing / time.Duration(changes*max(1, len(c.Changes)))
		if err == nil {
			inForce = after
		}
		return err
	}
	load := l.load
	for pairs := 0; ; pairs++ {
		began := l.Now()
		pair := Pair{AfterFirst: l.rng.IntN(2) == 1, Length: l.length(between, pairs)}
		var before, after trial
		for _, changed := range []bool{pair.AfterFirst, !pair.AfterFirst} {
			l.Progress(Progress{What: "try", Attempt: a, Rate: l.lastRate})
			if err := switchTo(changed); err != nil {
				return err
			}
			t, err := l.sample(ctx, pair.Length, m.byLoss)
			if err != nil {
				return err
			}
			if changed {
				after = t
			} else {
				before = t
			}
		}
		pair.Before, pair.After = before.received, after.received
		pair.SentBefore, pair.SentAfter = before.sent, after.sent
		l.warnOfLate(before, after)
		if pair.Short = l.short(before) || l.short(after); pair.Short {
			if m.short++; m.short > 1 { // one late trial says nothing
				l.load = slower * min(before.sent, after.sent)
			}
		} else {
			m.add(before, after)
		}
		a.Gain.Pairs = append(a.Gain.Pairs, pair)
		took := l.Now().Sub(began)
		between += max(0, took-2*l.Trial*time.Duration(pair.Length))
		l.pairTook = max(l.pairTook, took)
		if enough() {
			break
		}
	}
	if last := medianAfter(a.Gain.Pairs); a.Outcome == Kept && !math.IsNaN(last) {
		l.lastRate = last
	}
	if l.load != load && l.load < room*l.lastRate { // the candidate slowed the generator; the load was not too high
		l.load = load
	}
	l.result.Method.LoadPPS = l.load
	if a.Outcome == Kept {
		return switchTo(true)
	}
	return nil
}

// changesPerPair is one change within a pair, and one between every other two.
const changesPerPair = 1.5

const (
	measuredShare = 0.8             // wanted share of trials in the time of a comparison
	longestTrial  = 4 * time.Second // even if that share is not reached
)

// length returns the length of the trials of the next pair, as a multiple of the usual one. Many short pairs tell more
// than a few long ones, so it is the shortest length at which trials take measuredShare of the time, given what changes
// and overhead took in the pairs so far (between). Both sides get the same length, so that a change that does nothing
// wins as often as it loses.
func (l *loop) length(between time.Duration, pairs int) int {
	if pairs == 0 || l.Trial <= 0 {
		return 1
	}
	perTrial := between.Seconds() / float64(2*pairs)
	wanted := perTrial * measuredShare / (1 - measuredShare) / l.Trial.Seconds()
	most := max(1, longestTrial.Seconds()/l.Trial.Seconds())
	return int(math.Ceil(min(max(wanted, 1), most)))
}

// Bounds of the sent rate. A pair does not count if a trial sent less than sentEnough of the load and all of that
// arrived: the change may free or starve the generator instead of the path. The next pairs use a load that both sides
// can send, slower times the lower sent rate. That load stays if it is at least room times the received rate.
const (
	sentEnough = 0.97
	slower     = 0.99
	room       = 1.02
	maxShort   = 6 // pairs of a candidate that do not count
)

// short reports whether the generator was the limit: it was late, and the path does not run on its CPU.
func (l *loop) short(t trial) bool { return t.late() && !l.backpressure }

// late reports whether less than the load was sent, and nearly all of it arrived. If packets were lost, the path was
// overloaded, however little was sent.
func (t trial) late() bool {
	return t.sent > 0 && t.sent < sentEnough*t.load && t.loss() < 1-sentEnough
}

// warnOfLate says once that trials count although the generator was late.
func (l *loop) warnOfLate(trials ...trial) {
	const code = "generator-late"
	known := slices.ContainsFunc(l.result.Warnings, func(w Warning) bool { return w.Code == code })
	if known || !l.backpressure || !slices.ContainsFunc(trials, trial.late) {
		return
	}
	l.result.Warnings = append(l.result.Warnings, Warning{Code: code, Text: "the generator sent less than it was " +
		"asked for. A part of the path runs on its CPU and the host was held responsible: what makes sending cheaper " +
		"counts as a gain too"})
}

// littleLeft reports whether what a change could still gain is not worth more pairs.
func (m *comparison) littleLeft() bool {
	most := m.score.AtMost(futileEValue)
	return !m.byLoss && most > 0 && most <= littleLeft
}

// atMost is the upper bound of the gain in words; empty if the pairs do not bound it, or if losses are compared.
func (m *comparison) atMost() string {
	if m.byLoss {
		return ""
	}
	return atMost(m.score.AtMost(futileEValue))
}

func atMost(ratio float64) string {
	if ratio == 0 {
		return ""
	}
	return fmt.Sprintf("; its gain is at most ×%.3g", ratio)
}

// Bounds of the test of one candidate.
const (
	littleLeft   = 1.04 // a test of at least patience pairs ends once the ratio is known to be no higher
	futileEValue = 8    // of the bet against a gain that ends the test; so low, it can miss a gain, never make one up
	minPairs     = 3    // before any outcome but Kept
	hurtPairs    = 5    // slower in all of at least so many: it hurts; 1 in 32 that do nothing is, by chance
	patience     = 10   // pairs after which an e-value below 0.3 ends the test
)

// longer returns a number of pairs for the usual length of trials, given the one for trials of a second.
func (o Options) longer(pairs int) int {
	if o.Trial <= 0 || o.Trial >= time.Second {
		return pairs
	}
	return int(time.Duration(pairs) * time.Second / o.Trial)
}

// decide sets the outcome of an attempt once its pairs are enough, and reports whether they are.
func (l *loop) decide(m *comparison, a *Attempt) bool {
	test := m.score
	a.Evidence = test.Gain()
	n := test.Pairs()
	hurts := n > 0 && test.Slower() == n && test.Ratio() < 1-test.Least
	switch {
	case a.Evidence >= a.Needed:
		a.Outcome = Kept
	case m.short >= maxShort:
		a.Outcome = NotShown
	case n < minPairs || n < hurtPairs && hurts:
		return false
	case hurts:
		a.Outcome = Hurts
	case test.Futile() >= futileEValue:
		a.Outcome = Useless
	case n >= l.longer(patience) && a.Evidence < 0.3, n >= patience && m.littleLeft(),
		test.Reach(l.MaxPairs) < a.Needed:
		a.Outcome = NotShown
	case l.spent():
		a.Outcome = Cut
		l.result.Verdict = OutOfBudget
	default:
		return false
	}
	return true
}

// describe fills in the gain of an attempt and the sentence for its outcome.
func (l *loop) describe(m *comparison, a *Attempt) {
	g := &a.Gain
	g.Unit, g.Level = "packets/s", 0.95
	if g.Pairs == nil {
		g.Pairs = []Pair{}
	}
	g.Ratio = m.rates.Ratio()
	g.Lo, g.Hi = m.rates.Interval(g.Level)
	g.AtLeast = l.load > 0 && !m.byLoss && g.Ratio > 1 && medianAfter(g.Pairs) > 0.97*l.load
	if m.byLoss && m.score.Pairs() > 0 {
		g.Lost = &Lost{
			Before: medianOver(g.Pairs, func(p Pair) float64 { return lossOf(l.load, p.Before, p.SentBefore) }),
			After:  medianOver(g.Pairs, func(p Pair) float64 { return lossOf(l.load, p.After, p.SentAfter) }),
		}
	}
	n, least := m.score.Pairs(), fmt.Sprintf("%.3g %%", 100*l.MinEffect)
	if m.byLoss {
		least = fmt.Sprintf("a loss less by %.3g %%", 100*lossEffect)
	}
	switch a.Outcome {
	case Kept:
		a.Why = fmt.Sprintf("%s in %d pairs; e-value %.0f, %.0f needed", g, n, a.Evidence, a.Needed)
	case Hurts:
		a.Why = fmt.Sprintf("%s in all %d pairs: %s", m.worse(), n, g)
	case Useless:
		a.Why = fmt.Sprintf("no gain of %s or more in %d pairs, %d of them %s: %s%s", least, n, m.score.Slower(),
			m.worse(), g, m.atMost())
	case Cut:
		a.Why = fmt.Sprintf("the budget was spent after %d pairs: %s", n, g)
	case NotShown:
		a.Why = fmt.Sprintf("%s could not be distinguished from chance in %d pairs%s", g, n, m.atMost())
		if m.short >= maxShort {
			a.Why = fmt.Sprintf("less than %.0f %% of the load was sent in %d of %d pairs: the generator may be what "+
				"it frees or holds back", 100*sentEnough, m.short, len(g.Pairs))
		}
	}
}

// String is the gain in words.
func (g Gain) String() string {
	if g.Ratio == 0 {
		return "not measured"
	}
	if g.Lost != nil {
		return fmt.Sprintf("loss %.3g %% → %.3g %%", 100*g.Lost.Before, 100*g.Lost.After)
	}
	bound := func(v float64) string {
		if v == 0 {
			return "…"
		}
		return fmt.Sprintf("%.3g", v)
	}
	most := ""
	if g.AtLeast {
		most = " or more"
	}
	if g.Lo == 0 && g.Hi == 0 { // not in turns, or too few pairs
		return fmt.Sprintf("×%.3g%s", g.Ratio, most)
	}
	return fmt.Sprintf("×%.3g%s [%s, %s]", g.Ratio, most, bound(g.Lo), bound(g.Hi))
}

// medianOver is the median of a value over the pairs that count, or NaN without any.
func medianOver(pairs []Pair, value func(Pair) float64) float64 {
	var values []float64
	for _, p := range pairs {
		if !p.Short {
			values = append(values, value(p))
		}
	}
	return median(values)
}

// medianAfter is the median received rate with the change.
func medianAfter(pairs []Pair) float64 {
	return medianOver(pairs, func(p Pair) float64 { return p.After })
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
