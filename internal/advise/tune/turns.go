package tune

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// match is a comparison under way.
type match struct {
	rates  *Sign // of what came through
	score  *Sign // that is bet on: the rates, or by how much less is lost
	byLoss bool
	short  int // pairs that do not count, since less was sent than the load
}

// leastLost is the share of packets that is added to what is lost: ten in a million more or less are no difference.
const leastLost = 1e-5

// lossEffect is the least fall of the loss that counts, where the loss is what keeps the target from being reached.
const lossEffect = 0.1

// match begins a comparison for gains of a least size.
func (l *loop) match(least float64, byLoss bool) *match {
	m := &match{rates: &Sign{Least: least}, byLoss: byLoss}
	if m.score = m.rates; byLoss {
		m.score = &Sign{}
		if least > 0 {
			m.score.Least = lossEffect
		}
	}
	return m
}

// add takes a pair in. At one load more comes through where less is lost: it is the same bet, on another scale.
func (m *match) add(before, after trial) {
	m.rates.Add(before.came, after.came)
	if m.byLoss {
		m.score.Add(1/(before.lost()+leastLost), 1/(after.lost()+leastLost))
	}
}

// measure takes pairs of trials until they tell, and takes the candidate back unless it is to be kept.
func (l *loop) measure(ctx context.Context, c Candidate, a *Attempt, byLoss bool) error {
	m := l.match(l.MinEffect, byLoss)
	return l.measureBy(ctx, c, a, m, func() bool { return l.decide(m, a) })
}

