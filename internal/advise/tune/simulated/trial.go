package simulated

import (
	"context"
	"math"
	"slices"

	"mpps/internal/advise/tune"
)

// Sample is what comes through in a trial: in a longer one the mean of so many.
func (h *Host) Sample(ctx context.Context, pps float64, length int) (float64, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	var came, sent float64
	for range length {
		came += h.once(pps) / float64(length)
		sent += h.sent / float64(length)
	}
	h.sent = sent
	return math.Round(came), nil
}

// once is what comes through in a trial of the usual length.
func (h *Host) once(pps float64) float64 {
	capacity := h.Now() * h.moment()
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
	if free := h.free(capacity); carried > free {
		carried *= 1 - MostBurst*(carried-free)/(capacity-free)
	}
	return carried
}

// Sent is what the last trial sent.
func (h *Host) Sent() float64 {
	if math.IsInf(h.sent, 1) {
		return 0
	}
	return h.sent
}

// sends is what the generator can send as it stands; 0: any rate.
func (h *Host) sends() float64 {
	return h.times(h.Sends, func(k Knob) float64 { return k.Sender })
}

// free is the rate up to which nothing is lost to bursts.
func (h *Host) free(capacity float64) float64 {
	return capacity / (1 + h.times(h.Burst, func(k Knob) float64 { return k.Calms }))
}

// times multiplies a value by the factors of the knobs that are set.
func (h *Host) times(v float64, factor func(Knob) float64) float64 {
	set := h.now()
	for _, k := range h.Knobs {
		if set[k.ID] {
			v *= or1(factor(k))
		}
	}
	return v
}

// moment is by how much the machine's moods multiply the next trial.
func (h *Host) moment() float64 {
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

// SearchTrials is how many trials a search counts for.
const SearchTrials = 12

// Search is the median of some trials, less what bursts cost.
func (h *Host) Search(ctx context.Context) (tune.Rate, error) {
	var all []float64
	for range SearchTrials {
		if ctx.Err() != nil {
			return tune.Rate{}, context.Cause(ctx)
		}
		all = append(all, math.Round(h.free(h.Now()*h.moment())))
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
