package search

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// Confidence is the confidence of the interval from the lower to the upper bound.
const Confidence = 0.95

// Mode is how bounds are proven.
type Mode string

const (
	Fast      Mode = "fast"      // by a model and trials of a few seconds
	Compliant Mode = "compliant" // lower bounds by final trials of 60 s, as RFC 2544 section 26.1 requires
)

// Options describe what to search for.
type Options struct {
	Mode       Mode
	MinPPS     float64       // lowest load, packets per second
	MaxPPS     float64       // highest load: the line rate, or what the generator can do
	FrameBytes int           // with FCS
	AllSizes   bool          // one of a series of searches over all frame sizes that RFC 2544 asks for
	PDR        float64       // share of loss of the partial drop rate, usually 0.005
	Width      float64       // requested relative width of the interval between the bounds
	Budget     time.Duration // of traffic
	Final      time.Duration // of the final trials; compliant only
	Progress   func(Step)    // called before each trial; may be nil
}

// Goal is a share of loss to search for.
type Goal struct {
	Name      string  `json:"name"` // NDR, PDR
	LossRatio float64 `json:"loss_ratio"`
}

func (o Options) goals() []Goal { return []Goal{{"NDR", 0}, {"PDR", o.PDR}} }

// Step is the next trial.
type Step struct {
	Trial
	Purpose string
	Spent   float64 // seconds of traffic before it
	N       int
}

// Check returns an error if the options contradict themselves.
func (o Options) Check() error {
	switch {
	case o.Mode != Fast && o.Mode != Compliant:
		return fmt.Errorf("mode %q: expected fast or compliant", o.Mode)
	case !(o.MaxPPS > 0) || math.IsInf(o.MaxPPS, 0):
		return fmt.Errorf("a highest rate of %g packets per second: expected more than nothing", o.MaxPPS)
	case !(o.MinPPS > 0):
		return fmt.Errorf("a lowest rate of %g packets per second: expected more than nothing", o.MinPPS)
	case o.MinPPS >= o.MaxPPS:
		return fmt.Errorf("rates from %g to %g packets per second: expected the lowest below the highest", o.MinPPS,
			o.MaxPPS)
	case !(o.PDR > 0) || o.PDR >= 1:
		return fmt.Errorf("a loss of %g for the PDR: expected a share above 0 and below 1, such as 0.005", o.PDR)
	case !(o.Width >= 0.001) || o.Width > 0.5:
		return fmt.Errorf("a width of %g: expected a share of the result from 0.001 to 0.5", o.Width)
	case o.Budget <= 0:
		return fmt.Errorf("a budget of %v: expected more than nothing", o.Budget)
	case o.Mode == Compliant && o.Final < time.Second:
		return fmt.Errorf("final trials of %v: expected 1 s or more; RFC 2544 wants 60 s", o.Final)
	}
	return nil
}

// Run searches. If the context ends or the device fails, it returns the result so far, marked partial, with the error.
func Run(ctx context.Context, device Device, o Options) (*Result, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	h := &hunt{device: device, o: o}
	var b belief
	var err error
	if o.Mode == Compliant {
		b, err = h.compliant(ctx)
	} else {
		b, err = h.fast(ctx)
	}
	if len(h.trials) == 0 {
		return nil, errors.Join(errors.New("no trial was completed"), err)
	}
	r := h.result(b)
	r.Partial = err != nil
	return r, err
}