// measureBy is measure with another rule for when it is enough.
func (l *loop) measureBy(ctx context.Context, c Candidate, a *Attempt, m *match, enough func() bool) error {
	err := l.turns(ctx, c, a, m, enough)
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

// turns measures pairs until enough says so. In the end the candidate stands where it was kept, and may stand where it
// was not.
func (l *loop) turns(ctx context.Context, c Candidate, a *Attempt, m *match, enough func() bool) error {
	stands := false
	var changing time.Duration // of all changes so far
	changes := 0
	bring := func(after bool) error {
		if after == stands {
			return nil
		}
		began := l.Now()
		defer func() { changing, changes = changing+l.Now().Sub(began), changes+1 }()
		var err error
		if after {
			err = l.host.Try(ctx, c)
		} else {
			err = l.host.Back(ctx)
		}
		if err == nil {
			stands = after
		}
		return err
	}
	load := l.load
	for {
		began := l.Now()
		pair := Pair{AfterFirst: l.lot.IntN(2) == 1, Length: l.length(changing, changes)}
		var before, after trial
		for _, changed := range []bool{pair.AfterFirst, !pair.AfterFirst} {
			l.Progress(Progress{What: "try", Attempt: a, Rate: l.last})
			if err := bring(changed); err != nil {
				return err
			}
			t, err := l.sample(ctx, pair.Length)
			if err != nil {
				return err
			}
			if changed {
				after = t
			} else {
				before = t
			}
		}
		pair.Before, pair.After, pair.SentBefore, pair.SentAfter = before.came, after.came, before.sent, after.sent
		if pair.Short = l.short(before) || l.short(after); pair.Short {
			m.short++
			l.load = slower * min(before.sent, after.sent)
		} else {
			m.add(before, after)
		}
		a.Gain.Pairs = append(a.Gain.Pairs, pair)
		l.pairTook = max(l.pairTook, l.Now().Sub(began))
		if enough() {
			break
		}
	}
	if last := medianOf(a.Gain.Pairs, true); a.Outcome == Kept && !math.IsNaN(last) {
		l.last = last
	}
	if l.load != load && l.load < room*l.last { // the candidate held the generator back: not the load's fault
		l.load = load
	}
	l.result.Method.LoadPPS = l.load
	if a.Outcome == Kept {
		return bring(true)
	}
	return nil
}

// Bounds of the length of trials, in times of the usual one.
const (
	longest        = 8
	changesOfAPair = 1.5 // one within it, and between two of them as often as not
)

// length is how many times the usual length the trials of the next pair are to have, by what changes took so far: where
// making a change, and all that is around a trial, takes much longer than the trial, longer ones cost little and tell
// more. For noise that is partly of the trial and partly of the pair the best length grows with the root of the ratio
// of the two times. Both sides have the same, so that a change which does nothing is as often ahead as behind.
func (l *loop) length(changing time.Duration, changes int) int {
	if changes == 0 || l.Trial <= 0 {
		return 1
	}
	around := changesOfAPair*changing.Seconds()/float64(changes) + 2*max(0, l.trialTook-l.Trial).Seconds()
	return int(min(max(math.Sqrt(around/l.Trial.Seconds()), 1), longest))
}

// Bounds of what is sent. A pair in which less than sentEnough of the load was sent, and came through, does not count:
// it may be the generator that the change frees or starves. The next ones have a load that both sides can be sent,
// slower times the lesser rate; it lasts where it leaves room above what comes through.
const (
	sentEnough = 0.97
	slower     = 0.99
	room       = 1.02
	mostShort  = 6 // pairs of a candidate that do not count
)

// short reports whether the generator sent less than it was asked for and all of it came through, and not because the
// path runs on its CPU and holds it back. Where a part was lost on the way the path had more than it carries, however
// much it was.
func (l *loop) short(t trial) bool {
	return t.sent > 0 && t.sent < sentEnough*t.load && t.lost() < 1-sentEnough && !l.heldBack
}

// futile is the money at which a bet against a candidate ends its test. That it is low costs gains that were not seen,
// never a false one.
const futile = 8

// fewest is how many pairs a candidate gets at the least.
const fewest = 3

// surely is how many pairs a candidate must be slower in, and all of them, to be said to hurt: by chance one in 32 of
// those that do nothing would be.
const surely = 5

// patience is how many pairs a candidate gets before the bet on it must have won something.
const patience = 10

// decide reports whether the pairs are enough, and what follows from them.
func (l *loop) decide(m *match, a *Attempt) bool {
	test := m.score
	a.Evidence = test.Gain()
	n := test.Pairs()
	hurts := n > 0 && test.Slower() == n && test.Ratio() < 1-test.Least
	switch {
	case a.Evidence >= a.Needed:
		a.Outcome = Kept
	case m.short >= mostShort:
		a.Outcome = NotShown
	case n < fewest || n < surely && hurts:
		return false
	case hurts:
		a.Outcome = Hurts
	case test.Futile() >= futile:
		a.Outcome = Useless
	case n >= patience && a.Evidence < 0.3, test.Reach(l.MaxPairs) < a.Needed:
		a.Outcome = NotShown
	case l.spent():
		a.Outcome = Cut
		l.result.Verdict = OutOfBudget
	default:
		return false
	}
	return true
}

// describe fills in what the pairs of an attempt say.
func (l *loop) describe(m *match, a *Attempt) {
	g := &a.Gain
	g.Unit, g.Level = "packets/s", 0.95
	if g.Pairs == nil {
		g.Pairs = []Pair{}
	}
	g.Ratio = m.rates.Ratio()
	g.Lo, g.Hi = m.rates.Interval(g.Level)
	g.AtLeast = l.load > 0 && !m.byLoss && g.Ratio > 1 && medianOf(g.Pairs, true) > 0.97*l.load
	if m.byLoss && m.score.Pairs() > 0 {
		g.Lost = &Lost{Before: lostIn(g.Pairs, false, l.load), After: lostIn(g.Pairs, true, l.load)}
	}
	n, behind := m.score.Pairs(), m.score.Slower()
	least, worse := fmt.Sprintf("%.3g %%", 100*l.MinEffect), "slower"
	if m.byLoss {
		least, worse = fmt.Sprintf("a loss less by %.3g %%", 100*lossEffect), "with more loss"
	}
	switch a.Outcome {
	case Kept:
		a.Why = fmt.Sprintf("%s in %d pairs; e-value %.0f, %.0f needed", g, n,
			a.Evidence, a.Needed)
	case Hurts:
		a.Why = fmt.Sprintf("%s in all %d pairs: %s", worse, n, g)
	case Useless:
		a.Why = fmt.Sprintf("no gain of %s or more in %d pairs, %d of them %s: %s", least, n, behind, worse, g)
	case Cut:
		a.Why = fmt.Sprintf("the budget was spent after %d pairs: %s", n, g)
	case NotShown:
		if a.Why = fmt.Sprintf("%s could not be told from chance in %d pairs", g, n); m.short >= mostShort {
			a.Why = fmt.Sprintf("less than %.0f %% of the load was sent in %d of %d pairs: the generator may be what "+
				"it frees or holds back", 100*sentEnough, m.short, len(g.Pairs))
		}
	}
}

// String is the gain as people read it.
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
	return fmt.Sprintf("×%.3g%s [%s, %s]", g.Ratio, most, bound(g.Lo), bound(g.Hi))
}

// counting are the pairs that count.
func counting(pairs []Pair) []Pair {
	return slices.DeleteFunc(slices.Clone(pairs), func(p Pair) bool { return p.Short })
}

func medianOf(pairs []Pair, after bool) float64 {
	var values []float64
	for _, p := range counting(pairs) {
		if after {
			values = append(values, p.After)
		} else {
			values = append(values, p.Before)
		}
	}
	return median(values)
}

// lostIn is the median share that was lost of what was sent: of the load where that is not known.
func lostIn(pairs []Pair, after bool, load float64) float64 {
	var values []float64
	for _, p := range counting(pairs) {
		t := trial{came: p.Before, sent: p.SentBefore, load: load}
		if after {
			t.came, t.sent = p.After, p.SentAfter
		}
		values = append(values, t.lost())
	}
	return median(values)
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}
