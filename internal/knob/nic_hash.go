package knob

import (
	"fmt"
	"strings"

	"mpps/internal/datapath"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

func nicFlowHash(flow, version string) *Knob {
	return &Knob{
		ID: "nic.flow_hash." + flow, Title: "UDP over " + version + " spreads by ports too", Stage: datapath.NIC, Risk: goal.None,
		Tiers: viaKernel(),
		Doc: Doc{
			Want: "sdfn: addresses and ports",
			Why: "The NIC chooses the receive queue by a hash. Most drivers leave the ports out for UDP: then all packets between two addresses land on one queue and one CPU, however many flows they are. " +
				"With sdfn (source, destination, both port halves) flows spread.",
			Cost:   "Fragments carry no ports: the first fragment of a datagram and the rest go to different queues and may arrive in another order.",
			Verify: "ethtool -n DEV rx-flow-hash " + flow + " names L4 bytes 0 & 1 and 2 & 3; the rx_queue_N_packets of ethtool -S grow evenly.",
			Traps: []string{
				"Letters may stand in any order: sdnf and sdfn are the same set.",
				"ixgbe, igb and i40e take sd or sdfn for UDP and refuse half of the ports (only f or only n) with EINVAL.",
				"VXLAN and GENEVE carry the inner flow's hash in the outer UDP source port: this setting spreads them too. GRE has no ports.",
				"virtio_net needs rss=on and hash=on of its device for this; netdevsim has none.",
			},
			Sources: []Source{
				{"letters", "ethtool(8), rx-flow-hash"},
				{"sd or sdfn only, and the warning on fragments", "drivers/net/ethernet/intel/ixgbe/ixgbe_ethtool.c, ixgbe_set_rss_hash_opt; igb_ethtool.c, igb_set_rss_hash_opt"},
				{"outer source port", "RFC 7348 section 5; net/ipv4 udp_flow_src_port"},
			},
		},
		Where: eachNIC(func(n *facts.NIC) bool { return len(n.FlowHash) > 0 }, func(n *facts.NIC) []setting.Address {
			return []setting.Address{setting.Of(setting.NICFlowHash, n.Name, flow)}
		}),
		Want: func(v *View, a setting.Address) Advice {
			n, advice, ok := v.nic(a)
			if !ok {
				return advice
			}
			if n.RxQueues < 2 {
				return Skips("one receive queue: nothing to spread over")
			}
			reading := v.Readings.At(a)
			if reading.State == setting.Known && strings.Contains(reading.Value, "f") && strings.Contains(reading.Value, "n") && strings.Contains(reading.Value, "s") && strings.Contains(reading.Value, "d") {
				return Fine("addresses and ports are in the hash")
			}
			return Wants(setting.Exact("sdfn"), fmt.Sprintf("without the ports all UDP between two addresses lands on one of %d queues", n.RxQueues)).At(High)
		},
	}
}

var nicFlowHashUDP4, nicFlowHashUDP6 = nicFlowHash("udp4", "IPv4"), nicFlowHash("udp6", "IPv6")
