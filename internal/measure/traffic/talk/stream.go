package talk

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// StreamConfig configures Stream.
type StreamConfig struct {
	Target
	Duration time.Duration `json:"duration"`         // of sending, over all connections at once, after the ramp
	Bytes    uint64        `json:"bytes,omitempty"`  // per connection; 0 for no limit
	Buffer   int           `json:"buffer,omitempty"` // bytes per call; 0 means 128 KiB
	Reverse  bool          `json:"reverse,omitempty"`
	Interval time.Duration `json:"interval,omitempty"` // of the samples; 0 means 1 s
	// Ramp is how long each connection transfers before bytes are counted, so that it reaches its full speed first.
	// Whole milliseconds.
	Ramp time.Duration `json:"ramp,omitempty"`
	// Sendfile sends from the pages of a file, without copying (sendfile(2)), instead of from a buffer.
	Sendfile bool `json:"sendfile,omitempty"`
}

// StreamResult counts received bytes.
type StreamResult struct {
	// received by the far end, or here if Reverse; without the ramp
	Bytes     uint64        `json:"bytes"`
	RampBytes uint64        `json:"ramp_bytes,omitempty"`
	Sent      uint64        `json:"sent,omitempty"`
	Elapsed   time.Duration `json:"elapsed"`         // until the last byte was received
	Rate      float64       `json:"bytes_per_s"`     // over all connections, after the ramp
	Spans     []Span        `json:"spans,omitempty"` // with a ramp
	PerConn   []uint64      `json:"per_conn"`        // all bytes received, including the ramp
	// as seen here: bytes handed to the socket, or received if Reverse
	Intervals   []Interval `json:"intervals"`
	Retransmits uint64     `json:"retransmits"`
	Cancelled   bool       `json:"cancelled,omitempty"`
}

// A Span is what one connection received after its ramp, by the receiver's clock.
type Span struct {
	Bytes uint64        `json:"bytes"`
	Time  time.Duration `json:"time"` // from the end of the ramp to the last byte; 0 if it ended before
}

// BitsPerSecond returns the mean over Elapsed or, with a ramp, over the time after it.
func (r StreamResult) BitsPerSecond() float64 { return 8 * r.Rate }

func (c *StreamConfig) check() error {
	c.Buffer = cmp.Or(c.Buffer, defaultBuf)
	switch {
	case c.Buffer < 1 || c.Buffer > maxMessage:
		return fmt.Errorf("%w: buffer of %d bytes, want 1 to %d", ErrConfig, c.Buffer, maxMessage)
	case c.Duration <= 0 && c.Bytes == 0:
		return fmt.Errorf("%w: neither duration nor bytes are limited", ErrConfig)
	case c.Ramp < 0 || c.Ramp > 0 && c.Ramp < time.Millisecond || c.Ramp > time.Hour:
		return fmt.Errorf("%w: ramp of %v, want 1 ms to 1 h", ErrConfig, c.Ramp)
	}
	return nil
}

// hello returns the request for the stream. A sink needs to know the ramp, a source does not.
func (c *StreamConfig) hello() hello {
	h := hello{service: serviceSink, request: uint32(c.Buffer), response: uint32(c.Ramp.Milliseconds())}
	switch {
	case c.Reverse && c.Sendfile:
		h.service = serviceSourceFile
	case c.Reverse:
		h.service = serviceSource
	}
	return h
}

// Stream sends (or with Reverse receives) bytes over Conns connections until Duration or Bytes is reached or ctx is
// done, which is not an error.
func Stream(ctx context.Context, c StreamConfig) (StreamResult, error) {
	if err := c.check(); err != nil {
		return StreamResult{}, err
	}
	conns, err := c.dial(ctx, c.hello())
	if err != nil {
		return StreamResult{}, err
	}
	defer closeAll(conns)
	received, sent := make([]gauge, len(conns)), make([]uint64, len(conns))
	for i := range received {
		received[i].ramp = c.Ramp
	}
	whole := c.Duration
	if whole > 0 {
		whole += c.Ramp
	}
	var live atomic.Uint64
	run := newRun(ctx, whole, conns, grace)
	sampled := run.sample(&live, c.Interval)
	err = run.each(func(i int, k *conn) error {
		if c.Reverse {
			return run.receive(k, make([]byte, c.Buffer), c.Bytes, &received[i], &live)
		}
		f, err := newPayload(c.Buffer, c.Sendfile)
		if err != nil {
			return err
		}
		defer f.close()
		return run.send(k, f, c.Bytes, &sent[i], &received[i], &live)
	})
	r := StreamResult{Elapsed: time.Since(run.start), Cancelled: ctx.Err() != nil, Intervals: <-sampled}
	for i, k := range conns {
		r.Sent += sent[i]
		if n, err := k.retransmits(); err == nil {
			r.Retransmits += uint64(n)
		}
	}
	r.sum(received, c.Ramp)
	if err != nil {
		return r, fmt.Errorf("TCP stream with %s: %w", c.Addr, err)
	}
	return r, nil
}

