package tune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"mpps/internal/bottleneck"
)

// loop is one run.
type loop struct {
	Options
	host    Host
	lot     *rand.Rand
	began   time.Time
	result  *Result
	state   *bottleneck.Diagnosis // what holds the path back as it stands
	kept    []Candidate
	tested  int                     // tests so far, for spend
	expect  int                     // tests that were expected when the first began
	load    float64                 // of trials, packets per second
	last    float64                 // median that came through with what stands
	held    map[string]tally        // what became of the candidates that were tried, by key
	twos    map[string][2]Candidate // pairs of candidates, by key
	found   Rate                    // of the host as this run found it
	stood   []string                // what an earlier run had kept
	target  bool                    // was reached by a search
	stopped error                   // the user's wish, or the machine's end
}

// tally is what became of a candidate.
type tally struct {
	times   int
	outcome Outcome
	limit   string // kind and object of the bottleneck then
	ratio   float64
	kept    int // how many stood then
}

// Run tunes a host. The result is there whatever happens once the baseline is known; an error comes with it where the run could not
// be brought to its end, and then everything is as it was found, or the error says what is not.
func Run(ctx context.Context, h Host, o Options) (*Result, error) {
	o = o.withDefaults()
	l := &loop{Options: o, host: h, lot: rand.New(rand.NewPCG(o.Seed, 0x74756e65)), began: o.Now(), held: map[string]tally{}, twos: map[string][2]Candidate{}}
	l.result = &Result{
		Schema: Schema, Goal: o.Goal, Started: l.began.UTC(), Budget: o.Budget.Seconds(), Proposed: o.Propose,
		Attempts: []Attempt{}, Kept: []string{}, Added: []string{}, Untried: []Untried{}, Waits: []Wait{}, Advice: []Advice{}, Warnings: []Warning{},
		Method: Method{Test: testSentence, Alpha: o.Alpha, MinEffect: o.MinEffect, MaxPairs: o.MaxPairs, Seed: o.Seed},
	}
	err := l.run(ctx)
	if err != nil {
		err = errors.Join(err, h.Begin(ctx))
		l.undone()
		l.result.Verdict, l.result.Why = Interrupted, "it was ended early, and everything is as it was found"
	}
	l.result.Seconds = o.Now().Sub(l.began).Seconds()
	if l.result.Searches == 0 {
		return nil, err
	}
	return l.result, err
}

const testSentence = "each candidate is measured against what stands in pairs of trials whose order is by lot; a pair counts for it where it is ahead by more than the least gain that counts; " +
	"it is kept once a bet on it has multiplied its stake by one over its share of alpha (an e-value, which holds whenever one looks and whatever the noise); of what is kept no more than a share alpha does not help, in the mean, and where nothing helps the chance to keep anything is no more than alpha (e-LOND)"

func (l *loop) run(ctx context.Context) error {
	if done, err := l.baseline(ctx); done || err != nil {
		return err
	}
	if err := l.candidates(ctx); err != nil {
		return err
	}
	return l.finish(ctx)
}

// baseline measures the host as it was found, and tells whether that is all there is to do.
func (l *loop) baseline(ctx context.Context) (done bool, err error) {
	l.Progress(Progress{What: "baseline"})
	r := l.result
	if r.Baseline, err = l.search(ctx); err != nil {
		return false, err
	}
	r.Final, l.found = r.Baseline, r.Baseline
	l.aim(max(r.Baseline.PPS, r.Baseline.Loaded))
	if l.last, err = l.sample(ctx); err != nil {
		return false, err
	}
	r.Baseline.Loaded, r.Final.Loaded, l.found.Loaded = l.last, l.last, l.last
	if l.Earlier != nil {
		if err := l.goOn(ctx); err != nil {
			return false, err
		}
	}
	if l.state, err = l.host.Diagnose(ctx, l.load); err != nil {
		return false, err
	}
	if r.Before = l.state; l.Earlier != nil {
		r.Before, r.After = l.Earlier.Before, l.state
	}
	l.baselineVerdict()
	return r.Verdict != "", nil
}

