//go:build netns

package traffic

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// pair is a veth pair between two namespaces made for one test.
func pair(t *testing.T) (a, b Endpoint) {
	t.Helper()
	base := fmt.Sprintf("mt%d-%d", os.Getpid(), time.Now().UnixNano()%1e6)
	a = Endpoint{Netns: base + "a", Iface: "veth0"}
	b = Endpoint{Netns: base + "b", Iface: "veth0"}
	for _, e := range []Endpoint{a, b} {
		makeNetns(t, e.Netns)
	}
	hb, err := netns.GetFromName(b.Netns)
	if err != nil {
		t.Fatal(err)
	}
	defer hb.Close()
	err = a.Do(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU = a.Iface, 1504
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: b.Iface, PeerNamespace: netlink.NsFd(int(hb)), PeerMTU: 1504})
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []Endpoint{a, b} {
		if err := e.Do(func() error {
			l, err := netlink.LinkByName(e.Iface)
			if err != nil {
				return err
			}
			// No router solicitations among the counted frames.
			_ = os.WriteFile("/proc/sys/net/ipv6/conf/all/disable_ipv6", []byte("1"), 0)
			return netlink.LinkSetUp(l)
		}); err != nil {
			t.Fatal(err)
		}
	}
	return a, b
}

func makeNetns(t *testing.T, name string) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		h, err := netns.NewNamed(name)
		if err == nil {
			h.Close()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatalf("make namespace %s: %v", name, err)
	}
	t.Cleanup(func() {
		if err := netns.DeleteNamed(name); err != nil {
			t.Errorf("remove namespace %s: %v", name, err)
		}
	})
}

func mustSink(t *testing.T, c SinkConfig) Sink {
	t.Helper()
	s, err := NewSink(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func mustGenerator(t *testing.T, c Config) Generator {
	t.Helper()
	g, err := NewGenerator(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

func mustRun(t *testing.T, g Generator) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	r, err := g.Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func mustCount(t *testing.T, s Sink) Counts {
	t.Helper()
	c, err := s.Counts()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// settle reads a sink after its last frame.
func settle(t *testing.T, s Sink) Counts {
	t.Helper()
	c, err := Settle(context.Background(), s, 60*time.Millisecond, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

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
					c := settle(t, s)
					if g.Method() != way.gen || r.Method != way.gen || s.Method() != way.sink || c.Method != way.sink {
						t.Errorf("%s to %s instead", r.Method, c.Method)
					}
					if r.Sent != n || g.Sent() != n || c.Received != n || c.Lost(n) != 0 || c.Duplicated+c.Reordered+c.TooLate+c.Foreign != 0 || !c.Exact {
						t.Errorf("sent %d, counts %+v", r.Sent, c)
					}
					if c.Bytes != r.Bytes || r.Bytes != g.(interface{ bytes(uint64) uint64 }).bytes(n) {
						t.Errorf("bytes sent %d, received %d", r.Bytes, c.Bytes)
					}
					if err := s.Reset(); err != nil {
						t.Fatal(err)
					}
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
		{Size: 1522, VLAN: 4000, Priority: 3, UDPChecksum: true, Src: AddrRange{netip.MustParseAddr("255.255.254.0"), 512}},
		{Sizes: IMIX()},
		{Sizes: []int{1522, 68, 68, 600, 72}, VLAN: 5, UDPChecksum: true, SrcPort: PortRange{1, 10}, Src: AddrRange{netip.MustParseAddr("198.18.0.250"), 4}},
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
				if !bytes.Equal(frame, want) {
					t.Fatalf("%s %+v: frame %d is\n%x, want\n%x", method, f, i, frame, want)
				}
			}
		}
	}
}

// capture takes the next n test frames off an interface.
func capture(t *testing.T, e Endpoint, n int) <-chan [][]byte {
	t.Helper()
	d, err := e.Device()
	if err != nil {
		t.Fatal(err)
	}
	fd := rawSocket(t, d, unix.ETH_P_ALL)
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20)
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 3})
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
	err := d.Do(func() (err error) {
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: swap16(proto), Ifindex: d.Index})
	})
	if err != nil {
		t.Fatal(err)
	}
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
			d, err := a.Device()
			if err != nil {
				t.Fatal(err)
			}
			fd := rawSocket(t, d, 0)
			f := Frame{SrcMAC: d.MAC, DstMAC: macB}.withDefaults()
			send := func(stream uint16, seq uint64) {
				frame := f.template(stream)
				f.put(frame, sums{f.ipBase(), 0}, flow{}, seq, 0)
				if err := unix.Send(fd, frame, 0); err != nil {
					t.Fatal(err)
				}
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
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			c := settle(t, s)
			x, y := c.Streams[0], c.Streams[1]
			if x.Received != 1985 || x.Lost(2000) != 20 || x.Missing() != 20 || x.Duplicated != 5 || x.Reordered != 20 || x.Next != 2000 || x.First != 0 || !x.Exact {
				t.Errorf("stream 9: %+v", x)
			}
			if y.Received != 10 || y.Missing() != 9_000_001-10 || y.Duplicated+y.Reordered != 0 {
				t.Errorf("stream 10: %+v", y)
			}
			if c.Foreign != 2 || c.Received != 1995 {
				t.Errorf("%+v", c)
			}
		})
	}
}

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
				t.Errorf("%s: %.0f/s asked: sent %d in %v of which %v slipped, received %d", m, rate, r.Sent, r.Elapsed, r.Slipped, c.Received)
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
		g := mustGenerator(t, Config{Out: a, Stream: 40, Count: 100_001, CPUs: []int{0, 1}, Method: m, Frame: Frame{SrcPort: PortRange{1, 100}}})
		r := mustRun(t, g)
		c := settle(t, s)
		if r.Sent != 100_001 || r.Workers[0].Sent != 50_001 || r.Workers[1].Sent != 50_000 || g.Streams() != 2 {
			t.Errorf("%s: %+v", m, r)
		}
		// Two CPUs that fill one queue of a veth can overrun it; what it did
		// not take is counted.
		if c.Received != r.Sent-r.Refused || c.Streams[0].Received == 0 || c.Streams[1].Received == 0 || c.Duplicated != 0 {
			t.Errorf("%s: %+v, refused %d", m, c, r.Refused)
		}
		s.Close()
		g.Close()
	}
}

