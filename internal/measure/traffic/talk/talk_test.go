package talk

import (
	"context"
	"math"
	"mpps/internal/measure/traffic"
	"mpps/internal/must"
	"net"
	"testing"
	"time"
)

// quantile returns the highest value of the bucket in which the quantile q (0 to 1) lies.
func quantile(h *traffic.Histogram, q float64) time.Duration {
	left := max(1, math.Ceil(q*float64(h.Count())))
	for _, b := range h.Bins() {
		if left -= float64(b.Count); left <= 0 {
			return time.Duration(b.High)
		}
	}
	return 0
}

func serve(t *testing.T) *Server {
	t.Helper()
	s := must.Get(Listen("", "127.0.0.1:0", nil, nil, nil))(t)
	t.Cleanup(func() { s.Close() })
	return s
}

// onceServed calls do once the server has a second request: the client has the first answer.
func onceServed(t *testing.T, s *Server, do func()) {
	go func() {
		for s.Counts().Transactions < 2 && t.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
		do()
	}()
}

func TestStream(t *testing.T) {
	s := serve(t)
	for i := range 4 {
		reverse := i%2 > 0
		r := must.Get(Stream(t.Context(), StreamConfig{
			Target: Target{Addr: s.Addr(), Conns: 3}, Bytes: 5_000_001, Reverse: reverse, Buffer: 10_000,
			Interval: time.Millisecond, Sendfile: i > 1,
		}))(t)
		var n uint64
		for _, i := range r.Intervals {
			n += i.Count
		}
		if r.Bytes != 15_000_003 || n != r.Bytes || len(r.PerConn) != 3 || r.PerConn[2] != 5_000_001 ||
			r.BitsPerSecond() <= 0 || r.Cancelled {
			t.Errorf("reverse %v: %+v", reverse, r)
		}
	}
	if c := s.Counts(); c.Received != 2*15_000_003 {
		t.Errorf("the server received %d", c.Received)
	}
}

func TestStreamDuration(t *testing.T) {
	s := serve(t)
	for _, reverse := range []bool{false, true} {
		r, err := Stream(t.Context(), StreamConfig{Target: Target{Addr: s.Addr()}, Duration: 80 * time.Millisecond,
			Reverse: reverse})
		if err != nil || r.Bytes == 0 || !reverse && r.Sent != r.Bytes || r.Elapsed < 80*time.Millisecond ||
			r.Elapsed > 10*time.Second || r.Cancelled {
			t.Errorf("reverse %v: %+v, %v", reverse, r, err)
		}
	}
}

// TestRamp: a connection that is slow at first is not counted until it has found its speed.
func TestRamp(t *testing.T) {
	s := serve(t)
	for _, reverse := range []bool{false, true} {
		r := must.Get(Stream(t.Context(), StreamConfig{
			Target: Target{Addr: s.Addr(), Conns: 2}, Ramp: 400 * time.Millisecond, Duration: 800 * time.Millisecond,
			Reverse: reverse,
		}))(t)
		var all, counted uint64
		for i, span := range r.Spans {
			counted += span.Bytes
			must.Hold(t, span.Time >= 400*time.Millisecond && span.Time <= r.Elapsed-395*time.Millisecond &&
				span.Bytes != 0, "reverse %v: connection %d counts %+v of %v", reverse, i, span, r.Elapsed)
		}
		for _, n := range r.PerConn {
			all += n
		}
		if len(r.Spans) != 2 || r.Bytes != counted || r.Bytes+r.RampBytes != all || r.RampBytes == 0 || r.Rate <= 0 ||
			r.Elapsed < 1200*time.Millisecond {
			t.Errorf("reverse %v: %+v", reverse, r)
		}
	}
	var g gauge
	g.ramp = 20 * time.Millisecond
	g.record(1)
	g.record(2)
	time.Sleep(25 * time.Millisecond)
	g.record(4) // ends the ramp
	must.Equal(t, g.span(), Span{}, "nothing behind the ramp")
	time.Sleep(time.Millisecond)
	g.record(8)
	if got := g.span(); got.Bytes != 8 || got.Time < time.Millisecond || g.total != 15 {
		t.Errorf("%+v of %d", got, g.total)
	}
	var far gauge
	if err := far.parse(g.answer()); err != nil || far.span() != g.span() || far.total != g.total {
		t.Errorf("%+v of %d became %+v of %d, %v", g.span(), g.total, far.span(), far.total, err)
	}
	must.Refuse(t, far.parse(append(make([]byte, 15), 1, 0, 0, 0, 0, 0, 0, 0, 0)),
		"more behind the ramp than in all was taken")
}

