package traffic

import (
	"errors"
	"fmt"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// xdpSink reads the counters of bpf/sink.bpf.c.
type xdpSink struct {
	conf     SinkConfig
	method   Method
	coll     *ebpf.Collection
	link     link.Link
	warnings []string

	mu     sync.RWMutex // read-locked while the maps are used
	closed bool
}

var errClosed = errors.New("sink is closed")

func newXDPSink(c SinkConfig, dev Device, m Method, warnings []string) (*xdpSink, error) {
	spec, err := loadSink()
	if err != nil {
		return nil, fmt.Errorf("sink program: %w", err)
	}
	spec.Maps[sinkMapStreams].MaxEntries = uint32(c.Streams)
	spec.Maps[sinkMapWindows].MaxEntries = uint32(c.Streams)
	if c.Latency {
		spec.Maps[sinkMapHistogram].MaxEntries = histogramBuckets
	}
	err = spec.Variables[sinkVarCfg].Set(sinkConfig{
		StreamFirst: uint32(c.Stream), StreamCount: uint32(c.Streams),
		Latency: bit(c.Latency), PassMatch: bit(c.PassMatch), DropOther: bit(c.DropOther),
		Pktgen: bit(c.Pktgen), Unnumbered: bit(c.Unnumbered),
	})
	if err != nil {
		return nil, fmt.Errorf("configure the sink: %w", err)
	}
	coll, err := loadCollection(spec)
	if err != nil {
		return nil, sinkError(m, c.In, "load", err)
	}
	s := &xdpSink{conf: c, method: m, coll: coll, warnings: warnings}
	flags := link.XDPDriverMode
	if m == XDPSkb {
		flags = link.XDPGenericMode
	}
	s.link, err = attachXDP(dev, coll.Programs[sinkProgSink], flags)
	if err != nil {
		coll.Close()
		return nil, sinkError(m, c.In, "attach", err)
	}
	return s, nil
}

// sinkError distinguishes errors that another method may avoid, which are UnsupportedErrors, from the rest.
func sinkError(m Method, in Endpoint, what string, err error) error {
	switch {
	case errors.Is(err, unix.EBUSY), errors.Is(err, unix.EEXIST):
		return fmt.Errorf("sink on %s: another XDP program is attached: %w", in, err)
	case errors.Is(err, unix.EPERM):
		return &UnsupportedError{What: fmt.Sprintf("%s on %s", m, in), Answer: Unknown, Err: err}
	}
	return &UnsupportedError{What: fmt.Sprintf("%s on %s", m, in), Answer: No, Err: fmt.Errorf("%s: %w", what, err)}
}

func (s *xdpSink) Method() Method { return s.method }

func (s *xdpSink) Counts() (Counts, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return Counts{}, errClosed
	}
	c := Counts{Method: s.method, Exact: true, Warnings: s.warnings}
	for i := range s.conf.Streams {
		var cpus []sinkStream
		if err := s.coll.Maps[sinkMapStreams].Lookup(uint32(i), &cpus); err != nil {
			return c, fmt.Errorf("read the sink's counters: %w", err)
		}
		sc := StreamCounts{Stream: s.conf.Stream + uint16(i)}
		for _, p := range cpus {
			if p.Received == 0 {
				continue
			}
			if sc.CPUs == 0 || p.First < sc.First {
				sc.First = p.First
			}
			sc.CPUs++
			sc.merge(span{FirstAt: p.FirstNs, LastAt: p.LastNs, Spanned: p.Spanned})
			sc.Received += p.Received
			sc.Bytes += p.Bytes
			sc.Duplicated += p.Duplicated
			sc.Reordered += p.Reordered + p.TooLate
			sc.TooLate += p.TooLate
			sc.Next = max(sc.Next, p.Next)
			c.Stamped += p.Stamped
		}
		c.add(sc)
	}
	var others []sinkOther
	if err := s.coll.Maps[sinkMapOthers].Lookup(uint32(0), &others); err != nil {
		return c, fmt.Errorf("read the sink's counters: %w", err)
	}
	for _, o := range others {
		c.Other += o.Other
		c.Foreign += o.Foreign
	}
	return c, nil
}

func (s *xdpSink) Histogram() (*Histogram, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	h := &Histogram{}
	if s.closed {
		return h, errClosed
	}
	if !s.conf.Latency {
		return h, nil
	}
	for i := range h.Buckets {
		var cpus []uint64
		if err := s.coll.Maps[sinkMapHistogram].Lookup(uint32(i), &cpus); err != nil {
			return nil, fmt.Errorf("read the sink's histogram: %w", err)
		}
		for _, n := range cpus {
			h.Buckets[i] += n
		}
	}
	return h, nil
}

func (s *xdpSink) Reset() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return errClosed
	}
	n, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	for i := range s.conf.Streams {
		err = errors.Join(err,
			s.coll.Maps[sinkMapStreams].Put(uint32(i), make([]sinkStream, n)),
			s.coll.Maps[sinkMapWindows].Put(uint32(i), make([]sinkWindow, n)))
	}
	err = errors.Join(err, s.coll.Maps[sinkMapOthers].Put(uint32(0), make([]sinkOther, n)))
	if s.conf.Latency {
		none := make([]uint64, n)
		for i := range uint32(histogramBuckets) {
			err = errors.Join(err, s.coll.Maps[sinkMapHistogram].Put(i, none))
		}
	}
	if err != nil {
		return fmt.Errorf("reset the sink: %w", err)
	}
	return nil
}

func (s *xdpSink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	err := s.link.Close()
	s.coll.Close()
	return err
}
