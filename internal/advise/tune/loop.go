package tune

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"mpps/internal/advise/bottleneck"
)

// loop is the state of one run.
type loop struct {
	Options
	host          Host
	rng           *rand.Rand
	began         time.Time
	result        *Result
	diagnosis     *bottleneck.Diagnosis    // the latest
	named         []*bottleneck.Bottleneck // by the diagnoses of this run, as the bottleneck or as the next one
	kept          []Candidate
	tests         int                    // so far, for spend
	expectedTests int                    // when the first one began, for spend
	load          float64                // of trials, packets per second; 0: as fast as possible
	lastRate      float64                // median received rate with what is kept, packets per second
	tried         map[string]history     // by key
	combined      map[string][]Candidate // parts of the candidates made by combine, by key
	initial       Rate                   // of the host as this run found it
	inherited     []string               // keys that an earlier run had kept
	met           bool                   // a search reached the target
	undo          *Wait                  // rollback of what took effect with a restart and is not proven; nil: none
	wins          int                    // attempts that were kept; a combination counts once
	proven        bool                   // what is kept was measured as a whole and by a last search

	restartFirst bool // nothing was tried: a restart comes first
	byLoss       bool // the target's rate arrives, but with more loss than the search allows: compare losses
	flood        bool // trials are sent as fast as possible
	backpressure bool // the path runs on the generator's CPU and slows it down: a low sent rate is the host's

	rateNoise, lossNoise Noise // of trials of the same configuration

	groups     [][]Candidate // to try next, each as one
	grouped    bool          // the whole plan was queued in groups
	wholeTried bool          // it was tried
	sieved     bool          // candidates that the host refuses were removed from it
	split      bool          // it was not kept, and was split by stage
	takenOut   float64       // log of what the parts taken out as useless may have gained

	ending     bool          // no more candidates: the rest of the budget is for the proof
	searchTook time.Duration // the longest search
	pairTook   time.Duration // the longest pair
	trialTook  time.Duration // the shortest trial of the usual length, with its overhead
	changeTook time.Duration // to make or undo one change of the last candidate
}

// history is the record of a candidate that was tried: how often, and its last outcome.
type history struct {
	times   int
	outcome Outcome
	limit   string // limitName at the time
	ratio   float64
	kept    int  // number of kept candidates at the time
	byLoss  bool // losses were compared
}

