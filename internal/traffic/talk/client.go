package talk

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"mpps/internal/traffic"
)

// Target says where a server is and how to reach it.
type Target struct {
	Netns string `json:"netns,omitempty"` // the client's network namespace
	Addr  string `json:"addr"`            // host:port of the server
	Conns int    `json:"conns,omitempty"` // 0 means 1
}

// An Interval is what happened in one part of the run.
type Interval struct {
	Start time.Duration `json:"start"` // since the beginning of the run
	End   time.Duration `json:"end"`
	Count uint64        `json:"count"` // bytes or transactions
}

// StreamConfig says what Stream does.
type StreamConfig struct {
	Target
	Duration time.Duration `json:"duration"`         // of sending, over all connections at once
	Bytes    uint64        `json:"bytes,omitempty"`  // a connection; 0 for no limit
	Buffer   int           `json:"buffer,omitempty"` // bytes a call, 0 means 128 KiB
	Reverse  bool          `json:"reverse,omitempty"`
	Interval time.Duration `json:"interval,omitempty"` // of the samples, 0 means 1 s
}

// StreamResult counts what was received.
type StreamResult struct {
	Bytes       uint64        `json:"bytes"` // received by the far end, or here if Reverse
	Sent        uint64        `json:"sent,omitempty"`
	Elapsed     time.Duration `json:"elapsed"` // until the last byte was received
	PerConn     []uint64      `json:"per_conn"`
	Intervals   []Interval    `json:"intervals"` // as seen here: bytes handed to the socket, or received if Reverse
	Retransmits uint64        `json:"retransmits"`
	Cancelled   bool          `json:"cancelled,omitempty"`
}

// BitsPerSecond is the mean over Elapsed.
func (r StreamResult) BitsPerSecond() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Bytes) * 8 / r.Elapsed.Seconds()
}

