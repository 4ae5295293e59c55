package search

import (
	"context"
	"math"
)

const (
	// maxFinals is how many final trials a goal may take. Devices with uniform seconds take one.
	maxFinals = 8
	// patience is for how many seconds short trials look for a loss that only some seconds have.
	patience = 45
	// rare is a share of loss that one-second trials may miss.
	rare = 1e-4
	// passChance is the chance that the first final trial should have to pass, by the model.
	passChance = 0.98
)

// compliant places the bounds as fast does. It proves each lower bound by a final trial, and each upper bound by a
// trial of any length that fails.
func (h *hunt) compliant(ctx context.Context) (belief, error) {
	b, err := h.approximate(ctx)
	if err != nil {
		return b, err
	}
	if len(b.all) == 0 {
		return b, h.finalAtLimit(ctx)
	}
	for lo, hi, _ := b.interval(); hi/lo-1 > 0.8*h.o.Width && (h.spent < enoughSeconds || b.split()); lo, hi,
		_ = b.interval() {
		next := b.bestProposal()
		if h.starved() || !h.afford(next.seconds) {
			return b, nil
		}
		if _, err := h.try(ctx, next.pps, next.seconds, next.purpose); err != nil {
			return b, err
		}
		b = h.believe()
	}
	if _, _, middle := b.interval(); h.afford(6) {
		if err := h.seekFloor(ctx, middle); err != nil {
			return b, err
		}
		b = h.believe()
	}
	for _, goal := range h.o.goals() {
		if h.floor > 0 && goal.LossRatio <= h.floor {
			continue
		}
		if err := h.prove(ctx, b, goal); err != nil {
			return b, err
		}
	}
	return b, nil
}

// finalAtLimit runs the final trial of a device that carries the highest rate allowed.
func (h *hunt) finalAtLimit(ctx context.Context) error {
	last := h.trials[len(h.trials)-1]
	if final := h.o.Final.Seconds(); h.clean(last) && h.afford(final) {
		_, err := h.try(ctx, last.PPS, final, purpose{aim: finalAtLimit})
		return err
	}
	return nil
}

// prove finds both bounds of a goal.
func (h *hunt) prove(ctx context.Context, b belief, goal Goal) error {
	load, before, failed := h.firstFinal(b, goal), 0.0, 0
	for range maxFinals {
		if load = min(load, h.o.MaxPPS); h.starved() || !h.afford(h.o.Final.Seconds()) {
			return nil
		}
		t, err := h.try(ctx, load, h.o.Final.Seconds(), purpose{finalTrial, goal.Name})
		if err != nil {
			return err
		}
		if h.passes(t, goal.LossRatio) {
			higher, err := h.refuteAbove(ctx, b, goal, t)
			if err != nil || higher == 0 {
				return err
			}
			load, failed = higher, 0
			continue
		}
		if failed++; failed == 2 && goal.LossRatio == 0 && h.floor == 0 && t.LossRate < rare &&
			h.afford(h.o.Final.Seconds()) {
			// A loss so rare that one second does not show it may happen at any load.
			half, err := h.try(ctx, load/2, h.o.Final.Seconds(), purpose{aim: halfLoad})
			if err != nil {
				return err
			}
			if !half.lossless() {
				h.floor = half.LossRate
				return nil
			}
		}
		next, err := h.loadBelow(ctx, b, goal, t)
		if err != nil {
			return err
		}
		// If one step down was not enough, the next is at least twice as large: the capacity may be falling.
		if failed > 1 {
			next = min(next, load-2*(before-load))
		}
		if best, ok := h.proven(goal); ok && next <= best.load() {
			next = math.Sqrt(best.load() * load)
		}
		before, load = load, next
	}
	return nil
}

// firstFinal returns the load of the first final trial, which should pass.
func (h *hunt) firstFinal(b belief, goal Goal) float64 {
	lo, _, middle := b.interval()
	if goal.LossRatio > 0 { // differences between seconds average out
		return h.scale(goal.LossRatio) * b.quantile(0.005) * (1 - 0.0002)
	}
	for cut := 0.0003; cut < h.o.Width; cut += 0.0001 {
		load := middle * (1 - cut)
		chance := b.mean(func(x hypothesis) float64 {
			lossless, _, _ := x.forwards(load, h.o.Final.Seconds())
			return lossless
		})
		if chance > passChance {
			return load
		}
	}
	return min(lo, middle*(1-0.9*h.o.Width))
}

