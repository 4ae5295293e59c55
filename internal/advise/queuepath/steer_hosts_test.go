package queuepath

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestSteerBond: ports of a bond have the same windows, of the queues that the smaller one has; other NICs have their
// own.
func TestSteerBond(t *testing.T) {
	h := steerHost(2, 4, 16)
	float(h, 0)
	second, third := h.NICs[0], h.NICs[0]
	second.Name, second.TxQueues = "eth1", 6
	third.Name, third.TxQueues, third.Master = "eth2", 8, "br2"
	h.NICs[0].Master, second.Master = "bond0", "bond0"
	h.NICs = append(h.NICs, second, third)
	h.Tunnels = []facts.Tunnel{{Name: "bond0", Type: "bond", Lower: "eth0,eth1", Master: "br0", TxQueues: 16, Up: true,
		Lockless: true}}
	h.Bridges[0].Ports[0] = "bond0"
	h.Bridges = append(h.Bridges, facts.Bridge{Name: "br2", Up: true, Ports: []string{"eth2", "veth9"}})
	h.Taps = append(h.Taps, facts.Tap{Name: "qemu7", Type: "tap", Master: "br2", RxQueues: 2, Up: true})
	s := mustSteer(t, h, nil, SteerOptions{})
	must.Need(t, len(s.Groups) == 2 && slices.Equal(s.Groups[0].NICs, []string{"eth0", "eth1"}) &&
		s.Groups[0].Queues == 6 && s.Groups[1].NICs[0] == "eth2", "%+v", s.Groups)
	values := map[string]string{}
	for _, c := range s.Changes {
		if c.Address.Kind == setting.QueueLanes {
			values[c.Address.Path] = c.To.Value
		}
	}
	must.Hold(t, values["eth0"] == "52:54:00:00:00:00=0+3 52:54:00:00:00:01=3+3" && values["eth1"] == values["eth0"],
		"%v", values)
	if s.Groups[1].Means != AsItIs { // a tap alone
		t.Errorf("%+v", s.Groups[1])
	}
	only := mustSteer(t, h, nil, SteerOptions{NIC: "eth1"})
	must.Hold(t, len(only.Groups) == 1 && len(only.Groups[0].NICs) == 2, "of eth1 alone: %+v", only.Groups)
}

// TestSteerWeights: where there are too few queues they are shared by weight, and a guest's weight is that of all its
// taps.
func TestSteerWeights(t *testing.T) {
	h := steerHost(3, 8, 8)
	for i := range 3 {
		float(h, i)
	}
	s := mustSteer(t, h, nil, SteerOptions{Weights: map[string]float64{"vm1": 2}})
	if l := s.Groups[0].Lanes; l[0].Count != 2 || l[1].Count != 4 || l[2].Count != 2 {
		t.Errorf("%v", l)
	}
	nic := facts.Interface{MAC: "52:54:00:00:01:00", Type: "bridge", Source: "br0", Tap: "vnet9", Queues: 8}
	h.Guests[1].Interfaces = append(h.Guests[1].Interfaces, nic)
	h.Taps = append(h.Taps, facts.Tap{Name: "vnet9", Type: "tap", Master: "br0", RxQueues: 8, Up: true, Guest: "vm1"})
	s = mustSteer(t, h, nil, SteerOptions{Weights: map[string]float64{"vm1": 2}})
	for _, l := range s.Groups[0].Lanes {
		if l.Count != 2 {
			t.Errorf("with two taps: %v", s.Groups[0].Lanes)
		}
	}
}

// TestSteerAdvice: what needs a device or a guest remade is told, with the command.
func TestSteerAdvice(t *testing.T) {
	h := steerHost(2, 1, 8)
	through(h, 1, false)
	float(h, 0)
	h.Guests[0].VCPUs, h.NICs[0].Node = 4, 1
	h.Taps = append(h.Taps, facts.Tap{Name: "macvtap0", Type: "macvtap", Lower: "eth0", Up: true})
	s := mustSteer(t, h, nil, SteerOptions{})
	var text strings.Builder
	for _, a := range s.Advice {
		fmt.Fprintf(&text, "%s: %s\n", a.Text, a.Command)
	}
	must.Contain(t, text.String(), "ip link add vx0 numtxqueues 8", "mpps plan --guest vm0",
		"vhost threads of vm1 run on node 0, eth0 is on node 1", "macvtap0 is a macvtap")
}

