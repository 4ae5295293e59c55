//go:build netns

package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/must"
)

// TestVerbs: whatever a client that has the secret asks for, in whatever order and with whatever numbers, costs it an
// error at most. The agent serves the next client, keeps no device, no thread and little memory.
func TestVerbs(t *testing.T) {
	if !treetest.InNamespace(t) {
		return
	}
	if lo, err := netlink.LinkByName("lo"); err != nil || netlink.LinkSetUp(lo) != nil {
		t.Fatal(err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "d0"
	must.Do(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "d1"}))
	for _, name := range []string{"d0", "d1"} {
		if d, err := netlink.LinkByName(name); err != nil || netlink.LinkSetUp(d) != nil {
			t.Fatal(err)
		}
	}
	s := start(t, Options{Open: true})
	dial(t, s, DialOptions{}).Close()
	devices, goroutines := countLinks(t), runtime.NumGoroutine()
	r := rand.New(rand.NewPCG(1, 2))
	began, done := time.Now(), atomic.Int64{}
	enough := func(round int) bool { // a busy machine takes longer
		took := time.Since(began)
		return round == 40 || took > time.Minute || took > 5*time.Second && done.Load() >= 50
	}
	for round := 0; !enough(round); round++ {
		c := dial(t, s, DialOptions{Silence: 10 * time.Second})
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
		var wait sync.WaitGroup
		for range 20 {
			verb, args := hostileRequest(r)
			wait.Go(func() {
				var answer json.RawMessage
				if c.call(ctx, verb, json.RawMessage(args), &answer, time.Second) == nil {
					done.Add(1)
				}
			})
		}
		if round%2 == 0 {
			wait.Wait()
		}
		c.Close() // with half of them in the middle of what was asked
		wait.Wait()
		stop()
	}
	if done.Load() < 50 {
		t.Errorf("only %d requests were answered: nothing is shown", done.Load())
	}
	c := dial(t, s, DialOptions{Silence: 10 * time.Second})
	must.Pass(c.Info(t.Context()))(t, "the next client")
	c.Close()
	for end := time.Now().Add(15 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		left, more := countLinks(t)-devices, runtime.NumGoroutine()-goroutines
		if left == 0 && more < 20 {
			break
		}
		if time.Now().After(end) {
			b := make([]byte, 1<<20)
			t.Fatalf("%d devices and %d goroutines are left\n%s", left, more, b[:runtime.Stack(b, true)])
		}
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	must.Hold(t, m.HeapAlloc <= 64<<20 && m.TotalAlloc <= 4<<30,
		"%d MiB in use, %d MiB over all", m.HeapAlloc>>20, m.TotalAlloc>>20)
}

func countLinks(t *testing.T) int {
	t.Helper()
	links := must.Get(netlink.LinkList())(t)
	return len(links)
}

// hostileRequest returns a verb with arguments that no client of ours sends.
func hostileRequest(r *rand.Rand) (verb, args string) {
	verbs := []string{"info", "cpu", "counters", "arrival", "sink.start", "sink.counts", "sink.settle", "sink.histogram",
		"sink.reset", "sink.stop", "gen.start", "gen.status", "gen.wait", "gen.stop", "alone.generator",
		"alone.receiver", "tcp.serve", "tcp.counts", "tcp.stop", "poweroff", "", "sink.start", "gen.start"}
	n := func() string {
		if r.IntN(6) > 0 {
			return "0"
		}
		return []string{"1", "2", "3", "64", "1518", "9018", "-1", "65535", "1000000", "2147483647", "4294967295",
			"-9223372036854775808", "9223372036854775807", "18446744073709551615", fmt.Sprint(math.MaxInt32)}[r.IntN(15)]
	}
	rate := func() string {
		return []string{"0", "1000", "100000", "1e308", "5e-324", "-1", "1e-9", "1e12"}[r.IntN(8)]
	}
	few := func(of ...string) string { return of[r.IntN(len(of))] }
	all := "[0"
	for cpu := range 599 {
		all += fmt.Sprintf(",%d", cpu+1)
	}
	all += "]"
	list := func() string {
		return few("[]", "[]", "[0]", "[0]", "[0]", "[0,0]", "[-1]", "[1000000]", all, "[0,1,"+n()+"]")
	}
	mac, _ := json.Marshal(net.HardwareAddr{2, 0, 0, 0, 0, 1})
	on := `{"iface":` + few(`"d0"`, `"d0"`, `"d0"`, `"d0"`, `"d0"`, `"d1"`, `"lo"`, `"../d0"`, `""`, `"no"`) + `}`
	frame := `{"size":` + few("0", "64", "1518", n()) + `,"sizes":` + few("null", "null", list()) + `,"dst_mac":` +
		few(string(mac), string(mac), string(mac), string(mac), `""`, `"/////w=="`) + `,"src_macs":` + few("0", n()) + `,"vlan":` + few("0", n()) +
		`,"src":{"First":"10.0.0.1","Count":` + n() + `},"dst_port":{"First":9,"Count":` + few("1", n()) + `}}`
	config := `{"out":` + on + `,"frame":` + frame + `,"stream":` + few("0", "1", n()) + `,"rate":` + rate() + `,"count":` +
		n() + `,"duration":` + few("1000000", "20000000", "50000000", "-1", n()) + `,"cpus":` + list() + `,"method":` +
		few(`"xdp"`, `"af_packet"`, `"af_packet"`, `""`, `""`, `"pktgen"`, `"x"`) + `,"batch":` + few("0", n()) + `,"burst":` + few("0", n()) +
		`,"clone_skb":` + few("0", n()) + `,"catch_up":` + few("0", n()) + `,"stamp":true}`
	sink := `{"in":` + on + `,"stream":` + few("0", n()) + `,"streams":` + few("1", "1024", n()) + `,"latency":` +
		few("true", "false") + `,"method":` + few(`"xdp"`, `"af_packet"`, `""`, `"x"`) + `,"pktgen":` + few("true", "false") +
		`,"drop_other":true}`
	switch verb = verbs[r.IntN(len(verbs))]; verb {
	case "sink.start":
		return verb, sink
	case "gen.start":
		return verb, config
	case "alone.generator", "alone.receiver":
		return verb, `{"config":` + config + `,"sink":` + sink + `,"duration":` + few("1000000", "50000000", n()) + `}`
	case "tcp.serve":
		return verb, `{"netns":` + few(`""`, `"../x"`, `"\u0000"`) + `,"addr":` + few(`"127.0.0.1:0"`, `":0"`,
			`"127.0.0.1:99999"`, `"[::1%x]:0"`, `"x"`, `"127.0.0.1:http"`) + `}`
	case "counters", "arrival":
		return verb, `{"on":` + on + `,"mac":` + few(string(mac), `"x"`, `""`) + `,"within":` + n() + `,"wait":` + n() + `}`
	case "sink.settle":
		return verb, `{"handle":` + few("1", "2", "3", n()) + `,"quiet":` + n() + `,"limit":` + few("10000000", n()) + `}`
	}
	return verb, few(`{"handle":1}`, `{"handle":2}`, `{"handle":`+n()+`}`, "null", "[]", `"x"`, "{}")
}
