//go:build netns

package traffic

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
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

// TestExactCounts: over a veth pair on one core nothing can get lost, so every
// frame sent is received once, in order.
func TestExactCounts(t *testing.T) {
	a, b := pair(t)
	for _, m := range []Method{XDP} {
		for _, f := range []Frame{
			{},
			{Size: 1518, UDPChecksum: true},
			{Size: 68, VLAN: 7},
			{Size: 128, Src: AddrRange{netip.MustParseAddr("198.18.0.250"), 20}, SrcPort: PortRange{1000, 50}},
		} {
			t.Run(fmt.Sprintf("%s/%d", m, f.Size), func(t *testing.T) {
				s := mustSink(t, SinkConfig{In: b, Method: XDP, Stream: 5})
				g := mustGenerator(t, Config{Out: a, Frame: f, Count: 100_000, Stream: 5, Method: m})
				r := mustRun(t, g)
				c := mustCount(t, s)
				if r.Sent != 100_000 || c.Received != r.Sent || c.Duplicated+c.Reordered+c.TooLate != 0 || !c.Exact {
					t.Errorf("sent %d, counts %+v", r.Sent, c)
				}
				if c.Bytes != r.Bytes {
					t.Errorf("bytes sent %d, received %d", r.Bytes, c.Bytes)
				}
				t.Logf("%.2f Mpps %v %+v", r.PPS()/1e6, r, c)
			})
		}
	}
}