// loadBelow returns the next load after a final trial that failed.
func (h *hunt) loadBelow(ctx context.Context, b belief, goal Goal, t Tried) (float64, error) {
	load := t.load()
	if goal.LossRatio > 0 {
		return load * (1 - t.LossRate) / (1 - goal.LossRatio) * (1 - 0.3*h.o.Width), nil
	}
	// In the worst case everything was lost in one second.
	sigma := b.mean(func(x hypothesis) float64 { return x.sigma })
	lost := float64(t.Outcome.Sent - t.Outcome.Received)
	if lost > load*h.o.Width {
		// It may have been several seconds: short trials show what one of them loses.
		lost /= 2
		for spent := 0.0; spent < patience && h.afford(1); spent++ {
			short, err := h.try(ctx, load, 1, purpose{aim: oneSecond})
			if err != nil {
				return 0, err
			}
			if !h.clean(short) {
				lost = float64(short.Outcome.Sent - short.Outcome.Received)
				break
			}
		}
	}
	return max((load-lost)*(1-2*sigma-0.0002), load/2), nil
}

// refuteAbove finds the upper bound above a final trial that passed: a load not far above, at which a trial fails. If
// none of the short trials loses anything it returns a higher load to prove instead.
func (h *hunt) refuteAbove(ctx context.Context, b belief, goal Goal, t Tried) (higher float64, err error) {
	near := t.load() * (1 + 0.98*h.o.Width)
	if t.load() >= h.o.MaxPPS*(1-1e-9) || h.attempts(purpose{finalTrial, goal.Name}) > maxFinals-1 {
		return 0, nil
	}
	upper, refuted := h.refuted(goal)
	if refuted && upper.load() <= t.load()*(1+h.o.Width) {
		return 0, nil
	}
	// A buffer hides so small an excess for as long as it takes to fill.
	_, _, middle := b.interval()
	seconds := 1.0
	buffer := b.mean(func(x hypothesis) float64 { return x.buffer })
	if over := near*(1-goal.LossRatio)/middle - 1; over > 0 && buffer > 0.005 {
		seconds = min(patience, math.Ceil(1+1.2*buffer/over))
	}
	for spent := 0.0; spent+seconds <= patience && h.afford(seconds); {
		up, err := h.try(ctx, near, seconds, purpose{upperBound, goal.Name})
		if err != nil {
			return 0, err
		}
		if !h.passes(up, goal.LossRatio) {
			return 0, nil
		}
		spent, seconds = spent+seconds, min(3, max(2, seconds))
	}
	if refuted && upper.load() > t.load()*(1+4*h.o.Width) {
		return math.Sqrt(t.load() * upper.load()), nil
	}
	return near, nil
}

// proven returns the final trial with the highest load that passed a goal, below all that failed: the lower bound. If
// the goal allows a loss, short trials that lost more in a bad second do not contradict a final trial, in which that
// averages out.
func (h *hunt) proven(goal Goal) (best Tried, ok bool) {
	failed := math.Inf(1)
	for _, t := range h.trials {
		if !h.passes(t, goal.LossRatio) && (goal.LossRatio == 0 || t.purpose.final()) {
			failed = min(failed, t.load())
		}
	}
	for _, t := range h.trials {
		if t.purpose.final() && h.passes(t, goal.LossRatio) && t.load() < failed && (!ok || t.load() > best.load()) {
			best, ok = t, true
		}
	}
	return best, ok
}

// refuted returns the trial with the lowest load above the lower bound that failed: the upper bound.
func (h *hunt) refuted(goal Goal) (least Tried, ok bool) {
	proof, proven := h.proven(goal)
	for _, t := range h.trials {
		if h.passes(t, goal.LossRatio) || proven && t.load() <= proof.load() || !proven && goal.LossRatio > 0 &&
			!t.purpose.final() {
			continue
		}
		if !ok || t.load() < least.load() {
			least, ok = t, true
		}
	}
	return least, ok
}

// reportProofs fills in the bounds that final trials proved.
func (h *hunt) reportProofs(f *Found, r *Result) {
	f.Confidence = 0
	if t, ok := h.proven(f.Goal); ok {
		load := t.load()
		through := load * (1 - t.LossRate)
		f.LowerPPS, f.ThroughputPPS, f.EstimatePPS = &load, &through, &load
		f.Lower = Basis{By: "trial", Seconds: t.Outcome.Seconds, LossRate: t.LossRate}
	} else {
		r.remark("%s: no final trial passed", f.Name)
	}
	if t, ok := h.refuted(f.Goal); ok {
		load := t.load()
		f.UpperPPS = &load
		f.Upper = Basis{By: "trial", Seconds: t.Outcome.Seconds, LossRate: t.LossRate}
	}
	r.remarkWidth(f, h.o.Width)
}
