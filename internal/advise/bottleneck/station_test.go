package bottleneck

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// busy returns a host with a full vhost thread: one NIC, a bridge, a guest with two queues, and a thread off the path.
func busy() (*facts.Host, *facts.Load) {
	h := &facts.Host{
		Name: "kvm1", NICs: []facts.NIC{{Name: "eth0", Speed: 10000, Master: "br0"}},
		Bridges: []facts.Bridge{{Name: "br0", Ports: []string{"eth0", "vnet0"}}},
		Taps:    []facts.Tap{{Name: "vnet0", Master: "br0", Guest: "vm1"}, {Name: "vnet9", Guest: "vm2"}},
		Guests: []facts.Guest{{Name: "vm1", Interfaces: []facts.Interface{{MAC: "52:54:00:00:00:01", Tap: "vnet0"}}},
			{Name: "vm2"}},
	}
	l := &facts.Load{
		Seconds: 2, Method: facts.ByTracepoints,
		CPUs: []facts.CPULoad{{CPU: 0, Softirq: 0.6, Idle: 0.4}, {CPU: 1, System: 0.99, Idle: 0.01},
			{CPU: 2, Guest: 0.43, Idle: 0.57}, {CPU: 3, Idle: 1}},
		Devices: []facts.DeviceLoad{
			{Name: "eth0", Kind: "nic", RxPackets: 2_000_000, RxBytes: 120_000_000, TxPackets: 10, SpeedMbps: 10000,
				Counters: map[string]uint64{"rx_missed_errors": 400, "rx_no_dma_resources": 400,
					"rx_queue_0_xdp_drops": 70000},
				Queues: []facts.QueueLoad{{Direction: "rx", Index: 0, Packets: 2_000_000, CPUs: setting.CPUs(0)},
					{Direction: "rx", Index: 1}},
				Qdisc: []facts.QdiscLoad{{Kind: "tbf", Parent: "root", Bytes: 2_500_000, RateBps: 10e6, Drops: 20}}},
			{Name: "br0", Kind: "bridge", RxPackets: 3, SpeedMbps: -1},
			{Name: "vnet0", Kind: "tap", TxPackets: 1_000_000, RxPackets: 500,
				Counters: map[string]uint64{"tx_dropped": 1_000_000}, SpeedMbps: 10},
			{Name: "vnet9", Kind: "tap", SpeedMbps: 10},
		},
		Softnet: []facts.Softnet{{CPU: 0, Processed: 2_000_000, Squeezed: 10}, {CPU: 3}},
		Threads: []facts.ThreadLoad{
			{TID: 11, Comm: "vhost-2113", Role: "vhost", Guest: "vm1", NIC: "52:54:00:00:00:01", Queue: 0, VCPU: -1,
				CPU: 1, Ran: 0.99, Waited: 0.3},
			{TID: 12, Comm: "vhost-2113", Role: "vhost", Guest: "vm1", NIC: "52:54:00:00:00:01", Queue: 1, VCPU: -1,
				CPU: 3, Ran: 0},
			{TID: 13, Comm: "CPU 0/KVM", Role: "vcpu", Guest: "vm1", Queue: -1, VCPU: 0, CPU: 2, Ran: 0.93,
				HaltPoll: 0.5},
			{TID: 14, Comm: "stress", Role: "other", Queue: -1, VCPU: -1, CPU: 1, Ran: 0.3},
			{TID: 15, Comm: "elsewhere", Role: "other", Queue: -1, VCPU: -1, CPU: 7, Ran: 0.9},
			{TID: 16, Comm: "CPU 0/KVM", Role: "vcpu", Guest: "vm2", Queue: -1, VCPU: 0, CPU: 2, Ran: 0},
		},
		Profile: []facts.ProfileEntry{{CPU: 0, Stage: "netfilter", Symbol: "ipt_do_table", Share: 0.4},
			{CPU: 1, Stage: "vhost", Share: 0.9}},
		Drops: []facts.DropSite{{Reason: "FULL_RING", Symbol: "tun_net_xmit", Device: "vnet0", Packets: 1_000_000}},
	}
	return h, l
}

// line returns a station in short.
func line(s Station) string {
	text := fmt.Sprintf("%s %s", s.Stage, s.Name)
	if s.Guest != "" {
		text += " of " + s.Guest
	}
	return text
}

