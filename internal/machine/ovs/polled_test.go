package ovs

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// Answers of ovs-vswitchd 3.1.0 with DPDK 22.11, with a guest whose ring was full for a while.
const (
	queuesText = `Displaying last 60 seconds pmd usage %
pmd thread numa_id 0 core_id 1:
  isolated : false
  port: p0                queue-id:  0 (enabled)   pmd usage: 12 %
  port: vhu0              queue-id:  0 (disabled)  pmd usage: NOT AVAIL
  port: vhu0              queue-id:  1 (disabled)  pmd usage: NOT AVAIL
  overhead:  3 %
`
	statsText = `pmd thread numa_id 0 core_id 1:
  packets received: 310771
  packet recirculations: 0
  avg. datapath passes per packet: 1.00
  phwol hits: 0
  mfex opt hits: 0
  simple match hits: 0
  emc hits: 310310
  smc hits: 0
  megaflow hits: 450
  avg. subtable lookups per megaflow hit: 1.25
  miss with success upcall: 6
  miss with failed upcall: 5
  avg. packets per output batch: 6.52
  idle cycles: 34152661870 (84.93%)
  processing cycles: 6059375602 (15.07%)
  avg cycles per packet: 129394.43 (40212037472/310771)
  avg processing cycles per packet: 19497.88 (6059375602/310771)
main thread:
  packets received: 7
  packet recirculations: 0
  avg. datapath passes per packet: 0.00
`
	portsText = `system@ovs-system:
  lookups: hit:1 missed:2 lost:3
  port 0: vnet7
    RX packets:9 errors:0 dropped:9 overruns:0 frame:0
netdev@ovs-netdev:
  lookups: hit:59421 missed:5 lost:5
  flows: 3
  port 0: ovs-netdev (tap)
    RX packets:0 errors:0 dropped:0 overruns:0 frame:0
    TX packets:0 errors:0 dropped:0 aborted:0 carrier:0
    collisions:0
    RX bytes:0  TX bytes:0
  port 2: p0 (dpdk: dpdk-devargs=eth_af_packet0,iface=v0, dpdk-lsc-interrupt=false, n_rxq=1, n_rxq_desc=2048, n_txq_desc=2048)
    RX packets:116115 errors:0 dropped:4 overruns:? frame:?
    TX packets:0 errors:0 dropped:0 aborted:? carrier:?
    collisions:?
    RX bytes:7431574 (7.1 MiB)  TX bytes:0
  port 3: vhu0 (dpdkvhostuserclient: configured_rx_queues=2, configured_tx_queues=1, mtu=1500)
    RX packets:0 errors:? dropped:0 overruns:? frame:?
    TX packets:44556 errors:? dropped:71550 aborted:? carrier:?
    collisions:?
    RX bytes:0  TX bytes:2851608 (2.7 MiB)
  port 4: vhu1 (dpdkvhostuserclient: configured_rx_queues=1, configured_tx_queues=1, mtu=0)
, could not retrieve stats (Protocol error)
`
	poolsText = `mempool <ovs6ffa666e00021580065536>@0x1204dbbc0
  flags=10
  socket_id=0
  size=65536
  populated_size=65536
  ops_name: <ring_mp_mc>
  avg bytes/object=4096.029297
  internal cache infos:
    cache_size=512
    cache_count[0]=0
    cache_count[1]=513
    total_cache_count=513
  common_pool_count=60023
  no statistics available
`
)