// TestRefusedFrames: a veth whose peer has neither program nor GRO drops everything
// without an error, and the generator knows.
func TestRefusedFrames(t *testing.T) {
	a, _ := pair(t)
	g := mustGenerator(t, Config{Out: a, Count: 10_000, Method: XDP})
	if r := mustRun(t, g); r.Sent != 10_000 || r.Refused != 0 {
		t.Errorf("with a program on the peer: sent %d, refused %d", r.Sent, r.Refused)
	}
	x := g.(*xdpGenerator)
	if err := x.undo[0](); err != nil {
		t.Fatal(err)
	}
	x.undo = x.undo[1:]
	for range 2 {
		if r, err := g.Run(context.Background()); err == nil || r.Sent != 10_000 || r.Refused != 10_000 {
			t.Errorf("without: sent %d, refused %d, %v", r.Sent, r.Refused, err)
		} else {
			t.Log(err)
		}
	}
}

// TestNoXDPTransmit: the loopback device cannot send XDP frames.
func TestNoXDPTransmit(t *testing.T) {
	a, _ := pair(t)
	lo := Endpoint{Netns: a.Netns, Iface: "lo"}
	if err := lo.Do(func() error {
		l, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(l)
	}); err != nil {
		t.Fatal(err)
	}
	c := Config{Out: lo, Frame: Frame{DstMAC: macA}, Method: XDP, Count: 10}
	var why *UnsupportedError
	if _, err := NewGenerator(c); !errors.As(err, &why) || why.Answer != No {
		t.Errorf("%v", err)
	}
	c.Method = Auto
	if r := mustRun(t, mustGenerator(t, c)); r.Method != AFPacket || r.Sent != 10 || len(r.Warnings) == 0 {
		t.Errorf("%+v", r)
	}
}

