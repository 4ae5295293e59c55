package talk

import (
	"context"
	"encoding/binary"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"mpps/internal/measure/traffic"
	"mpps/internal/must"
)

func TestUDP(t *testing.T) {
	s := serve(t)
	for _, c := range []RRConfig{
		{Target: Target{Conns: 2}, Count: 500}, // one byte: its number modulo 256
		{Count: 300, Request: 100, Response: 3000},
		{Count: 20, Request: MaxDatagram, Response: 1},
	} {
		c.Addr, c.UDP = s.Addr(), true
		r := must.Get(RR(t.Context(), c))(t)
		want := c.Count * uint64(max(1, c.Conns))
		must.Hold(t, r.Transactions == want && r.Sent == want && r.Lost == 0 && r.Late == 0 &&
			traffic.FromBins(r.Delays).Count() == want && r.SinceSent == nil,
			"%+v: %d transactions of %d sent, %d lost, %d late", c, r.Transactions, r.Sent, r.Lost, r.Late)
	}
}

// lossy answers like a server over UDP, but decides with f what it does with each request, counted from 0.
func lossy(t *testing.T, f func(n int, answer func(after time.Duration))) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	u := must.Get(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close(); u.Close() })
	arrived := make(chan net.Conn, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			if _, _, err := receive(c, nil); err != nil {
				t.Error(err)
			}
			arrived <- c
			_, _ = c.Write(binary.BigEndian.AppendUint16(nil, uint16(u.LocalAddr().(*net.UDPAddr).Port)))
		}
	}()
	go func() {
		b := make([]byte, 100)
		for i := 0; ; i++ {
			n, from, err := u.ReadFrom(b)
			if err != nil {
				return
			}
			if n == firstBytes {
				select {
				case c := <-arrived:
					_, _ = c.Write([]byte{1})
				default: // sent twice
				}
				i--
				continue
			}
			answer := append([]byte(nil), b[:n]...)
			f(i, func(after time.Duration) { time.AfterFunc(after, func() { _, _ = u.WriteTo(answer, from) }) })
		}
	}()
	return l.Addr().String()
}

// What is not answered in time is lost, once, and an answer that comes then is not taken for that of a later request.
func TestUDPLoss(t *testing.T) {
	for _, rate := range []float64{0, 100} {
		for _, size := range []int{1, 8} {
			if rate > 0 && size < NumberBytes {
				continue
			}
			addr := lossy(t, func(n int, answer func(time.Duration)) {
				switch n {
				case 3: // never
				case 5:
					answer(700 * time.Millisecond) // too late
				case 7:
					answer(0)
					answer(0)
				default:
					answer(0)
				}
			})
			r := must.Get(RR(t.Context(), RRConfig{
				Target: Target{Addr: addr}, UDP: true, Count: 120, Request: size, Response: size, Rate: rate,
				Timeout: 300 * time.Millisecond, // on a busy machine a CPU is had after 100
			}))(t)
			if r.Sent != 120 || r.Transactions+r.Lost != 120 || r.Lost != 2 || r.Late < 1 || r.Late > 2 ||
				traffic.FromBins(r.Delays).Count() != r.Transactions || r.Elapsed > 10*time.Second {
				t.Errorf("rate %g, %d bytes: %d sent, %d answered, %d lost, %d late in %v", rate, size, r.Sent,
					r.Transactions, r.Lost, r.Late, r.Elapsed)
			}
			if rate > 0 && r.Late != 2 {
				t.Errorf("open loop: %d late, expected 2", r.Late)
			}
		}
	}
}

// A far end that never answers does not hang anything, and all is lost.
func TestUDPSilence(t *testing.T) {
	for _, rate := range []float64{0, 1000} {
		addr := lossy(t, func(int, func(time.Duration)) {})
		begin := time.Now()
		r, err := RR(t.Context(), RRConfig{
			Target: Target{Addr: addr}, UDP: true, Request: 8, Response: 8, Duration: 100 * time.Millisecond,
			Rate: rate, Timeout: 50 * time.Millisecond,
		})
		if err != nil || r.Transactions != 0 || r.Lost == 0 || r.Lost != r.Sent || time.Since(begin) > 10*time.Second {
			t.Errorf("rate %g: %+v, %v after %v", rate, r, err, time.Since(begin))
		}
	}
}

func TestUDPCancel(t *testing.T) {
	for _, rate := range []float64{0, 1000} {
		ctx, cancel := context.WithCancel(t.Context())
		addr := lossy(t, func(int, func(time.Duration)) { time.AfterFunc(50*time.Millisecond, cancel) })
		begin := time.Now()
		r, err := RR(ctx, RRConfig{Target: Target{Addr: addr}, UDP: true, Request: 8, Response: 8, Duration: time.Hour,
			Rate: rate, Timeout: time.Minute})
		if err != nil || !r.Cancelled || r.Sent != r.Transactions+r.Lost || time.Since(begin) > 10*time.Second {
			t.Errorf("rate %g: %d sent, %d lost, %v after %v", rate, r.Sent, r.Lost, err, time.Since(begin))
		}
	}
}

