package audit

import (
	"fmt"
	"runtime"
	"strconv"
	"testing"

	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/knob"
	"mpps/internal/setting"
)

// big is a host at the upper end: 256 CPUs on 8 nodes, 8 NICs of 64 queues, 200 guests of 4 vCPUs with two NICs.
func big() *facts.Host {
	h := &facts.Host{Name: "big", Kernel: facts.Kernel{Release: "6.12"}, KVM: facts.KVM{Loaded: true, Vendor: "kvm_amd", Vhost: true}, Readings: facts.Readings{}}
	h.Netfilter.BridgeModule = true
	var all []int
	for id := range 256 {
		h.Topology.CPUs = append(h.Topology.CPUs, facts.CPU{ID: id, Online: true, Core: id % 128, Node: id % 128 / 16, Siblings: setting.CPUs(id%128, id%128+128)})
		all = append(all, id)
	}
	h.Topology.Online = setting.CPUs(all...)
	for n := range 8 {
		node := facts.Node{ID: n, Memory: 256 << 30}
		for other := range 8 {
			node.Distances = append(node.Distances, map[bool]int{true: 10, false: 21}[other == n])
		}
		h.Topology.Nodes = append(h.Topology.Nodes, node)
	}
	lines := facts.RuleSet{Tool: "iptables-legacy", Rules: 2000}
	for i := range 2000 {
		lines.Lines = append(lines.Lines, fmt.Sprintf("-t filter -A CHAIN%d -j CHAIN%d", i, i+1))
	}
	h.Netfilter.Rules = []facts.RuleSet{lines}
	for n := range 8 {
		nic := facts.NIC{
			Name: fmt.Sprintf("eth%d", n), Driver: "mlx5_core", Up: true, Node: n, Master: fmt.Sprintf("br%d", n), RxQueues: 64, TxQueues: 64,
			Channels: &facts.Channels{Combined: 64, MaxCombined: 64}, Rings: &facts.Rings{Rx: 1024, Tx: 1024}, FlowHash: map[string]string{"udp4": "sd", "udp6": "sd"},
			Coalesce: map[string]string{"adaptive-rx": "on", "rx-usecs": "8", "tx-usecs": "8", "adaptive-tx": "on"},
		}
		for q := range 64 {
			nic.IRQs = append(nic.IRQs, facts.IRQ{Number: 1000 + 64*n + q, On: fmt.Sprintf("comp%d", q)})
		}
		h.NICs = append(h.NICs, nic)
		h.Bridges = append(h.Bridges, facts.Bridge{Name: nic.Master, Up: true, Ports: []string{nic.Name}})
	}
	for n := range 200 {
		g := facts.Guest{Name: fmt.Sprintf("vm%03d", n), UUID: strconv.Itoa(n), Managed: true, State: "running", VCPUs: 4, MaxVCPUs: 4, Memory: 4 << 30, Definition: "<domain/>", Machine: "q35"}
		for i := range 2 {
			mac := fmt.Sprintf("52:54:00:00:%02x:%02x", n, i)
			tap := fmt.Sprintf("vnet%d", 2*n+i)
			g.Interfaces = append(g.Interfaces, facts.Interface{MAC: mac, Type: "bridge", Source: fmt.Sprintf("br%d", n%8), Tap: tap, Model: "virtio", Queues: 4})
			h.Taps = append(h.Taps, facts.Tap{Name: tap, Guest: g.Name})
			for q := range 4 {
				g.Threads = append(g.Threads, facts.Thread{Role: "vhost", NIC: mac, Queue: q, TID: 1000*n + 4*i + q})
			}
		}
		h.Guests = append(h.Guests, g)
	}
	h.Interval = &facts.Interval{Seconds: 2, Softnet: []facts.Softnet{{Processed: 1e7}}, Devices: map[string]map[string]uint64{}, IRQs: map[string]uint64{}}
	for _, a := range knob.Addresses(h, knob.Catalogue()) {
		switch a.Kind {
		case setting.SysfsCPUs, setting.IRQAffinity, setting.ThreadAffinity:
			h.Readings[a] = setting.Value("0-255")
		case setting.Domain:
			h.Readings[a] = setting.Missing("not in the definition")
		default:
			h.Readings[a] = setting.Value("1")
		}
	}
	return h
}

func BenchmarkAudit(b *testing.B) {
	h := big()
	b.ReportAllocs()
	for b.Loop() {
		r := Run(h, goal.Unlimited(), knob.Catalogue())
		b.ReportMetric(float64(len(r.Findings)), "findings")
	}
}

// TestBigHost holds the audit of a large host to a bound that even a slow, shared machine keeps; BenchmarkAudit measures.
func TestBigHost(t *testing.T) {
	h := big()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := Run(h, goal.Unlimited(), knob.Catalogue())
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 200<<20 {
		t.Errorf("the audit allocated %d MiB; expected at most 200", n>>20)
	}
	if len(r.Findings) < 5000 {
		t.Errorf("%d findings; expected thousands", len(r.Findings))
	}
}
