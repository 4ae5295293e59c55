package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
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

// SchemaAB is the version of the format of interleaved comparisons.
const SchemaAB = "mpps.ab/1"

// ErrInterleaved is wrapped if an interleaved comparison, which holds two runs, was found instead of a run.
var ErrInterleaved = errors.New("an interleaved comparison, not a single run")

// AB is an interleaved comparison, as saved files and --json contain it.
type AB struct {
	Schema string `json:"schema"`
	Kind   Kind   `json:"kind"`
	Unit   string `json:"unit"`
	Name   string `json:"name,omitempty"` // a label for people
	Comparison
	Verdict string      `json:"verdict"` // "~" for no significant difference
	Cost    *Comparison `json:"cpu_ns_per_unit,omitempty"`

	Seed    uint64   `json:"seed"`    // of the order: seed and number of blocks determine it
	Blocks  int      `json:"blocks"`  // blocks requested
	Order   []string `json:"order"`   // of completed blocks: "ABBA" or "BAAB", A is before
	Values  []Block  `json:"values"`  // of each block, in Unit
	Partial bool     `json:"partial"` // ended early: fewer blocks than requested

	Plan       string     `json:"plan"`        // digest of the plan that makes the difference between the sides
	Changes    []ABChange `json:"changes"`     // what it changes
	Switches   int        `json:"switches"`    // how often the plan was applied
	RolledBack bool       `json:"rolled_back"` // everything is as it was before

	BeforeRun Run `json:"before_run"`
	AfterRun  Run `json:"after_run"`
}

// ABChange is one difference between the sides.
type ABChange struct {
	ID      string `json:"id"`
	Address string `json:"address"`
	From    string `json:"from"`
	To      string `json:"to"`
}

// NewAB combines the result of an interleaved measurement with what else differed between the runs.
func NewAB(r Interleaved, before, after *Run, blocks int) (*AB, error) {
	caveats, err := compareSettings(before, after)
	if err != nil {
		return nil, err
	}
	ab := &AB{
		Schema: SchemaAB, Kind: r.Kind, Unit: r.Kind.Unit(), Comparison: r.Result, Verdict: r.Result.String(),
		Seed: r.Seed, Blocks: blocks, Order: []string{}, Values: r.Blocks(), Partial: r.Partial,
		Changes: []ABChange{}, BeforeRun: *before, AfterRun: *after,
	}
	ab.Warnings = append(ab.Warnings, caveats...)
	cost := CompareBlocks(r.blocks(func(s Sample) float64 { return s.CPUNsPerUnit }))
	ab.Cost = &cost
	for _, order := range r.Order {
		text := ""
		for _, side := range order {
			text += side.String()
		}
		ab.Order = append(ab.Order, text)
	}
	return ab, nil
}

// Valid reports whether the device under test set the results of both sides.
func (ab *AB) Valid() bool { return ab.BeforeRun.Valid() && ab.AfterRun.Valid() }

// AllWarnings returns the warnings of the comparison and of both sides. A warning of both sides appears once.
func (ab *AB) AllWarnings() []Warning {
	all := slices.Clone(ab.Warnings)
	has := func(r *Run, code string) bool {
		return slices.ContainsFunc(r.Warnings, func(w Warning) bool { return w.Code == code })
	}
	for _, w := range ab.BeforeRun.Warnings {
		if !has(&ab.AfterRun, w.Code) {
			w.Text = ab.BeforeRun.Name + ": " + w.Text
		}
		all = append(all, w)
	}
	for _, w := range ab.AfterRun.Warnings {
		if !has(&ab.BeforeRun, w.Code) {
			w.Text = ab.AfterRun.Name + ": " + w.Text
			all = append(all, w)
		}
	}
	return all
}

// DecodeAB reads a comparison: a bare one, or a --json answer of bench with it as the result.
func DecodeAB(reader io.Reader) (*AB, error) {
	ab, err := decode[AB](reader, SchemaAB)
	if err != nil {
		return nil, err
	}
	return ab, errors.Join(ab.BeforeRun.check(), ab.AfterRun.check())
}