// aim sets the load of trials: somewhat more than the target, but no more than twice what is carried, since many hosts carry the less
// the more they are overrun.
func (l *loop) aim(carried float64) {
	l.load = 2 * carried
	if t := l.Goal.PPS; t > 0 {
		l.load = min(l.load, 1.05*t)
	}
	l.result.Method.LoadPPS = l.load
}

func (l *loop) search(ctx context.Context) (Rate, error) {
	r, err := l.host.Search(ctx)
	if err == nil {
		l.result.Searches++
	}
	return r, err
}

func (l *loop) sample(ctx context.Context) (float64, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	v, err := l.host.Sample(ctx, l.load)
	if err != nil {
		return 0, err
	}
	if ctx.Err() != nil { // cut short
		return 0, context.Cause(ctx)
	}
	l.result.Trials++
	return v, nil
}

// spent tells whether the budget leaves no time for another candidate: some is kept for the proof of the whole and the last search.
func (l *loop) spent() bool {
	if l.Budget == 0 {
		return false
	}
	return l.Now().Sub(l.began) > l.Budget*3/4
}

// candidates tries what there is, the likeliest first, until the target holds, nothing is left or the time is over. Where nothing is
// left that helps alone, twos are tried.
func (l *loop) candidates(ctx context.Context) error {
	fresh := false
	for twos := 0; !l.target && l.result.Verdict == ""; {
		all, err := l.host.Candidates(ctx)
		if err != nil {
			return err
		}
		all = Together(all)
		c, e, more := l.choose(all)
		if !more && !fresh { // a diagnosis may be mistaken
			if l.state, err = l.host.Diagnose(ctx, l.load); err != nil {
				return err
			}
			fresh = true
			continue
		}
		if !more && twos < mostTwos {
			twos++
			c, e, more = l.pairUp(all)
		}
		if !more {
			return nil
		}
		if l.spent() {
			l.result.Verdict = OutOfBudget
			return nil
		}
		if l.expect == 0 {
			l.expect = max(16, 2*len(all))
		}
		if err := l.attempt(ctx, c, e); err != nil {
			return err
		}
		fresh = false
	}
	return nil
}

// choose picks what is to be tried next. What waits for a restart is noted.
func (l *loop) choose(all []Candidate) (Candidate, expectation, bool) {
	l.result.Untried, l.result.Waits = []Untried{}, []Wait{}
	best, hope := -1, expectation{}
	for i, c := range all {
		if c.Needs != "" {
			l.wait(c)
			continue
		}
		if !l.worth(c) {
			continue
		}
		e := expect(c, l.state, l.Learned, l.Class)
		if best < 0 || e.score > hope.score {
			best, hope = i, e
		}
		l.result.Untried = append(l.result.Untried, Untried{Key: c.Key, Title: c.Title, Risk: c.Risk})
	}
	if best < 0 {
		return Candidate{}, hope, false
	}
	return all[best], hope, true
}

// limit names the bottleneck that stands.
func (l *loop) limit() string {
	if l.state == nil || l.state.Bottleneck == nil {
		return ""
	}
	return string(l.state.Bottleneck.Kind) + " " + l.state.Bottleneck.Object
}

// mostTimes is how often a candidate is tried at the most.
const mostTimes = 3

// worth tells whether a candidate is to be tried: for the first time, or once more where it was of no use, something was kept since, and
// it acts on what holds the path back now or would do so next.
func (l *loop) worth(c Candidate) bool {
	before, tried := l.held[c.Key]
	if !tried {
		return true
	}
	useless := before.outcome == Useless || before.outcome == NotShown || before.outcome == Hurts && before.ratio >= possibly
	if !useless || before.times == mostTimes || before.kept == len(l.kept) {
		return false
	}
	for i, b := range l.limits() {
		if namedBy(b, c) >= 0 {
			return i == 0 || before.times == 1
		}
	}
	return false
}

// limits are the bottleneck and what would be the next one, as far as they are known.
func (l *loop) limits() []*bottleneck.Bottleneck {
	if l.state == nil || l.state.Bottleneck == nil {
		return nil
	}
	if l.state.Next == nil {
		return []*bottleneck.Bottleneck{l.state.Bottleneck}
	}
	return []*bottleneck.Bottleneck{l.state.Bottleneck, l.state.Next}
}

