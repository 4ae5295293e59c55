package tune

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"mpps/internal/advise/bottleneck"
)

// loop is one run.
type loop struct {
	Options
	host   Host
	lot    *rand.Rand
	began  time.Time
	result *Result
	state  *bottleneck.Diagnosis    // what holds the path back as it stands
	named  []*bottleneck.Bottleneck // that this run's diagnoses named, as the bottleneck or as the next one
	kept   []Candidate
	tested int                    // tests so far, for spend
	expect int                    // tests that were expected when the first began
	load   float64                // of trials, packets per second
	last   float64                // median that came through with what stands
	held   map[string]tally       // what became of the candidates that were tried, by key
	made   map[string][]Candidate // what candidates are made of that are several, by key
	found  Rate                   // of the host as this run found it
	stood  []string               // what an earlier run had kept
	target bool                   // was reached by a search
	undo   *Wait                  // what took effect with a restart and is not proven; nil: nothing
	won    int                    // attempts that were kept; several at once count once
	proven bool                   // what stands was measured as a whole and by a last search

	byLoss   bool // the target's rate comes through, but for a loss that the search does not allow
	flood    bool // trials are sent as fast as possible
	heldBack bool // the path runs on the generator's CPU and holds it back: what is sent tells nothing

	ending     bool          // the candidates are done with
	searchTook time.Duration // the longest search
	pairTook   time.Duration // the longest pair
	trialTook  time.Duration // the shortest trial of the usual length, with all that is around it
}

// tally is what became of a candidate.
type tally struct {
	times   int
	outcome Outcome
	limit   string // kind and object of the bottleneck then
	ratio   float64
	kept    int  // how many stood then
	byLoss  bool // what was lost was compared
}

// Run tunes a host. The result is there whatever happens once the baseline is known; an error comes with it where the
// run could not be brought to its end, and then everything is as it was found, or the error says what is not.
func Run(ctx context.Context, h Host, o Options) (*Result, error) {
	o = o.withDefaults()
	l := &loop{Options: o, host: h, lot: rand.New(rand.NewPCG(o.Seed, 0x74756e65)), began: o.Now(),
		held: map[string]tally{}, made: map[string][]Candidate{}}
	l.result = &Result{
		Schema: Schema, Goal: o.Goal, Started: l.began.UTC(), Budget: o.Budget.Seconds(), Proposed: o.Propose,
		Attempts: []Attempt{}, Revisits: []Attempt{}, Kept: []string{}, Added: []string{}, Untried: []Untried{},
		Waits: []Wait{}, Advice: []Advice{}, Warnings: []Warning{},
		Method: Method{Test: testSentence, Alpha: o.Alpha, MinEffect: o.MinEffect, MaxPairs: o.MaxPairs, Seed: o.Seed,
			TrialSecs: o.Trial.Seconds()},
	}
	err := l.run(ctx)
	if err != nil {
		err = l.abort(ctx, err)
	}
	l.result.Seconds = o.Now().Sub(l.began).Seconds()
	if l.result.Searches == 0 {
		return nil, err
	}
	return l.result, err
}

const testSentence = "each candidate is measured against the configuration kept so far, in pairs of trials in random " +
	"order; a pair counts for it if it is ahead by more than the least gain that counts; it is kept once its e-value " +
	"exceeds 1/α_t, its share of alpha (e-LOND, valid at any time and whatever the noise); so at most a share alpha " +
	"of " +
	"what is kept does not help, in expectation, with everything kept at once counted as one, and where nothing " +
	"helps, the chance to keep anything is at most alpha"

// mostRounds is how often a run goes on where its last search missed a target that an earlier one had found.
const mostRounds = 3

func (l *loop) run(ctx context.Context) error {
	if done, err := l.baseline(ctx); done || err != nil {
		return err
	}
	for round := 1; ; round++ {
		if err := l.candidates(ctx); err != nil {
			return err
		}
		if done, err := l.finish(ctx, round == mostRounds); done || err != nil {
			return err
		}
	}
}

// abort restores the beginning where a run cannot be brought to its end, and words what came of that.
func (l *loop) abort(ctx context.Context, err error) error {
	r := l.result
	r.Verdict, r.Why = Failed, "it could not be brought to its end: "+err.Error()
	if ctx.Err() != nil {
		r.Verdict, r.Why = Interrupted, "it was ended early"
	}
	wrong := l.host.Reset(ctx)
	if wrong != nil && !onlyDrift(wrong) {
		r.Why += "; what was found could not be restored: " + wrong.Error()
		return errors.Join(err, wrong)
	}
	l.undone()
	switch {
	case wrong != nil:
		r.Why += "; " + wrong.Error() + "; everything else is as it was found"
	case errors.Is(err, ErrDrifted):
		r.Why += "; everything else is as it was found"
	default:
		r.Why += "; everything is as it was found"
	}
	return errors.Join(err, wrong)
}