func TestRR(t *testing.T) {
	s := serve(t)
	r := must.Get(RR(t.Context(), RRConfig{Target: Target{Addr: s.Addr(), Conns: 2}, Count: 500, Request: 100,
		Response: 3000}))(t)
	h := traffic.FromBins(r.Delays)
	if r.Transactions != 1000 || h.Count() != 1000 || r.PerConn[0] != 500 || quantile(h, 0) < 500*time.Nanosecond ||
		quantile(h, 1) > r.Elapsed*101/100 {
		t.Errorf("%d transactions in %v, %d times, %v to %v", r.Transactions, r.Elapsed, h.Count(), quantile(h, 0),
			quantile(h, 1))
	}
	if c := s.Counts(); c.Transactions != 1000 {
		t.Errorf("the server answered %d", c.Transactions)
	}
	// A closed loop: the sum of all times is the time of the run, twice.
	if sum := r.PerSecond() * r.Elapsed.Seconds(); sum < 999 || sum > 1001 {
		t.Errorf("rate %g", r.PerSecond())
	}
}

func TestCancel(t *testing.T) {
	s := serve(t)
	ctx, cancel := context.WithCancel(t.Context())
	onceServed(t, s, cancel)
	begin := time.Now()
	r, err := RR(ctx, RRConfig{Target: Target{Addr: s.Addr()}, Duration: time.Hour})
	if err != nil || !r.Cancelled || r.Transactions == 0 || time.Since(begin) > 10*time.Second {
		t.Errorf("%+v, %v after %v", r, err, time.Since(begin))
	}
}

// TestDeadServer: a far end that takes requests and never answers does not hang
// the client for longer than the run and the grace.
func TestDeadServer(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	begin := time.Now()
	must.Fail(RR(ctx, RRConfig{Target: Target{Addr: l.Addr().String()}, Duration: time.Hour}))(t,
		"no error from a server that does not answer")
	if d := time.Since(begin); d > 20*time.Second {
		t.Errorf("took %v", d)
	}
}

func TestCloseEndsConnections(t *testing.T) {
	s := serve(t)
	time.AfterFunc(50*time.Millisecond, func() { s.Close() })
	if r, err := RR(t.Context(), RRConfig{Target: Target{Addr: s.Addr()}, Duration: 20 * time.Second}); err == nil ||
		r.Elapsed > 5*time.Second {
		t.Errorf("%v after %v", err, r.Elapsed)
	}
}

// TestFarEndGone: a far end that is gone ends a stream with an error and not the process with SIGPIPE.
func TestFarEndGone(t *testing.T) {
	for _, sendfile := range []bool{false, true} {
		s := serve(t)
		time.AfterFunc(50*time.Millisecond, func() { s.Close() })
		r, err := Stream(t.Context(), StreamConfig{Target: Target{Addr: s.Addr()}, Duration: 20 * time.Second,
			Sendfile: sendfile})
		must.Hold(t, err != nil && r.Elapsed <= 5*time.Second, "sendfile %v: %v after %v", sendfile, err, r.Elapsed)
	}
}

func TestRefused(t *testing.T) {
	must.Is(t, must.Err(RR(t.Context(), RRConfig{Target: Target{Addr: "127.0.0.1:1"}})), ErrConfig, "without a limit")
	must.Is(t, must.Err(Stream(t.Context(), StreamConfig{Target: Target{Addr: "127.0.0.1:1", Conns: -1}, Bytes: 1})),
		ErrConfig, "negative connections")
	for _, ramp := range []time.Duration{-1, time.Microsecond, 2 * time.Hour} {
		must.Is(t,
			must.Err(Stream(t.Context(), StreamConfig{Target: Target{Addr: "127.0.0.1:1"}, Bytes: 1, Ramp: ramp})),
			ErrConfig, "a ramp of %v", ramp)
	}
	s := serve(t)
	c := must.Get(net.Dial("tcp", s.Addr()))(t)
	defer c.Close()
	must.Get(c.Write(make([]byte, helloBytes+challengeBytes)))(t)
	_ = c.SetReadDeadline(time.Now().Add(2 * time.Second))
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("nonsense was answered with %d bytes, %v", n, err)
	}
}

func FuzzHello(f *testing.F) {
	f.Add(hello{serviceRR, 1, 1}.bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHello(b)
		if err == nil && string(h.bytes()) != string(b) {
			t.Errorf("%x became %x", b, h.bytes())
		}
	})
}

// TestTurn: over after 5 ms, and then again 5 ms later.
func TestTurn(t *testing.T) {
	var turn turn
	for _, c := range []struct {
		now  time.Duration
		want bool
	}{{0, false}, {turnEvery - 1, false}, {turnEvery, true}, {turnEvery + 1, false}, {3 * turnEvery, true},
		{4*turnEvery - 1, false}} {
		must.Equal(t, turn.due(c.now), c.want, "at %v", c.now)
	}
}

// TestShortMessages: what does not fit a full buffer is waited for.
func TestShortMessages(t *testing.T) {
	s := serve(t)
	r, err := Stream(t.Context(), StreamConfig{Target: Target{Addr: s.Addr()}, Bytes: 20_000_000, Buffer: shortMessage})
	must.Hold(t, err == nil && r.Bytes == 20_000_000, "%d bytes: %v", r.Bytes, err)
}
