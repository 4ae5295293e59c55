package tune_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"mpps/internal/advise/bottleneck"
	"mpps/internal/advise/tune"
	"mpps/internal/advise/tune/simulated"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/must"
)

// advised is a host that gets the advice of real ones.
type advised struct{ *simulated.Host }

func (a advised) Advise(r *tune.Result, d *bottleneck.Diagnosis) []tune.Advice {
	return tune.Advise(&facts.Host{}, r, d)
}

// runOn tunes a host with a method replaced.
func runOn(t *testing.T, h tune.Host, o tune.Options) *tune.Result {
	t.Helper()
	o.Seed = 1
	r := must.Get(tune.Run(t.Context(), h, o))(t)
	return r
}

func has(r *tune.Result, code string) bool {
	return slices.ContainsFunc(r.Advice, func(a tune.Advice) bool { return a.Code == code })
}

// TestGeneratorAtFirst: a generator that is the limit from the start is named, nothing is tried, and other gear is
// advised.
func TestGeneratorAtFirst(t *testing.T) {
	s := calm(helps("a.helps", "a", 2))
	s.Sends = 0.5e6
	h := simulated.New(s, 1)
	r := runOn(t, advised{h}, tune.Options{Goal: goal.Goal{PPS: 1.5e6}})
	must.Hold(t, r.Verdict == tune.NotDevice && h.Changed <= 0 && has(r, "gear"),
		"%s (%s), %d changes, advice %v", r.Verdict, r.Why, h.Changed, r.Advice)
}

// TestGeneratorOnThePath: a generator that falls behind because the path runs on its CPU, while the diagnosis names a
// stage of the path, does not end the run.
func TestGeneratorOnThePath(t *testing.T) {
	s := calm(helps("a.helps", "a", 1.5))
	s.OnPath = true
	h := simulated.New(s, 1)
	r := runOn(t, advised{h}, tune.Options{Goal: goal.Goal{PPS: 1.9e6}})
	late := slices.ContainsFunc(r.Warnings, func(w tune.Warning) bool { return w.Code == "generator-late" })
	if !slices.Equal(h.Active(), []string{"a.helps"}) || r.Verdict == tune.NotDevice || !late {
		t.Errorf("%s (%s), standing %v, warnings %v", r.Verdict, r.Why, h.Active(), r.Warnings)
	}
}

// TestSlowPace: if the generator falls behind only because of pacing, trials are sent as fast as possible.
func TestSlowPace(t *testing.T) {
	s := calm(helps("a.helps", "a", 1.5))
	s.Paced = 0.6e6
	h := simulated.New(s, 1)
	r := runOn(t, advised{h}, tune.Options{Goal: goal.Goal{PPS: 1.9e6}})
	if !slices.Equal(h.Active(), []string{"a.helps"}) || r.Method.LoadPPS != 0 {
		t.Errorf("%s (%s), standing %v, load %.0f", r.Verdict, r.Why, h.Active(), r.Method.LoadPPS)
	}
}

// TestGeneratorInTheEnd: if the generator is the limit after the gain, that is the verdict; what was kept stays.
func TestGeneratorInTheEnd(t *testing.T) {
	s := calm(helps("a.helps", "a", 1.5))
	s.Sends = 1.3e6
	h := simulated.New(s, 1)
	r := runOn(t, advised{h}, tune.Options{Goal: goal.Goal{PPS: 1.45e6}})
	if r.Verdict != tune.NotDevice || !slices.Equal(h.Active(), []string{"a.helps"}) || !has(r, "gear") {
		t.Errorf("%s (%s), standing %v, advice %v", r.Verdict, r.Why, h.Active(), r.Advice)
	}
	must.Hold(t, !strings.Contains(r.Why, "nothing was changed") && strings.Contains(r.Why, "generator"), "%v", r.Why)
}

