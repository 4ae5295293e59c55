package bottleneck

import (
	"math"
	"strings"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestPolledStations: ports and threads of Open vSwitch's own datapath stand in path order with what they counted, and
// a process that tells nothing is shown without figures, and not as idle.
func TestPolledStations(t *testing.T) {
	t.Parallel()
	bridge := facts.OVSBridge{Name: "br0", Datapath: facts.UserDatapath, Ports: []facts.OVSPort{{Name: "vhu1",
		Interfaces: []facts.OVSInterface{{Name: "vhu1", Type: "dpdkvhostuserclient",
			Options: map[string]string{"vhost-server-path": "/run/vhu1"}}}}}}
	h := &facts.Host{
		Guests: []facts.Guest{{Name: "vm1", State: "running",
			Interfaces: []facts.Interface{{MAC: "52:54:00:00:00:01", Type: "vhostuser", Source: "/run/vhu1"}}}},
		Pollers: []facts.Poller{{PID: 7, Comm: "ovs-vswitchd", CPUs: setting.CPUs(2)},
			{PID: 8, Comm: "vpp_main", CPUs: setting.CPUs(5)}},
		OpenVSwitch: &facts.OpenVSwitch{PID: 7, Bridges: []facts.OVSBridge{bridge},
			Threads: []facts.OVSThread{{TID: 70, Role: "pmd", CPU: 2}}},
	}
	l := &facts.Load{Seconds: 2,
		Threads: []facts.ThreadLoad{{TID: 70, Comm: "pmd-c02/id:9", Role: "other", CPU: 2, Ran: 0.9, Waited: 0.1,
			Affinity: setting.CPUs(2)}, {TID: 71, Comm: "stress", Role: "other", CPU: 2, Ran: 0.1},
			{TID: 72, Comm: "CPU 0/KVM", Role: "vcpu", Guest: "vm1", CPU: 3, Ran: 0.5}},
		Polled: &facts.PolledSwitch{
			PMDs: []facts.PMD{{CPU: 2, Packets: 3_000_000, IdleTSC: 250, BusyTSC: 750, Lost: 20},
				{CPU: 4, IdleTSC: 1000}},
			Ports: []facts.PolledPort{{Name: "br0", Type: "tap"},
				{Name: "dpdk0", Type: "dpdk", RxPackets: 2_000_000, TxPackets: 1_000_000, RxDropped: 10},
				{Name: "vhu1", Type: "dpdkvhostuserclient", RxPackets: 1_000_000, TxPackets: 1_500_000, TxDropped: 500_000},
			},
		},
	}
	var got []string
	by := map[string]Station{}
	for _, s := range Stations(h, l) {
		got = append(got, line(s))
		by[s.Name] = s
		for _, p := range s.Parts {
			by[p.Name] = p
		}
	}
	want := "pmd vpp_main (8)\nnic dpdk0\npmd 2 threads\nvhost vhost-user port vhu1 of vm1\nvcpu vm1 vCPU 0 of vm1\n" +
		"beside stress (71)"
	must.Hold(t, strings.Join(got, "\n") == want, "found\n%s\nwanted\n%s", strings.Join(got, "\n"), want)
	for _, c := range []struct {
		name               string
		use, in, out, loss float64
		of                 string
	}{
		{"dpdk0", -1, 1e6, 0.5e6, 5, "polled"},
		{"2 threads", 0.75, -1, -1, 10, "CPU 2, 1.5M packets/s"},
		{"PMD on CPU 2", 0.75, -1, -1, 10, "CPU 2, 1.5M packets/s"},
		{"PMD on CPU 4", 0, -1, -1, 0, "CPU 4, 0 packets/s"},
		{"vhost-user port vhu1", -1, 0.75e6, 0.5e6, 0.25e6, ""},
		{"vpp_main (8)", -1, -1, -1, 0, "polls on CPU 5, does not tell its packets"},
	} {
		s := by[c.name]
		if math.Abs(s.Use-c.use) > 1e-9 || s.In != c.in || s.Out != c.out || s.Loss != c.loss || s.Of != c.of {
			t.Errorf("%s: %+v", c.name, s)
		}
	}
	if s := by["PMD on CPU 2"]; len(s.Waits) != 1 || s.Waits[0].Value != 0.1 {
		t.Errorf("a thread that waits for its CPU: %+v", s.Waits)
	}
	vpp, idle := by["vpp_main (8)"], by["PMD on CPU 4"]
	if vpp.Idle() || !idle.Idle() {
		t.Errorf("idle: %v, %v", vpp.Idle(), idle.Idle())
	}
}
