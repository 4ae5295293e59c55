//go:build netns

package agent

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"mpps/internal/measure/traffic"
	"mpps/internal/must"
)

// pair is a veth pair between two namespaces made for one test.
func pair(t *testing.T) (a, b traffic.Endpoint) {
	t.Helper()
	base := fmt.Sprintf("ma%d-%d", os.Getpid(), time.Now().UnixNano()%1e6)
	a = traffic.Endpoint{Netns: base + "a", Iface: "veth0"}
	b = traffic.Endpoint{Netns: base + "b", Iface: "veth0"}
	for _, e := range []traffic.Endpoint{a, b} {
		done := make(chan error)
		go func() {
			runtime.LockOSThread()
			h, err := netns.NewNamed(e.Netns)
			if err == nil {
				h.Close()
			}
			done <- err
		}()
		must.Do(t, <-done)
		t.Cleanup(func() {
			must.Try(t, netns.DeleteNamed(e.Netns))
		})
	}
	hb := must.Get(netns.GetFromName(b.Netns))(t)
	defer hb.Close()
	must.Do(t, a.Do(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = a.Iface
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: b.Iface, PeerNamespace: netlink.NsFd(int(hb))})
	}))
	for _, e := range []traffic.Endpoint{a, b} {
		if err := e.Do(func() error {
			l, err := netlink.LinkByName(e.Iface)
			if err != nil {
				return err
			}
			// The stack's own frames would be taken for the generator's.
			_ = os.WriteFile("/proc/sys/net/ipv6/conf/all/disable_ipv6", []byte("1"), 0)
			return netlink.LinkSetUp(l)
		}); err != nil {
			t.Fatal(err)
		}
	}
	return a, b
}

// attached reports whether an XDP program is on an interface, and how much the
// interface has sent.
func attached(t *testing.T, e traffic.Endpoint) (xdp bool, tx uint64) {
	t.Helper()
	must.Do(t, e.Do(func() error {
		l, err := netlink.LinkByName(e.Iface)
		if err != nil {
			return err
		}
		x := l.Attrs().Xdp
		xdp, tx = x != nil && x.Attached, l.Attrs().Statistics.TxPackets
		return nil
	}))
	return xdp, tx
}

// TestTraffic: sink and generator at the far side of two agents, through the
// interfaces of the local ones.
func TestTraffic(t *testing.T) {
	a, b := pair(t)
	near, far := dial(t, start(t, Options{Open: true}), DialOptions{}), dial(t, start(t, Options{Secret: []byte("x")}),
		DialOptions{Secret: []byte("x")})
	s := must.Get(far.NewSink(t.Context(), traffic.SinkConfig{In: b, Latency: true}))(t)
	var g traffic.Generator = near.NewGenerator(traffic.Config{Out: a, Count: 30_000, Rate: 200_000, Stamp: true})
	for range 2 {
		r, err := g.Run(t.Context())
		must.Need(t, err == nil && r.Sent == 30_000 && g.Sent() == 30_000 && g.Method() == traffic.XDP,
			"%+v, %v", r, err)
		c, err := s.Settle(t.Context(), 300*time.Millisecond, 10*time.Second)
		must.Hold(t, err == nil && c.Received == 30_000 && c.Exact, "%+v, %v", c, err)
		h, err := s.Histogram()
		if err != nil || h.Count() != 30_000 {
			t.Errorf("%d delays, %v", h.Count(), err)
		}
		must.Do(t, s.Reset())
	}
	// Ended by the context: the result is what was sent.
	g = near.NewGenerator(traffic.Config{Out: a, Rate: 10_000})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		for g.Sent() == 0 && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(300 * time.Millisecond)
		cancel()
	}()
	r, err := g.Run(ctx)
	must.Hold(t, err == nil && r.Sent != 0 && r.Cancelled, "%+v, %v", r, err)
	if c, err := s.Settle(t.Context(), 300*time.Millisecond, 10*time.Second); err != nil || c.Received != r.Sent {
		t.Errorf("%+v of %d, %v", c, r.Sent, err)
	}
	must.Try(t, s.Close())
	if x, _ := attached(t, b); x {
		t.Error("a program is left on the sink's interface")
	}
}

// TestDropped: when the connection ends or falls silent, traffic stops and programs are gone within two seconds; a busy
// machine may take some more.
func TestDropped(t *testing.T) {
	for name, drop := range map[string]func(*Client){
		"closed": func(c *Client) { c.Close() },
		"reset": func(c *Client) {
			_ = c.wire.conn.(*net.TCPConn).SetLinger(0)
			c.wire.conn.Close()
		},
		"silent": func(c *Client) { c.wire.out.Lock() }, // pings get stuck behind it
	} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t)
			c := dial(t, start(t, Options{Open: true}), DialOptions{})
			must.Get(c.NewSink(t.Context(), traffic.SinkConfig{In: b}))(t)
			must.Do(t, c.call(t.Context(), "gen.start", traffic.Config{Out: a, Rate: 50_000}, nil, 0))
			_, tx := attached(t, a)
			x, _ := attached(t, b)
			now := tx
			for begin := time.Now(); now == tx && time.Since(begin) < 10*time.Second; _, now = attached(t, a) {
				time.Sleep(50 * time.Millisecond)
			}
			must.Need(t, x && now != tx, "nothing to stop: program %v, %d frames sent", x, now-tx)
			drop(c)
			begin := time.Now()
			for x && time.Since(begin) < 20*time.Second {
				time.Sleep(10 * time.Millisecond)
				x, _ = attached(t, b)
			}
			took := time.Since(begin)
			_, tx = attached(t, a)
			time.Sleep(50 * time.Millisecond)
			if _, now = attached(t, a); x || now != tx || took > 6*time.Second {
				t.Errorf("after %v: program %v, %d more frames", took, x, now-tx)
			}
			t.Logf("took %v", took)
		})
	}
}

func TestAlone(t *testing.T) {
	a, _ := pair(t)
	c := dial(t, start(t, Options{Open: true}), DialOptions{})
	g, err := c.GeneratorAlone(t.Context(), traffic.Config{Out: a}, 100*time.Millisecond)
	if err != nil || g.PPS < 1000 || g.Method != traffic.XDP {
		t.Errorf("%+v, %v", g, err)
	}
	for _, m := range []traffic.Method{traffic.XDP, traffic.AFPacket} {
		r, err := c.ReceiverAlone(t.Context(), traffic.SinkConfig{Method: m}, traffic.Config{}, 100*time.Millisecond)
		// Whether the receiver keeps up depends on what else the machine does; that it is said truly does not.
		if err != nil || r.PPS < 1000 || r.Counted > r.Sent || r.Method != m || r.AtLeast && r.Counted != r.Sent {
			t.Errorf("%+v, %v", r, err)
		}
		t.Logf("%s %.0f/s %+v", m, r.PPS, r)
	}
}
