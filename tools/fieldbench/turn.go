package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mpps/internal/measure/traffic"
)

// turn runs one generator and counts what arrives once it is warm.
func turn(ctx context.Context, g generator, l *link, each time.Duration) (float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var sink traffic.Sink
	attach := func() (err error) {
		// Streams that nobody sends: every generator's frames take the same way.
		sink, err = traffic.NewSink(traffic.SinkConfig{In: l.far, Method: traffic.XDP, Stream: 65535, DropOther: true})
		return err
	}
	if !g.lateSink {
		if err := attach(); err != nil {
			return 0, err
		}
	}
	stop, ended, err := g.start(ctx, l)
	if err != nil {
		if sink != nil {
			err = errors.Join(err, sink.Close())
		}
		return 0, err
	}
	pps, err := func() (float64, error) {
		if g.lateSink {
			if err := wait(ctx, ended, 1500*time.Millisecond); err != nil {
				return 0, err
			}
			if err := attach(); err != nil {
				return 0, err
			}
		}
		// Warm: traffic has been seen, and for a while.
		begin := time.Now()
		for {
			n, err := arrived(sink)
			if err != nil {
				return 0, err
			}
			if n > 5000 {
				break
			}
			if time.Since(begin) > 15*time.Second {
				return 0, fmt.Errorf("nothing arrived in 15 s")
			}
			if err := wait(ctx, ended, 20*time.Millisecond); err != nil {
				return 0, err
			}
		}
		if err := wait(ctx, ended, 300*time.Millisecond); err != nil {
			return 0, err
		}
		first, err := arrived(sink)
		if err != nil {
			return 0, err
		}
		from := time.Now()
		if err := wait(ctx, ended, each); err != nil {
			return 0, err
		}
		last, err := arrived(sink)
		return float64(last-first) / time.Since(from).Seconds(), err
	}()
	stop()
	if sink != nil {
		err = errors.Join(err, sink.Close())
	}
	return pps, err
}

func arrived(s traffic.Sink) (uint64, error) {
	c, err := s.Counts()
	return c.Received + c.Other + c.Foreign, err
}

// wait waits, unless the generator ends first, which it should not.
func wait(ctx context.Context, ended <-chan error, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-ended:
		if err == nil {
			err = errors.New("ended early")
		}
		return err
	case <-time.After(d):
		return nil
	}
}
