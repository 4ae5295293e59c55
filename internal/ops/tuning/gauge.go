package tuning

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mpps/internal/advise/tune"
	"mpps/internal/measure"
	"mpps/internal/measure/adapter"
	"mpps/internal/measure/search"
	"mpps/internal/measure/traffic"
	"mpps/internal/model/goal"
	"mpps/internal/ops"
	"mpps/internal/ops/bench"
)

// Gauge measures the path for a tuning run, with our own generator or by an external program's trials.
type Gauge interface {
	// Sample measures what arrives at a rate, in packets per second, for a time. exact counts every frame, late ones
	// too, so that losses compare.
	Sample(ctx context.Context, pps float64, length time.Duration, exact bool) (Trial, error)
	// Flood sends at a rate, in packets per second, until done is closed; an external program finishes its trial.
	Flood(ctx context.Context, pps float64, done <-chan struct{}) error
	// Search finds the highest rate with no more loss than the goal allows.
	Search(ctx context.Context) (tune.Rate, error)
	// Netns returns the network namespaces of the path; the empty name is that of this process.
	Netns() []string
	// SendsHere reports whether packets leave from this machine's own generator.
	SendsHere() bool
	Close() error
}

// Trial holds the rates that a trial counted, in packets per second.
type Trial struct {
	Sent float64 // sent; 0: unknown
	PPS  float64 // received
}

// maxSearch is the longest traffic of a search in a tuning run; a sixth of the run's budget if that is less.
const maxSearch = time.Minute

// searchOptions returns the options of searches in a tuning run. budget is that of the run; 0: unlimited.
func searchOptions(g goal.Goal, budget time.Duration, maxPPS float64, progress func(search.Step)) search.Options {
	o := search.Options{
		Mode: search.Fast, PDR: 0.005, Width: 0.02, Budget: maxSearch, FrameBytes: g.Frame, MaxPPS: maxPPS,
		Progress: progress,
		MinPPS:   max(1, maxPPS/10000),
	}
	if budget > 0 {
		o.Budget = min(maxSearch, budget/6)
	}
	if g.Loss > 0 {
		o.PDR = g.Loss
	}
	return o
}

// rateFor returns the rate that a search found for a goal: the PDR if the goal allows loss, else the NDR.
func rateFor(r *search.Result, g goal.Goal, limit string) tune.Rate {
	found := r.NDR
	if g.Loss > 0 {
		found = r.PDR
	}
	rate := tune.Rate{UpperPPS: found.UpperPPS, LimitedBy: limit, Loss: g.Loss, Seconds: r.Seconds, Trials: r.Trials,
		None: found.None, Loaded: r.Device.CapacityPPS}
	if found.LowerPPS != nil {
		rate.PPS = *found.LowerPPS
	}
	return rate
}

// pathGauge sends without an end between the trials of one rate, so that nearly all of a run's time is measured.
type pathGauge struct {
	*bench.Gauge
	env    *ops.Env
	goal   goal.Goal
	budget time.Duration // of the whole run; 0: none
	spaces []string
	away   bool // the far end sends

	running *measure.Running // nil: nothing is sent
	load    measure.Load     // of running
	until   time.Time        // when running ends by itself
}

// NewPathGauge returns a gauge with our own generator and receiver.
func NewPathGauge(ctx context.Context, env *ops.Env, p *bench.Path, load measure.Load, g goal.Goal,
	budget time.Duration) (Gauge, error) {
	opened, err := bench.OpenGauge(ctx, env, p, load)
	if err != nil {
		return nil, err
	}
	opened.Bench.Still = 100 * time.Millisecond
	spaces := []string{""}
	for _, end := range []traffic.Endpoint{p.From, p.To} {
		if end.Netns != "" {
			spaces = append(spaces, end.Netns)
		}
	}
	return &pathGauge{Gauge: opened, env: env, goal: g, budget: budget, spaces: spaces,
		away: p.Reverse && p.Agent != ""}, nil
}

func (p *pathGauge) Sample(ctx context.Context, pps float64, length time.Duration, exact bool) (Trial, error) {
	if exact {
		return p.exactly(ctx, pps, length)
	}
	var trial Trial
	err := p.whileSending(ctx, pps, length, func() error {
		s, err := p.running.Slice(ctx, length)
		trial = Trial{Sent: s.Sent, PPS: s.Received}
		return err
	})
	return trial, err
}

// exactly runs a separate trial, which counts late frames too.
func (p *pathGauge) exactly(ctx context.Context, pps float64, length time.Duration) (Trial, error) {
	p.stop()
	load := p.Load
	load.Rate, load.Duration = pps, length
	s, err := p.Bench.Trial(ctx, load)
	if err != nil {
		return Trial{}, err
	}
	return Trial{Sent: perSecond(s.Sent, s.Seconds), PPS: s.PPS}, nil
}

// sendAgain is how often a load is begun that ends by itself: by an interface that goes down for a moment, when it gets
// other queues, or where the load starves the control connection of the agent.
const sendAgain = 5

