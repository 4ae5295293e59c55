package search

import (
	"context"
	"math"
)

// maxSteps is how many trials are discarded and repeated because their time was far from the one requested. If there
// are more, that is how the generator works.
const maxSteps = 2

// hunt is a search in progress.
type hunt struct {
	device Device
	o      Options
	trials []Tried
	spent  float64    // seconds of traffic
	floor  float64    // share of packets lost at any load, once known
	lags   [2]float64 // requested over sent rate of the generator, in the last two trials
	ended  bool       // the budget is used up
	steps  int        // trials discarded because a clock seems to have been set while they ran
}

// try runs a trial, at a load within the limits. Generators that pace in batches fall short by some percent, always
// about the same: they are asked for that much more.
func (h *hunt) try(ctx context.Context, pps, seconds float64, p purpose) (Tried, error) {
	ask := Trial{PPS: min(max(pps*max(1, min(h.lags[0], h.lags[1])), h.o.MinPPS), h.o.MaxPPS),
		FrameBytes: h.o.FrameBytes, Seconds: seconds}
	if h.o.Progress != nil {
		h.o.Progress(Step{Trial: ask, Purpose: p.String(), Spent: h.spent, N: len(h.trials) + 1})
	}
	if err := context.Cause(ctx); err != nil {
		return Tried{}, err
	}
	o, err := h.device.Trial(ctx, ask)
	if err != nil {
		return Tried{}, err
	}
	t, err := newTried(ask, p, o)
	if err != nil {
		return Tried{}, err
	}
	if t.stepped() && h.steps < maxSteps && h.spent+2*seconds <= h.o.Budget.Seconds() {
		h.steps++
		h.spent += seconds
		return h.try(ctx, pps, seconds, p)
	}
	h.trials = append(h.trials, t)
	h.spent += o.Seconds
	if h.lags[0], h.lags[1] = h.lags[1], t.PPS/t.load(); h.lags[1] > 1.2 {
		h.lags[1] = 1 // more than a generator's pacing in batches explains
	}
	return t, nil
}

// afford reports whether the budget has room for that many more seconds.
func (h *hunt) afford(seconds float64) bool {
	h.ended = h.ended || h.spent+seconds > h.o.Budget.Seconds()
	return !h.ended
}

// clean reports whether a trial lost no more than is lost at any load.
func (h *hunt) clean(t Tried) bool {
	if t.lossless() {
		return true
	}
	expected := float64(t.Outcome.Sent) * h.floor
	return h.floor > 0 && float64(t.Outcome.Sent-t.Outcome.Received) <= expected+4*math.Sqrt(expected)+1
}

// passes reports whether a trial meets a goal.
func (h *hunt) passes(t Tried, loss float64) bool {
	if loss == 0 {
		return h.clean(t)
	}
	return t.LossRate <= loss
}

// approach finds a load just above what the device carries: with far too much it may forward less. It returns false if
// the device carries the highest rate allowed, or not even the lowest.
func (h *hunt) approach(ctx context.Context) (bool, error) {
	load, carried, over := h.o.MaxPPS, h.o.MinPPS, math.Inf(1)
	for {
		if len(h.trials) > 0 && !h.afford(1) {
			return !math.IsInf(over, 0), nil
		}
		t, err := h.try(ctx, load, 1, purpose{aim: approaching})
		switch {
		case err != nil:
			return false, err
		case h.clean(t):
			if carried = load; load < h.o.MaxPPS && !t.short() {
				load *= 1.5
				break
			}
			// One trial may be luck, or its generator was kept from its CPU.
			again, err := h.repeat(ctx, load)
			if err != nil || h.clean(again) {
				return false, err
			}
			over = load
		default:
			if over = min(over, load); load <= t.rate()*1.12 {
				return true, nil
			}
			if load <= h.o.MinPPS {
				return false, nil
			}
			load = max(t.rate()*1.06, h.o.MinPPS)
		}
		switch {
		case load >= over && over/carried < 1.02:
			return true, nil
		case load >= over || load <= carried && carried > h.o.MinPPS:
			load = math.Sqrt(carried * over)
		}
		load = min(load, h.o.MaxPPS)
	}
}

// repeat repeats the highest load for longer.
func (h *hunt) repeat(ctx context.Context, load float64) (Tried, error) {
	if !h.afford(2) {
		return h.trials[len(h.trials)-1], nil
	}
	return h.try(ctx, load, 2, purpose{aim: highestLoad})
}

// believe returns the belief after the trials so far, corrected for what is lost at any load.
func (h *hunt) believe() belief {
	adjusted := make([]Tried, len(h.trials))
	for i, t := range h.trials {
		if h.floor > 0 {
			t.Outcome.Received = min(t.Outcome.Sent, uint64(float64(t.Outcome.Received)/(1-h.floor)))
			if h.clean(h.trials[i]) {
				t.Outcome.Received = t.Outcome.Sent
			}
		}
		adjusted[i] = t
	}
	return believe(adjusted)
}

// seekFloor tries loads far below the capacity, to find out which share of packets is lost at any load.
func (h *hunt) seekFloor(ctx context.Context, capacity float64) error {
	var sent, lost uint64
	for _, part := range []float64{0.5, 0.1} {
		seconds := 1.0
		if lost > 0 { // long enough to lose some ten packets
			seconds = min(max(1, math.Ceil(10*float64(sent)/float64(lost)/(capacity*part))), 5)
		}
		t, err := h.try(ctx, capacity*part, seconds, purpose{aim: anyLoad})
		if err != nil {
			return err
		}
		if t.lossless() {
			return nil
		}
		sent, lost = sent+t.Outcome.Sent, lost+t.Outcome.Sent-t.Outcome.Received
	}
	h.floor = float64(lost) / float64(sent)
	return nil
}

// starved reports whether the generator cannot send what it is asked for: three of the last five trials fell clearly
// short, below the highest rate allowed. The load is then left to chance.
func (h *hunt) starved() bool {
	short := 0
	for _, t := range h.trials[max(0, len(h.trials)-5):] {
		if t.short() && t.PPS < h.o.MaxPPS {
			short++
		}
	}
	return short >= 3
}

// attempts returns the number of trials for a purpose.
func (h *hunt) attempts(p purpose) (n int) {
	for _, t := range h.trials {
		if t.purpose == p {
			n++
		}
	}
	return n
}
