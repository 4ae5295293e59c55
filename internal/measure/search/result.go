package search

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Result is what a search found.
type Result struct {
	Mode Mode  `json:"mode"`
	NDR  Found `json:"ndr"` // the highest rate without loss
	PDR  Found `json:"pdr"` // the highest rate with no more than a share of loss

	Seconds float64 `json:"seconds"` // of traffic
	Trials  int     `json:"trials"`
	// LossySeconds is the time of trials at or below the NDR's lower bound that lost packets: stalls cause some.
	LossySeconds float64 `json:"lossy_seconds"`
	// WorstPPS is the lowest rate that any second may have carried, in packets per second, assuming that an unusual
	// loss happened in one second. 0: no trial lost that much.
	WorstPPS  float64 `json:"worst_second_pps,omitempty"`
	FloorRate float64 `json:"loss_floor,omitempty"` // share of packets lost at any load
	// Irregular means that trials contradict each other or that bounds could not be found as they should be. Remarks
	// say how.
	Irregular  bool     `json:"irregular"`
	Remarks    []string `json:"remarks"`
	Deviations []string `json:"deviations"` // from RFC 2544 section 26.1
	// "device", "generator", or "load": the device carried the highest rate allowed
	LimitedBy string  `json:"limited_by"`
	Partial   bool    `json:"partial"`
	Device    Likely  `json:"device"`
	Tried     []Tried `json:"tried"`
}

// Likely is the device that the trials suggest.
type Likely struct {
	CapacityPPS   float64 `json:"capacity_pps"`   // of a typical second
	SpreadSeconds float64 `json:"seconds_spread"` // standard deviation of a second's capacity, relative
	BufferSeconds float64 `json:"buffer_seconds"` // of its capacity, buffered before it drops
	// drop of the forwarded rate for each packet above the capacity
	Collapse float64 `json:"collapse"`
	SplitPPS float64 `json:"other_state_pps"` // capacity of atypical seconds; 0: none seen
}

// Found is the result for one goal. A missing bound is null.
type Found struct {
	Goal
	Confidence   float64 `json:"confidence"` // that the rate lies between the bounds
	Width        float64 `json:"width"`      // requested, relative
	FinalSeconds float64 `json:"final_trial_seconds"`
	// share of the seconds at the lower bound that may lose more than the goal allows
	ExceedRatio float64  `json:"exceed_ratio"`
	LowerPPS    *float64 `json:"lower_pps"` // relevant lower bound
	UpperPPS    *float64 `json:"upper_pps"` // relevant upper bound
	// ThroughputPPS is the conditional throughput: the rate forwarded at the lower bound.
	ThroughputPPS *float64 `json:"throughput_pps"`
	EstimatePPS   *float64 `json:"estimate_pps"` // median estimate
	Lower         Basis    `json:"lower"`
	Upper         Basis    `json:"upper"`
	None          string   `json:"none,omitempty"` // why there is no such rate
}

// Basis is the evidence for a bound.
type Basis struct {
	By       string  `json:"by"`      // "trial", or "model"; empty without a bound
	Seconds  float64 `json:"seconds"` // of the trial
	LossRate float64 `json:"loss_rate"`
}

// result sums up the search.
func (h *hunt) result(b belief) *Result {
	if h.floor > 0 && len(b.all) > 0 {
		h.floor = h.pooled(b.quantile(0.5))
	}
	r := &Result{
		Mode: h.o.Mode, Seconds: h.spent, Trials: len(h.trials), FloorRate: h.floor, LimitedBy: "device",
		Remarks: []string{}, Deviations: h.deviations(), Tried: h.trials,
	}
	for i, goal := range h.o.goals() {
		f := Found{Goal: goal, Confidence: Confidence, Width: h.o.Width, ExceedRatio: 0.5, FinalSeconds: 1}
		if h.o.Mode == Compliant {
			f.ExceedRatio, f.FinalSeconds = 0, h.o.Final.Seconds()
		}
		switch {
		case len(b.all) == 0:
			h.atLimit(&f, r)
		case h.floor > 0 && goal.LossRatio <= h.floor:
			f.None = fmt.Sprintf("no rate without loss; floor %.2g %%", h.floor*100)
			if goal.LossRatio > 0 {
				f.None = fmt.Sprintf("no rate with so little loss; floor %.2g %%", h.floor*100)
			}
		case h.o.Mode == Compliant:
			h.reportProofs(&f, r)
		default:
			h.reportModel(&f, b, r)
		}
		*[]*Found{&r.NDR, &r.PDR}[i] = f
	}
	if len(b.all) > 0 {
		h.characterize(b, r)
	}
	for _, t := range h.trials {
		if r.NDR.LowerPPS != nil && !h.clean(t) && t.load() <= *r.NDR.LowerPPS*(1+1e-9) {
			r.LossySeconds += t.Outcome.Seconds
		}
	}
	if h.starved() {
		r.LimitedBy = "generator"
		r.remark("the generator sent clearly less than it was asked for in most of the last trials")
	}
	if h.steps > 0 {
		r.remark("%d of the trials took a time far from that asked for, as if a clock had been set, and were repeated",
			h.steps)
	}
	if h.ended {
		r.remark("the budget of %v of traffic ended before the search did", h.o.Budget)
	}
	r.Irregular = len(r.Remarks) > 0
	return r
}

