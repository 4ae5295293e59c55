package measure

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"mpps/internal/must"
)

// wire is a simulated path that sends while time passes: it carries a share of what is sent.
type wire struct {
	device
	pps, share float64
	delay      time.Duration // until the receiver answers
	clock      bool          // the receiver has its own clock
	still      time.Duration // after which nothing arrives any more; 0: never
	broken     error
	starves    time.Duration // after which nothing is heard of the far end; 0: never

	began, ended time.Time
}

func (w *wire) Send(ctx context.Context, load Load) (Sent, error) {
	w.began = time.Now()
	defer func() { w.ended = time.Now() }()
	if w.broken != nil {
		Pause(ctx, 100*time.Millisecond)
		return Sent{}, w.broken
	}
	Pause(ctx, load.Duration)
	return Sent{}, nil
}

// lasted is how long was sent.
func (w *wire) lasted() time.Duration {
	switch {
	case w.began.IsZero():
		return 0
	case w.ended.IsZero():
		return time.Since(w.began)
	}
	return w.ended.Sub(w.began)
}

func (w *wire) Progress() uint64 { return uint64(w.pps * w.lasted().Seconds()) }

func (w *wire) Arrived(context.Context) (Arrived, error) {
	lasted := w.lasted()
	if w.still > 0 {
		lasted = min(lasted, w.still)
	}
	n := uint64(w.share * w.pps * lasted.Seconds())
	time.Sleep(w.delay)
	a := Arrived{Frames: n}
	if w.clock {
		a.Span, a.SpanFrames = lasted, n
	}
	return a, nil
}

func (w *wire) Starved() bool { return w.starves > 0 && w.lasted() > w.starves }

// TestRunning: parts of what is sent are measured without an end of it, by the receiver's clock if it has one, and a
// path that stops carrying in the middle is not taken for a fast one.
func TestRunning(t *testing.T) {
	for _, c := range []struct {
		name string
		wire
		received, within float64
	}{
		{"near", wire{pps: 1e6, share: 0.8}, 0.8e6, 0.001},
		{"far", wire{pps: 1e6, share: 0.8, delay: 60 * time.Millisecond}, 0.8e6, 0.3},
		{"far, with a clock", wire{pps: 1e6, share: 0.8, delay: 20 * time.Millisecond, clock: true}, 0.8e6, 0.001},
		{"stops in the middle", wire{pps: 1e6, share: 1, clock: true, still: 130 * time.Millisecond}, 0.5e6, 0.1},
	} {
		t.Run(c.name, inNoTime(func(t *testing.T) {
			r := must.Get((&Bench{Path: &c.wire}).Start(t.Context(), Load{Rate: c.pps, Duration: time.Minute}))(t)
			s := must.Get(r.Slice(t.Context(), 250*time.Millisecond))(t)
			if math.Abs(s.Sent/c.pps-1) > 0.3 || math.Abs(s.Received/c.received-1) > c.within {
				t.Errorf("%+v, expected %g received", s, c.received)
			}
			if err := r.Close(); err != nil || c.ended.IsZero() {
				t.Errorf("%v, ended %v", err, c.ended)
			}
		}))
	}
}

// TestRunningEnds: a slice of what is not sent any more is none, whatever ended it.
func TestRunningEnds(t *testing.T) {
	broken := errors.New("link is down")
	for _, c := range []struct {
		name string
		wire
		want error
	}{
		{"its time is over", wire{pps: 1e6, share: 1}, nil},
		{"the generator fails", wire{pps: 1e6, share: 1, broken: broken}, broken},
		{"it starves the far end", wire{pps: 1e6, share: 1, starves: 100 * time.Millisecond}, nil},
	} {
		t.Run(c.name, inNoTime(func(t *testing.T) {
			load := Load{Rate: c.pps, Duration: 300 * time.Millisecond}
			r := must.Get((&Bench{Path: &c.wire}).Start(t.Context(), load))(t)
			if s, err := r.Slice(t.Context(), time.Second); !errors.Is(err, ErrOver) {
				t.Errorf("%+v, %v", s, err)
			}
			must.Is(t, r.Close(), c.want, "r.Close")
			must.Hold(t, (c.lasted() < load.Duration) == (c.broken != nil || c.starves > 0), "sent for %v", c.lasted())
		}))
	}
	t.Run("nothing is ever sent", inNoTime(func(t *testing.T) {
		w := &wire{}
		if _, err := (&Bench{Path: w}).Start(t.Context(), Load{Duration: time.Minute}); err == nil || w.ended.IsZero() {
			t.Errorf("%v, ended %v", err, w.ended)
		}
	}))
	t.Run("cancelled", inNoTime(func(t *testing.T) {
		w := &wire{pps: 1e6, share: 1}
		r := must.Get((&Bench{Path: w}).Start(t.Context(), Load{Duration: time.Minute}))(t)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := r.Slice(ctx, time.Second); !errors.Is(err, context.DeadlineExceeded) || !w.ended.IsZero() {
			t.Errorf("%v, ended %v", err, w.ended)
		}
		r.Close()
	}))
}
