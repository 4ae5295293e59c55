package search

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"mpps/internal/measure/search/simulated"
	"mpps/internal/must"
)

// arithmetic is a simulated device.
type arithmetic struct{ *simulated.Device }

func (d arithmetic) Trial(_ context.Context, t Trial) (Outcome, error) {
	sent, received := d.Device.Trial(t.PPS, t.Seconds)
	return Outcome{sent, received, t.Seconds}, nil
}

func options(mode Mode) Options {
	o := Options{Mode: mode, MinPPS: 9001, MaxPPS: simulated.LineRate, FrameBytes: 64, PDR: 0.005, Width: 0.005,
		Budget: time.Minute, Final: time.Minute}
	if mode == Compliant {
		o.Budget = 20 * time.Minute
	}
	return o
}

// hidden are the capacities of the cases.
func hidden(n int) float64 { return 0.1e6 * math.Pow(140, (float64(n)+0.5)/20) }

// searches are those that more than one test looks at.
var searches sync.Map

// find is a search, done once.
func find(t *testing.T, mode Mode, kind string, n int) *Result {
	t.Helper()
	once, _ := searches.LoadOrStore(fmt.Sprint(mode, kind, n),
		sync.OnceValue(func() *Result { return simulate(t, mode, kind, n) }))
	return once.(func() *Result)()
}

func simulate(t *testing.T, mode Mode, kind string, n int) *Result {
	t.Helper()
	d := must.Get(simulated.New(kind, hidden(n), uint64(n+1)))(t)
	r, err := Run(t.Context(), arithmetic{d}, options(mode))
	must.Need(t, err == nil, "%s %d: %v", kind, n, err)
	return r
}

// What a search may take and err, on 20 hidden capacities. The figures are what it has to reach: a third of the seconds
// that MLRsearch 1.2.1 takes with the goals of CSIT, and its errors ('make bench-search' has both side by side).
func TestFast(t *testing.T) {
	for _, c := range []struct {
		kind                 string
		every                int     // of how many capacities one is tried
		seconds, mean, worst float64 // most seconds on average; errors of the lower bounds, %
	}{
		{"clean", 1, 35.0 / 3, 0.25, 0.49}, {"jitter", 1, 42.1 / 3, 0.25, 0.55}, {"stalls", 1, 42.8 / 3, 0.25, 0.52},
		{"buffer", 1, 35.0 / 3, 0.25, 0.5}, {"buffer-jitter", 3, 18, 0.25, 0.5}, {"drift", 2, 39.2 / 3, 0.25, 0.5},
		{"bistable", 2, 20, 0.25, 0.49}, {"livelock", 4, 20, 0.25, 0.55},
	} {
		t.Run(c.kind, func(t *testing.T) {
			t.Parallel()
			var seconds, sum, worst, covered, bounds float64
			for n := 0; n < 20; n += c.every {
				r := find(t, Fast, c.kind, n)
				if r.NDR.LowerPPS == nil || r.NDR.UpperPPS == nil || r.PDR.LowerPPS == nil || r.PDR.UpperPPS == nil {
					t.Fatalf("%s %d: no bounds: %+v", c.kind, n, r)
				}
				for i, f := range []Found{r.NDR, r.PDR} {
					truth := hidden(n) / []float64{1, 0.995}[i]
					if *f.LowerPPS <= truth && truth <= *f.UpperPPS {
						covered++
					}
					e := 100 * (*f.LowerPPS/truth - 1)
					sum, worst, bounds = sum+e, max(worst, math.Abs(e)), bounds+1
				}
				seconds += r.Seconds
			}
			if seconds /= bounds / 2; seconds > c.seconds || math.Abs(sum/bounds) > c.mean || worst > c.worst ||
				covered < 0.95*bounds {
				t.Errorf("%s: %.1f s, errors %.2f %% on average and %.2f %% at worst, the truth covered %g times of %g",
					c.kind, seconds, sum/bounds, worst, covered, bounds)
			}
		})
	}
}