// atLimit fills in the bounds of a device that carries the highest rate allowed, or not even the lowest.
func (h *hunt) atLimit(f *Found, r *Result) {
	last := h.trials[len(h.trials)-1]
	load := last.load()
	if !h.clean(last) {
		f.None, f.UpperPPS = fmt.Sprintf("the lowest load of %.6g packets per second lost %.2g %%", load,
			last.LossRate*100), &load
		f.Upper = Basis{By: "trial", Seconds: last.Outcome.Seconds, LossRate: last.LossRate}
		return
	}
	f.LowerPPS, f.ThroughputPPS, f.EstimatePPS = &load, &load, &load
	f.Lower = Basis{By: "trial", Seconds: last.Outcome.Seconds}
	if r.LimitedBy = "load"; last.short() {
		r.LimitedBy = "generator"
	}
}

// reportModel fills in the bounds of a goal: the tightest trials that show them, or else the belief.
func (h *hunt) reportModel(f *Found, b belief, r *Result) {
	lower, upper := h.bounds(b, f.Name, f.LossRatio)
	_, _, middle := b.interval()
	estimate := middle * h.scale(f.LossRatio)
	f.EstimatePPS = &estimate
	for _, side := range []struct {
		bound bound
		pps   **float64
		basis *Basis
	}{{lower, &f.LowerPPS, &f.Lower}, {upper, &f.UpperPPS, &f.Upper}} {
		pps := side.bound.pps
		*side.basis = Basis{By: "model"}
		if t, ok := h.settled(side.bound); ok {
			pps = t.load()
			*side.basis = Basis{By: "trial", Seconds: t.Outcome.Seconds, LossRate: t.LossRate}
		} else if h.attempts(side.bound.purpose) > 0 {
			r.remark("%s: trials contradict the model; it is the model's", side.bound.purpose)
		}
		if pps <= h.o.MaxPPS {
			*side.pps = &pps
		} else {
			*side.basis = Basis{}
		}
	}
	if f.LowerPPS != nil {
		through := *f.LowerPPS * (1 - f.Lower.LossRate)
		if f.Lower.By == "model" {
			through = *f.LowerPPS * (1 - f.LossRatio)
		}
		f.ThroughputPPS = &through
	}
	r.remarkWidth(f, h.o.Width)
}

// remarkWidth adds a remark if the bounds are further apart than requested.
func (r *Result) remarkWidth(f *Found, width float64) {
	if f.LowerPPS == nil || f.UpperPPS == nil {
		return
	}
	if apart := *f.UpperPPS / *f.LowerPPS - 1; apart > width*1.05 {
		r.remark("%s: the bounds are %.2g %% apart; %.2g %% were aimed at", f.Name, apart*100, width*100)
	}
}

func (r *Result) remark(format string, args ...any) {
	r.Remarks = append(r.Remarks, fmt.Sprintf(format, args...))
}

// characterize describes the likely device.
func (h *hunt) characterize(b belief, r *Result) {
	_, _, middle := b.interval()
	r.Device = Likely{
		CapacityPPS:   middle,
		SpreadSeconds: b.mean(func(h hypothesis) float64 { return h.sigma }),
		BufferSeconds: b.mean(func(h hypothesis) float64 { return h.buffer }),
		Collapse:      b.mean(func(h hypothesis) float64 { return h.collapse }),
	}
	if other := b.mean(func(h hypothesis) float64 { return min(1, h.other) }); other > 0.5 {
		likeliest := slices.MaxFunc(b.all, func(x, y hypothesis) int { return cmp.Compare(x.weight, y.weight) })
		r.Device.SplitPPS = likeliest.other
		if likeliest.other > 0 {
			r.remark("some seconds carried about %.4g packets per second instead of %.4g", likeliest.other, middle)
		}
	}
	if b.split() && !h.narrow(b) {
		r.remark("the trials fit more than one capacity")
	}
	for _, t := range h.trials {
		missing := (min(t.load(), middle)-t.rate())/middle - h.floor
		noise := 4*r.Device.SpreadSeconds/math.Sqrt(t.Outcome.Seconds) + 2*slack
		if worst := middle * (1 - missing*t.Outcome.Seconds); missing > noise &&
			(r.WorstPPS == 0 || worst < r.WorstPPS) {
			r.WorstPPS = max(1, worst)
		}
	}
}

// pooled returns the share lost at any load, from all trials clearly below the capacity.
func (h *hunt) pooled(capacity float64) float64 {
	var sent, lost uint64
	for _, t := range h.trials {
		if t.load() < 0.995*capacity && h.clean(t) {
			sent, lost = sent+t.Outcome.Sent, lost+t.Outcome.Sent-t.Outcome.Received
		}
	}
	if sent == 0 {
		return h.floor
	}
	return float64(lost) / float64(sent)
}

func (h *hunt) deviations() []string {
	all := []string{}
	if h.o.Mode != Compliant {
		all = append(all, "trials of 1 to 3 s; RFC 2544 asks for 60 s",
			"a bound holds for the typical second: up to half of the seconds may lose packets",
			"bounds are placed by a model of the loss against the load")
	}
	if !h.o.AllSizes {
		all = append(all, "one frame size; RFC 2544 asks for seven")
	}
	return all
}

// Check returns an error if a result from a file is impossible.
func (r *Result) Check() error {
	for _, f := range []Found{r.NDR, r.PDR} {
		for _, pps := range []*float64{f.LowerPPS, f.UpperPPS, f.ThroughputPPS, f.EstimatePPS} {
			if pps != nil && !(*pps >= 0 && *pps <= 1e12) {
				return fmt.Errorf("%s: found a rate of %g packets per second", f.Name, *pps)
			}
		}
	}
	return nil
}
