package rig

import (
	"context"
	"errors"
	"time"

	"mpps/internal/measure"
	"mpps/internal/traffic"
)

// localSender is a generator on this machine.
type localSender struct {
	config traffic.Config // without rate and duration
	made   traffic.Generator
	load   measure.Load // that made was made for
	warn   func(measure.Warning)
}

// newLocalSender makes the generator at once, so that what it cannot do comes out before anything is measured.
func newLocalSender(config traffic.Config, load measure.Load, warn func(measure.Warning)) (*localSender, error) {
	s := &localSender{config: config, warn: warn}
	if err := s.prepare(context.Background(), load); err != nil {
		return nil, err
	}
	s.config.Method = s.made.Method() // what was chosen once stays: all trials are alike
	return s, nil
}

// prepare has a generator for the load at hand.
func (s *localSender) prepare(_ context.Context, load measure.Load) error {
	load.Repeat, load.WarmUp = 0, 0
	if s.made != nil && s.load == load {
		return nil
	}
	if err := s.close(); err != nil {
		return err
	}
	config := s.config
	config.Rate, config.Duration, config.Stamp = load.Rate, load.Duration, load.Latency
	made, err := traffic.NewGenerator(config)
	if err != nil {
		return err
	}
	s.made, s.load = made, load
	return nil
}

func (s *localSender) send(ctx context.Context, load measure.Load) (measure.Sent, error) {
	if err := s.prepare(ctx, load); err != nil {
		return measure.Sent{}, err
	}
	r, err := s.made.Run(ctx)
	for _, text := range r.Warnings {
		s.warn(fallback(text))
	}
	return sentOf(r), err
}

func sentOf(r traffic.Result) measure.Sent {
	return measure.Sent{Frames: r.Sent, Elapsed: r.Elapsed, Slipped: r.Slipped, Floor: r.BatchDelay}
}

func fallback(text string) measure.Warning {
	return measure.Warning{Code: "fallback", Text: text, Hint: "a faster generator or sink would need what is missing here"}
}

func (s *localSender) alone(ctx context.Context, load measure.Load) measure.Alone {
	load.Rate = 0
	return generatorAlone(ctx, s.config, load)
}

func (s *localSender) method() string { return string(s.config.Method) }

func (s *localSender) close() error {
	if s.made == nil {
		return nil
	}
	err := s.made.Close()
	s.made = nil
	return err
}

// localReceiver is a sink on this machine.
type localReceiver struct {
	config traffic.SinkConfig
	sink   traffic.Sink
	warn   func(measure.Warning)
}

func newLocalReceiver(config traffic.SinkConfig, warn func(measure.Warning)) (*localReceiver, error) {
	sink, err := traffic.NewSink(config)
	if err != nil {
		return nil, err
	}
	config.Method = sink.Method()
	return &localReceiver{config: config, sink: sink, warn: warn}, nil
}

func (r *localReceiver) reset(context.Context) error {
	// Bridges on the way learn where the receiver is; without it they flood.
	if err := announce(r.config.In); err != nil {
		return err
	}
	return r.sink.Reset()
}

func (r *localReceiver) arrived(context.Context) (measure.Arrived, error) {
	c, err := r.sink.Counts()
	for _, text := range c.Warnings {
		r.warn(fallback(text))
	}
	return arrivedOf(c), err
}

func arrivedOf(c traffic.Counts) measure.Arrived {
	return measure.Arrived{Frames: c.Received, Duplicated: c.Duplicated, Reordered: c.Reordered, Overrun: c.Overrun, Exact: c.Exact}
}

func (r *localReceiver) latency(context.Context) (*measure.Latency, error) {
	if !r.config.Latency {
		return nil, nil
	}
	h, err := r.sink.Histogram()
	if err != nil {
		return nil, err
	}
	return latencyOf("one-way", h.Bins()), nil
}

func latencyOf(what string, bins []traffic.Bin) *measure.Latency {
	buckets := make([]measure.Bucket, len(bins))
	for i, b := range bins {
		buckets[i] = measure.Bucket{FromNs: b.Low, ToNs: b.High, Count: b.Count}
	}
	return measure.NewLatency(what, buckets)
}

func (r *localReceiver) alone(ctx context.Context, load measure.Load) measure.Alone {
	load.Rate, load.Latency = 0, r.config.Latency
	return receiverAlone(ctx, r.config, load)
}

func (r *localReceiver) method() string { return string(r.config.Method) }
func (r *localReceiver) close() error   { return r.sink.Close() }

// frameOf is the test frame of a load. Flows differ in source address and source port, both, because many NICs hash UDP
// by addresses alone (ethtool -N DEV rx-flow-hash udp4 sd).
func frameOf(load measure.Load) traffic.Frame {
	addresses := split(load.Flows)
	return traffic.Frame{
		Size:    load.FrameBytes,
		Src:     traffic.AddrRange{First: firstSource, Count: uint32(addresses)},
		SrcPort: traffic.PortRange{First: 1024, Count: uint32(load.Flows / addresses)},
	}
}

// split is how many addresses n flows have: as near to the root of n as divides it, but enough that ports suffice.
func split(n int) int {
	for a := 1; a <= n; a++ {
		if n%a == 0 && a*a >= n {
			return a
		}
	}
	return 1
}

var errNoTime = errors.New("the trial took no time")

func perSecond(n uint64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}
