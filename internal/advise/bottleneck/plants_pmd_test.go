package bottleneck

import (
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// pmdScene is a host whose two polling threads carry a guest's packets, without anything wrong: no device of the kernel
// has any.
func pmdScene(busy ...float64) (*facts.Host, *facts.Load) {
	h := &facts.Host{Guests: []facts.Guest{{Name: "vm1", State: "running", Interfaces: []facts.Interface{
		{MAC: "52:54:00:00:00:01", Type: "vhostuser", Source: "/run/vhu0"}}}}}
	h.OpenVSwitch = &facts.OpenVSwitch{Bridges: []facts.OVSBridge{{Name: "br0", Datapath: facts.UserDatapath,
		Ports: []facts.OVSPort{{Name: "vhu0", Interfaces: []facts.OVSInterface{{Name: "vhu0",
			Type: "dpdkvhostuserclient", Options: map[string]string{"vhost-server-path": "/run/vhu0"}}}}}}},
		Polled: &facts.PolledSwitch{}}
	l := &facts.Load{Seconds: 2, Method: facts.ByCounters, Polled: &facts.PolledSwitch{
		Pools: []facts.MbufPool{{Name: "ovs1", Size: 65536, Free: 60000}},
		Ports: []facts.PolledPort{{Name: "p0", Type: "dpdk", RxPackets: 2e6},
			{Name: "vhu0", Type: "dpdkvhostuserclient", TxPackets: 2e6}}}}
	for i, b := range busy {
		l.CPUs = append(l.CPUs, facts.CPULoad{CPU: 2 + i, User: 1})
		h.OpenVSwitch.Threads = append(h.OpenVSwitch.Threads, facts.OVSThread{TID: 50 + i, Role: "pmd", CPU: 2 + i})
		l.Threads = append(l.Threads, facts.ThreadLoad{PID: 40, TID: 50 + i, Comm: "pmd-c02/id:7", Role: "other",
			VCPU: -1, Queue: -1, CPU: 2 + i, Affinity: setting.CPUs(2 + i), Ran: 1})
		l.Polled.PMDs = append(l.Polled.PMDs, facts.PMD{CPU: 2 + i, Packets: 1e6, BusyTSC: uint64(b * 1e9),
			IdleTSC: uint64((1 - b) * 1e9), Queues: []facts.PMDQueue{{Port: "p0", Queue: i, Enabled: true, Usage: 40},
				{Port: "vhu0", Queue: i, Enabled: true, Usage: 40}}})
	}
	return h, l
}

// polled makes a scene one whose polling threads are busy for such shares of their cycles.
func (s *scene) polled(busy ...float64) *facts.PolledSwitch {
	h, l := pmdScene(busy...)
	l.Method = s.l.Method
	*s.h, *s.l = *h, *l
	return s.l.Polled
}

var pmdPlants = []plant{
	{"both polling threads are full", PMDFull, func(s *scene) {
		s.polled(0.93+0.06*s.Float64(), 0.93+0.06*s.Float64()).Ports[0].RxDropped = s.count(2e5 * s.Float64())
	}, true},
	{"a polling thread shares its CPU", PMDShared, func(s *scene) {
		s.polled(0.2+0.7*s.Float64(), 0.3)
		s.l.Threads[0].Ran = 0.3 + 0.4*s.Float64()
		s.l.Threads[0].Waited = 0.98 - s.l.Threads[0].Ran
		s.hog(2, s.l.Threads[0].Waited)
	}, true},
	{"one polling thread is full, another idle", PMDImbalance, func(s *scene) {
		s.polled(0.93+0.06*s.Float64(), 0.4*s.Float64()).Ports[0].RxDropped = s.count(2e5 * s.Float64())
	}, true},
	{"a guest does not empty its vhost-user ring", VhostUserRing, func(s *scene) {
		port := &s.polled(0.4+0.4*s.Float64(), 0.6).Ports[1]
		share := 0.05 + 0.9*s.Float64()
		port.TxDropped = uint64(share * float64(port.TxPackets))
		port.TxPackets -= port.TxDropped
	}, true},
	{"no packet buffer is free", Mbufs, func(s *scene) {
		p := s.polled(0.5, 0.6)
		p.Pools[0].Free, p.Ports[0].RxDropped = uint64(600*s.Float64()), s.count(1e5+8e5*s.Float64())
	}, true},
}

// TestPMDs: what decides between the kinds, and their healthy twins.
func TestPMDs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		busy   []float64
		change func(l *facts.Load)
		want   Kind // empty: none
	}{
		"healthy":       {[]float64{0.7, 0.6}, nil, ""},
		"one is idle":   {[]float64{0.9, 0.1}, nil, ""},
		"both are full": {[]float64{0.99, 0.97}, nil, PMDFull},
		"one is full":   {[]float64{0.99, 0.2}, nil, PMDImbalance},
		"one is full with one queue": {[]float64{0.99, 0.2}, func(l *facts.Load) {
			l.Polled.PMDs[0].Queues = l.Polled.PMDs[0].Queues[:1]
		}, PMDFull},
		"the idle one is of another node": {[]float64{0.99, 0.2}, func(l *facts.Load) {
			l.Polled.PMDs[1].Node = 1
		}, PMDFull},
		"the idle one has given queues": {[]float64{0.99, 0.2}, func(l *facts.Load) {
			l.Polled.PMDs[1].Isolated = true
		}, PMDFull},
		"it shares its CPU": {[]float64{0.5, 0.2}, func(l *facts.Load) {
			l.Threads[0].Ran, l.Threads[0].Waited = 0.5, 0.5
		}, PMDShared},
		"it shares its CPU, and is full of it": {[]float64{0.99, 0.2}, func(l *facts.Load) {
			l.Threads[0].Ran, l.Threads[0].Waited = 0.5, 0.5
		}, PMDShared},
		"another thread waits": {[]float64{0.5, 0.2}, func(l *facts.Load) {
			l.Threads = append(l.Threads, facts.ThreadLoad{TID: 90, Comm: "x", Role: "other", VCPU: -1, Queue: -1,
				CPU: 2, Affinity: setting.CPUs(2), Waited: 0.9})
		}, ""},
		"the guest's ring is full": {[]float64{0.7, 0.6}, func(l *facts.Load) {
			l.Polled.Ports[1].TxPackets, l.Polled.Ports[1].TxDropped = 1e6, 1e6
		}, VhostUserRing},
		"few are dropped": {[]float64{0.7, 0.6}, func(l *facts.Load) {
			l.Polled.Ports[1].TxDropped = 30
		}, ""},
		"no buffer is free": {[]float64{0.7, 0.6}, func(l *facts.Load) {
			l.Polled.Pools[0].Free, l.Polled.Ports[0].RxDropped = 12, 1e6
		}, Mbufs},
		"no buffer is free and nothing lost": {[]float64{0.7, 0.6}, func(l *facts.Load) {
			l.Polled.Pools[0].Free = 12
		}, ""},
		"no traffic": {[]float64{0, 0}, func(l *facts.Load) {
			l.Polled.Ports, l.Polled.PMDs[0].Packets = nil, 0
		}, ""},
	} {
		h, l := pmdScene(c.busy...)
		if c.change != nil {
			c.change(l)
		}
		d := Find(h, l)
		got := Kind("")
		if d.Bottleneck != nil {
			got = d.Bottleneck.Kind
		}
		must.Hold(t, got == c.want, "%s: expected %q, got %q: %s", name, c.want, got, d.Why)
		if d.Bottleneck != nil && len(d.Bottleneck.Evidence) == 0 {
			t.Errorf("%s: no evidence", name)
		}
	}
}