var polledWant = &facts.PolledSwitch{
	PMDs: []facts.PMD{{CPU: 1, Queues: []facts.PMDQueue{{Port: "p0", Enabled: true, Usage: 12},
		{Port: "vhu0", Usage: -1}, {Port: "vhu0", Queue: 1, Usage: -1}}, Packets: 310771, EMC: 310310, Megaflow: 450, Lookups: 125, Upcalls: 6, Lost: 5,
		IdleTSC: 34152661870, BusyTSC: 6059375602, Overhead: 3}},
	Pools: []facts.MbufPool{{Name: "ovs6ffa666e00021580065536", Size: 65536, Free: 60536}},
	Ports: []facts.PolledPort{{Name: "ovs-netdev", Type: "tap"},
		{Name: "p0", Type: "dpdk", Queues: 1, RxPackets: 116115, RxDropped: 4},
		{Name: "vhu0", Type: "dpdkvhostuserclient", Queues: 2, TxPackets: 44556, TxDropped: 71550},
		{Name: "vhu1", Type: "dpdkvhostuserclient"}},
}

func recordedControl(t *testing.T, of map[string]string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for command, text := range map[string]string{askQueues: queuesText, askStats: statsText, askPorts: portsText,
		askPools: poolsText} {
		if other, has := of[command]; has {
			text = other
		}
		files[folder+"/ctl/"+strings.ReplaceAll(command, "/", "_")] = text
	}
	return files
}

func TestPolled(t *testing.T) {
	got, err := Polled(treetest.Recorded(t, recordedControl(t, nil)), 7)
	if d := cmp.Diff(polledWant, got); d != "" || err != nil {
		t.Fatal(d, err)
	}
	if b := got.PMDs[0].Busy(); b < 0.15 || b > 0.151 {
		t.Errorf("busy %f", b)
	}
}

// TestOtherTexts: of a text that another version writes nothing is taken.
func TestOtherTexts(t *testing.T) {
	for name, change := range map[string][3]string{
		"usage in another unit":  {askQueues, "12 %", "0.12"},
		"queues on one line":     {askQueues, "queue-id:  0 (enabled)   pmd usage: 12 %", "queue-id: 0 1"},
		"a new state of a queue": {askQueues, "(enabled) ", "(sleeping)"},
		"another head":           {askQueues, "pmd thread numa_id 0 core_id 1:", "thread pmd1 on core 1 (numa 0):"},
		"a thread twice":         {askQueues, "  overhead:  3 %\n", "pmd thread numa_id 0 core_id 1:\n"},
		"hexadecimal counters":   {askStats, "packets received: 310771", "packets received: 0x4bdf3"},
		"larger than 64 bits":    {askStats, "310310", "99999999999999999999"},
		"another thread":         {askStats, "core_id 1:", "core_id 2:"},
		"nothing":                {askStats, statsText, ""},
		"no such datapath":       {askPorts, "netdev@ovs-netdev:", "user@ovs:"},
		"a column fewer":         {askPorts, "RX packets:116115 errors:0 dropped:4", "RX packets:116115 dropped:4"},
		"a port without number":  {askPorts, "  port 2: p0 (", "  port p0 ("},
		"a pool without a size":  {askPools, "  size=65536\n", ""},
	} {
		all := map[string]string{askQueues: queuesText, askStats: statsText, askPorts: portsText, askPools: poolsText}
		text := strings.Replace(all[change[0]], change[1], change[2], 1)
		must.Hold(t, text != all[change[0]], "%s changes nothing", name)
		s, err := Polled(treetest.Recorded(t, recordedControl(t, map[string]string{change[0]: text})), 7)
		var other *textError
		must.Hold(t, errors.As(err, &other), "%s: %+v, %v", name, s, err)
	}
	// a counter that a newer version adds is no reason to know nothing
	text := strings.Replace(statsText, "  smc hits: 0\n", "  smc hits: 0\n  sleep iterations: 12 (  1.2%)\n", 1)
	must.Try(t, must.Err(Polled(treetest.Recorded(t, recordedControl(t, map[string]string{askStats: text})), 7)))
}