// onlyDrift reports whether an error is of values that somebody else changed, and of nothing else.
func onlyDrift(err error) bool {
	if many, is := err.(interface{ Unwrap() []error }); is {
		return !slices.ContainsFunc(many.Unwrap(), func(one error) bool { return !onlyDrift(one) })
	}
	return errors.Is(err, ErrDrifted)
}

// own are the attempts of this run, those of an earlier one left out.
func (l *loop) own() []Attempt {
	if l.Earlier == nil {
		return l.result.Attempts
	}
	return l.result.Attempts[min(len(l.Earlier.Attempts), len(l.result.Attempts)):]
}

// baseline measures the host as it was found, and reports whether that is all there is to do.
func (l *loop) baseline(ctx context.Context) (done bool, err error) {
	l.Progress(Progress{What: "baseline"})
	r := l.result
	if r.Baseline, err = l.search(ctx); errors.Is(err, errBudget) {
		return false, l.tooShort()
	} else if err != nil {
		return false, err
	}
	r.Final, l.found = r.Baseline, r.Baseline
	l.aim(max(r.Baseline.PPS, r.Baseline.Loaded))
	first, err := l.overrun(ctx)
	if err != nil {
		return false, err
	}
	if first, err = l.unpaced(ctx, first); err != nil {
		return false, err
	}
	l.last = first.came
	l.heldBack = l.short(first)
	l.byLoss = l.reached(l.last) && !l.reached(l.found.PPS)
	r.Baseline.Loaded, r.Final.Loaded, l.found.Loaded = l.last, l.last, l.last
	if l.Earlier != nil {
		if err := l.goOn(ctx); err != nil {
			return false, err
		}
	}
	if err := l.diagnose(ctx); err != nil {
		return false, err
	}
	if r.Before = l.state; l.Earlier != nil {
		r.Before, r.After, r.resumed = l.Earlier.Before, l.state, l.state
	}
	if r.Baseline.LimitedBy == "generator" && l.heldByHost() {
		l.heldBack = true
		r.Warnings = append(r.Warnings, Warning{Code: "generator-late", Text: "the generator sent less than it was " +
			"asked for; it runs a part of the path on its own CPU, and as " +
			l.state.Bottleneck.Say + " the host was held responsible: what makes sending cheaper counts as a gain too"})
	}
	l.baselineVerdict()
	return r.Verdict != "", nil
}

// diagnose asks what holds the path back as it stands.
func (l *loop) diagnose(ctx context.Context) (err error) {
	if l.state, err = l.host.Diagnose(ctx, l.load); err == nil {
		l.named = append(l.named, l.limits()...)
	}
	return err
}

// aim sets the load of trials: somewhat more than the target, but no more than twice what is carried, since many hosts
// carry the less the more they are overrun.
func (l *loop) aim(carried float64) {
	l.load = 2 * carried
	if t := l.Goal.PPS; t > 0 {
		l.load = min(l.load, 1.05*t)
	}
	if l.flood {
		l.load = 0
	}
	l.result.Method.LoadPPS = l.load
}

// mostAims is how often the load of trials is set again before the first pair.
const mostAims = 4

// overrun takes the first trial, and sets the load again while more comes through than the search found: one that
// hardly overruns the path shows no gain. A noisy host loses packets far below what it carries, and a search without
// loss then ends there.
func (l *loop) overrun(ctx context.Context) (trial, error) {
	for n := 1; ; n++ {
		t, err := l.sample(ctx, 1)
		if err != nil || n == mostAims || l.load == 0 || l.short(t) || t.came < 0.6*l.load {
			return t, err
		}
		before := l.load
		if l.aim(t.came); l.load < 1.1*before {
			l.load = before
			l.result.Method.LoadPPS = before
			return t, nil
		}
	}
}

// trial is what became of a load, packets per second.
type trial struct {
	load, came float64
	sent       float64 // 0: not known
}

// lost is the share of what was sent that did not come through.
func (t trial) lost() float64 {
	sent := t.sent
	if sent == 0 {
		sent = t.load
	}
	if sent == 0 {
		return 0
	}
	return max(0, 1-t.came/sent)
}

