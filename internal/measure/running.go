package measure

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Running is a load that is sent while parts of it are measured. The host can be changed between two of them, without
// the start, the end and the late frames of a trial.
type Running struct {
	path Path
	stop context.CancelFunc
	over chan struct{} // closed once nothing is sent any more
	err  error         // why; valid once over is closed
}

// Slice is the rate of a running load between two readings of its counters, in packets per second. Frames in flight at
// a reading count in the next slice, so the loss is exact only up to the content of the path's buffers.
type Slice struct {
	Sent     float64
	Received float64 // distinct frames
}

// ErrOver means that a running load ended before a slice was over.
var ErrOver = errors.New("nothing is sent any more")

// startWithin is how long a generator may take until its first frame. A call of the XDP generator takes tens of
// milliseconds, an agent on an emulated machine seconds.
const startWithin = 10 * time.Second

// Start begins to send a load and returns once frames leave. What is sent ends with the load's duration or by Close.
// Nothing else may use the path meanwhile.
func (b *Bench) Start(ctx context.Context, load Load) (*Running, error) {
	if err := b.Path.Prepare(ctx, load); err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	before := b.Path.Progress()
	sending, stop := context.WithCancel(context.WithoutCancel(ctx))
	s := &Running{path: b.Path, stop: stop, over: make(chan struct{})}
	go func() {
		defer close(s.over)
		if _, err := b.Path.Send(sending, load); err != nil {
			s.err = fmt.Errorf("send: %w", err)
		}
	}()
	go s.watch()
	limit := time.Now().Add(startWithin)
	for {
		// A generator that is used again has the old count until it begins.
		if now := b.Path.Progress(); now > 0 && now != before {
			return s, nil
		}
		err := s.pause(ctx, 5*time.Millisecond)
		if err == nil && time.Now().After(limit) {
			err = fmt.Errorf("no frame was sent within %v", startWithin)
		}
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
}

// watch ends sending once it starves the control connection of another machine.
func (s *Running) watch() {
	t := time.NewTicker(100 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-s.over:
			return
		case <-t.C:
			if s.path.Starved() {
				s.stop()
				return
			}
		}
	}
}

// Slice measures the load for a time. Its error is ErrOver if sending ended; Close then returns why.
func (s *Running) Slice(ctx context.Context, length time.Duration) (Slice, error) {
	before, err := s.read(ctx)
	if err != nil {
		return Slice{}, err
	}
	if err := s.pause(ctx, length); err != nil {
		return Slice{}, err
	}
	after, err := s.read(ctx)
	if err != nil {
		return Slice{}, err
	}
	return between(before, after), nil
}

// pause waits for d, or until sending or ctx ends.
func (s *Running) pause(ctx context.Context, d time.Duration) error {
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), d)
	defer cancel()
	return s.Wait(ctx, within.Done())
}

// Wait waits until done is closed. Its errors are those of Slice.
func (s *Running) Wait(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.over:
		return ErrOver
	}
}

// Close stops sending and returns once nothing is sent any more. Its error is what ended sending before.
func (s *Running) Close() error {
	s.stop()
	<-s.over
	return s.err
}

// reading is the counters of both ends at a moment. A reading on another machine is taken to happen halfway between
// request and answer.
type reading struct {
	sent              uint64
	sentAt, arrivedAt time.Time
	arrived           Arrived
}

func (s *Running) read(ctx context.Context) (r reading, err error) {
	began := time.Now()
	r.sent = s.path.Progress()
	asked := time.Now()
	r.sentAt = midway(began, asked)
	if r.arrived, err = s.path.Arrived(ctx); err != nil {
		return r, fmt.Errorf("read the receiver: %w", err)
	}
	r.arrivedAt = midway(asked, time.Now())
	return r, nil
}

func midway(a, b time.Time) time.Time { return a.Add(b.Sub(a) / 2) }

func between(a, b reading) Slice {
	slice := Slice{Sent: rateOf(minus(b.sent, a.sent), b.sentAt.Sub(a.sentAt))}
	took := b.arrivedAt.Sub(a.arrivedAt)
	if len(b.arrived.Ways) == 0 || len(b.arrived.Ways) != len(a.arrived.Ways) {
		slice.Received = arrivedBetween(a.arrived, b.arrived, took)
		return slice
	}
	for i := range b.arrived.Ways {
		slice.Received += arrivedBetween(a.arrived.Ways[i], b.arrived.Ways[i], took)
	}
	return slice
}

// arrivedBetween returns the rate of distinct frames between two readings, took apart. It uses the receiver's own
// clock, which no round trip delays, if that covers at least nine tenths of the time: otherwise a path that stalled for
// the rest of the slice would look faster.
func arrivedBetween(a, b Arrived, took time.Duration) float64 {
	unique := minus(b.Unique(), a.Unique())
	span := b.Span - a.Span
	if a.Span == 0 || span < took*9/10 || b.SpanFrames <= a.SpanFrames || b.Frames <= a.Frames {
		return rateOf(unique, took)
	}
	return rateOf(b.SpanFrames-a.SpanFrames, span) * float64(unique) / float64(b.Frames-a.Frames)
}

// rateOf returns a count as a rate per second; 0 if it took no time.
func rateOf(n uint64, took time.Duration) float64 {
	if took <= 0 {
		return 0
	}
	return float64(n) / took.Seconds()
}
