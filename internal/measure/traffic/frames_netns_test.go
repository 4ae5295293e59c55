//go:build netns

package traffic

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/must"
)

// TestExactCounts: over a veth pair on one core nothing can get lost, so every
// frame sent is received once, in order, by every sink and from every
// generator.
func TestExactCounts(t *testing.T) {
	a, b := pair(t)
	for _, way := range []struct{ gen, sink Method }{
		{XDP, XDP}, {AFPacket, XDP}, {AFPacket, XDPSkb}, {AFPacket, AFPacket}, {XDP, AFPacket},
	} {
		for _, f := range []Frame{
			{},
			{Size: 1518, UDPChecksum: true},
			{Sizes: IMIX(), SrcPort: PortRange{1000, 16}},
			{Size: 68, VLAN: 7},
			{Size: 128, Src: AddrRange{netip.MustParseAddr("198.18.0.250"), 20}, SrcPort: PortRange{1000, 50}},
		} {
			t.Run(fmt.Sprintf("%s to %s/%d", way.gen, way.sink, f.Size), func(t *testing.T) {
				const n = 20_000
				s := mustSink(t, SinkConfig{In: b, Method: way.sink, Stream: 5})
				conf := Config{Out: a, Frame: f, Count: n, Stream: 5, Method: way.gen}
				if way.sink == AFPacket {
					conf.Rate = 200_000 // the ring is read by one thread
				}
				g := mustGenerator(t, conf)
				for range 2 {
					r := mustRun(t, g)
					c := settle(t, s, r.Sent)
					must.Hold(t, g.Method() == way.gen && r.Method == way.gen && s.Method() == way.sink &&
						c.Method == way.sink, "%s to %s instead", r.Method, c.Method)
					must.Hold(t, r.Sent == n && g.Sent() == n && c.Received == n && c.Lost(n) == 0 &&
						c.Duplicated+c.Reordered+c.TooLate+c.Foreign == 0 && c.Exact, "sent %d, counts %+v", r.Sent, c)
					must.Hold(t, c.Bytes == r.Bytes && r.Bytes == g.(interface{ bytes(uint64) uint64 }).bytes(n),
						"bytes sent %d, received %d", r.Bytes, c.Bytes)
					must.Do(t, s.Reset())
					if c := mustCount(t, s); c.Received+c.Bytes+c.Streams[0].Next != 0 {
						t.Errorf("after a reset: %+v", c)
					}
				}
			})
		}
	}
}

func (g *xdpGenerator) bytes(n uint64) uint64    { return g.conf.Frame.bytes(n) }
func (g *packetGenerator) bytes(n uint64) uint64 { return g.conf.Frame.bytes(n) }
func (g *xdpGenerator) frame() Frame             { return g.conf.Frame }
func (g *packetGenerator) frame() Frame          { return g.conf.Frame }

// TestSameFrames: program and packet socket build, bit for bit, the frames that
// frame.go builds, and so with right checksums.
func TestSameFrames(t *testing.T) {
	a, b := pair(t)
	methods := []Method{XDP, AFPacket}
	for _, f := range []Frame{
		{},
		{Size: 100, UDPChecksum: true},
		{Size: 72, VLAN: 1, UDPChecksum: true},
		{Size: 64, SrcPort: PortRange{1, 7}, Dst: AddrRange{netip.MustParseAddr("198.19.255.250"), 9}},
		{Size: 300, UDPChecksum: true, TOS: 0x2e << 2, TTL: 9, DstPort: PortRange{65000, 536}},
		{Size: 1522, VLAN: 4000, Priority: 3, UDPChecksum: true, Src: AddrRange{netip.MustParseAddr("255.255.254.0"),
			512}},
		{Sizes: IMIX()},
		{Sizes: []int{1522, 68, 68, 600, 72}, VLAN: 5, UDPChecksum: true, SrcPort: PortRange{1, 10},
			Src: AddrRange{netip.MustParseAddr("198.18.0.250"), 4}},
	} {
		for _, method := range methods {
			got := capture(t, b, 3000)
			g := mustGenerator(t, Config{Out: a, Frame: f, Count: 3000, Stream: 0x1234, Method: method, Rate: 200_000})
			mustRun(t, g)
			f = g.(interface{ frame() Frame }).frame()
			mix, pos := f.mix(), flow{}
			for i, frame := range <-got {
				kind := mix.kinds[mix.next()]
				want := kind.template(0x1234)
				f.put(want, sums{kind.ipBase(), kind.udpBase(0x1234)}, pos, uint64(i), 0)
				f.next(&pos)
				if f.VLAN != 0 { // the kernel takes the tag out on reception
					frame = append(append(append([]byte{}, frame[:12]...), want[12:16]...), frame[12:]...)
				}
				must.Need(t, bytes.Equal(frame, want), "%s %+v: frame %d is\n%x, want\n%x", method, f, i, frame, want)
			}
		}
	}
}

// capture takes the next n test frames off an interface.
func capture(t *testing.T, e Endpoint, n int) <-chan [][]byte {
	t.Helper()
	d := must.Get(e.Device())(t)
	fd := rawSocket(t, d, unix.ETH_P_ALL)
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20)
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 30})
	out := make(chan [][]byte, 1)
	go func() {
		var frames [][]byte
		for len(frames) < n {
			b := make([]byte, 2048)
			k, _, err := unix.Recvfrom(fd, b, 0)
			if errors.Is(err, unix.EINTR) { // the Go runtime's own signals
				continue
			}
			if err != nil {
				t.Errorf("captured %d of %d frames: %v", len(frames), n, err)
				break
			}
			if _, ok := parse(b[:k]); ok {
				frames = append(frames, b[:k])
			}
		}
		out <- frames
	}()
	return out
}