// TestRemoved: a device that goes away ends the run; what one that is down did
// not take is counted.
func TestRemoved(t *testing.T) {
	for name, do := range map[string]func(netlink.Link) error{"removed": netlink.LinkDel, "down": netlink.LinkSetDown} {
		a, _ := pair(t)
		g := mustGenerator(t, Config{Out: a, Method: XDP})
		time.AfterFunc(200*time.Millisecond, func() {
			if err := a.Do(func() error {
				l, err := netlink.LinkByName(a.Iface)
				if err != nil {
					return err
				}
				return do(l)
			}); err != nil {
				t.Error(err)
			}
		})
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		r, err := g.Run(ctx)
		cancel()
		switch {
		case r.Sent == 0,
			name == "removed" && (!errors.Is(err, ErrNoDevice) || r.Cancelled),
			name == "down" && (err != nil || !r.Cancelled || r.Refused == 0 || r.Refused >= r.Sent || len(r.Warnings) == 0):
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// TestKilled: a process that is killed leaves nothing attached.
func TestKilled(t *testing.T) {
	const env = "MPPS_TEST_KILLED"
	if v := os.Getenv(env); v != "" { // the child
		a, _ := ParseEndpoint(strings.Fields(v)[0])
		b, _ := ParseEndpoint(strings.Fields(v)[1])
		mustSink(t, SinkConfig{In: b, Method: XDP})
		g := mustGenerator(t, Config{Out: a, Method: XDP, Rate: 10_000})
		fmt.Println("ready")
		_, err := g.Run(context.Background())
		t.Fatal(err)
	}
	a, b := pair(t)
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestKilled$")
	cmd.Env = append(os.Environ(), env+"="+a.String()+" "+b.String())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	time.Sleep(200 * time.Millisecond)
	d, err := b.Device()
	if err != nil {
		t.Fatal(err)
	}
	if on, err := hasXDP(d); line != "ready\n" || !on || err != nil {
		t.Fatalf("the child said %q, program %v, %v", line, on, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	begin := time.Now()
	for on := true; on; time.Sleep(10 * time.Millisecond) {
		if on, err = hasXDP(d); err != nil || time.Since(begin) > 5*time.Second {
			t.Fatalf("program %v after %v, %v", on, time.Since(begin), err)
		}
	}
	t.Logf("gone after %v", time.Since(begin))
}

// TestCancel: a run without limits ends promptly, with its count.
func TestCancel(t *testing.T) {
	a, b := pair(t)
	for _, m := range []Method{XDP, AFPacket} {
		for _, rate := range []float64{0, 100} {
			s := mustSink(t, SinkConfig{In: b})
			g := mustGenerator(t, Config{Out: a, Rate: rate, Method: m})
			ctx, cancel := context.WithCancel(context.Background())
			var begin time.Time
			go func() {
				for g.Sent() == 0 {
					time.Sleep(10 * time.Millisecond)
				}
				time.Sleep(50 * time.Millisecond)
				begin = time.Now()
				cancel()
			}()
			r, err := g.Run(ctx)
			took := time.Since(begin)
			c := settle(t, s)
			if err != nil || !r.Cancelled || r.Sent == 0 || c.Received != r.Sent {
				t.Errorf("%s: %+v, %v, received %d", m, r, err, c.Received)
			}
			if took > 2*time.Second { // 20–50 ms on a machine that is not loaded
				t.Errorf("%s: ended %v after it was cancelled", m, took)
			}
			s.Close()
			g.Close()
		}
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
		h, err := s.Histogram()
		if err != nil {
			t.Fatal(err)
		}
		if c.Stamped != 5000 || h.Count() != 5000 || h.Quantile(0.5) < 50 || h.Quantile(0.5) > 50*time.Millisecond {
			t.Errorf("%v: %d stamped, %d delays, median %v", way, c.Stamped, h.Count(), h.Quantile(0.5))
		}
		t.Logf("%v: median %v, p99 %v", way, h.Quantile(0.5), h.Quantile(0.99))
		s.Close()
		g.Close()
	}
}

// TestNothingLeft: whatever was attached is gone after Close, and the control
// traffic passes while a sink is there.
func TestNothingLeft(t *testing.T) {
	a, b := pair(t)
	da, _ := a.Device()
	db, err := b.Device()
	if err != nil {
		t.Fatal(err)
	}
	check := func(when string, d Device, want bool) {
		t.Helper()
		got, err := hasXDP(d)
		if err != nil || got != want {
			t.Errorf("%s: program on %s: %v, want %v (%v)", when, d.Endpoint, got, want, err)
		}
	}
	check("before", db, false)
	g := mustGenerator(t, Config{Out: a, Count: 1000, Method: XDP})
	check("generator towards a veth without a program", db, true)
	check("generator", da, false)
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	check("generator closed", db, false)

	s := mustSink(t, SinkConfig{In: b, Method: XDP})
	check("sink", db, true)
	if _, err := NewSink(SinkConfig{In: b, Method: XDP}); err == nil {
		t.Error("a second sink on the same device was accepted")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	check("sink closed", db, false)
}

// TestPassesOthers: ARP and a UDP socket work through a sink.
func TestPassesOthers(t *testing.T) {
	a, b := pair(t)
	for _, m := range []Method{XDP, XDPSkb, AFPacket} {
		s := mustSink(t, SinkConfig{In: b, Method: m})
		d, _ := a.Device()
		got := make(chan int, 1)
		db, _ := b.Device()
		rx := rawSocket(t, db, unix.ETH_P_ARP)
		_ = unix.SetsockoptTimeval(rx, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 2})
		go func() {
			buf := make([]byte, 256)
			n, _, _ := unix.Recvfrom(rx, buf, 0)
			got <- n
		}()
		frame := make([]byte, 60)
		copy(frame, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
		copy(frame[6:], d.MAC)
		frame[12], frame[13] = 0x08, 0x06
		if err := unix.Send(rawSocket(t, d, 0), frame, 0); err != nil {
			t.Fatal(err)
		}
		if n := <-got; n != 60 {
			t.Errorf("%s: an ARP frame of 60 bytes arrived as %d", m, n)
		}
		if c := mustCount(t, s); m != AFPacket && c.Other == 0 {
			t.Errorf("%s: %+v", m, c)
		}
		s.Close()
	}
}

func TestRefused(t *testing.T) {
	a, _ := pair(t)
	for name, c := range map[string]Config{
		"no such interface": {Out: Endpoint{Netns: a.Netns, Iface: "none"}},
		"no such namespace": {Out: Endpoint{Netns: "no-such-namespace", Iface: "veth0"}},
		"MTU":               {Out: Endpoint{Netns: a.Netns, Iface: "lo"}, Frame: Frame{Size: 64, DstMAC: macA}}, // lo is down
		"rate":              {Out: a, Rate: -1},
		"method":            {Out: a, Method: "pktgen"},
		"stream":            {Out: a, Stream: 65535, CPUs: []int{0, 1}},
	} {
		if g, err := NewGenerator(c); err == nil {
			g.Close()
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := (Endpoint{Netns: a.Netns, Iface: "none"}).Device(); !errors.Is(err, ErrNoDevice) {
		t.Errorf("missing interface: %v", err)
	}
}
