package measure

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// campaign is the frame around the trials of a run, whatever a trial is.
type campaign struct {
	step     func(Step)
	cpu      func(context.Context) ([]MachineTimes, error)
	counters func(context.Context) (Counters, error)
	trial    func(context.Context, Load) (Sample, error)
}

// run takes the baselines, warms up, does the trials and judges. See Bench.Run.
func (c *campaign) run(ctx context.Context, run *Run, baselines func(context.Context, *Run) error) error {
	started := time.Now()
	if run.Started.IsZero() {
		run.Started = started
	}
	run.Schema = Schema
	var before Counters
	err := baselines(ctx, run)
	if err == nil {
		err = c.prepare(ctx, run)
	}
	if err == nil {
		before = c.read(ctx, run)
		err = c.trials(ctx, run)
	}
	if before != nil {
		finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if after := c.read(finish, run); after != nil {
			run.Counters = Deltas(before, after)
		}
	}
	if ctx.Err() != nil {
		run.Partial = true
		if errors.Is(err, context.Cause(ctx)) || errors.Is(err, ctx.Err()) {
			err = nil
		}
	}
	if err != nil {
		run.Partial = true
	}
	run.Seconds = time.Since(started).Seconds()
	run.Judge()
	return err
}

// prepare looks at how busy the machine is by itself and warms up.
func (c *campaign) prepare(ctx context.Context, run *Run) error {
	if err := c.idle(ctx, run); err != nil {
		return err
	}
	return c.warmUp(ctx, run)
}

// idle looks at how busy the machine is by itself.
func (c *campaign) idle(ctx context.Context, run *Run) error {
	c.step(Step{What: "idle"})
	before, err := c.cpu(ctx)
	if err != nil {
		return fmt.Errorf("read CPU times: %w", err)
	}
	if err := pause(ctx, min(time.Second, max(300*time.Millisecond, run.Load.Duration/4))); err != nil {
		return err
	}
	after, err := c.cpu(ctx)
	if err != nil {
		return fmt.Errorf("read CPU times: %w", err)
	}
	if len(before) > 0 && len(after) > 0 {
		if m := Between(after[0].Where, before[0].Times, after[0].Times); m.Seconds > 0 {
			run.Baseline.BusyCPUs = m.Busy() / m.Seconds
		}
	}
	return nil
}

func (c *campaign) warmUp(ctx context.Context, run *Run) error {
	if run.Load.WarmUp == 0 {
		return nil
	}
	c.step(Step{What: "warm-up"})
	warm := run.Load
	warm.Duration = run.Load.WarmUp
	if _, err := c.trial(ctx, warm); err != nil {
		return fmt.Errorf("warm-up: %w", err)
	}
	return nil
}

// read reads the counters; nil, and a warning, where they cannot be read: the counts of the ends do not depend on them.
func (c *campaign) read(ctx context.Context, run *Run) Counters {
	counters, err := c.counters(ctx)
	if err != nil {
		run.Warn(Warning{Code: "no-counters", Text: "the interface counters could not be read: " + err.Error(),
			Hint: "losses cannot be located without them"})
		return nil
	}
	return counters
}

func (c *campaign) trials(ctx context.Context, run *Run) error {
	var last *Sample
	for i := range run.Load.Repeat {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		c.step(Step{What: "trial", N: i + 1, M: run.Load.Repeat, Last: last})
		s, err := c.trial(ctx, run.Load)
		if err != nil {
			return fmt.Errorf("trial %d of %d: %w", i+1, run.Load.Repeat, err)
		}
		// A trial that was cut short is as exact as any, but weighs less than its place among the others says.
		if ctx.Err() == nil || (len(run.Samples) == 0 && s.Value(run.Kind) > 0) {
			run.Samples = append(run.Samples, s)
			last = &run.Samples[len(run.Samples)-1]
		}
	}
	return nil
}

// once takes one sample: warm-up, then a trial between two readings of the counters. Errors and an ended context are
// those of run; nothing is judged.
func (c *campaign) once(ctx context.Context, run *Run, baselines func(context.Context, *Run) error) error {
	run.Load.Repeat = 1
	if err := baselines(ctx, run); err != nil {
		return err
	}
	if err := c.warmUp(ctx, run); err != nil {
		return err
	}
	before := c.read(ctx, run)
	if err := c.trials(ctx, run); err != nil {
		return err
	}
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	run.Counters = Deltas(before, c.read(finish, run))
	return nil
}