// Run tunes a host. The result is nil only if the first search failed. An error means that the run did not finish; the
// host is then back in its initial state, or the error says what is not.
func Run(ctx context.Context, h Host, o Options) (*Result, error) {
	o = o.withDefaults()
	l := &loop{Options: o, host: h, rng: rand.New(rand.NewPCG(o.Seed, 0x74756e65)), began: o.Now(),
		tried: map[string]history{}, combined: map[string][]Candidate{}}
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
	"order; bets on the sign and on the size of their log ratio, less the least gain that counts, make an e-value; " +
	"it is kept once that exceeds 1/α_t, its share of alpha (e-LOND, valid at any time); so at most a share alpha " +
	"of what is kept does not help, in expectation, with everything kept at once counted as one, and where nothing " +
	"helps, the chance to keep anything is at most alpha"

// maxRounds bounds the rounds of a run: another one begins if the last search misses a target that an earlier one had
// found.
const maxRounds = 3

func (l *loop) run(ctx context.Context) error {
	if done, err := l.baseline(ctx); done || err != nil {
		return err
	}
	if l.RestartFirst && l.Earlier == nil {
		if wait, err := l.waitFirst(ctx); wait || err != nil {
			return err
		}
	}
	for round := 1; ; round++ {
		if err := l.candidates(ctx); err != nil {
			return err
		}
		if done, err := l.finish(ctx, round == maxRounds); done || err != nil {
			return err
		}
	}
}

// abort restores the initial state after an error and sets the verdict.
func (l *loop) abort(ctx context.Context, err error) error {
	r := l.result
	r.Verdict, r.Why = Failed, "it failed: "+err.Error()
	if ctx.Err() != nil {
		r.Verdict, r.Why = Interrupted, "it was ended early"
	}
	wrong := l.host.Reset(ctx)
	if wrong != nil && !onlyDrift(wrong) {
		r.Why += "; what was found could not be restored: " + wrong.Error()
		return errors.Join(err, wrong)
	}
	l.markUndone()
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

// onlyDrift reports whether every part of an error is ErrDrifted.
func onlyDrift(err error) bool {
	if many, is := err.(interface{ Unwrap() []error }); is {
		return !slices.ContainsFunc(many.Unwrap(), func(one error) bool { return !onlyDrift(one) })
	}
	return errors.Is(err, ErrDrifted)
}

// ownAttempts are the attempts of this run, without those of an earlier one.
func (l *loop) ownAttempts() []Attempt {
	if l.Earlier == nil {
		return l.result.Attempts
	}
	return l.result.Attempts[min(len(l.Earlier.Attempts), len(l.result.Attempts)):]
}

// baseline measures the host as it was found, or resumes an earlier run. It returns true if nothing is left to do.
func (l *loop) baseline(ctx context.Context) (done bool, err error) {
	l.Progress(Progress{What: "baseline"})
	r := l.result
	if r.Baseline, err = l.search(ctx); errors.Is(err, errBudget) {
		return false, fmt.Errorf("the budget of %v ended within the first search: expected time for two searches, a "+
			"proof and the trials between", l.Budget)
	} else if err != nil {
		return false, err
	}
	r.Final, l.initial = r.Baseline, r.Baseline
	l.setLoad(max(r.Baseline.PPS, r.Baseline.Loaded))
	first, err := l.settleLoad(ctx)
	if err != nil {
		return false, err
	}
	if first, err = l.tryUnpaced(ctx, first); err != nil {
		return false, err
	}
	if err := l.calibrate(ctx, first); err != nil {
		return false, err
	}
	if r.Method.Provable = l.provable(); r.Method.Provable > 0 {
		l.Progress(Progress{What: fmt.Sprintf("the budget can prove gains of ×%.3g and more", r.Method.Provable)})
	} else {
		l.Progress(Progress{What: "the budget has no time to prove a gain"})
	}
	l.lastRate = first.received
	l.backpressure = l.short(first)
	l.byLoss = l.reachesTarget(l.lastRate) && !l.reachesTarget(l.initial.PPS)
	r.Baseline.Loaded, r.Final.Loaded, l.initial.Loaded = l.lastRate, l.lastRate, l.lastRate
	if l.Earlier != nil {
		if err := l.resume(ctx); err != nil {
			return false, err
		}
	}
	if err := l.diagnose(ctx); err != nil {
		return false, err
	}
	if r.Before = l.diagnosis; l.Earlier != nil {
		r.Before, r.After, r.resumed = l.Earlier.Before, l.diagnosis, l.diagnosis
	}
	if r.Baseline.LimitedBy == "generator" && l.hostLimits() ||
		l.diagnosis != nil && l.diagnosis.OnSender >= mostlyPath {
		l.backpressure = true
	}
	l.judgeBaseline()
	return r.Verdict != "", nil
}

// mostlyPath is the share of the generator's CPU time spent in the path from which on the path slows the generator
// down.
const mostlyPath = 0.5

// diagnose finds the current bottleneck.
func (l *loop) diagnose(ctx context.Context) (err error) {
	if l.diagnosis, err = l.host.Diagnose(ctx, l.load); err == nil {
		l.named = append(l.named, l.limits()...)
	}
	return err
}

// calibrationTrials is the number of trials of the host as found that show how far apart trials of one configuration
// are.
const calibrationTrials = 3

// calibrate learns the noise from trials of one configuration, as long as a third of the budget is not spent.
func (l *loop) calibrate(ctx context.Context, last trial) error {
	if l.Earlier != nil { // resume learns it from the trials after the restart
		return nil
	}
	for range calibrationTrials {
		if l.Budget > 0 && l.Now().Sub(l.began) > l.Budget/3 {
			return nil
		}
		next, err := l.sample(ctx, 1, l.byLoss)
		if err != nil {
			return err
		}
		if next.load == last.load {
			l.rateNoise.Add(last.received, next.received)
			l.lossNoise.Add(arrival(last), arrival(next))
		}
		last = next
	}
	return nil
}

// setLoad sets the load of trials to 1.05 times the target, but at most to twice the carried rate: many hosts carry
// less the more they are overloaded. A flood has no load.
func (l *loop) setLoad(carried float64) {
	l.load = 2 * carried
	if t := l.Goal.PPS; t > 0 {
		l.load = min(l.load, 1.05*t)
	}
	if l.flood {
		l.load = 0
	}
	l.result.Method.LoadPPS = l.load
}

// maxAims bounds the trials that settle the load before the first pair.
const maxAims = 4

// settleLoad takes the first trial and raises the load while more arrives than the search found: a load that hardly
// overloads the path shows no gain. On a noisy host a search without loss ends far below what the host carries.
func (l *loop) settleLoad(ctx context.Context) (trial, error) {
	for n := 1; ; n++ {
		t, err := l.sample(ctx, 1, l.byLoss)
		if err != nil || n == maxAims || l.load == 0 || l.short(t) || t.received < 0.6*l.load {
			return t, err
		}
		before := l.load
		if l.setLoad(t.received); l.load < 1.1*before {
			l.load = before
			l.result.Method.LoadPPS = before
			return t, nil
		}
	}
}

// tryUnpaced switches to sending as fast as possible if the generator could not keep up with the load and more arrives
// that way: pacing takes CPU time, on a host whose clock is slow to read more than sending does. It returns the trial
// to use as the first one.
func (l *loop) tryUnpaced(ctx context.Context, paced trial) (trial, error) {
	if !l.short(paced) {
		return paced, nil
	}
	l.flood = true
	l.setLoad(paced.received)
	fast, err := l.sample(ctx, 1, l.byLoss)
	if err != nil || fast.received < unpacedGain*paced.received {
		l.flood = false
		l.setLoad(max(l.result.Baseline.PPS, l.result.Baseline.Loaded))
		return paced, err
	}
	return fast, nil
}

// unpacedGain is the least ratio of the received rates, unpaced to paced, for which pacing is given up.
const unpacedGain = 1.05

// candidates tries candidates, the most promising first, until the target holds, nothing is left or the budget is
// spent. When nothing is left that helps alone, or little time, it tries those with small gains together, then pairs.
func (l *loop) candidates(ctx context.Context) error {
	fresh := false
	l.ending = false
	for twos, rests, asked := 0, 0, -1; !l.met && l.result.Verdict == ""; {
		all, err := l.host.Candidates(ctx)
		if err != nil {
			return err
		}
		all = Together(all)
		if group, hope, ok := l.nextGroup(all); ok && !l.spent() {
			if err := l.attemptGroup(ctx, all, group, hope); err != nil {
				return err
			}
			continue
		}
		c, e, more := l.choose(all)
		// A diagnosis may be wrong, and repeating it takes less time than trying a candidate that it does not point at.
		second := e.blind && asked != len(l.kept) && !l.shortOfTime(all) && !l.spent()
		if !more && !fresh || second {
			if err := l.diagnose(ctx); err != nil {
				return err
			}
			fresh, asked = true, len(l.kept)
			continue
		}
		if (!more || l.shortOfTime(all)) && rests < maxCombined {
			if together, hope, ok := l.combineNearGains(all); ok {
				rests++
				c, e, more = together, hope, true
			}
		}
		if !more && twos < maxTwos {
			twos++
			c, e, more = l.combineTwo(all)
		}
		if !more {
			return nil
		}
		if l.spent() {
			l.result.Verdict = OutOfBudget
			return nil
		}
		l.expectTests(all)
		if err := l.attempt(ctx, c, e); err != nil {
			return err
		}
		fresh = false
	}
	return nil
}

// attemptGroup attempts several candidates as one, and splits them if they are not kept.
func (l *loop) attemptGroup(ctx context.Context, all []Candidate, group Candidate, e expectation) error {
	l.expectTests(all)
	err := l.attempt(ctx, group, e)
	if o := l.tried[group.Key].outcome; err != nil || o == Kept || o == Cut {
		return err
	}
	return l.splitGroup(ctx, group)
}

// expectTests sets the number of tests that alpha is divided by, when the first one begins.
func (l *loop) expectTests(all []Candidate) {
	if l.expectedTests == 0 {
		l.expectedTests = max(16, 2*len(all))
	}
}

// attempt measures a candidate against what is kept and keeps or undoes it.
func (l *loop) attempt(ctx context.Context, c Candidate, e expectation) error {
	began := l.Now()
	l.tests++
	a := l.newAttempt(c, len(l.result.Attempts), 1/spend(l.Alpha, l.tests, l.expectedTests, l.wins), e.reason...)
	a.Expected = e.ratio()
	l.result.Untried = slices.DeleteFunc(l.result.Untried, func(u Untried) bool { return u.Key == c.Key })
	a.setParts(l.parts(c))
	byLoss := l.byLoss
	err := l.measure(ctx, c, &a, byLoss)
	limit, stood := l.limitName(), len(l.kept)
	if err == nil && a.Outcome == Kept {
		for _, part := range l.parts(c) {
			l.tried[part.Key] = history{times: 1, outcome: Kept, limit: limit, kept: stood, byLoss: byLoss}
		}
		err = l.keep(ctx, c)
	}
	if a.Outcome == Refused { // nothing was tested
		l.tests--
	}
	a.Seconds = l.Now().Sub(began).Seconds()
	l.result.Attempts = append(l.result.Attempts, a)
	l.Progress(Progress{What: "done", Attempt: &a, Rate: l.lastRate})
	l.tried[c.Key] = history{times: l.tried[c.Key].times + 1, outcome: a.Outcome, limit: limit, ratio: a.Gain.Ratio,
		kept: stood, byLoss: byLoss}
	if err == nil && a.Outcome == Kept && len(a.Parts) > 0 {
		err = l.refine(ctx, l.parts(c))
	}
	return err
}

// setParts records what is tried as one.
func (a *Attempt) setParts(parts []Candidate) {
	if len(parts) < 2 {
		return
	}
	for _, part := range parts {
		a.Parts = append(a.Parts, part.Key)
		if part.Stage != a.Stage {
			a.Stage = ""
		}
	}
}

// newAttempt begins the record of an attempt, the next one after that many earlier ones, which keeps its candidate for
// the e-value needed.
func (l *loop) newAttempt(c Candidate, earlier int, needed float64, because ...string) Attempt {
	return Attempt{
		N: earlier + 1, Key: c.Key, IDs: c.IDs, Title: c.Title, Stage: c.Stage, Risk: c.Risk, Changes: c.Changes,
		Because: because, Limit: l.limitKind(), Needed: needed,
	}
}

// keep keeps a candidate, diagnoses the path, and searches if the received rate reaches the target.
func (l *loop) keep(ctx context.Context, c Candidate) error {
	if err := l.host.Keep(ctx); err != nil {
		return err
	}
	for _, part := range l.parts(c) {
		l.kept = append(l.kept, part)
		l.result.Kept = append(l.result.Kept, part.Key)
	}
	l.wins++
	l.proven = false
	l.setLoad(l.lastRate)
	if err := l.diagnose(ctx); err != nil {
		return err
	}
	return l.checkTarget(ctx)
}

// checkTarget searches for the highest rate if the received rate reaches the target.
func (l *loop) checkTarget(ctx context.Context) error {
	if !l.reachesTarget(l.lastRate) {
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
	l.met = l.reachesTarget(found.PPS)
	l.byLoss = !l.met
	return nil
}

// reachesTarget reports whether a rate reaches the target, within the allowed loss. Without a target none does.
func (l *loop) reachesTarget(pps float64) bool {
	return l.Goal.PPS > 0 && pps >= l.Goal.PPS*(1-l.Goal.Loss)*(1-1e-9)
}