// TestFreesGenerator: a knob that only lets the generator send more is no gain of the host; one that starves it is no
// loss, and does not lower the load of later candidates.
func TestFreesGenerator(t *testing.T) {
	s := calm(simulated.Knob{ID: "a.frees", Stage: "a", Weight: 1, SendFactor: 2},
		simulated.Knob{ID: "a.starves", Stage: "a", Weight: 0.9, SendFactor: 0.5}, helps("b.helps", "a", 1.25))
	s.Capacity = map[string]float64{"a": 1e6, "b": 5e6}
	s.Sends = 1.6e6
	s = oneByOne(s)
	r, h := run(t, s, 2, tune.Options{})
	if !slices.Equal(h.Active(), []string{"b.helps"}) {
		t.Errorf("standing %v, expected b.helps alone%s", h.Active(), story(s, r))
	}
	short := 0
	for _, a := range r.Attempts {
		for _, p := range a.Gain.Pairs {
			if p.Short {
				short++
			}
			must.Need(t, p.SentBefore != 0 && p.SentAfter != 0, "%s: %+v does not have what was sent", a.Key, p)
		}
	}
	if short == 0 || short > 12 {
		t.Errorf("%d pairs do not count, expected some%s", short, story(s, r))
	}
}

// backpressed is a host whose path runs on the generator's CPU and takes no more than it carries.
type backpressed struct {
	*simulated.Host
	sent float64
}

func (b *backpressed) Sample(ctx context.Context, pps float64, length int, exact bool) (v float64, err error) {
	b.sent, err = b.Host.Sample(ctx, pps, length, exact)
	return b.sent, err
}

func (b *backpressed) Sent() float64 { return b.sent }

// TestHeldBack: a path that holds the generator back is the host's limit all the same, and is tuned.
func TestHeldBack(t *testing.T) {
	h := &backpressed{Host: simulated.New(calm(helps("a.helps", "a", 1.4)), 1)}
	if r := runOn(t, h, tune.Options{Goal: goal.Goal{PPS: 1e9}}); !slices.Equal(r.Kept, []string{"a.helps"}) {
		t.Errorf("kept %v: %s", r.Kept, r.Why)
	}
}

// unsteady is a host whose path runs on the generator's CPU and whose guest, at first, does not keep up either.
type unsteady struct {
	backpressed
	trials   int
	onSender float64
}

func (u *unsteady) Sample(ctx context.Context, pps float64, length int, exact bool) (float64, error) {
	v, err := u.backpressed.Sample(ctx, pps, length, exact)
	if u.trials++; u.trials < 6 {
		v *= 0.9
	}
	return v, err
}

func (u *unsteady) Diagnose(ctx context.Context, pps float64) (*bottleneck.Diagnosis, error) {
	d, err := u.Host.Diagnose(ctx, pps)
	d.OnSender = u.onSender
	return d, err
}

// TestPathOnSender: a generator that is late only now and then is held back by the path if that takes most of its CPU;
// else what a change does to it is no gain.
func TestPathOnSender(t *testing.T) {
	for share, want := range map[float64][]string{0.85: {"a.helps"}, 0.1: {}} {
		h := &unsteady{backpressed: backpressed{Host: simulated.New(calm(helps("a.helps", "a", 1.4)), 1)}, onSender: share}
		if r := runOn(t, h, tune.Options{Goal: goal.Goal{PPS: 1e9}}); !slices.Equal(r.Kept, want) {
			t.Errorf("with %.0f %% of the generator's CPU: kept %v: %s", 100*share, r.Kept, r.Why)
		}
	}
}

// fickle is a host of which one search, counted from 1, finds little.
type fickle struct {
	*simulated.Host
	searches int
	poor     func(n int) bool
}

func (f *fickle) Search(ctx context.Context) (tune.Rate, error) {
	r, err := f.Host.Search(ctx)
	if f.searches++; f.poor(f.searches) {
		r.PPS = 0.98 * r.PPS
	}
	return r, err
}

