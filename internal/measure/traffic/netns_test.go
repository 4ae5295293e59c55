//go:build netns

package traffic

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"mpps/internal/must"
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
	hb := must.Get(netns.GetFromName(b.Netns))(t)
	defer hb.Close()
	must.Do(t, a.Do(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU = a.Iface, 1504
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: b.Iface, PeerNamespace: netlink.NsFd(int(hb)),
			PeerMTU: 1504})
	}))
	for _, e := range []Endpoint{a, b} {
		must.Do(t, e.Do(func() error {
			l, err := netlink.LinkByName(e.Iface)
			if err != nil {
				return err
			}
			// No router solicitations among the counted frames.
			_ = os.WriteFile("/proc/sys/net/ipv6/conf/all/disable_ipv6", []byte("1"), 0)
			return netlink.LinkSetUp(l)
		}))
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
		must.Succeed(t, netns.DeleteNamed(name), "remove namespace %s", name)
	})
}

func mustSink(t *testing.T, c SinkConfig) Sink {
	t.Helper()
	s := must.Get(NewSink(c))(t)
	t.Cleanup(func() { s.Close() })
	return s
}

func mustGenerator(t *testing.T, c Config) Generator {
	t.Helper()
	g := must.Get(NewGenerator(t.Context(), c))(t)
	t.Cleanup(func() { g.Close() })
	return g
}

func mustRun(t *testing.T, g Generator) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	r := must.Get(g.Run(ctx))(t)
	return r
}

func mustCount(t *testing.T, s Sink) Counts {
	t.Helper()
	c := must.Get(s.Counts())(t)
	return c
}

// settle reads a sink after its last frame: once it has counted so many, which on a busy machine takes longer than the
// pause that ends the wait for others.
func settle(t *testing.T, s Sink, frames uint64) Counts {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); mustCount(t, s).Received < frames && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	c := must.Get(Settle(context.Background(), s, 60*time.Millisecond, 5*time.Second))(t)
	return c
}
