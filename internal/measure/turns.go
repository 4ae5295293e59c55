package measure

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Configuration is one side of an interleaved comparison.
type Configuration struct {
	Run   *Run                        // filled in by the caller as for Bench.Run; gets the side's samples and verdict
	Bring func(context.Context) error // brings the configuration about from the other one
}

// Interleave measures two configurations of the device in randomised blocks, ABBA or BAAB. A stands at the beginning;
// the functions Bring are called only where the other side stands, and traffic warms the path up after each. What the
// generator, the receiver and the idle machine do alone is taken for each side when it is first brought about. Both
// runs get the samples of whole blocks, two a block, and are judged. Errors and an ended context are those of the
// function Interleave; the caller brings A about again.
func (b *Bench) Interleave(ctx context.Context, sides [2]Configuration, blocks int, seed uint64) (Interleaved, error) {
	return b.campaign().interleave(ctx, sides, blocks, seed, b.baselines)
}

// InterleaveExchange is Bench.Interleave for a conversation.
func InterleaveExchange(ctx context.Context, e Exchange, sides [2]Configuration, blocks int, seed uint64,
	progress func(Step)) (Interleaved, error) {
	none := func(context.Context, *Run) error { return nil }
	return exchangeCampaign(e, progress).interleave(ctx, sides, blocks, seed, none)
}

// turns is an interleaved comparison while it goes on.
type turns struct {
	*campaign
	sides     [2]Configuration
	baselines func(context.Context, *Run) error
	standing  Side
	seen      [2]bool      // sides whose baselines were taken
	deltas    [2][][]Delta // of the counters, by side and trial
	n, of     int
	last      *Sample
}

func (c *campaign) interleave(ctx context.Context, sides [2]Configuration, blocks int, seed uint64,
	baselines func(context.Context, *Run) error) (Interleaved, error) {
	started := time.Now()
	t := &turns{campaign: c, sides: sides, baselines: baselines, of: 4 * blocks}
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
		run.Samples = result.of(Side(side))
		run.Counters = sum(t.deltas[side][:len(run.Samples)])
		run.Judge()
	}
	return result, err
}

// take brings a side about and does one trial of it.
func (t *turns) take(ctx context.Context, side Side) (Sample, error) {
	s := t.sides[side]
	fresh := t.standing != side
	if fresh {
		if err := s.Bring(ctx); err != nil {
			return Sample{}, err
		}
		t.standing = side
	}
	var err error
	switch {
	case !t.seen[side]:
		if err = t.baselines(ctx, s.Run); err == nil {
			err = t.prepare(ctx, s.Run)
		}
		t.seen[side] = true
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
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	t.deltas[side] = append(t.deltas[side], Deltas(before, t.read(finish, s.Run)))
	t.last = &sample
	return sample, nil
}

// of are the samples of one side, in the order in which they were taken.
func (r Interleaved) of(side Side) []Sample {
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

// sum adds up what counters did in several trials. Before and After are those of the first trial and of the last, so
// that they differ by more than Delta where the other side was measured between.
func sum(trials [][]Delta) []Delta {
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
