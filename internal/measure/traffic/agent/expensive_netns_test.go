//go:build netns

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/measure/traffic"
	"mpps/internal/must"
)

// TestGoneClientCostsNothing: a client that has asked for as much as it may, of whatever is expensive, and leaves,
// costs the agent no second of CPU time more.
func TestGoneClientCostsNothing(t *testing.T) {
	if !treetest.InNamespace(t) {
		return
	}
	must.Do(t, netlink.LinkSetUp(must.Get(netlink.LinkByName("lo"))(t)))
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "d0"
	must.Do(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "d1"}))
	for _, name := range []string{"d0", "d1"} {
		must.Do(t, netlink.LinkSetUp(must.Get(netlink.LinkByName(name))(t)))
	}
	for i := range 150 {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = fmt.Sprintf("e%d", i)
		must.Do(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: fmt.Sprintf("f%d", i)}))
	}
	const config = `{"out":{"iface":"d0"},"frame":{"dst_mac":"AgAAAAAB"},"cpus":[0]}`
	for verb, args := range map[string]string{
		"info": `null`, "counters": `{"on":{"iface":"d0"}}`,
		"alone.receiver":  `{"config":` + config + `,"sink":{"method":"xdp"},"duration":1}`,
		"alone.generator": `{"config":` + config + `,"duration":1}`,
		"arrival":         `{"on":{"iface":"d0"},"hash":"","from":"AgAAAAAB"}`,
		"sink.start":      `{"in":{"iface":"d0"},"streams":1024,"latency":true,"method":"af_packet"}`,
		"gen.start":       config,
	} {
		t.Run(verb, func(t *testing.T) {
			s := start(t, Options{Open: true})
			c := dial(t, s, DialOptions{Silence: 30 * time.Second})
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			var wait sync.WaitGroup
			for range maxRequests {
				wait.Go(func() {
					var answer json.RawMessage
					_ = c.call(ctx, verb, json.RawMessage(args), &answer, time.Minute)
				})
			}
			time.Sleep(100 * time.Millisecond)
			before, began := cpuTime(t), time.Now()
			c.Close()
			wait.Wait()
			for len(s.sessions) > 0 {
				time.Sleep(5 * time.Millisecond)
			}
			used := cpuTime(t) - before
			t.Logf("%v of CPU time within %v", used, time.Since(began))
			must.Hold(t, used <= time.Second, "%v of CPU time after the client was gone", used)
		})
	}
}

// TestSinksOfPeers: the memory of all sinks has a bound, and goes back with the session.
func TestSinksOfPeers(t *testing.T) {
	if !treetest.InNamespace(t) {
		return
	}
	must.Do(t, netlink.LinkSetUp(must.Get(netlink.LinkByName("lo"))(t)))
	s := start(t, Options{Open: true})
	most := uint64(0)
	var free []func()
	for bytes := uint64(1) << 50; bytes >= 1<<20; {
		f, err := traffic.HoldMemory(bytes)
		if err != nil {
			bytes /= 2
			continue
		}
		free, most = append(free, f), most+bytes
	}
	for _, f := range free {
		f()
	}
	conf := traffic.SinkConfig{In: traffic.Endpoint{Iface: "lo"}, Method: traffic.AFPacket}
	one := conf.Memory()
	release := must.Get(traffic.HoldMemory(most - 3*one))(t)
	defer release()
	for range 2 { // the second time with what the first gave back
		c := dial(t, s, DialOptions{Silence: 30 * time.Second})
		sinks := 0
		for ; sinks < maxHandles; sinks++ {
			if _, err := c.NewSink(t.Context(), conf); err != nil {
				must.Hold(t, errors.Is(err, ErrDenied), "%v", err)
				break
			}
		}
		must.Hold(t, sinks >= 3 && sinks <= 4, "%d sinks where there is memory for 3", sinks)
		c.Close()
		for len(s.sessions) > 0 {
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// cpuTime is what this process has used.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var r unix.Rusage
	must.Do(t, unix.Getrusage(unix.RUSAGE_SELF, &r))
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