// TestMissedInTheEnd: if the last search misses a target that an earlier one had found, the run goes on with what is
// left, and reports the miss if nothing helps.
func TestMissedInTheEnd(t *testing.T) {
	s := oneByOne(calm(helps("a.helps", "a", 1.3), helps("b.helps", "b", 1.3)))
	s.Knobs[0].Weight, s.Capacity["b"] = 1, 1.35e6
	target := goal.Goal{PPS: 0.985 * func() float64 { v, _ := s.Carries(map[string]bool{"a.helps": true}); return v }()}
	h := &fickle{Host: simulated.New(s, 1), poor: func(n int) bool { return n == 3 }}
	r := runOn(t, h, tune.Options{Goal: target})
	if r.Verdict != tune.Met || !slices.Equal(h.Active(), []string{"a.helps", "b.helps"}) {
		t.Errorf("%s (%s), standing %v%s", r.Verdict, r.Why, h.Active(), story(s, r))
	}

	s.Knobs[1].Factors = nil
	h = &fickle{Host: simulated.New(s, 1), poor: func(n int) bool { return n >= 3 }}
	r = runOn(t, h, tune.Options{Goal: target})
	if r.Verdict != tune.Better || attempt(r, "b.helps").N == 0 || len(r.Untried) > 0 ||
		!slices.Equal(h.Active(), []string{"a.helps"}) {
		t.Errorf("%s (%s), not tried %v, standing %v", r.Verdict, r.Why, r.Untried, h.Active())
	}
}

// timed is a host whose measurements and changes take simulated time.
type timed struct {
	*simulated.Host
	now                   time.Time
	trial, search, change time.Duration
}

func (c *timed) Try(ctx context.Context, candidate tune.Candidate) error {
	c.now = c.now.Add(c.change)
	return c.Host.Try(ctx, candidate)
}

func (c *timed) Back(ctx context.Context) error {
	c.now = c.now.Add(c.change)
	return c.Host.Back(ctx)
}

func (c *timed) Sample(ctx context.Context, pps float64, length int, exact bool) (float64, error) {
	c.now = c.now.Add(c.trial * time.Duration(length))
	return c.Host.Sample(ctx, pps, length, exact)
}

func (c *timed) Search(ctx context.Context) (tune.Rate, error) {
	c.now = c.now.Add(c.search)
	return c.Host.Search(ctx)
}

// TestWithinBudget: however long searches take, the run ends within the budget, with what was kept proven and searched
// for.
func TestWithinBudget(t *testing.T) {
	many := []simulated.Knob{helps("a.1", "a", 1.2), helps("a.2", "a", 1.12), helps("a.3", "a", 1.45),
		helps("b.1", "b", 1.1), {ID: "a.4", Stage: "a", Factors: map[string]float64{"a": 1.06, "b": 0.995}}}
	some := 0
	for _, trial := range []time.Duration{time.Second, 4 * time.Second} {
		for _, search := range []time.Duration{5 * time.Second, 20 * time.Second, 40 * time.Second, time.Minute} {
			for budget := max(30*time.Second, search); budget < 10*time.Minute; budget += 7 * time.Second {
				h := &timed{Host: simulated.New(calm(many...), 1), trial: trial, search: search}
				r := runOn(t, h, tune.Options{Goal: goal.Goal{PPS: 1e9}, Budget: budget,
					Now: func() time.Time { return h.now }})
				fail := func(format string, args ...any) {
					t.Helper()
					t.Errorf("budget %v, trials of %v, searches of %v: "+format,
						append([]any{budget, trial, search}, args...)...)
				}
				if took := h.now.Sub(time.Time{}); took > budget+10*trial {
					fail("took %v; %s: %s", took, r.Verdict, r.Why)
				}
				if !slices.Equal(h.Active(), slices.Sorted(slices.Values(r.Kept))) {
					fail("kept %v, standing %v", r.Kept, h.Active())
				}
				if len(r.Warnings) > 0 || r.Final.None != "" {
					fail("no time was left for the proof or the last search: %v, %q", r.Warnings, r.Final.None)
				}
				if len(r.Attempts) == 0 && !strings.Contains(r.Why, "reserved for the proof") {
					fail("%s", r.Why)
				}
				if len(r.Kept) > 0 {
					some++
				}
			}
		}
	}
	must.Hold(t, some >= 300, "%d runs kept anything", some)
}

