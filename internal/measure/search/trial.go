package search

import (
	"context"
	"fmt"
	"math"
)

// Trial is a request to a device: a load for a time.
type Trial struct {
	PPS        float64 `json:"pps"`         // packets per second
	FrameBytes int     `json:"frame_bytes"` // with FCS
	Seconds    float64 `json:"seconds"`     // of sending; late packets are waited for longer
}

// Outcome is the outcome of a trial.
type Outcome struct {
	Sent     uint64 `json:"sent"`
	Received uint64 `json:"received"` // distinct packets, late ones included
	// of sending, as they passed for the device: simulated time may differ from the clock's
	Seconds float64 `json:"seconds"`
}

// Device is a device under test between a generator and a receiver.
type Device interface {
	Trial(ctx context.Context, t Trial) (Outcome, error)
}

// Tried is a trial and its outcome.
type Tried struct {
	Trial
	Outcome  Outcome `json:"outcome"`
	Purpose  string  `json:"purpose"`   // why it was run
	LossRate float64 `json:"loss_rate"` // share of the packets sent that did not arrive, 0–1

	purpose purpose
}

// load returns the rate that was really sent, in packets per second.
func (t Tried) load() float64 { return float64(t.Outcome.Sent) / t.Outcome.Seconds }

// rate returns the rate that came through, in packets per second, including what drained from buffers after the end.
func (t Tried) rate() float64 { return float64(t.Outcome.Received) / t.Outcome.Seconds }

// short reports whether the generator sent clearly less than requested.
func (t Tried) short() bool { return t.load() < 0.95*t.PPS }

// stepped reports whether the right number of packets was sent, but in a time far from the trial's: a clock was set.
func (t Tried) stepped() bool {
	sent := float64(t.Outcome.Sent) / (t.PPS * t.Seconds)
	return sent > 0.9 && sent < 1.1 && (t.Outcome.Seconds > 1.5*t.Seconds || t.Outcome.Seconds < 0.7*t.Seconds)
}

func (t Tried) lossless() bool { return t.Outcome.Received >= t.Outcome.Sent }

// newTried validates an outcome and joins it to its trial.
func newTried(t Trial, p purpose, o Outcome) (Tried, error) {
	switch {
	case o.Sent == 0:
		return Tried{}, fmt.Errorf("a trial of %g packets per second over %g s sent nothing", t.PPS, t.Seconds)
	case !(o.Seconds > 0) || math.IsInf(o.Seconds, 0):
		return Tried{}, fmt.Errorf("a trial of %g s took %g s: expected more than nothing", t.Seconds, o.Seconds)
	case o.Received > o.Sent:
		return Tried{}, fmt.Errorf("a trial sent %d packets and received %d: expected no more than were sent", o.Sent,
			o.Received)
	}
	return Tried{Trial: t, Outcome: o, purpose: p, Purpose: p.String(),
		LossRate: 1 - float64(o.Received)/float64(o.Sent)}, nil
}