func TestCompliant(t *testing.T) {
	for _, c := range []struct {
		kind    string
		seconds float64
	}{{"clean", 132}, {"jitter", 132}, {"drift", 132}, {"buffer", 170}} {
		t.Run(c.kind, func(t *testing.T) {
			t.Parallel()
			var seconds float64
			for n := range 20 {
				r := find(t, Compliant, c.kind, n)
				seconds += r.Seconds / 20
				for _, f := range []Found{r.NDR, r.PDR} {
					if f.LowerPPS == nil || f.UpperPPS == nil || f.Lower.By != "trial" || f.Lower.Seconds != 60 ||
						f.Lower.LossRate > f.LossRatio {
						t.Fatalf("%s %d: %+v: expected a lower bound proven by a final trial", c.kind, n, f)
					}
					if width := *f.UpperPPS / *f.LowerPPS - 1; width > 0.00501 || width <= 0 {
						t.Errorf("%s %d: the bounds of %s are %.3f %% apart", c.kind, n, f.Name, 100*width)
					}
					if e := *f.LowerPPS/(hidden(n)/(1-f.LossRatio)) - 1; e < -0.0075 || e > 0.003 {
						t.Errorf("%s %d: %s errs by %.2f %%", c.kind, n, f.Name, 100*e)
					}
				}
			}
			if seconds > c.seconds {
				t.Errorf("%s: %.1f s on average, expected %g at the most", c.kind, seconds, c.seconds)
			}
		})
	}
}

// With stalls the compliant search tells the worst second, or what no final trial met.
func TestCompliantStalls(t *testing.T) {
	t.Parallel()
	for n := range 20 {
		r := find(t, Compliant, "stalls", n)
		if r.NDR.LowerPPS == nil {
			t.Errorf("stalls %d: no final trial passed", n)
			continue
		}
		if e := *r.NDR.LowerPPS/hidden(n) - 1; e < -0.06 || e > 0 {
			t.Errorf("stalls %d: %.2f %%, expected the worst second, 5 %% below the typical one, or what no trial of "+
				"60 s met", n, 100*e)
		}
	}
}

// A device that loses packets at any load has no NDR, and the search ends.
func TestFloor(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{Fast, Compliant} {
		for n := range 20 {
			r := find(t, mode, "floor", n)
			if !strings.HasPrefix(r.NDR.None, "no rate without loss; floor 0.0") || r.NDR.LowerPPS != nil ||
				math.Abs(r.FloorRate-0.0003) > 0.0001 {
				t.Errorf("%s %d: %q, floor %g, %+v", mode, n, r.NDR.None, r.FloorRate, r.NDR)
			}
			if r.PDR.LowerPPS == nil || math.Abs(*r.PDR.LowerPPS/(hidden(n)*0.9997/0.995)-1) > 0.006 {
				t.Errorf("%s %d: PDR %+v", mode, n, r.PDR)
			}
		}
	}
}

// With stalls a fast search tells the typical second and, where it met one, the worst.
func TestWorstSecond(t *testing.T) {
	t.Parallel()
	met := 0
	for n := range 20 {
		r := find(t, Fast, "stalls", n)
		if r.WorstPPS > 0 {
			met++
			if e := r.WorstPPS/hidden(n) - 1; e < -0.11 || e > -0.002 {
				t.Errorf("%d: worst second at %.2f %%", n, 100*e)
			}
		}
	}
	must.Hold(t, met != 0, "no search met a stall")
}