func TestOpenLoop(t *testing.T) {
	s := serve(t)
	for _, udp := range []bool{false, true} {
		for _, conns := range []int{1, 3} {
			began := time.Now()
			r := must.Get(RR(t.Context(), RRConfig{
				Target: Target{Addr: s.Addr(), Conns: conns}, UDP: udp, Rate: 500, Duration: 1002 * time.Millisecond,
				Request: 16, Response: 32,
			}))(t)
			// A second behind the lead-in of 2 ms: a fifth of it may pass without a CPU.
			if r.Due != 500 || r.Sent < 400 || r.Sent > 500 || r.Transactions+r.Lost != r.Sent || r.Lost != 0 ||
				r.Blocked != 0 {
				t.Errorf("udp %v, %d connections: %d due, %d sent, %d answered, %d lost, %d blocked", udp, conns, r.Due,
					r.Sent, r.Transactions, r.Lost, r.Blocked)
			}
			// The last answer may wait for a CPU, but no longer than the whole took.
			least := float64(r.Transactions) / time.Since(began).Seconds()
			if rate := r.PerSecond(); rate > 501 || rate < least {
				t.Errorf("udp %v, %d connections: %g a second in %v", udp, conns, rate, r.Elapsed)
			}
			due, sent := traffic.FromBins(r.Delays), traffic.FromBins(r.SinceSent)
			if due.Count() != r.Transactions || sent.Count() != r.Transactions ||
				quantile(due, 0.5) < quantile(sent, 0.5) || quantile(due, 1) < quantile(sent, 1) {
				t.Errorf("udp %v: delays from the schedule %v to %v, from sending %v to %v", udp, quantile(due, 0.5),
					quantile(due, 1), quantile(sent, 0.5), quantile(sent, 1))
			}
		}
	}
}

// A far end that stalls for 100 ms delays all requests that were due meanwhile: an open loop sees a tenth of a second's
// worth of them, a closed one a single slow one.
func TestOpenLoopSeesStalls(t *testing.T) {
	var until atomic.Int64 // ns since the epoch
	stall := func(n int, answer func(time.Duration)) {
		if n == 100 {
			until.Store(time.Now().Add(100 * time.Millisecond).UnixNano())
		}
		answer(max(0, time.Until(time.Unix(0, until.Load()))))
	}
	slow := map[float64]uint64{}
	for _, rate := range []float64{0, 1000} {
		r := must.Get(RR(t.Context(), RRConfig{Target: Target{Addr: lossy(t, stall)}, UDP: true, Rate: rate, Count: 300,
			Request: 8, Response: 8, Timeout: 2 * time.Second}))(t)
		for _, b := range r.Delays {
			if b.Low > uint64(20*time.Millisecond) {
				slow[rate] += b.Count
			}
		}
	}
	// 80 of the 100 requests of the stall were due more than 20 ms before its end.
	must.Hold(t, slow[0] <= 30 && slow[1000] >= 60,
		"slow transactions: %d in the closed loop, %d in the open one", slow[0], slow[1000])
}

// A far end that takes nothing more over TCP: what was due and not sent is told, and the delays count from the
// schedule.
func TestOpenLoopBlocked(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			if _, _, err := receive(c, nil); err != nil {
				t.Error(err)
			}
		}
	}()
	begin := time.Now()
	r, err := RR(t.Context(), RRConfig{
		Target: Target{Addr: l.Addr().String()}, Rate: 1000, Duration: 200 * time.Millisecond, Request: 1 << 20,
		Timeout: 50 * time.Millisecond,
	})
	if err != nil || r.Blocked == 0 || r.Sent >= r.Due || r.Lost != r.Sent || r.Transactions != 0 ||
		time.Since(begin) > 20*time.Second {
		t.Errorf("%d due, %d sent, %d lost, %d blocked, %v after %v", r.Due, r.Sent, r.Lost, r.Blocked, err,
			time.Since(begin))
	}
}

func TestRRRefused(t *testing.T) {
	for name, c := range map[string]RRConfig{
		"a datagram too large":   {UDP: true, Request: MaxDatagram + 1},
		"no room for the number": {UDP: true, Rate: 100, Request: 7, Response: 8},
		"a negative rate":        {Rate: -1},
		"a negative timeout":     {Timeout: -1},
	} {
		c.Addr, c.Count = "127.0.0.1:1", 1
		must.Is(t, must.Err(RR(t.Context(), c)), ErrConfig, "%s", name)
	}
}