// TestSteerBigHosts: 16 guests with 8 queues onto 64 queues, and a host with 256 CPUs, 8 NICs and 200 guests.
func TestSteerBigHosts(t *testing.T) {
	h := steerHost(16, 8, 64)
	s := mustSteer(t, h, nil, SteerOptions{})
	must.Need(t, s.Groups[0].Means == ByXPS, "%+v", s.Groups)
	load := map[int]int{}
	for cpu := range 128 {
		load[queueOfCPU(t, s.Changes, "eth0", cpu)]++
	}
	for q := range 64 {
		must.Equal(t, load[q], 2, "queue %d serves vhost threads of 128", q)
	}
	for i := range h.Guests {
		float(h, i)
	}
	sender := make([]Sender, 16)
	s = mustSteer(t, h, nil, SteerOptions{})
	for i, l := range s.Groups[0].Lanes {
		sender[i] = Sender{Tap: l.Tap, Queues: 8}
	}
	sound(t, sender, 64, s.Groups[0].Lanes)

	big := facts.Synthetic(facts.Large)
	for i := range big.NICs {
		for q := range big.NICs[i].TxQueues {
			big.Readings[setting.XPS(big.NICs[i].Name, q)] = setting.Value(big.NICs[i].XPS[q].String())
		}
	}
	s = mustSteer(t, big, nil, SteerOptions{})
	taps := 0
	for _, g := range s.Groups {
		taps += len(g.Lanes)
		must.Hold(t, g.Means == ByProgram && g.Queues == 64, "%+v", g)
		used := map[int]int{}
		for _, l := range g.Lanes {
			for q := range l.Count {
				used[l.Base+q]++
			}
		}
		for q, n := range used {
			if n > 1 && (len(used) < 64 || len(g.Lanes) <= 64) {
				t.Errorf("%v: queue %d has %d taps, and %d queues are used", g.NICs, q, n, len(used))
			}
		}
	}
	must.Hold(t, taps == 400 && len(s.Groups) == 8, "%d taps in %d groups", taps, len(s.Groups))
}

// TestSteerSeen: where a tap's packets leave is seen where no configuration tells: a tunnel by its route, a tap without
// a bridge, a NIC that has no hardware behind it.
func TestSteerSeen(t *testing.T) {
	h := steerHost(2, 2, 8)
	through(h, 1, true)
	h.Tunnels[0].Lower = ""
	h.Taps[1].Master = ""
	float(h, 0)
	refusedWith(t, h, SteerOptions{}, "no guest sends through a tap")
	o := &Observation{Seconds: 1, Watched: 1, Devices: []Device{
		{Name: "veth0", Kind: "veth", TxQueues: 4, RxQueues: 4, Node: -1}, {Name: "vnet0", Kind: "tap", Guest: "vm0",
			TxQueues: 2, RxQueues: 2}, {Name: "vnet1", Kind: "tap", Guest: "vm1", TxQueues: 2, RxQueues: 2},
	}}
	for i := range 2 {
		from, to := Queue{fmt.Sprintf("vnet%d", i), Rx, 0}, Queue{"veth0", Tx, 0}
		o.Rows = append(o.Rows, Row{Origin: from, From: from, To: from, FromCPU: -1, Packets: 1000},
			Row{Origin: from, From: from, To: to, Packets: 1000})
	}
	s := mustSteer(t, h, o, SteerOptions{})
	must.Hold(t, len(s.Groups) == 1 && s.Groups[0].NICs[0] == "veth0" && s.Groups[0].Means == ByProgram &&
		len(s.Groups[0].Lanes) == 2, "%+v", s.Groups)
	// Named, a NIC is that of the ports of bridges of which nothing is known; a tap without a bridge may be anything.
	s = mustSteer(t, h, nil, SteerOptions{NIC: "eth0"})
	must.Hold(t, len(s.Groups) == 1 && len(s.Groups[0].Lanes) == 1 && s.Groups[0].Lanes[0].Tap == "52:54:00:00:00:00",
		"%+v", s.Groups)
}