func TestLimits(t *testing.T) {
	t.Parallel()
	faster := must.Get(simulated.New("clean", 20e6, 1))(t)
	for _, mode := range []Mode{Fast, Compliant} {
		r, err := Run(t.Context(), arithmetic{faster}, options(mode))
		must.Hold(t, err == nil && r.LimitedBy == "load" && r.NDR.LowerPPS != nil &&
			*r.NDR.LowerPPS == simulated.LineRate && r.NDR.UpperPPS == nil,
			"%s, a device faster than the highest load: %+v, %v", mode, r, err)
		if mode == Compliant && r.NDR.Lower.Seconds != 60 {
			t.Errorf("the highest load was tried for %g s, expected a final trial", r.NDR.Lower.Seconds)
		}
		slower, _ := simulated.New("clean", 1000, 1)
		r, err = Run(t.Context(), arithmetic{slower}, options(mode))
		must.Hold(t, err == nil && r.NDR.LowerPPS == nil && r.NDR.UpperPPS != nil &&
			strings.Contains(r.NDR.None, "lowest load"),
			"%s, a device slower than the lowest load: %+v, %v", mode, r, err)
	}
}

// scripted answers as it is told.
type scripted func(n int, t Trial) (Outcome, error)

type script struct {
	n int
	f scripted
}

func (s *script) Trial(_ context.Context, t Trial) (Outcome, error) {
	s.n++
	return s.f(s.n, t)
}

func capped(capacity float64, t Trial) Outcome {
	return Outcome{uint64(t.PPS * t.Seconds), uint64(min(t.PPS, capacity) * t.Seconds), t.Seconds}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	broken := errors.New("the wire was cut")
	for name, f := range map[string]scripted{
		"dies": func(n int, t Trial) (Outcome, error) {
			if n > 4 {
				return Outcome{}, broken
			}
			return capped(1e6, t), nil
		},
		"sends nothing":       func(int, Trial) (Outcome, error) { return Outcome{0, 0, 1}, nil },
		"receives more":       func(int, Trial) (Outcome, error) { return Outcome{10, 11, 1}, nil },
		"takes no time":       func(int, Trial) (Outcome, error) { return Outcome{10, 10, 0}, nil },
		"takes not a number":  func(int, Trial) (Outcome, error) { return Outcome{10, 10, math.NaN()}, nil },
		"takes infinite time": func(int, Trial) (Outcome, error) { return Outcome{10, 10, math.Inf(1)}, nil },
	} {
		r, err := Run(t.Context(), &script{f: f}, options(Fast))
		must.Refuse(t, err, "%s: no error", name)
		if name == "dies" && (!errors.Is(err, broken) || r == nil || !r.Partial || r.NDR.LowerPPS == nil) {
			t.Errorf("%s: %+v, %v: expected what was known by then, marked partial", name, r, err)
		}
		if name != "dies" && r != nil {
			t.Errorf("%s: %+v: expected no result", name, r)
		}
	}
	nothing := &script{f: func(_ int, t Trial) (Outcome, error) {
		return Outcome{uint64(t.PPS * t.Seconds), 0, t.Seconds}, nil
	}}
	if r, err := Run(t.Context(), nothing, options(Fast)); err != nil || r.NDR.LowerPPS != nil || r.NDR.None == "" ||
		nothing.n > 40 {
		t.Errorf("a device that forwards nothing: %+v, %v after %d trials", r, err, nothing.n)
	}
}

// A generator that falls short of what it is asked for by some percent does not mislead the search, and one that cannot
// overload the device is named.
func TestGeneratorFallsShort(t *testing.T) {
	t.Parallel()
	short := &script{f: func(_ int, t Trial) (Outcome, error) { t.PPS *= 0.967; return capped(1e6, t), nil }}
	r, err := Run(t.Context(), short, options(Fast))
	if err != nil || r.NDR.LowerPPS == nil || math.Abs(*r.NDR.LowerPPS/1e6-1) > 0.004 || r.NDR.Lower.By != "trial" ||
		r.Irregular {
		t.Errorf("a generator that falls short by 3 %%: %+v, %v", r, err)
	}
	slow := &script{f: func(_ int, t Trial) (Outcome, error) { t.PPS = min(t.PPS, 2e6); return capped(5e6, t), nil }}
	if r, err = Run(t.Context(), slow, options(Fast)); err != nil || r.LimitedBy != "generator" {
		t.Errorf("a generator that is slower than the device: %+v, %v", r, err)
	}
}

