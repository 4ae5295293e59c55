package talk

import (
	"context"
	"net"
	"testing"
	"time"

	"mpps/internal/measure/traffic"
	"mpps/internal/must"
)

func TestCRR(t *testing.T) {
	s := serve(t)
	for _, c := range []RRConfig{{Count: 300}, {Count: 100, Request: 5000, Response: 70_000,
		Target: Target{Conns: 3}}} {
		c.Addr = s.Addr()
		before := s.Counts().Transactions
		r := must.Get(CRR(t.Context(), c))(t)
		want := c.Count * uint64(max(1, c.Conns))
		if r.Transactions != want || r.Sent != want || r.Lost != 0 || traffic.FromBins(r.Delays).Count() != want ||
			s.Counts().Transactions-before != want {
			t.Errorf("%+v: %d transactions of %d, the server counts %d", c, r.Transactions, r.Sent,
				s.Counts().Transactions-before)
		}
	}
}

func TestCRREnds(t *testing.T) {
	s := serve(t)
	ctx, cancel := context.WithCancel(t.Context())
	onceServed(t, s, cancel)
	begin := time.Now()
	r, err := CRR(ctx, RRConfig{Target: Target{Addr: s.Addr()}, Duration: time.Hour})
	if err != nil || !r.Cancelled || r.Transactions == 0 || time.Since(begin) > 10*time.Second {
		t.Errorf("cancelled: %d transactions, %v after %v", r.Transactions, err, time.Since(begin))
	}
	time.AfterFunc(50*time.Millisecond, func() { s.Close() })
	if r, err := CRR(t.Context(), RRConfig{Target: Target{Addr: s.Addr()}, Duration: 20 * time.Second}); err == nil ||
		r.Elapsed > 5*time.Second {
		t.Errorf("a server that closes: %v after %v", err, r.Elapsed)
	}
	for _, c := range []RRConfig{{UDP: true, Count: 1}, {Rate: 1, Count: 1}, {}} {
		must.Is(t, must.Err(CRR(t.Context(), c)), ErrConfig, "%+v", c)
	}
}

// A far end that takes connections and does not answer holds nobody up.
func TestCRRSilence(t *testing.T) {
	silent := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer silent.Close()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		if _, _, err := receive(c, nil); err != nil {
			t.Error(err)
		}
		port := silent.Addr().(*net.TCPAddr).Port
		_, _ = c.Write([]byte{byte(port >> 8), byte(port)})
		_, _ = c.Read(make([]byte, 100))
		time.Sleep(60 * time.Second)
	}()
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour, nil)
	time.AfterFunc(50*time.Millisecond, cancel)
	begin := time.Now()
	r, err := CRR(ctx, RRConfig{Target: Target{Addr: l.Addr().String()}, Duration: time.Hour})
	if err != nil || r.Transactions != 0 || time.Since(begin) > 20*time.Second {
		t.Errorf("%d transactions, %v after %v", r.Transactions, err, time.Since(begin))
	}
}
