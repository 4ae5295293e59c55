package bottleneck

import (
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// openVSwitch turns the scene's bridge into Open vSwitch: of so many packets per second a share has no flow, and for
// each packet so many masks are tried.
func (s *scene) openVSwitch(missed, masks float64) map[string]uint64 {
	s.h.Bridges, s.h.NICs[0].Master, s.h.Taps[0].Master = nil, facts.OVSDatapath, facts.OVSDatapath
	s.h.OpenVSwitch = &facts.OpenVSwitch{
		Bridges: []facts.OVSBridge{{Name: "br0", Datapath: "system", Ports: []facts.OVSPort{
			{Name: "eth0", Interfaces: []facts.OVSInterface{{Name: "eth0"}}},
			{Name: "vnet0", Interfaces: []facts.OVSInterface{{Name: "vnet0"}}},
		}}},
		Datapaths: []facts.KernelDatapath{{Name: facts.OVSDatapath, PerCPU: true}},
		Threads:   []facts.OVSThread{{TID: 950, Role: "handler"}},
	}
	all := s.offered * seconds
	counters := map[string]uint64{"openvswitch.hit": uint64(all * (1 - missed)), "openvswitch.missed": uint64(all * missed),
		"openvswitch.mask_hit": uint64(all * masks), "openvswitch.flows.entries": 4000, "openvswitch.masks.entries": 30}
	s.l.Stack = []facts.StackLoad{{Counters: counters}}
	return counters
}

// ingress makes a policer at the tap drop a share of what the guest sends.
func (s *scene) ingress(rate float64, share float64) {
	tap := s.dev("vnet0")
	tap.RxPackets = s.count(rate)
	tap.Qdisc = append(tap.Qdisc, facts.QdiscLoad{Kind: "ingress", Parent: "ingress",
		Packets: uint64(float64(tap.RxPackets) * (1 - share)), Drops: uint64(float64(tap.RxPackets) * share)})
}

// upcallsLost loses a share of the packets on their way to ovs-vswitchd.
func (s *scene) upcallsLost(share float64) map[string]uint64 {
	s.taken = s.offered * (1 - share)
	s.flow()
	delete(s.dev("vnet0").Counters, "tx_dropped")
	s.l.Drops = nil
	counters := s.openVSwitch(share*1.1, 2)
	counters["openvswitch.lost"] = s.count(s.offered * share)
	return counters
}

var ovsPlants = []plant{
	{"upcalls of Open vSwitch are lost", OVSUpcalls, func(s *scene) {
		s.upcallsLost(0.2 + 0.5*s.Float64())
	}, true},
	{"upcalls of Open vSwitch are lost, as the tracepoint tells too", OVSUpcalls, func(s *scene) {
		counters := s.upcallsLost(0.3)
		s.l.Drops = []facts.DropSite{{Reason: "NOT_SPECIFIED", Symbol: "ovs_dp_process_packet", Device: "eth0",
			Packets: counters["openvswitch.lost"]}}
		s.l.Threads = append(s.l.Threads, facts.ThreadLoad{PID: 940, TID: 950, Comm: "handler3", Role: "other", VCPU: -1,
			Queue: -1, CPU: 15, Ran: 0.98})
		s.cpu(15, facts.CPULoad{User: 0.5, System: 0.48})
	}, true},
	{"Open vSwitch tries many masks", OVSMasks, func(s *scene) {
		s.offered, s.taken = 0.9e6, 0.9e6
		s.flow()
		s.openVSwitch(0.001, 60+60*s.Float64())
		s.costly(map[string]float64{"bridge": 0.6, "driver": 0.25, "tun": 0.15}, 0.3)
	}, true},
	{"a policer of Open vSwitch", OVSPolicer, func(s *scene) {
		s.openVSwitch(0.001, 2)
		s.h.OpenVSwitch.Bridges[0].Ports[1].Interfaces[0].PolicingRate = 1_000_000
		s.ingress(s.offered, 0.2+0.4*s.Float64())
	}, true},
	{"a policer of Open vSwitch by packets", OVSPolicer, func(s *scene) {
		s.openVSwitch(0.001, 2)
		s.h.OpenVSwitch.Bridges[0].Ports[1].Interfaces[0].PacketRate = 400
		s.ingress(s.offered, 0.2+0.4*s.Float64())
	}, true},
}

// TestHealthyOpenVSwitch: a host with Open vSwitch is healthy with many masks while CPUs have time, a policer that
// drops nothing, and a few lost upcalls.
func TestHealthyOpenVSwitch(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		for name, edit := range map[string]func(s *scene){
			"few lost": func(s *scene) {
				s.openVSwitch(0.02, 2)["openvswitch.lost"] = 12
			},
			"masks, and time left": func(s *scene) { s.openVSwitch(0.001, 40) },
			"many upcalls, none lost": func(s *scene) {
				s.openVSwitch(0.3, 4)
			},
			"a policer that drops nothing": func(s *scene) {
				s.openVSwitch(0.001, 2)
				s.h.OpenVSwitch.Bridges[0].Ports[1].Interfaces[0].PolicingRate = 1_000_000
				s.ingress(s.offered, 0)
			},
		} {
			s := newScene(seed)
			edit(s)
			if seed%2 == 0 {
				s.blind()
			}
			if d := Find(s.h, s.l); d.Bottleneck != nil {
				t.Errorf("%s, seed %d: %s named: %s", name, seed, d.Bottleneck.Kind, d.Why)
			}
		}
	}
}

// TestFewMasks: where few masks are tried, a full CPU is not blamed on them, nor on rules of the host, which packets of
// Open vSwitch do not pass.
func TestFewMasks(t *testing.T) {
	t.Parallel()
	for seed := range uint64(rounds) {
		s := newScene(seed)
		s.h.Netfilter.Rules = []facts.RuleSet{{Tool: "nft", Rules: 400, Lines: repeated("inet filter input drop", 400)}}
		s.openVSwitch(0.001, 2)
		s.costly(map[string]float64{"bridge": 0.5, "driver": 0.35, "tun": 0.15}, 0.3)
		if seed%2 == 0 {
			s.blind()
		}
		b := Find(s.h, s.l).Bottleneck
		must.Hold(t, b != nil && b.Kind != OVSMasks && b.Kind != NetfilterRules, "seed %d: %+v", seed, b)
	}
}