// controlOf serves one connection as ovs-vswitchd's control socket does, or hangs.
func controlOf(t *testing.T, hangs bool, answers map[string]string) *control {
	t.Helper()
	at := serveOnce(t, func(conn net.Conn) {
		decoder := json.NewDecoder(conn)
		for {
			var request struct {
				ID     int
				Method string
			}
			if decoder.Decode(&request) != nil {
				return
			}
			if hangs {
				time.Sleep(2 * patience)
				return
			}
			text, _ := json.Marshal(answers[request.Method])
			fmt.Fprintf(conn, `{"id":%d,"result":%s,"error":null}`, request.ID, text)
		}
	})
	conn := must.Get(net.Dial("unix", at))(t)
	t.Cleanup(func() { conn.Close() })
	must.Do(t, conn.SetDeadline(time.Now().Add(patience)))
	return &control{conn: conn, decoder: json.NewDecoder(conn)}
}

// TestControl: what hangs ends within the time of all answers together.
func TestControl(t *testing.T) {
	c := controlOf(t, false, map[string]string{askQueues: queuesText})
	if text, err := c.ask(askQueues); text != queuesText || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	begun := time.Now()
	if text, err := controlOf(t, true, nil).ask(askQueues); err == nil || time.Since(begun) > patience+20*time.Second {
		t.Errorf("a socket that hangs: %q, %v after %v", text, err, time.Since(begun))
	}
}

// TestManyPolledPorts: 5,000 ports take at most half a second of CPU time.
func TestManyPolledPorts(t *testing.T) {
	var queues, ports strings.Builder
	queues.WriteString("pmd thread numa_id 0 core_id 1:\n  isolated : false\n")
	ports.WriteString("netdev@ovs-netdev:\n")
	for i := range 5000 {
		name := fmt.Sprintf("vhu%d", i)
		fmt.Fprintf(&queues, "  port: %-16s  queue-id: %2d (enabled)   pmd usage: %2d %%\n", name, 0, 0)
		fmt.Fprintf(&ports, "  port %d: vhu%d (dpdkvhostuserclient: configured_rx_queues=1, mtu=1500)\n"+
			"    RX packets:0 errors:? dropped:0 overruns:? frame:?\n"+
			"    TX packets:44556 errors:? dropped:71550 aborted:? carrier:?\n    collisions:?\n", i+1, i)
	}
	m := treetest.Recorded(t, recordedControl(t, map[string]string{askQueues: queues.String(),
		askPorts: ports.String()}))
	before := treetest.CPUTime(t)
	s, err := Polled(m, 7)
	used := treetest.CPUTime(t) - before
	must.Hold(t, err == nil && len(s.Ports) == 5000 && len(s.PMDs[0].Queues) == 5000 && used <= 500*time.Millisecond,
		"%v, %v", used, err)
	t.Logf("5000 ports: %v", used)
}

// TestTellsNothing: a process without control socket, and a database whose switch does not run, are said so.
func TestTellsNothing(t *testing.T) {
	netdev := strings.Replace(recordedAnswer, `"datapath_type":""`, `"datapath_type":"netdev"`, 1)
	for name, files := range map[string]map[string]string{
		"no process": {},
		"no answers": {folder + "/ovs-vswitchd.pid": "41\n", "proc/41/task/41/comm": "ovs-vswitchd\n",
			"proc/41/task/41/stat": treetest.Stat(41, "ovs-vswitchd", 7, 0, 0, 0)},
	} {
		files[socket] = netdev
		h := &facts.Host{}
		Inventory(t.Context(), treetest.Recorded(t, files), h)
		must.Hold(t, h.OpenVSwitch != nil && h.OpenVSwitch.Polled == nil && len(h.Unseen) == 1,
			"%s: %+v, unseen %+v", name, h.OpenVSwitch, h.Unseen)
	}
}

func FuzzPolled(f *testing.F) {
	for _, text := range []string{queuesText, statsText, portsText, poolsText} {
		f.Add(text)
	}
	f.Fuzz(func(_ *testing.T, text string) {
		pmds, _ := parseQueues(text)
		_ = parseStats(text, pmds)
		_, _ = parsePorts(text)
		_, _ = parsePools(text)
	})
}
