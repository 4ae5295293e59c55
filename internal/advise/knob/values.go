package knob

import (
	"slices"
	"strings"
	"sync"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// Value is a value that a knob is about, on any host: an address with a word in capitals in place of a device or guest.
type Value struct {
	Address string `json:"address"` // nic-ring:NIC/rx
	What    string `json:"what"`    // NIC ring
	Limit          // the machines that have it, where the knob has values of others too
}

// Values returns the values that the knob is about; none if it judges only the inventory.
func (k *Knob) Values() []Value {
	var all []Value
	for _, a := range ModelAddresses(k) {
		v := Value{Address: anyNumber.Replace(a.String()), What: setting.Kinds[a.Kind].What}
		if limit := k.limitOf(a); len(k.Parts) > 0 {
			v.Limit = limit
		}
		if a.Kind != setting.Fact && !slices.ContainsFunc(all, func(o Value) bool { return o.Address == v.Address }) {
			all = append(all, v)
		}
	}
	return all
}

// ModelAddresses returns the addresses of a knob on the model hosts.
func ModelAddresses(k *Knob) []setting.Address {
	var all []setting.Address
	for _, h := range models() {
		all = append(all, k.Where(h)...)
	}
	return all
}

// anyNumber replaces the numbers of the model host by N.
var anyNumber = strings.NewReplacer("cpu0", "cpuN", "node0", "nodeN", "tx-0", "tx-N", "tx-1", "tx-N", "rx-0", "rx-N",
	"TxRx-0", "QUEUE", "input.0", "QUEUE", "/0", "/N", ":0/", ":N/")

// models are hosts with one of everything that has values, one for each processor vendor and kernel age that make a
// difference.
var models = sync.OnceValue(func() []*facts.Host {
	var all []*facts.Host
	for _, m := range []struct{ vendor, release string }{
		{"kvm_intel", ""}, {"kvm_amd", ""}, {"kvm_intel", "3.10.0-1160.el7.x86_64"},
	} {
		h := model()
		h.KVM.Vendor, h.Kernel.Release = m.vendor, m.release
		all = append(all, h)
	}
	return all
})

func model() *facts.Host {
	h := &facts.Host{
		NICs: []facts.NIC{{
			Name: "NIC", Driver: "mlx5_core", Bus: "pci", Rings: &facts.Rings{},
			Channels: &facts.Channels{MaxCombined: 2}, RxQueues: 1, TxQueues: 2,
			FlowHash: map[string]string{"udp4": "", "udp6": ""}, Coalesce: map[string]string{},
			IRQs: []facts.IRQ{{On: "TxRx-0"}}, SRIOV: &facts.SRIOV{Total: 1},
		}},
		Bridges:     []facts.Bridge{{Name: "BRIDGE", Ports: []string{"TAP"}}},
		Taps:        []facts.Tap{{Name: "TAP", Master: "BRIDGE"}},
		OpenVSwitch: &facts.OpenVSwitch{Polled: &facts.PolledSwitch{}},
		Routing:     &facts.Routing{Forward: facts.Yes, Addressed: []string{"BRIDGE"}, Uplinks: []string{"NIC"}},
		Tunnels:     []facts.Tunnel{{Name: "TUNNEL", Type: "vxlan"}}, VFs: []facts.VF{{PF: "NIC"}},
		Netfilter: facts.Netfilter{Conntrack: true, Rules: []facts.RuleSet{{Tool: "nft", Rules: 1},
			{Tool: "iptables-legacy", Rules: 1}, {Tool: "ip6tables-legacy", Rules: 1},
			{Tool: "ebtables-legacy", Rules: 1}}},
		Guests: []facts.Guest{{
			Name: "GUEST", Managed: true, State: "running", VCPUs: 1,
			Definition: "<domain><iothreads>1</iothreads><features><hyperv/></features></domain>",
			Hostdevs:   []string{"PCI"}, Interfaces: []facts.Interface{{MAC: "MAC", Type: "bridge", Tap: "TAP"}},
			Threads: []facts.Thread{{Role: "vhost", NIC: "MAC"}},
		}, {
			Name: "GUEST", Managed: true, Interfaces: []facts.Interface{{MAC: "MAC", Type: "vhostuser"}},
		}, {
			Name: "GUEST", Managed: true, Interfaces: []facts.Interface{{MAC: "MAC", Type: "vdpa"}},
		}},
		Housekeeping: &facts.Housekeeping{
			Swap: []facts.SwapArea{{Name: "/DEVICE"}}, IRQs: []facts.IRQ{{On: "NAME"}},
			Threads: []facts.KernelThread{{Name: "ksoftirqd/0"}, {Name: "ktimers/0"}, {Name: "rcuc/0"},
				{Name: "rcub/0"}},
		},
	}
	for _, field := range coalesceFields {
		h.NICs[0].Coalesce[field] = ""
	}
	for _, family := range offloadFeatures {
		for _, name := range family {
			h.NICs[0].Features = append(h.NICs[0].Features, facts.Feature{Name: name})
		}
	}
	h.Guests[0].Inside = &facts.Inside{Host: &facts.Host{
		Boot: &facts.Boot{},
		NICs: []facts.NIC{{
			Name: "NIC", Driver: "virtio_net", Channels: &facts.Channels{MaxCombined: 2}, TxQueues: 2,
			IRQs: []facts.IRQ{{On: "input.0"}},
		}},
		Housekeeping: &facts.Housekeeping{Swap: []facts.SwapArea{{Name: "/DEVICE"}}, KSM: &facts.KSM{}},
	}}
	h.Power.Uncore = []facts.Uncore{{Name: "DIE"}}
	h.Topology.CPUs = []facts.CPU{{Online: true}}
	h.Topology.Nodes = []facts.Node{{}}
	return h
}