func TestStationsAreInPathOrder(t *testing.T) {
	t.Parallel()
	h, l := busy()
	var got []string
	for _, s := range Stations(h, l) {
		got = append(got, line(s))
	}
	want := []string{
		"nic eth0", "softirq CPU 0", "netfilter netfilter", "bridge br0", "tap vnet0 of vm1", "vhost 2 threads of vm1",
		"vcpu vm1 vCPU 0 of vm1",
		"tap vnet9 of vm2", "vcpu vm2 vCPU 0 of vm2", "beside stress (14)",
	}
	must.Hold(t, strings.Join(got, "\n") == strings.Join(want, "\n"),
		"found\n%s\nwanted\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
}

func TestStationsHaveTheirFigures(t *testing.T) {
	t.Parallel()
	h, l := busy()
	by := map[string]Station{}
	for _, s := range Stations(h, l) {
		by[line(s)] = s
		for _, p := range s.Parts {
			by[line(s)+" / "+p.Name] = p
		}
	}
	for _, c := range []struct {
		at            string
		use, in, loss float64
		of            string
	}{
		// the driver's counter repeats the standard one
		{"nic eth0", (120e6 + 24*2e6) * 8 / 2 / 10e9, 1e6, 200 + 10, "10 Gbit/s"},
		{"nic eth0 / rx 0", 0.6, 1e6, 0, "CPU 0"},
		{"nic eth0 / tbf of eth0", 1, -1, 10, "10 Mbit/s"},
		{"softirq CPU 0", 0.6, 1e6, 0, "CPU 0"},
		{"netfilter netfilter", 0.4, -1, 0, "CPU 0, ipt_do_table"},
		{"bridge br0", -1, 500_000, 0, ""}, // its taps' packets
		{"tap vnet0 of vm1", -1, 500_000, 500_000, ""},
		{"vhost 2 threads of vm1", 0.99, -1, 0, "CPU 1"},
		{"vhost 2 threads of vm1 / vhost-2113 (queue 0)", 0.99, -1, 0, "CPU 1"},
		{"vcpu vm1 vCPU 0 of vm1", 0.43, -1, 0, "CPU 2, polls 50 %"},
		{"beside stress (14)", 0.3, -1, 0, "CPU 1"},
	} {
		s, found := by[c.at]
		if !found {
			t.Errorf("no %s", c.at)
			continue
		}
		if math.Abs(s.Use-c.use) > 1e-9 || s.In != c.in || s.Loss != c.loss || s.Of != c.of {
			t.Errorf("%s: use %v of %q, in %v, loss %v; wanted %v of %q, %v, %v", c.at, s.Use, s.Of, s.In, s.Loss,
				c.use, c.of, c.in, c.loss)
		}
	}
	if w := by["vhost 2 threads of vm1 / vhost-2113 (queue 0)"].Waits; len(w) != 1 || w[0].Value != 0.3 {
		t.Errorf("the waiting vhost thread: %v", w)
	}
	if s := by["tap vnet9 of vm2"]; !s.Idle() {
		t.Errorf("a tap without a packet is not idle: %+v", s)
	}
	if s := by["tap vnet0 of vm1"]; s.Idle() || len(s.Lost) != 2 {
		t.Errorf("a tap that loses packets: %+v", s)
	}
}

// TestStationsOfNothing tries an interval of no length and an empty host.
func TestStationsOfNothing(t *testing.T) {
	t.Parallel()
	if got := Stations(&facts.Host{}, &facts.Load{}); len(got) != 0 {
		t.Errorf("found %v", got)
	}
	h, l := busy()
	l.Seconds = 0
	for _, s := range Stations(h, l) {
		if s.In > 0 || math.IsNaN(s.Use) || math.IsInf(s.Use, 0) {
			t.Errorf("%s: %v packets/s, use %v in no time", line(s), s.In, s.Use)
		}
	}
}

// TestStationsOfRecordings checks that most diagnoses of recorded paths name objects that are stations, and that every
// figure is a number.
func TestStationsOfRecordings(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/recorded/*.json")
	must.Need(t, err == nil && len(files) >= 20, "%d recordings, %v", len(files), err)
	found, all := 0, 0
	for _, file := range files {
		text := must.Get(os.Open(file))(t)
		h, err := facts.ReadSnapshot(text)
		text.Close()
		must.Do(t, err)
		named := map[string]bool{}
		for _, s := range Stations(h, h.Load) {
			for _, p := range append(s.Parts, s) {
				named[p.Name], named[p.Of] = true, true
				for _, v := range []float64{p.In, p.Out, p.Use, p.Loss} {
					if math.IsNaN(v) || math.IsInf(v, 0) || v < -1 {
						t.Errorf("%s: %s %s: %v", file, p.Stage, p.Name, v)
					}
				}
			}
			named[s.Guest] = true
			if s.Stage == "socket" {
				named["UDP socket"] = true
			}
		}
		must.Hold(t, len(named) != 0, "%s: no station", file)
		if d := Find(h, h.Load); d.Bottleneck != nil {
			all++
			if named[d.Bottleneck.Object] {
				found++
			} else {
				t.Logf("%s: %q is at no station", file, d.Bottleneck.Object)
			}
		}
	}
	must.Hold(t, found >= all*2/3, "of %d bottlenecks %d stand among the stations", all, found)
}

// TestInsideStandsWithItsGuest checks that a guest's own report comes after its vCPUs.
func TestInsideStandsWithItsGuest(t *testing.T) {
	t.Parallel()
	h, l := busy()
	l.Guests = []facts.GuestLoad{{
		Name: "vm1", CPUs: []facts.CPULoad{{CPU: 0, Softirq: 0.9}},
		Softnet: []facts.Softnet{{CPU: 0, Processed: 10, Dropped: 4}},
		Devices: []facts.DeviceLoad{{Name: "eth0", Kind: "nic", RxPackets: 20, SpeedMbps: -1}},
		Sockets: facts.SocketLoad{UDPIn: 8, ReceiveBuffer: 2},
	}}
	var got []string
	for _, s := range Stations(h, l) {
		if s.Guest == "vm1" {
			got = append(got, fmt.Sprintf("%s loses %v", line(s), s.Loss))
		}
	}
	want := "guest eth0 of vm1 loses 0\nguest softirqs of vm1 loses 2\nsocket sockets of vm1 loses 1"
	if text := strings.Join(got, "\n"); !strings.HasSuffix(text, want) {
		t.Errorf("found\n%s\nwanted at the end\n%s", text, want)
	}
}
