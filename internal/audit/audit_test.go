package audit

import (
	"testing"

	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/knob"
	"mpps/internal/setting"
)

// lab is the host of the demo: four CPUs on two nodes, an igb NIC on node 1 behind br0, a guest with an e1000 NIC.
func lab() *facts.Host {
	h := &facts.Host{
		Name: "l1", Readings: facts.Readings{},
		NICs: []facts.NIC{{
			Name: "eth1", Driver: "igb", MAC: "52:54:00:00:01:00", Node: 1, Up: true, Master: "br0", RxQueues: 4, TxQueues: 4,
			Channels: &facts.Channels{Combined: 4, MaxCombined: 8}, Rings: &facts.Rings{Rx: 256, Tx: 256, MaxRx: 4096, MaxTx: 4096},
		}},
		Bridges:   []facts.Bridge{{Name: "br0", Up: true, Ports: []string{"eth1", "vnet0"}}},
		Netfilter: facts.Netfilter{BridgeModule: true},
		KVM:       facts.KVM{Loaded: true, Vendor: "kvm_amd", Vhost: true},
		Guests: []facts.Guest{{
			Name: "vm1", UUID: "1", Managed: true, State: "running", VCPUs: 2, MaxVCPUs: 2, Memory: 512 << 20,
			Interfaces: []facts.Interface{{MAC: "52:54:00:aa:00:01", Type: "bridge", Source: "br0", Tap: "vnet0", Model: "e1000", Queues: 1}},
		}},
	}
	for id := range 4 {
		h.Topology.CPUs = append(h.Topology.CPUs, facts.CPU{ID: id, Online: true, Core: id, Node: id / 2, Siblings: setting.CPUs(id)})
	}
	h.Topology.Online = setting.CPUs(0, 1, 2, 3)
	h.Topology.Nodes = []facts.Node{
		{ID: 0, CPUs: setting.CPUs(0, 1), Memory: 3 << 30, Distances: []int{10, 21}},
		{ID: 1, CPUs: setting.CPUs(2, 3), Memory: 3 << 30, Distances: []int{21, 10}},
	}
	for _, a := range knob.Addresses(h, knob.Catalogue()) {
		h.Readings[a] = setting.Missing("not set")
	}
	h.Readings[setting.Of(setting.Sysctl, "net.bridge.bridge-nf-call-iptables")] = setting.Value("1")
	h.Readings[setting.Of(setting.Domain, "vm1/interface/52:54:00:aa:00:01/model")] = setting.Value("e1000")
	return h
}

func TestLab(t *testing.T) {
	r := Run(lab(), goal.Unlimited(), knob.Catalogue())
	if f := r.Findings[0]; f.ID != "domain.nic_model" || f.State != Off || f.Severity != knob.Critical {
		t.Errorf("worst finding is %+v; expected the guest's e1000", f)
	}
	for _, f := range r.Findings {
		t.Logf("%-14s %-8s %-22s %-60s %s → %s: %s", f.State, f.Severity, f.ID, f.Address, f.Found, f.Wanted, f.Why)
	}
	t.Log(r.Verdict, r.Place)
}