// unpaced has all trials sent as fast as possible where the generator was late at the load and more comes through like
// that: keeping a pace costs time too, and on a host whose clock is slow to read more than sending does. It gives the
// trial that stands for all.
func (l *loop) unpaced(ctx context.Context, paced trial) (trial, error) {
	if !l.short(paced) {
		return paced, nil
	}
	l.flood = true
	l.aim(paced.came)
	fast, err := l.sample(ctx, 1)
	if err != nil || fast.came < unpacedGain*paced.came {
		l.flood = false
		l.aim(max(l.result.Baseline.PPS, l.result.Baseline.Loaded))
		return paced, err
	}
	return fast, nil
}

// unpacedGain is by how much more must come through unpaced.
const unpacedGain = 1.05

// sample sends the load for one trial of so many times the usual length.
func (l *loop) sample(ctx context.Context, length int) (trial, error) {
	if ctx.Err() != nil {
		return trial{}, context.Cause(ctx)
	}
	t, began := trial{load: l.load}, l.Now()
	var err error
	if t.came, err = l.host.Sample(ctx, l.load, length); err != nil {
		return trial{}, err
	}
	if took := l.Now().Sub(began); length == 1 && (l.trialTook == 0 || took < l.trialTook) {
		l.trialTook = took
	}
	if ctx.Err() != nil { // cut short
		return trial{}, context.Cause(ctx)
	}
	if s, tells := l.host.(Sender); tells {
		t.sent = s.Sent()
	}
	l.result.Trials++
	return t, nil
}

// candidates tries what there is, the likeliest first, until the target holds, nothing is left or the time is over.
// Where nothing is left that helps alone, or little time, what came out ahead is tried as one, then twos.
func (l *loop) candidates(ctx context.Context) error {
	fresh := false
	l.ending = false
	for twos, rests, asked := 0, 0, -1; !l.target && l.result.Verdict == ""; {
		all, err := l.host.Candidates(ctx)
		if err != nil {
			return err
		}
		all = Together(all)
		c, e, more := l.choose(all)
		second := e.blind && asked != len(l.kept) && !l.late(all) && !l.spent()
		// a diagnosis may be mistaken, and takes less time than to try what none points at
		if !more && !fresh || second {
			if err := l.diagnose(ctx); err != nil {
				return err
			}
			fresh, asked = true, len(l.kept)
			continue
		}
		if (!more || l.late(all)) && rests < mostRests {
			if together, hope, is := l.rest(all); is {
				rests++
				c, e, more = together, hope, true
			}
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

// attempt measures a candidate against what stands and keeps it or takes it back.
func (l *loop) attempt(ctx context.Context, c Candidate, e expectation) error {
	began := l.Now()
	l.tested++
	a := Attempt{
		N: len(l.result.Attempts) + 1, Key: c.Key, IDs: c.IDs, Title: c.Title, Stage: c.Stage, Risk: c.Risk,
		Changes:  c.Changes,
		Expected: e.ratio(), Because: e.reason, Needed: 1 / spend(l.Alpha, l.tested, l.expect, l.won),
		Limit: l.kindOfLimit(),
	}
	l.result.Untried = slices.DeleteFunc(l.result.Untried, func(u Untried) bool { return u.Key == c.Key })
	if parts := l.parts(c); len(parts) > 1 {
		for _, part := range parts {
			a.Parts = append(a.Parts, part.Key)
			if part.Stage != a.Stage {
				a.Stage = ""
			}
		}
	}
	byLoss := l.byLoss
	err := l.measure(ctx, c, &a, byLoss)
	limit, stood := l.limit(), len(l.kept)
	if err == nil && a.Outcome == Kept {
		err = l.keep(ctx, c)
	}
	a.Seconds = l.Now().Sub(began).Seconds()
	l.result.Attempts = append(l.result.Attempts, a)
	l.Progress(Progress{What: "done", Attempt: &a, Rate: l.last})
	l.held[c.Key] = tally{times: l.held[c.Key].times + 1, outcome: a.Outcome, limit: limit, ratio: a.Gain.Ratio,
		kept: stood, byLoss: byLoss}
	if err == nil && a.Outcome == Kept && len(a.Parts) > 0 {
		err = l.takeApart(ctx, l.parts(c))
	}
	return err
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
	l.won++
	l.proven = false
	l.aim(l.last)
	if err := l.diagnose(ctx); err != nil {
		return err
	}
	if !l.reached(l.last) {
		return nil
	}
	found, err := l.search(ctx)
	switch {
	case errors.Is(err, errBudget):
		l.result.Verdict = OutOfBudget
		return nil
	case err != nil:
		return err
	}
	l.target = l.reached(found.PPS)
	l.byLoss = !l.target
	return nil
}

// reached reports whether a rate is the target's. Where there is no target there is always more to be had.
func (l *loop) reached(pps float64) bool {
	return l.Goal.PPS > 0 && pps >= l.Goal.PPS*(1-l.Goal.Loss)*(1-1e-9)
}
