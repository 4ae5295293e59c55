package simulated

import (
	"cmp"
	"context"
	"math"
	"slices"

	"mpps/internal/advise/tune"
)

// Sample returns the packets per second that arrive in a trial. A longer one is the mean of length trials.
func (h *Host) Sample(ctx context.Context, pps float64, length int, _ bool) (float64, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	var came, sent float64
	for range length {
		came += h.sampleOnce(pps) / float64(length)
		sent += h.sent / float64(length)
	}
	h.sent = sent
	return math.Round(came), nil
}

// sampleOnce returns the packets per second that arrive in a trial of the usual length.
func (h *Host) sampleOnce(pps float64) float64 {
	capacity := h.Now() * h.noiseFactor()
	load, most := pps, h.sends()
	if load == 0 {
		load = math.Inf(1)
	}
	if most > 0 {
		load = min(load, most)
	}
	if h.Paced > 0 && pps > 0 {
		load = min(load, h.Paced)
	}
	if h.OnPath {
		load = min(load, capacity)
	}
	h.sent = load
	carried := min(capacity, load)
	if free := h.lossFree(capacity); carried > free {
		carried *= 1 - maxBurstLoss*(carried-free)/(capacity-free)
	}
	return carried
}

// Sent is the rate that the last trial sent, in packets per second; 0: unknown.
func (h *Host) Sent() float64 {
	if math.IsInf(h.sent, 1) {
		return 0
	}
	return h.sent
}

// sends is the most that the generator can send at the moment; 0: any rate.
func (h *Host) sends() float64 {
	return h.scaled(h.Sends, func(k Knob) float64 { return k.SendFactor })
}

// lossFree is the rate up to which nothing is lost to bursts.
func (h *Host) lossFree(capacity float64) float64 {
	return capacity / (1 + h.scaled(h.Burst, func(k Knob) float64 { return k.BurstFactor }))
}

// scaled multiplies a value by the factors of the knobs that are set.
func (h *Host) scaled(v float64, factor func(Knob) float64) float64 {
	set := h.active()
	for _, k := range h.Knobs {
		if set[k.ID] {
			v *= cmp.Or(factor(k), 1)
		}
	}
	return v
}

// noiseFactor returns the factor by which noise changes the next trial.
func (h *Host) noiseFactor() float64 {
	n := h.Noise
	h.trials++
	h.walk += n.Walk * h.random.NormFloat64()
	log := n.Jitter*h.random.NormFloat64() + h.walk
	if n.Wave > 0 {
		log += n.Wave * math.Sin(2*math.Pi*float64(h.trials)/n.Period)
	}
	if n.Stall > 0 && h.random.Float64() < n.Stall {
		log += math.Log(2.0 / 3)
	}
	if n.States > 0 {
		if h.random.Float64() < 1.0/15 {
			h.low = !h.low
		}
		if h.low {
			log -= n.States
		}
	}
	return math.Exp(log)
}

// SearchTrials is the number of trials in a search.
const SearchTrials = 12

// Search returns the median of some trials, as far as bursts cost nothing.
func (h *Host) Search(ctx context.Context) (tune.Rate, error) {
	var all []float64
	for range SearchTrials {
		if ctx.Err() != nil {
			return tune.Rate{}, context.Cause(ctx)
		}
		all = append(all, math.Round(h.lossFree(h.Now()*h.noiseFactor())))
	}
	slices.Sort(all)
	r := tune.Rate{PPS: all[len(all)/2-1], LimitedBy: "device", Trials: SearchTrials, Seconds: SearchTrials}
	if most := h.sends(); most > 0 && r.PPS > most {
		r.PPS, r.LimitedBy = most, "generator"
		return r, nil
	}
	if h.OnPath {
		r.LimitedBy = "generator"
		return r, nil
	}
	upper := all[len(all)/2]
	r.UpperPPS = &upper
	return r, nil
}