func (l *loop) wait(c Candidate) {
	r := l.result
	i := slices.IndexFunc(r.Waits, func(w Wait) bool { return w.For == c.Needs })
	if i < 0 {
		i = len(r.Waits)
		r.Waits = append(r.Waits, Wait{For: c.Needs})
	}
	r.Waits[i].Keys = append(r.Waits[i].Keys, c.Key)
}

// mostTwos is how many pairs of candidates are tried that were of no use alone.
const mostTwos = 6

// possibly is the least ratio of what may have been slower by chance alone.
const possibly = 0.95

// pairUp finds the next two candidates that act on the same bottleneck and did no harm alone, those with the better figures first.
func (l *loop) pairUp(all []Candidate) (Candidate, expectation, bool) {
	for _, limit := range l.limits() {
		here := slices.DeleteFunc(slices.Clone(all), func(c Candidate) bool {
			h, tried := l.held[c.Key]
			useless := h.outcome == NotShown || h.outcome == Useless || h.outcome == Hurts
			return !tried || c.Needs != "" || !useless || h.ratio < possibly || namedBy(limit, c) < 0
		})
		slices.SortStableFunc(here, func(a, b Candidate) int { return cmp.Compare(l.held[b.Key].ratio, l.held[a.Key].ratio) })
		for i := range here {
			for j := range i {
				if c := Join(here[j], here[i]); l.held[c.Key].times == 0 {
					l.twos[c.Key] = [2]Candidate{here[j], here[i]}
					return c, expectation{chance: 0.1, log: usual, reason: []string{"neither helps alone; both act on the bottleneck (" + string(limit.Kind) + ")"}}, true
				}
			}
		}
	}
	return Candidate{}, expectation{}, false
}

// attempt measures a candidate against what stands and keeps it or takes it back.
func (l *loop) attempt(ctx context.Context, c Candidate, e expectation) error {
	began := l.Now()
	l.tested++
	a := Attempt{
		N: len(l.result.Attempts) + 1, Key: c.Key, IDs: c.IDs, Title: c.Title, Stage: c.Stage, Risk: c.Risk, Changes: c.Changes,
		Expected: e.ratio(), Because: e.reason, Needed: 1 / spend(l.Alpha, l.tested, l.expect, len(l.kept)),
	}
	if l.state != nil && l.state.Bottleneck != nil {
		a.Limit = string(l.state.Bottleneck.Kind)
	}
	err := l.measure(ctx, c, &a)
	limit, stood := l.limit(), len(l.kept)
	if err == nil && a.Outcome == Kept {
		err = l.keep(ctx, c)
	}
	a.Seconds = l.Now().Sub(began).Seconds()
	l.result.Attempts = append(l.result.Attempts, a)
	l.Progress(Progress{What: "done", Attempt: &a, Rate: l.last})
	l.held[c.Key] = tally{times: l.held[c.Key].times + 1, outcome: a.Outcome, limit: limit, ratio: a.Gain.Ratio, kept: stood}
	return err
}

// parts are the two candidates that a pair is made of, or the candidate itself.
func (l *loop) parts(c Candidate) []Candidate {
	if two, is := l.twos[c.Key]; is {
		return two[:]
	}
	return []Candidate{c}
}

// keep lets a candidate stand, asks what holds the path back now, and whether the target holds.
func (l *loop) keep(ctx context.Context, c Candidate) (err error) {
	if err = l.host.Keep(ctx); err != nil {
		return err
	}
	for _, part := range l.parts(c) {
		l.kept = append(l.kept, part)
		l.result.Kept = append(l.result.Kept, part.Key)
	}
	l.aim(l.last)
	if l.state, err = l.host.Diagnose(ctx, l.load); err != nil {
		return err
	}
	if !l.reached(l.last) {
		return nil
	}
	found, err := l.search(ctx)
	if err != nil {
		return err
	}
	l.target = l.reached(found.PPS)
	return nil
}

// reached tells whether a rate is the target's. Where there is no target there is always more to be had.
func (l *loop) reached(pps float64) bool {
	return l.Goal.PPS > 0 && pps >= l.Goal.PPS*(1-l.Goal.Loss)*(1-1e-9)
}

