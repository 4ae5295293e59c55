package report

import (
	"fmt"

	"mpps/internal/measure"
	"mpps/internal/measure/search"
)

// AddSearch adds what a search found.
func (d *Document) AddSearch(label string, s *measure.Search) {
	if d.Host.Name == "" {
		d.Host = HostLine{Name: s.Host, Kernel: s.Environment.Kernel, CPU: s.Environment.CPU, CPUs: s.Environment.CPUs,
			Emulated: s.Environment.Emulated, Virtual: s.Environment.Virtual}
	}
	for _, w := range s.Warnings {
		d.Warn(w)
	}
	for _, remark := range s.Remarks {
		d.Warn(Warning{Code: "irregular", Text: label + ": " + remark, Hint: "search again when the machine is quiet, or with a larger --budget"})
	}
	r := Rates{Label: label, NDR: boundsOf(&s.NDR), PDR: boundsOf(&s.PDR), PDRLoss: s.PDR.LossRatio, Floor: s.FloorRate}
	for _, t := range s.Tried {
		r.Trials = append(r.Trials, RateTrial{OfferedPPS: float64(t.Outcome.Sent) / t.Outcome.Seconds, LossRatio: t.LossRate, Seconds: t.Outcome.Seconds})
	}
	switch {
	case s.Partial:
		r.Caveat = "ended early"
	case !s.Valid():
		r.Caveat = "limited by the " + s.LimitedBy
	}
	d.Rates = append(d.Rates, r)
	if s.NDR.Confidence > 0 {
		d.say(fmt.Sprintf("%s: the bounds hold with %.0f %% confidence for a typical second; %s and %.4g s of traffic.", label, s.NDR.Confidence*100, s.Mode, s.Seconds))
	} else {
		d.say(fmt.Sprintf("%s: lower bounds passed a trial of %.4g s; %s, %.4g s of traffic.", label, s.NDR.FinalSeconds, s.Mode, s.Seconds))
	}
}

// say adds a sentence to the method.
func (d *Document) say(sentence string) { d.Method = append(d.Method, sentence) }

// boundsOf are the bounds of a goal; nil where it has no rate.
func boundsOf(f *search.Found) *RateBounds {
	if f.LowerPPS == nil {
		return nil
	}
	b := &RateBounds{LowerPPS: *f.LowerPPS}
	if f.UpperPPS != nil {
		b.UpperPPS = *f.UpperPPS
	}
	if f.ThroughputPPS != nil {
		b.ThroughputPPS = *f.ThroughputPPS
	}
	return b
}
