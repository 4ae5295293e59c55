package measure

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// campaign runs the trials of a run, whatever a trial is, and what surrounds them.
type campaign struct {
	step     func(Step)
	cpu      func(context.Context) ([]MachineTimes, error)
	counters func(context.Context) (Counters, error)
	trial    func(context.Context, Load) (Sample, error)
	// baselines measures the parts of the measuring gear alone; nil: there are none.
	baselines func(context.Context, *Run) error
}

// run takes the baselines, warms up, runs the trials and judges. See Bench.Run.
func (c *campaign) run(ctx context.Context, run *Run) error {
	started := time.Now()
	if run.Started.IsZero() {
		run.Started = started
	}
	run.Schema = Schema
	var before Counters
	err := c.measureAlone(ctx, run)
	if err == nil {
		err = c.prepare(ctx, run)
	}
	if err == nil {
		before = c.read(ctx, run)
		err = c.trials(ctx, run)
	}
	run.Counters = c.counterDeltas(ctx, run, before)
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

func (c *campaign) measureAlone(ctx context.Context, run *Run) error {
	if c.baselines == nil {
		return nil
	}
	return c.baselines(ctx, run)
}

// prepare measures how busy the machine is without the load, then warms up.
func (c *campaign) prepare(ctx context.Context, run *Run) error {
	if err := c.idle(ctx, run); err != nil {
		return err
	}
	return c.warmUp(ctx, run)
}

// idle measures how busy the machine is without the load.
func (c *campaign) idle(ctx context.Context, run *Run) error {
	c.step(Step{What: "the machine without the load"})
	before, err := c.cpu(ctx)
	if err != nil {
		return fmt.Errorf("read CPU times: %w", err)
	}
	if err := Pause(ctx, min(time.Second, max(300*time.Millisecond, run.Load.Duration/4))); err != nil {
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

// read returns the counters. If they cannot be read it returns nil and adds a warning; the counts of the ends do not
// depend on them.
func (c *campaign) read(ctx context.Context, run *Run) Counters {
	counters, err := c.counters(ctx)
	if err != nil {
		run.Warn(noCounters(err))
		return nil
	}
	return counters
}

// counterDeltas returns how far the counters moved since before, nil if either reading failed. It reads them even if
// ctx has ended.
func (c *campaign) counterDeltas(ctx context.Context, run *Run, before Counters) []Delta {
	if before == nil {
		return nil
	}
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	after := c.read(finish, run)
	if after == nil {
		return nil
	}
	return Deltas(before, after)
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
		// The counts of a trial that was cut short are exact, but the trial is shorter than the others and would weigh
		// as much: it is kept only if there is no other sample.
		if ctx.Err() == nil || (len(run.Samples) == 0 && s.Value(run.Kind) > 0) {
			run.Samples = append(run.Samples, s)
			last = &run.Samples[len(run.Samples)-1]
		}
	}
	return nil
}

// once takes one sample: warm-up, then a trial between two readings of the counters. It treats errors and the end of
// ctx as run does, and does not judge.
func (c *campaign) once(ctx context.Context, run *Run) error {
	run.Load.Repeat = 1
	if err := c.measureAlone(ctx, run); err != nil {
		return err
	}
	if err := c.warmUp(ctx, run); err != nil {
		return err
	}
	before := c.read(ctx, run)
	if err := c.trials(ctx, run); err != nil {
		return err
	}
	run.Counters = c.counterDeltas(ctx, run, before)
	return nil
}
