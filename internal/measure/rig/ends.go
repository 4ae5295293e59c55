package rig

import (
	"context"
	"time"

	"mpps/internal/measure"
	"mpps/internal/measure/traffic"
)

// sender is the end that packets leave from: a generator here or at an agent.
type sender struct {
	config traffic.Config // without rate and duration
	share  float64        // of the load's rate; 0: all
	make   func(context.Context, traffic.Config) (traffic.Generator, error)
	limit  func(context.Context, traffic.Config, time.Duration) (traffic.Alone, error) // what it can do alone
	warn   func(measure.Warning)

	gen  traffic.Generator
	load measure.Load // that gen was made for
}

// prepare makes a generator for the load, unless there is one.
func (s *sender) prepare(ctx context.Context, load measure.Load) error {
	load.Repeat, load.WarmUp = 0, 0
	if s.gen != nil && s.load == load {
		return nil
	}
	if err := s.close(); err != nil {
		return err
	}
	config := s.config
	config.Rate, config.Duration, config.Stamp = load.Rate, load.Duration, load.Latency
	if s.share > 0 {
		config.Rate *= s.share
	}
	config.CatchUp = catchUp(config.Rate)
	gen, err := s.make(ctx, config)
	if err != nil {
		return explain(err)
	}
	s.gen, s.load = gen, load
	return nil
}

// catchUp returns how far behind its schedule a sender may catch up: 64 frames at once fit any ring, and at low rates
// that gives a sender time to get its CPU back. 0 leaves it to the generator.
func catchUp(rate float64) time.Duration {
	if rate <= 0 {
		return 0
	}
	return min(max(time.Duration(64/rate*float64(time.Second)), 250*time.Microsecond), 100*time.Millisecond)
}

func (s *sender) send(ctx context.Context, load measure.Load) (measure.Sent, error) {
	if err := s.prepare(ctx, load); err != nil {
		return measure.Sent{}, err
	}
	r, err := s.gen.Run(ctx)
	if err != nil {
		return measure.Sent{}, explain(err)
	}
	for _, text := range r.Warnings {
		s.warn(note(text))
	}
	// The first choice stays: all trials are alike.
	s.config.Method = r.Method
	return measure.Sent{Frames: r.Sent, Elapsed: r.Elapsed, Slipped: r.Slipped, Floor: r.BatchDelay, Errors: r.Refused},
		nil
}

func (s *sender) alone(ctx context.Context, load measure.Load) measure.Alone {
	config := s.config
	config.Stamp = load.Latency
	how := "frames dropped in front of the device"
	if config.Method != traffic.XDP {
		how = "into its own veth pair"
	}
	a, err := s.limit(ctx, config, load.Duration)
	return newAlone(a, err, how)
}

func (s *sender) method() string { return string(s.config.Method) }

func (s *sender) close() error {
	if s.gen == nil {
		return nil
	}
	err := s.gen.Close()
	s.gen = nil
	return err
}

// generatorAlone measures a generator of this machine. Live frames are made and dropped where the device would get
// them. Packet sockets, which cost a system call and the path through the device layer, need something to send into.
func generatorAlone(ctx context.Context, c traffic.Config, d time.Duration) (traffic.Alone, error) {
	if c.Method == traffic.XDP {
		return traffic.GeneratorAlone(ctx, c, d)
	}
	return traffic.GeneratorToDevice(ctx, c, d)
}

// receiver is the end that packets arrive at: a sink here or at an agent.
type receiver struct {
	config traffic.SinkConfig
	sink   traffic.Sink
	local  bool
	limit  func(context.Context, traffic.SinkConfig, traffic.Config, time.Duration) (traffic.Alone, error)
	warn   func(measure.Warning)
}

func (r *receiver) prepare() error {
	if r.local {
		// Bridges on the path learn where the receiver is; otherwise they flood.
		if err := announce(r.config.In); err != nil {
			return err
		}
	}
	return r.sink.Reset()
}

func (r *receiver) arrived() (measure.Arrived, error) {
	c, err := r.sink.Counts()
	for _, text := range c.Warnings {
		r.warn(note(text))
	}
	return measure.Arrived{
		Frames: c.Received, Duplicated: c.Duplicated, Reordered: c.Reordered, Overrun: c.Overrun, Exact: c.Exact,
		Span: c.Span(), SpanFrames: c.Spanned,
	}, err
}

func (r *receiver) latency() (*measure.Latency, error) {
	if !r.config.Latency {
		return nil, nil
	}
	h, err := r.sink.Histogram()
	if err != nil {
		return nil, err
	}
	return latencyOf("one-way", h.Bins()), nil
}

func (r *receiver) alone(ctx context.Context, load measure.Load) measure.Alone {
	config := r.config
	config.Method = r.sink.Method()
	a, err := r.limit(ctx, config, traffic.Config{Frame: frameOf(load), Stamp: config.Latency}, load.Duration)
	return newAlone(a, err, "behind a generator on its own veth pair")
}

func (r *receiver) method() string { return string(r.sink.Method()) }
func (r *receiver) close() error   { return r.sink.Close() }

func newAlone(a traffic.Alone, err error, how string) measure.Alone {
	alone := measure.Alone{PPS: a.PPS, Seconds: a.Elapsed.Seconds(), AtLeast: a.AtLeast, How: how}
	if err != nil {
		alone.PPS, alone.Error = 0, err.Error()
	}
	return alone
}

// note is a warning from a generator or sink: why it is not the faster method, what its ring dropped.
func note(text string) measure.Warning { return measure.Warning{Code: "note", Text: text} }

func latencyOf(what string, bins []traffic.Bin) *measure.Latency {
	buckets := make([]measure.Bucket, len(bins))
	for i, b := range bins {
		buckets[i] = measure.Bucket{FromNs: b.Low, ToNs: b.High, Count: b.Count}
	}
	return measure.NewLatency(what, buckets)
}

// frameOf returns the test frame of a load. Flows differ in both source address and source port, because many NICs hash
// UDP by addresses alone (ethtool -N DEV rx-flow-hash udp4 sd).
func frameOf(load measure.Load) traffic.Frame {
	addresses := split(load.Flows)
	frame := traffic.Frame{
		Size:    load.FrameBytes,
		Src:     traffic.AddrRange{First: firstSource, Count: uint32(addresses)},
		Dst:     traffic.AddrRange{First: firstTarget},
		SrcPort: traffic.PortRange{First: 1024, Count: uint32(load.Flows / addresses)},
		SrcMACs: uint32(load.SourceMACs),
	}
	if load.Mix == IMIX {
		frame.Sizes = traffic.IMIX()
	}
	return frame
}

// frame returns the test frame of a direction. The opposite one swaps the addresses.
func (l lane) frame(load measure.Load) traffic.Frame {
	f := frameOf(load)
	if l.back {
		f.Src.First, f.Dst.First = firstTarget, firstSource
	}
	return f
}

// split returns the number of addresses for n flows: the smallest divisor that is at least the root of n.
func split(n int) int {
	for a := 1; a <= n; a++ {
		if n%a == 0 && a*a >= n {
			return a
		}
	}
	return 1
}