// dial opens the connections of a run, all of them or none.
func (t Target) dial(ctx context.Context, h hello) ([]*conn, error) {
	if t.Conns < 0 || t.Conns > 1024 {
		return nil, fmt.Errorf("%w: %d connections, want 1 to 1024", ErrConfig, t.Conns)
	}
	var conns []*conn
	err := traffic.Endpoint{Netns: t.Netns}.Do(func() error {
		d := net.Dialer{Timeout: 10 * time.Second}
		for range max(1, t.Conns) {
			// The socket is made on this thread when the address is numeric;
			// a name would be looked up by another one, elsewhere.
			if _, err := net.ResolveTCPAddr("tcp", t.Addr); t.Netns != "" && err != nil {
				return fmt.Errorf("%w: address %q: %w", ErrConfig, t.Addr, err)
			}
			c, err := d.DialContext(ctx, "tcp", t.Addr)
			if err != nil {
				return err
			}
			b, err := block(c.(*net.TCPConn))
			if err != nil {
				c.Close()
				return err
			}
			conns = append(conns, b)
			if err := b.write(h.bytes()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		for _, c := range conns {
			c.close()
		}
		return nil, fmt.Errorf("TCP test with %s: %w", t.Addr, err)
	}
	return conns, nil
}

// Stream sends (or with Reverse receives) bytes over Conns connections until
// Duration or Bytes is reached or ctx is done, which is not an error.
func Stream(ctx context.Context, c StreamConfig) (StreamResult, error) {
	buf := c.Buffer
	if buf == 0 {
		buf = defaultBuf
	}
	if buf < 1 || buf > maxMessage {
		return StreamResult{}, fmt.Errorf("%w: buffer of %d bytes, want 1 to %d", ErrConfig, buf, maxMessage)
	}
	if c.Duration <= 0 && c.Bytes == 0 {
		return StreamResult{}, fmt.Errorf("%w: neither duration nor bytes are limited", ErrConfig)
	}
	h := hello{service: serviceSink, request: uint32(buf)}
	if c.Reverse {
		h.service = serviceSource
	}
	conns, err := c.dial(ctx, h)
	if err != nil {
		return StreamResult{}, err
	}
	r := StreamResult{PerConn: make([]uint64, len(conns))}
	sent := make([]uint64, len(conns))
	var live atomic.Uint64
	run := newRun(ctx, c.Duration, conns, grace)
	sampled := run.sample(&live, c.Interval)
	err = run.each(func(i int, k *conn) error {
		if c.Reverse {
			return run.receive(k, make([]byte, buf), c.Bytes, &r.PerConn[i], &live)
		}
		return run.send(k, make([]byte, buf), c.Bytes, &sent[i], &r.PerConn[i], &live)
	})
	r.Elapsed = time.Since(run.start)
	r.Cancelled = ctx.Err() != nil
	r.Intervals = <-sampled
	for i, k := range conns {
		r.Bytes += r.PerConn[i]
		r.Sent += sent[i]
		if n, err := k.retransmits(); err == nil {
			r.Retransmits += uint64(n)
		}
		k.close()
	}
	if err != nil {
		return r, fmt.Errorf("TCP stream with %s: %w", c.Addr, err)
	}
	return r, nil
}

// A run is one measurement over its connections.
type run struct {
	start time.Time
	conns []*conn
	over  atomic.Bool  // time is up or cancelled: finish
	ended atomic.Int64 // when that was, ns since start

	aborted atomic.Bool // the connections are shut down: no answer will come
	undo    func() bool
	cancel  context.CancelFunc
	done    chan struct{}
}

// grace is how long a far end may take to say what it received, or to answer the last requests.
const grace = 5 * time.Second

// newRun begins a run; patience is how long calls may take to finish when its time is up.
func newRun(ctx context.Context, d time.Duration, conns []*conn, patience time.Duration) *run {
	r := &run{start: time.Now(), conns: conns, done: make(chan struct{}), cancel: func() {}}
	if d > 0 {
		ctx, r.cancel = context.WithTimeout(ctx, d)
	}
	r.undo = context.AfterFunc(ctx, func() {
		r.finish()
		// Calls that block are given time to finish, then ended.
		wait := patience
		if context.Cause(ctx) == context.Canceled {
			wait = grace / 10
		}
		select {
		case <-time.After(wait):
			r.aborted.Store(true)
			for _, c := range conns {
				c.abort()
			}
		case <-r.done:
		}
	})
	return r
}

// finish says that nothing more is to be started.
func (r *run) finish() {
	r.ended.CompareAndSwap(0, int64(time.Since(r.start)))
	r.over.Store(true)
}

// going tells whether more is to be started.
func (r *run) going() bool { return !r.over.Load() }

// each runs f for each connection on a thread of its own and waits.
func (r *run) each(f func(int, *conn) error) error {
	errs := make([]error, len(r.conns))
	var wait sync.WaitGroup
	for i, c := range r.conns {
		wait.Add(1)
		onThread(func() {
			defer wait.Done()
			if errs[i] = f(i, c); errs[i] != nil {
				r.finish()
			}
		})
	}
	wait.Wait()
	close(r.done)
	r.undo()
	r.cancel()
	return errors.Join(errs...)
}

// sample takes the intervals until the run is done.
func (r *run) sample(live *atomic.Uint64, every time.Duration) <-chan []Interval {
	if every <= 0 {
		every = time.Second
	}
	out := make(chan []Interval, 1)
	go func() {
		var all []Interval
		var last Interval
		var seen uint64
		take := func() {
			n := live.Load()
			last = Interval{Start: last.End, End: time.Since(r.start), Count: n - seen}
			seen = n
			all = append(all, last)
		}
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				take()
			case <-r.done:
				take()
				out <- all
				return
			}
		}
	}()
	return out
}

// send writes until the run is over, then asks the far end what it received.
func (r *run) send(c *conn, buf []byte, limit uint64, sent, received *uint64, live *atomic.Uint64) error {
	for r.going() && (limit == 0 || *sent < limit) {
		b := buf
		if limit > 0 {
			b = b[:min(uint64(len(b)), limit-*sent)]
		}
		if err := c.write(b); err != nil {
			return fmt.Errorf("send: %w", err)
		}
		*sent += uint64(len(b))
		live.Add(uint64(len(b)))
	}
	if err := c.closeWrite(); err != nil {
		return err
	}
	answer := make([]byte, 8)
	if err := c.readFull(answer); err != nil {
		return fmt.Errorf("wait for the far end's count: %w", err)
	}
	*received = binary.BigEndian.Uint64(answer)
	return nil
}

// receive reads until the run is over.
func (r *run) receive(c *conn, buf []byte, limit uint64, received *uint64, live *atomic.Uint64) error {
	defer c.abort()
	for r.going() && (limit == 0 || *received < limit) {
		b := buf
		if limit > 0 {
			b = b[:min(uint64(len(b)), limit-*received)]
		}
		n, err := c.read(b)
		*received += uint64(n)
		live.Add(uint64(n))
		if err != nil {
			if err == io.EOF && r.over.Load() {
				return nil
			}
			return fmt.Errorf("receive: %w", err)
		}
	}
	return nil
}