// sum adds up what the connections received. Each started and ended at its own time, and so has its own rate.
func (r *StreamResult) sum(received []gauge, ramp time.Duration) {
	for _, g := range received {
		r.PerConn = append(r.PerConn, g.total)
		if ramp == 0 {
			r.Bytes += g.total
			continue
		}
		s := g.span()
		r.Spans = append(r.Spans, s)
		r.Bytes, r.RampBytes = r.Bytes+s.Bytes, r.RampBytes+g.total-s.Bytes
		if s.Time > 0 {
			r.Rate += float64(s.Bytes) / s.Time.Seconds()
		}
	}
	if ramp == 0 && r.Elapsed > 0 {
		r.Rate = float64(r.Bytes) / r.Elapsed.Seconds()
	}
}

// A gauge counts the bytes received on a connection, and separately those after the ramp.
type gauge struct {
	ramp        time.Duration
	begin       time.Time // of the first byte
	mark, last  time.Time // when the last byte of the ramp arrived, and the last of all
	total, late uint64    // late: after mark
}

// record counts n bytes that have just arrived.
func (g *gauge) record(n int) {
	g.total += uint64(n)
	if g.ramp == 0 {
		return
	}
	now := time.Now()
	switch {
	case g.begin.IsZero():
		g.begin = now
	case !g.mark.IsZero():
		g.late += uint64(n)
		g.last = now
	case now.Sub(g.begin) >= g.ramp:
		g.mark = now
	}
}

func (g *gauge) span() Span {
	if g.last.IsZero() {
		return Span{}
	}
	return Span{Bytes: g.late, Time: g.last.Sub(g.mark)}
}

// The sink's answer: all bytes, those after the ramp, and their time in nanoseconds.
const answerBytes = 3 * 8

func (g *gauge) answer() []byte {
	s := g.span()
	b := binary.BigEndian.AppendUint64(nil, g.total)
	b = binary.BigEndian.AppendUint64(b, s.Bytes)
	return binary.BigEndian.AppendUint64(b, uint64(s.Time))
}

// parse reads the answer of the far end's gauge.
func (g *gauge) parse(b []byte) error {
	total, late, took := binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:]), binary.BigEndian.Uint64(b[16:])
	if late > total || took > math.MaxInt64 {
		return fmt.Errorf("the far end counts %d bytes, %d of them in %d ns: expected no more than all", total, late,
			took)
	}
	g.total, g.late = total, late
	if took > 0 {
		g.mark = time.Unix(0, 0)
		g.last = g.mark.Add(time.Duration(took))
	}
	return nil
}

// payload is what is sent repeatedly: a buffer or a file.
type payload struct {
	buf  []byte
	file int // −1 for none
}

func newPayload(size int, file bool) (payload, error) {
	f := payload{buf: make([]byte, size), file: -1}
	if !file {
		return f, nil
	}
	fd, err := unix.MemfdCreate("mpps-stream", unix.MFD_CLOEXEC)
	if err != nil {
		return f, fmt.Errorf("file to send: %w", err)
	}
	for at := 0; at < size; {
		n, err := unix.Pwrite(fd, f.buf[at:], int64(at))
		if err != nil {
			unix.Close(fd)
			return f, fmt.Errorf("file to send: %w", err)
		}
		at += n
	}
	f.file = fd
	return f, nil
}

func (f payload) close() {
	if f.file >= 0 {
		unix.Close(f.file)
	}
}

// sendTo sends the first n bytes.
func (f payload) sendTo(c *conn, n int) error {
	if f.file < 0 {
		return c.write(f.buf[:n])
	}
	for at := int64(0); at < int64(n); {
		// The runtime ignores the SIGPIPE that sendfile(2) raises if the far end is gone.
		sent, err := unix.Sendfile(c.fd, f.file, &at, n-int(at))
		switch {
		case err == unix.EINTR:
		case err != nil:
			return err
		case sent == 0:
			return io.ErrUnexpectedEOF
		}
	}
	return nil
}

// send sends until the run is over, then asks the far end what it received.
func (r *run) send(c *conn, f payload, limit uint64, sent *uint64, received *gauge, live *atomic.Uint64) error {
	for r.going() && (limit == 0 || *sent < limit) {
		n := len(f.buf)
		if limit > 0 {
			n = int(min(uint64(n), limit-*sent))
		}
		if err := f.sendTo(c, n); err != nil {
			return fmt.Errorf("send: %w", err)
		}
		*sent += uint64(n)
		live.Add(uint64(n))
	}
	if err := unix.Shutdown(c.fd, unix.SHUT_WR); err != nil {
		return err
	}
	answer := make([]byte, answerBytes)
	if err := c.readFull(answer); err != nil {
		return fmt.Errorf("wait for the far end's count: %w", err)
	}
	return received.parse(answer)
}

// receive reads until the run is over.
func (r *run) receive(c *conn, buf []byte, limit uint64, received *gauge, live *atomic.Uint64) error {
	defer c.abort()
	for r.going() && (limit == 0 || received.total < limit) {
		b := buf
		if limit > 0 {
			b = b[:min(uint64(len(b)), limit-received.total)]
		}
		n, err := c.read(b)
		received.record(n)
		live.Add(uint64(n))
		if err != nil {
			if err == io.EOF && !r.going() {
				return nil
			}
			return fmt.Errorf("receive: %w", err)
		}
	}
	return nil
}