// whileSending calls act while the rate is sent, for length at least. If sending ends meanwhile, both are begun again.
func (p *pathGauge) whileSending(ctx context.Context, pps float64, length time.Duration, act func() error) error {
	for n := 1; ; n++ {
		err := p.send(ctx, pps, length)
		if err == nil {
			err = act()
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
		why := p.stop()
		if n == sendAgain || !errors.Is(err, measure.ErrOver) {
			return errors.Join(err, why)
		}
	}
}

// longestSending is how long is sent until everything is begun again: bridges forget a receiver that sends nothing
// after five minutes (ageing_time), and are told where it is when sending begins.
const longestSending = 2 * time.Minute

// send sees to it that the rate is sent for a time from now on.
func (p *pathGauge) send(ctx context.Context, pps float64, length time.Duration) error {
	load := p.Load
	load.Rate, load.Duration = pps, max(longestSending, 2*length)
	if p.running != nil && p.load == load && time.Until(p.until) > length+time.Second {
		return nil
	}
	p.stop()
	running, err := p.Bench.Start(ctx, load)
	if err != nil {
		return err
	}
	p.running, p.load, p.until = running, load, time.Now().Add(load.Duration)
	return nil
}

// stop ends what is being sent. Its error is what had ended that before: if it lasts, the next trial meets it too.
func (p *pathGauge) stop() error {
	if p.running == nil {
		return nil
	}
	err := p.running.Close()
	p.running = nil
	return err
}

// perSecond returns a count as a rate; 0 if it took no time.
func perSecond(n uint64, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return float64(n) / seconds
}

func (p *pathGauge) Flood(ctx context.Context, pps float64, done <-chan struct{}) error {
	return p.whileSending(ctx, pps, longestSending/2, func() error { return p.running.Wait(ctx, done) })
}

func (p *pathGauge) Search(ctx context.Context) (tune.Rate, error) {
	p.stop()
	s, err := p.Gauge.Search(ctx, searchOptions(p.goal, p.budget, 0, searchProgress(p.env)))
	if err != nil {
		return tune.Rate{}, err
	}
	return rateFor(&s.Result, p.goal, s.LimitedBy), nil
}

func (p *pathGauge) Close() error {
	p.stop()
	return p.Gauge.Close()
}

func (p *pathGauge) Netns() []string { return p.spaces }

func (p *pathGauge) SendsHere() bool { return !p.away }

// NewProgramGauge returns a gauge that measures by an external program's trials, at rates up to maxPPS.
func NewProgramGauge(env *ops.Env, command string, grace time.Duration, maxPPS float64, g goal.Goal,
	budget time.Duration) (Gauge, error) {
	p, err := adapter.Start(command, grace)
	if err != nil {
		return nil, err
	}
	return &programGauge{env: env, program: p, goal: g, budget: budget, maxPPS: maxPPS}, nil
}

type programGauge struct {
	env     *ops.Env
	program *adapter.Program
	goal    goal.Goal
	budget  time.Duration // of the whole run; 0: none
	maxPPS  float64
}

func (p *programGauge) Sample(ctx context.Context, pps float64, length time.Duration, _ bool) (Trial, error) {
	if pps == 0 { // as fast as possible
		pps = p.maxPPS
	}
	o, err := p.program.Trial(ctx, search.Trial{PPS: min(pps, p.maxPPS), Seconds: length.Seconds(),
		FrameBytes: p.goal.Frame})
	if err != nil {
		return Trial{}, err
	}
	if o.Seconds <= 0 {
		return Trial{}, fmt.Errorf("a trial of %v took no time", length)
	}
	return Trial{Sent: perSecond(o.Sent, o.Seconds), PPS: perSecond(o.Received, o.Seconds)}, nil
}

// Flood has the program run one trial after another. It cuts none short: the program could not be used afterwards.
func (p *programGauge) Flood(ctx context.Context, pps float64, done <-chan struct{}) error {
	for {
		if _, err := p.Sample(ctx, pps, 3*time.Second, true); err != nil {
			return err
		}
		select {
		case <-done:
			return nil
		default:
		}
	}
}

func (p *programGauge) Search(ctx context.Context) (tune.Rate, error) {
	r, err := search.Run(ctx, p.program, searchOptions(p.goal, p.budget, p.maxPPS, searchProgress(p.env)))
	if err != nil {
		return tune.Rate{}, err
	}
	return rateFor(r, p.goal, bench.LimitOf(r)), nil
}

func (p *programGauge) Netns() []string { return nil }

func (p *programGauge) SendsHere() bool { return false }

func (p *programGauge) Close() error { return p.program.Close() }

// searchProgress shows a search's trials.
func searchProgress(env *ops.Env) func(search.Step) {
	return func(s search.Step) {
		env.Out.Progress("search: trial %d, %s pps for %g s (%s)", s.N, goal.FormatRate(s.PPS), s.Seconds, s.Purpose)
	}
}