// A clock that is set while a trial runs spoils neither the result nor the budget.
func TestClockSteps(t *testing.T) {
	for _, factor := range []float64{0.01, 1200} {
		for _, at := range []int{1, 2, 4, 6} {
			d := &script{f: func(n int, t Trial) (Outcome, error) {
				o := capped(1e6, t)
				if n == at || n == at+1 {
					o.Seconds *= factor
				}
				return o, nil
			}}
			r, err := Run(t.Context(), d, options(Fast))
			if err != nil || r.Seconds > 30 || d.n != r.Trials+2 || !r.Irregular || r.NDR.LowerPPS == nil ||
				math.Abs(*r.NDR.LowerPPS/1e6-1) > 0.002 || *r.NDR.UpperPPS < 1e6 {
				t.Errorf("trials %d and %d took %g times as long: %+v, %v", at, at+1, factor, r, err)
			}
		}
	}
	// Who always takes longer is slow.
	slow := &script{f: func(_ int, t Trial) (Outcome, error) { o := capped(1e9, t); o.Seconds *= 2; return o, nil }}
	if r, err := Run(t.Context(), slow, options(Fast)); err != nil || r.LimitedBy != "generator" || slow.n > 10 {
		t.Errorf("a generator that takes twice as long: %+v, %v", r, err)
	}
}

// A budget is kept, whatever the device does.
func TestBudget(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"clean", "stalls", "livelock", "floor"} {
		for _, budget := range []time.Duration{3 * time.Second, 8 * time.Second, 90 * time.Second} {
			for _, mode := range []Mode{Fast, Compliant} {
				d := must.Get(simulated.New(kind, 1e6, 7))(t)
				o := options(mode)
				o.Budget = budget
				r, err := Run(t.Context(), arithmetic{d}, o)
				if err != nil || r.Seconds > budget.Seconds() {
					t.Errorf("%s %s: %v of traffic for a budget of %v, %v", mode, kind, r.Seconds, budget, err)
				}
			}
		}
	}
}

func TestRepeats(t *testing.T) {
	t.Parallel()
	a, b := simulate(t, Fast, "stalls", 3), simulate(t, Fast, "stalls", 3)
	must.Hold(t, *a.NDR.LowerPPS == *b.NDR.LowerPPS && *a.PDR.UpperPPS == *b.PDR.UpperPPS && a.Seconds == b.Seconds,
		"the same device gave %g and %g", *a.NDR.LowerPPS, *b.NDR.LowerPPS)
}

func TestInterrupted(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	d := &script{f: func(n int, t Trial) (Outcome, error) {
		if n == 5 {
			stop()
		}
		return capped(1e6, t), nil
	}}
	r, err := Run(ctx, d, options(Fast))
	must.Hold(t, errors.Is(err, context.Canceled) && r != nil && r.Partial && r.Trials == 5,
		"%+v, %v: expected five trials, marked partial", r, err)
}

func TestCheck(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"mode": func(o *Options) { o.Mode = "quick" }, "no highest": func(o *Options) { o.MaxPPS = 0 },
		"lowest above": func(o *Options) { o.MinPPS = 1e9 }, "not a number": func(o *Options) { o.MaxPPS = math.NaN() },
		"no loss": func(o *Options) { o.PDR = 0 }, "all lost": func(o *Options) { o.PDR = 1 },
		"no width":  func(o *Options) { o.Width = 0 },
		"no budget": func(o *Options) { o.Budget = 0 }, "no final": func(o *Options) { o.Mode, o.Final = Compliant, 0 },
	} {
		o := options(Fast)
		change(&o)
		must.Refuse(t, o.Check(), "%s: accepted", name)
	}
}
