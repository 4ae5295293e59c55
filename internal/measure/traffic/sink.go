package traffic

import (
	"errors"
	"fmt"
	"time"
)

// SinkConfig describes what a Sink counts.
type SinkConfig struct {
	In      Endpoint `json:"in"`
	Stream  uint16   `json:"stream"`            // first stream
	Streams int      `json:"streams,omitempty"` // number of streams; 0 means 1, at most 1024
	Latency bool     `json:"latency,omitempty"` // histogram of one-way delays of timestamped frames; needs one clock
	Method  Method   `json:"method,omitempty"`
	// PassMatch passes counted frames on to the stack, for a guest that forwards.
	PassMatch bool `json:"pass_match,omitempty"`
	// DropOther also drops everything but the test frames of these streams, ARP, and TCP and ICMP over IPv4. XDP sinks
	// only.
	DropOther bool `json:"drop_other,omitempty"`
	// Pktgen also counts frames of the kernel's packet generator: UDP destination port 9 is the first stream, 10 the
	// second.
	Pktgen bool `json:"pktgen,omitempty"`
	// Unnumbered treats every frame of pktgen as new, because its numbers repeat: loss is then sent minus received, and
	// duplicates and reordering go unseen.
	Unnumbered bool `json:"unnumbered,omitempty"`
}

const maxStreams = 1024

func (c *SinkConfig) prepare() (Device, error) {
	if c.Streams == 0 {
		c.Streams = 1
	}
	if c.Streams < 1 || c.Streams > maxStreams || int(c.Stream)+c.Streams-1 > maxStream {
		return Device{}, fmt.Errorf("%w: %d streams from %d on, want 1 to %d within 0 to %d",
			ErrConfig, c.Streams, c.Stream, maxStreams, maxStream)
	}
	return c.In.Device()
}

// StreamCounts is what a sink has counted of one stream. If it arrived on one CPU and TooLate is 0, every number is
// exact. On several CPUs each checks its own frames: duplicates and reordering are then only found among the frames of
// one CPU.
type StreamCounts struct {
	Stream     uint16 `json:"stream"`
	Received   uint64 `json:"received"`
	Bytes      uint64 `json:"bytes"`
	Duplicated uint64 `json:"duplicated"`
	// Reordered counts frames that arrived after one with a higher sequence number (RFC 4737 section 3.3).
	Reordered uint64 `json:"reordered"`
	// TooLate counts frames more than 32736 behind the newest, too old to tell whether they are late or duplicates.
	// They count as late.
	TooLate uint64 `json:"too_late,omitempty"`
	First   uint64 `json:"first"` // sequence number of the first frame to arrive (the lowest over the CPUs)
	Next    uint64 `json:"next"`  // highest sequence number + 1, 0 for none
	CPUs    int    `json:"cpus"`  // that received frames
	Exact   bool   `json:"exact"`

	span
}

// A span is how long frames arrived, by the receiver's clock. Frames still in full buffers when the sender stops arrive
// later: the rate over the span is that of the path, the rate over the sending time is not.
type span struct {
	FirstAt uint64 `json:"first_at_ns,omitempty"` // CLOCK_MONOTONIC of the receiver
	LastAt  uint64 `json:"last_at_ns,omitempty"`  // of one of the last frames; 0 for fewer than 33
	Spanned uint64 `json:"spanned,omitempty"`     // frames that arrived in between
}

// Span returns the time from the first frame to one of the last, 0 if too few arrived.
func (s span) Span() time.Duration {
	if s.LastAt <= s.FirstAt {
		return 0
	}
	return time.Duration(s.LastAt - s.FirstAt)
}

// merge adds what arrived elsewhere at the same time.
func (s *span) merge(o span) {
	if o.LastAt == 0 {
		return
	}
	if s.LastAt == 0 || o.FirstAt < s.FirstAt {
		s.FirstAt = o.FirstAt
	}
	s.LastAt = max(s.LastAt, o.LastAt)
	s.Spanned += o.Spanned
}

// Unique returns the number of distinct frames.
func (s StreamCounts) Unique() uint64 { return s.Received - s.Duplicated }

// Lost returns how many of sent frames did not arrive.
func (s StreamCounts) Lost(sent uint64) uint64 {
	return sent - min(s.Unique(), sent)
}

// Missing returns the loss that the sequence numbers prove: all losses except those after the last frame that arrived.
func (s StreamCounts) Missing() uint64 { return s.Lost(s.Next) }

// Counts is a reading of a Sink.
type Counts struct {
	Method     Method `json:"method"`
	Received   uint64 `json:"received"` // test frames of the streams
	Bytes      uint64 `json:"bytes"`    // of those frames, with FCS
	Duplicated uint64 `json:"duplicated"`
	Reordered  uint64 `json:"reordered"`
	TooLate    uint64 `json:"too_late,omitempty"`
	Stamped    uint64 `json:"stamped,omitempty"`
	Other      uint64 `json:"other"`   // not test frames; a packet socket counts none
	Foreign    uint64 `json:"foreign"` // test frames of other streams
	// Overrun counts frames that found the sink's ring full: the receiver is the limit. XDP sinks have no ring.
	Overrun  uint64         `json:"overrun,omitempty"`
	Streams  []StreamCounts `json:"streams"`
	Exact    bool           `json:"exact"`
	Warnings []string       `json:"warnings,omitempty"`

	span
}

// Unique returns the number of distinct test frames received.
func (c Counts) Unique() uint64 { return c.Received - c.Duplicated }

// Lost returns how many of sent frames, over all streams, did not arrive.
func (c Counts) Lost(sent uint64) uint64 {
	return sent - min(c.Unique(), sent)
}

// add adds a stream.
func (c *Counts) add(s StreamCounts) {
	s.Exact = s.CPUs <= 1 && s.TooLate == 0
	c.Received += s.Received
	c.Bytes += s.Bytes
	c.Duplicated += s.Duplicated
	c.Reordered += s.Reordered
	c.TooLate += s.TooLate
	c.Exact = c.Exact && s.Exact
	c.merge(s.span)
	c.Streams = append(c.Streams, s)
}

// A Sink counts test frames that arrive on an interface.
type Sink interface {
	Method() Method
	Counts() (Counts, error)
	// Histogram is empty unless SinkConfig.Latency is set and frames carry timestamps of this machine's clock.
	Histogram() (*Histogram, error)
	// Reset sets everything to zero. No traffic may be in flight.
	Reset() error
	Close() error
}

// NewSink makes a sink of c.Method. Auto selects XDP in the driver, else XDP in generic mode, else AF_PACKET; every
// Counts then carries the reasons as warnings.
func NewSink(c SinkConfig) (Sink, error) {
	dev, err := c.prepare()
	if err != nil {
		return nil, err
	}
	switch c.Method {
	case XDP, XDPSkb:
		return newXDPSink(c, dev, c.Method, nil)
	case AFPacket:
		return newPacketSink(c, dev, nil)
	case Auto:
	default:
		return nil, fmt.Errorf("%w: sink method %q, want %q, %q or %q", ErrConfig, c.Method, XDP, XDPSkb, AFPacket)
	}
	var why []string
	for _, m := range []Method{XDP, XDPSkb} {
		s, err := newXDPSink(c, dev, m, why)
		if err == nil {
			return s, nil
		}
		var unsupported *UnsupportedError
		if !errors.As(err, &unsupported) {
			return nil, err
		}
		why = append(why, err.Error())
	}
	return newPacketSink(c, dev, why)
}
