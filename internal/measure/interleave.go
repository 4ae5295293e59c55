package measure

import (
	"context"
	"fmt"
	"math/rand/v2"
)

// Side is one of the two configurations of a comparison.
type Side int

// The sides.
const (
	A Side = iota
	B
)

// String returns the side's letter.
func (s Side) String() string { return [...]string{"A", "B"}[s] }

// Schedule returns the order of an interleaved comparison: blocks of four, each ABBA or BAAB at random. Within a block,
// linear drift affects both sides alike; the random choice keeps periodic disturbances out of step. The same seed gives
// the same order.
func Schedule(blocks int, seed uint64) [][4]Side {
	rng := rand.New(rand.NewPCG(seed, 0))
	order := make([][4]Side, blocks)
	for i := range order {
		order[i] = [4]Side{A, B, B, A}
		if rng.IntN(2) == 1 {
			order[i] = [4]Side{B, A, A, B}
		}
	}
	return order
}

// Interleaved is what an interleaved comparison measured, with what is needed to repeat its order.
type Interleaved struct {
	Kind    Kind
	Seed    uint64
	Order   [][4]Side // of completed blocks
	Samples [][4]Sample
	Result  Comparison
	Partial bool
}

// Interleave measures two prepared configurations in randomised ABBA blocks and compares B against A. Each function
// switches to its configuration if needed and takes one sample; kind selects the value of the sample to compare. If the
// context ends or a function fails, Interleave returns the comparison of the completed blocks, marked partial, along
// with the error.
func Interleave(ctx context.Context, kind Kind, a, b func(context.Context) (Sample, error), blocks int,
	seed uint64) (Interleaved, error) {
	result := Interleaved{Kind: kind, Seed: seed}
	take := [...]func(context.Context) (Sample, error){A: a, B: b}
	var failed error
	for i, order := range Schedule(blocks, seed) {
		samples, err := takeBlock(ctx, order, take)
		if err != nil {
			result.Partial = true
			failed = fmt.Errorf("block %d of %d: %w", i+1, blocks, err)
			break
		}
		result.Order, result.Samples = append(result.Order, order), append(result.Samples, samples)
	}
	result.Result = CompareBlocks(result.Blocks())
	return result, failed
}

func takeBlock(ctx context.Context, order [4]Side, take [2]func(context.Context) (Sample, error)) (samples [4]Sample,
	err error) {
	for j, side := range order {
		if ctx.Err() != nil {
			return samples, context.Cause(ctx)
		}
		if samples[j], err = take[side](ctx); err != nil {
			return samples, fmt.Errorf("%v: %w", side, err)
		}
		if ctx.Err() != nil { // the trial was cut short
			return samples, context.Cause(ctx)
		}
	}
	return samples, nil
}

// Blocks returns the values by block and side.
func (r Interleaved) Blocks() []Block {
	return r.blocks(func(s Sample) float64 { return s.Value(r.Kind) })
}

func (r Interleaved) blocks(value func(Sample) float64) []Block {
	blocks := make([]Block, len(r.Order))
	for i, order := range r.Order {
		for j, side := range order {
			v := value(r.Samples[i][j])
			if side == A {
				blocks[i].A = append(blocks[i].A, v)
			} else {
				blocks[i].B = append(blocks[i].B, v)
			}
		}
	}
	return blocks
}