// measure takes pairs of trials until they tell, and takes the candidate back unless it is to be kept.
func (l *loop) measure(ctx context.Context, c Candidate, a *Attempt) error {
	test := &Sign{Least: l.MinEffect}
	return l.measureBy(ctx, c, a, test, func() bool { return l.decide(test, a) })
}

// measureBy is measure with another rule for when it is enough.
func (l *loop) measureBy(ctx context.Context, c Candidate, a *Attempt, test *Sign, enough func() bool) error {
	err := l.turns(ctx, c, a, test, enough)
	l.describe(test, a)
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

// turns measures pairs until enough says so. In the end the candidate stands where it was kept, and may stand where it was not.
func (l *loop) turns(ctx context.Context, c Candidate, a *Attempt, test *Sign, enough func() bool) error {
	stands := false
	bring := func(after bool) error {
		if after == stands {
			return nil
		}
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
	for {
		pair := Pair{AfterFirst: l.lot.IntN(2) == 1}
		for _, after := range []bool{pair.AfterFirst, !pair.AfterFirst} {
			l.Progress(Progress{What: "try", Attempt: a, Rate: l.last})
			if err := bring(after); err != nil {
				return err
			}
			v, err := l.sample(ctx)
			if err != nil {
				return err
			}
			if after {
				pair.After = v
			} else {
				pair.Before = v
			}
		}
		test.Add(pair.Before, pair.After)
		a.Gain.Pairs = append(a.Gain.Pairs, pair)
		if enough() {
			break
		}
	}
	if a.Outcome != Kept {
		return nil
	}
	l.last = medianOf(a.Gain.Pairs, true)
	return bring(true)
}

// futile is the money at which a bet against a candidate ends its test. That it is low costs gains that were not seen, never a
// false one.
const futile = 8

// fewest is how many pairs a candidate gets at the least.
const fewest = 3

// surely is how many pairs a candidate must be slower in, and all of them, to be said to hurt: by chance one in 32 of those that
// do nothing would be.
const surely = 5

// patience is how many pairs a candidate gets before the bet on it must have won something.
const patience = 10

// decide tells whether the pairs are enough, and what follows from them.
func (l *loop) decide(test *Sign, a *Attempt) bool {
	a.Evidence = test.Gain()
	n := test.Pairs()
	switch {
	case a.Evidence >= a.Needed:
		a.Outcome = Kept
	case n < fewest || n < surely && test.Slower() == n && test.Ratio() < 1-l.MinEffect:
		return false
	case test.Slower() == n && test.Ratio() < 1-l.MinEffect:
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
func (l *loop) describe(test *Sign, a *Attempt) {
	g := &a.Gain
	g.Unit, g.Level = "packets/s", 0.95
	if g.Pairs == nil {
		g.Pairs = []Pair{}
	}
	g.Ratio = test.Ratio()
	g.Lo, g.Hi = test.Interval(g.Level)
	g.AtLeast = test.Ratio() > 1 && medianOf(g.Pairs, true) > 0.97*l.load
	n, slower := test.Pairs(), test.Slower()
	switch a.Outcome {
	case Kept:
		a.Why = fmt.Sprintf("%s in %d pairs; the bet on it won %.0f times its stake, and %.0f were needed", g, n, a.Evidence, a.Needed)
	case Hurts:
		a.Why = fmt.Sprintf("slower in all %d pairs: %s", n, g)
	case Useless:
		a.Why = fmt.Sprintf("no gain of %.3g %% or more in %d pairs, %d of them slower: %s", 100*l.MinEffect, n, slower, g)
	case Cut:
		a.Why = fmt.Sprintf("the budget was spent after %d pairs: %s", n, g)
	case NotShown:
		a.Why = fmt.Sprintf("%s could not be told from chance in %d pairs", g, n)
	}
}

// String is the gain as people read it.
func (g Gain) String() string {
	if len(g.Pairs) == 0 {
		return "not measured"
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

func medianOf(pairs []Pair, after bool) float64 {
	values := make([]float64, len(pairs))
	for i, p := range pairs {
		if values[i] = p.Before; after {
			values[i] = p.After
		}
	}
	if len(values) == 0 {
		return math.NaN()
	}
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}
