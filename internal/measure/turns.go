package measure

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Configuration is one side of an interleaved comparison.
type Configuration struct {
	Run    *Run                        // filled in by the caller as for Bench.Run; gets the side's samples and verdict
	Switch func(context.Context) error // switches to the configuration from the other one
}

// Interleave measures two configurations of the device in randomised blocks, ABBA or BAAB. It starts in configuration
// A, calls Switch only to change sides, and warms the path up after each switch. Generator, receiver and idle machine
// are measured alone for each side when it is first reached. Both runs get the samples of complete blocks, two per
// block, and are judged. Errors and the end of ctx are treated as by the function Interleave. The caller must switch
// back to A.
func (b *Bench) Interleave(ctx context.Context, sides [2]Configuration, blocks int, seed uint64) (Interleaved, error) {
	return b.campaign().interleave(ctx, sides, blocks, seed)
}

// turns is the state of an interleaved comparison.
type turns struct {
	*campaign
	sides    [2]Configuration
	current  Side
	measured [2]bool      // sides whose baselines were taken
	deltas   [2][][]Delta // of the counters, by side and trial
	n, of    int
	last     *Sample
}

func (c *campaign) interleave(ctx context.Context, sides [2]Configuration, blocks int, seed uint64) (Interleaved,
	error) {
	started := time.Now()
	t := &turns{campaign: c, sides: sides, of: 4 * blocks}
	take := func(side Side) func(context.Context) (Sample, error) {
		return func(ctx context.Context) (Sample, error) { return t.take(ctx, side) }
	}
	result, err := Interleave(ctx, sides[A].Run.Kind, take(A), take(B), blocks, seed)
	for side, s := range sides {
		run := s.Run
		run.Schema, run.Seconds, run.Partial = Schema, time.Since(started).Seconds(), result.Partial
		run.Load.Repeat = 2 * blocks
		if run.Started.IsZero() {
			run.Started = started
		}
		run.Samples = result.samplesOf(Side(side))
		run.Counters = sumDeltas(t.deltas[side][:len(run.Samples)])
		run.Judge()
	}
	return result, err
}

// take switches to a side if needed and runs one trial.
func (t *turns) take(ctx context.Context, side Side) (Sample, error) {
	s := t.sides[side]
	fresh := t.current != side
	if fresh {
		if err := s.Switch(ctx); err != nil {
			return Sample{}, err
		}
		t.current = side
	}
	var err error
	switch {
	case !t.measured[side]:
		if err = t.measureAlone(ctx, s.Run); err == nil {
			err = t.prepare(ctx, s.Run)
		}
		t.measured[side] = true
	case fresh:
		err = t.warmUp(ctx, s.Run)
	}
	if err != nil {
		return Sample{}, err
	}
	t.n++
	t.step(Step{What: "trial", N: t.n, M: t.of, Last: t.last})
	before := t.read(ctx, s.Run)
	sample, err := t.trial(ctx, s.Run.Load)
	if err != nil {
		return sample, fmt.Errorf("trial %d of %d: %w", t.n, t.of, err)
	}
	t.deltas[side] = append(t.deltas[side], t.counterDeltas(ctx, s.Run, before))
	t.last = &sample
	return sample, nil
}

// samplesOf returns the samples of one side, in the order taken.
func (r Interleaved) samplesOf(side Side) []Sample {
	samples := []Sample{}
	for i, order := range r.Order {
		for j, s := range order {
			if s == side {
				samples = append(samples, r.Samples[i][j])
			}
		}
	}
	return samples
}

// sumDeltas sums up what the counters did in several trials. Before is that of the first trial and After that of the
// last, so they differ by more than Delta if the other side was measured in between.
func sumDeltas(trials [][]Delta) []Delta {
	var all []Delta
	for _, deltas := range trials {
		for _, d := range deltas {
			at := slices.IndexFunc(all, func(have Delta) bool { return have.Counter == d.Counter })
			if at < 0 {
				all = append(all, d)
				continue
			}
			all[at].Delta, all[at].After = all[at].Delta+d.Delta, d.After
		}
	}
	slices.SortFunc(all, func(x, y Delta) int { return compareCounters(x.Counter, y.Counter) })
	return all
}
