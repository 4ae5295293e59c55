package reach

import (
	"slices"

	"mpps/internal/model/facts"
)

// OpenVSwitch: the kernel's datapath of Open vSwitch, OVN's too.
const OpenVSwitch Kind = "open-vswitch"

var openVSwitch = &Hops{
	Kind: OpenVSwitch, Words: "Open vSwitch", Judged: true, Kernel: true,
	What:    "the kernel's datapath of Open vSwitch, OVN's too, with its patch ports, bonds and tunnels",
	Devices: []string{"openvswitch"},
	Needs:   []string{"open_vswitch", "links", "netfilter", "stack"},
	Knobs: []string{"ovs.upcalls", "ovs.handlers", "ovs.flow_limit", "ovs.max_idle", "ovs.policing", "ovs.masks",
		"ovs.lookups", "ovs.offload", "netfilter.conntrack_max", "netfilter.conntrack_buckets", "bridge.tap_qdisc",
		"overlay.queues", "overlay.queue_mapping", "overlay.mtu"},
	Bottlenecks: []string{"ovs-upcalls", "ovs-masks", "ovs-policer"},
	// include/uapi/linux/openvswitch.h, struct ovs_dp_stats and ovs_dp_megaflow_stats; connections are tracked where
	// flows have the action ct (net/openvswitch/conntrack.c)
	Counters: []Counter{
		{Datapaths, "hit"}, {Datapaths, "missed"}, {Datapaths, "lost"}, {Datapaths, "mask_hit"},
		{Datapaths, "cache_hit"}, {Datapaths, "flows.entries"}, {Datapaths, "masks.entries"},
		{"stat/nf_conntrack", "entries"}, {"stat/nf_conntrack", "drop"}, {"stat/nf_conntrack", "early_drop"},
		{"stat/nf_conntrack", "chainlength"},
		{"snmp", "Ip.FragOKs"}, {"snmp", "Ip.FragFails"}, {"snmp6", "Ip6FragOKs"}, {"snmp6", "Ip6FragFails"},
	},
	Present: func(h *facts.Host) bool {
		return h.OpenVSwitch != nil || slices.ContainsFunc(h.Links, func(l facts.Link) bool {
			return l.Kind == "openvswitch"
		})
	},
}
