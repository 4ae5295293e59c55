//go:build netns

package traffic

import (
	"runtime"
	"testing"
	"time"

	"mpps/internal/must"
)

// TestPacing: the rate asked for is sent, within a few percent, but for the time
// that a busy machine did not leave to the generator, which is told.
func TestPacing(t *testing.T) {
	a, b := pair(t)
	for _, m := range []Method{XDP, AFPacket} {
		for _, rate := range []float64{1000, 50_000, 400_000} {
			s := mustSink(t, SinkConfig{In: b, Method: XDP})
			g := mustGenerator(t, Config{Out: a, Rate: rate, Duration: 500 * time.Millisecond, Method: m})
			r := mustRun(t, g)
			c := settle(t, s)
			asked := rate * (r.Elapsed - r.Slipped).Seconds()
			if float64(r.Sent) < 0.97*asked-1 || float64(r.Sent) > 1.03*asked+2 || c.Received != r.Sent {
				t.Errorf("%s: %.0f/s asked: sent %d in %v of which %v slipped, received %d", m, rate, r.Sent, r.Elapsed,
					r.Slipped, c.Received)
			}
			if r.Elapsed < 450*time.Millisecond {
				t.Errorf("%s: took %v for 500 ms", m, r.Elapsed)
			}
			t.Logf("%s %.0f/s: %.0f/s, slipped %v, batch delay %v", m, rate, r.PPS(), r.Slipped, r.BatchDelay)
			s.Close()
			g.Close()
		}
	}
}

// TestWorkers: two workers send two streams that add up.
func TestWorkers(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("needs two CPUs")
	}
	a, b := pair(t)
	for _, m := range []Method{XDP, AFPacket} {
		s := mustSink(t, SinkConfig{In: b, Stream: 40, Streams: 2})
		g := mustGenerator(t, Config{Out: a, Stream: 40, Count: 100_001, CPUs: []int{0, 1}, Method: m,
			Frame: Frame{SrcPort: PortRange{1, 100}}})
		r := mustRun(t, g)
		c := settle(t, s)
		if r.Sent != 100_001 || r.Workers[0].Sent != 50_001 || r.Workers[1].Sent != 50_000 || g.Streams() != 2 {
			t.Errorf("%s: %+v", m, r)
		}
		// Two CPUs that fill one queue of a veth can overrun it; what it did
		// not take is counted.
		if c.Received != r.Sent-r.Refused || c.Streams[0].Received == 0 || c.Streams[1].Received == 0 ||
			c.Duplicated != 0 {
			t.Errorf("%s: %+v, refused %d", m, c, r.Refused)
		}
		s.Close()
		g.Close()
	}
}

// TestLatency: delays over a veth pair are above zero and below a second, one
// for each frame.
func TestLatency(t *testing.T) {
	a, b := pair(t)
	for _, way := range []struct{ gen, sink Method }{{XDP, XDP}, {AFPacket, XDP}, {AFPacket, AFPacket}} {
		s := mustSink(t, SinkConfig{In: b, Latency: true, Method: way.sink})
		g := mustGenerator(t, Config{Out: a, Stamp: true, Count: 5000, Rate: 50_000, Method: way.gen})
		mustRun(t, g)
		c := settle(t, s)
		h := must.Get(s.Histogram())(t)
		if c.Stamped != 5000 || h.Count() != 5000 || quantile(h, 0.5) < 50 || quantile(h, 0.5) > 50*time.Millisecond {
			t.Errorf("%v: %d stamped, %d delays, median %v", way, c.Stamped, h.Count(), quantile(h, 0.5))
		}
		t.Logf("%v: median %v, p99 %v", way, quantile(h, 0.5), quantile(h, 0.99))
		s.Close()
		g.Close()
	}
}