func rawSocket(t *testing.T, d Device, proto uint16) (fd int) {
	t.Helper()
	must.Do(t, d.Do(func() (err error) {
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: swap16(proto), Ifindex: d.Index})
	}))
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// TestPlanted sends a hand-made sequence with loss, duplicates and reordering
// on one core and expects each sink to find exactly that.
func TestPlanted(t *testing.T) {
	a, b := pair(t)
	for _, m := range []Method{XDP, XDPSkb, AFPacket} {
		t.Run(string(m), func(t *testing.T) {
			s := mustSink(t, SinkConfig{In: b, Method: m, Stream: 9, Streams: 2})
			d := must.Get(a.Device())(t)
			fd := rawSocket(t, d, 0)
			f := Frame{SrcMAC: d.MAC, DstMAC: macB}.withDefaults()
			send := func(stream uint16, seq uint64) {
				frame := f.template(stream)
				f.put(frame, sums{f.ipBase(), 0}, flow{}, seq, 0)
				must.Do(t, unix.Send(fd, frame, 0))
			}
			done := onWorkerThread("", 0, func(int) error {
				for i := uint64(0); i < 2000; i++ {
					switch {
					case i%100 == 7: // 20 lost
					case i%100 == 31: // 20 late by one
						send(9, i+1)
						send(9, i)
						i++
					case i%500 == 250: // 4 duplicated, at once and later
						send(9, i)
						send(9, i)
					case i == 1900:
						send(9, i)
						send(9, 250) // a fifth
					default:
						send(9, i)
					}
				}
				for i := range uint64(10) {
					send(10, 1_000_000*i) // gaps: 10 of 9,000,001
				}
				send(11, 1) // foreign
				send(8, 1)
				return nil
			})
			must.Do(t, <-done)
			c := settle(t, s, 1995)
			x, y := c.Streams[0], c.Streams[1]
			must.Hold(t, x.Received == 1985 && x.Lost(2000) == 20 && x.Missing() == 20 && x.Duplicated == 5 &&
				x.Reordered == 20 && x.Next == 2000 && x.First == 0 && x.Exact, "stream 9: %+v", x)
			must.Hold(t, y.Received == 10 && y.Missing() == 9_000_001-10 && y.Duplicated+y.Reordered == 0,
				"stream 10: %+v", y)
			must.Hold(t, c.Foreign == 2 && c.Received == 1995, "%+v", c)
		})
	}
}

// TestPacing: the generator sends the requested rate within a few percent, and reports the time that a busy machine did
// not leave to it.
func TestPacing(t *testing.T) {
	a, b := pair(t)
	for _, m := range []Method{XDP, AFPacket} {
		for _, rate := range []float64{1000, 50_000, 400_000} {
			s := mustSink(t, SinkConfig{In: b, Method: XDP})
			g := mustGenerator(t, Config{Out: a, Rate: rate, Duration: 500 * time.Millisecond, Method: m})
			r := mustRun(t, g)
			c := settle(t, s, r.Sent)
			asked := rate * (r.Elapsed - r.Slipped).Seconds()
			if float64(r.Sent) < 0.97*asked-1 || float64(r.Sent) > 1.03*asked+2 || c.Received != r.Sent {
				t.Errorf("%s: %.0f/s asked: sent %d in %v of which %v slipped, received %d", m, rate, r.Sent, r.Elapsed,
					r.Slipped, c.Received)
			}
			must.Hold(t, r.Elapsed >= 450*time.Millisecond, "%s: took %v for 500 ms", m, r.Elapsed)
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
		c := settle(t, s, r.Sent-r.Refused)
		must.Hold(t, r.Sent == 100_001 && r.Workers[0].Sent == 50_001 && r.Workers[1].Sent == 50_000 &&
			g.Streams() == 2, "%s: %+v", m, r)
		// Two CPUs that fill one queue of a veth can overrun it; what it did
		// not take is counted.
		must.Hold(t, c.Received == r.Sent-r.Refused && c.Streams[0].Received != 0 && c.Streams[1].Received != 0 &&
			c.Duplicated == 0, "%s: %+v, refused %d", m, c, r.Refused)
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
		c := settle(t, s, 5000)
		h := must.Get(s.Histogram())(t)
		if c.Stamped != 5000 || h.Count() != 5000 || quantile(h, 0.5) < 50 || quantile(h, 0.5) > 50*time.Millisecond {
			t.Errorf("%v: %d stamped, %d delays, median %v", way, c.Stamped, h.Count(), quantile(h, 0.5))
		}
		t.Logf("%v: median %v, p99 %v", way, quantile(h, 0.5), quantile(h, 0.99))
		s.Close()
		g.Close()
	}
}

// TestProcessStaysInItsNamespace: what /proc/self and /proc/net show is the namespace that this process began in, also
// while and after threads of it are in others.
func TestProcessStaysInItsNamespace(t *testing.T) {
	was := must.Get(os.Readlink("/proc/self/ns/net"))(t)
	for range 50 {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				name, release, err := NewNetns()
				if err != nil {
					t.Error(err)
					return
				}
				defer release()
				err = Endpoint{Netns: name}.Do(func() error {
					if is, err := os.Readlink("/proc/self/ns/net"); err != nil || is != was {
						t.Errorf("while a thread is in another: %s, %v, was %s", is, err, was)
					}
					return nil
				})
				must.Try(t, err)
			})
		}
		all.Wait()
	}
	if is, err := os.Readlink("/proc/self/ns/net"); err != nil || is != was {
		t.Errorf("afterwards: %s, %v, was %s", is, err, was)
	}
}