// TestLength: if changes take long, trials get longer, on both sides alike, until they are most of the time or have
// reached their bound, and gains in noise are seen.
func TestLength(t *testing.T) {
	for _, c := range []struct {
		change      time.Duration
		least, most int
	}{{0, 1, 1}, {50 * time.Millisecond, 1, 2}, {500 * time.Millisecond, 4, 8}, {5 * time.Minute, 16, 16}} {
		kept := 0
		for seed := range uint64(20) {
			s := calm(helps("a.helps", "a", 1.3))
			s.Noise.Jitter = 0.25
			h := &timed{Host: simulated.New(s, seed), trial: 250 * time.Millisecond, search: time.Second,
				change: c.change}
			r := runOn(t, h, tune.Options{Goal: goal.Goal{PPS: 1e9}, Seed: seed, Trial: h.trial,
				Now: func() time.Time { return h.now }})
			for i, p := range attempt(r, "a.helps").Gain.Pairs {
				least, most := c.least, c.most
				if i == 0 { // how long a change takes is not known yet
					least, most = 1, 1
				}
				must.Need(t, p.Length >= least && p.Length <= most,
					"changes of %v: trials of pair %d have length %d, expected %d to %d", c.change, i+1, p.Length,
					least, most)
			}
			kept += len(r.Kept)
		}
		t.Logf("changes of %v: kept in %d of 20 runs", c.change, kept)
		must.Hold(t, kept >= 18, "changes of %v: kept in %d of 20 runs only", c.change, kept)
	}
}

// TestLengthAA: if nothing helps, longer trials keep nothing, whatever the noise.
func TestLengthAA(t *testing.T) {
	longer := 0
	for i, s := range simulated.Healthy(150) {
		h := &timed{Host: simulated.New(s, uint64(i)), trial: 500 * time.Millisecond, search: time.Second,
			change: 6 * time.Second}
		r := runOn(t, h, tune.Options{Seed: uint64(i), Trial: h.trial, Now: func() time.Time { return h.now }})
		must.Hold(t, len(r.Kept) <= 0 && len(h.Active()) <= 0, "%s: kept %v", s.Name, r.Kept)
		for _, a := range r.Attempts {
			for _, p := range a.Gain.Pairs {
				longer = max(longer, p.Length)
			}
		}
	}
	must.Hold(t, longer >= 4, "the longest trials were %d times as long", longer)
}

// endless is a host whose searches, after some good ones, end only with their context.
type endless struct {
	*simulated.Host
	good int
}

func (e *endless) Search(ctx context.Context) (tune.Rate, error) {
	if e.good--; e.good >= 0 {
		return e.Host.Search(ctx)
	}
	<-ctx.Done()
	return tune.Rate{}, ctx.Err()
}

// TestSearchesEnd: a search ends with the budget. What was proven stays; if it was the first search, the error
// says what is too short.
func TestSearchesEnd(t *testing.T) {
	o := tune.Options{Goal: goal.Goal{PPS: 1e9}, Budget: 2 * time.Second, Seed: 1}
	h := &endless{simulated.New(calm(helps("a.helps", "a", 1.4)), 1), 1}
	r := runOn(t, h, o)
	if r.Verdict != tune.OutOfBudget || !slices.Equal(h.Active(), []string{"a.helps"}) || r.Final.None == "" ||
		r.Final.Loaded < 1.2e6 {
		t.Errorf("%s (%s), standing %v, final %+v", r.Verdict, r.Why, h.Active(), r.Final)
	}
	o.Budget = 50 * time.Millisecond
	must.Say(t, must.Err(tune.Run(t.Context(), &endless{simulated.New(still(), 1), 0}, o)),
		"50ms ended within the first search", "error")
}
