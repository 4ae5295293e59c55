package reach

import "mpps/internal/model/facts"

// Routed: the host's network layer forwards, with or without NAT.
const Routed Kind = "routed"

var routed = &Hops{
	Kind: Routed, Words: "the host's routing", Judged: true, Kernel: true,
	What:  "the host's network layer forwards, with or without NAT: libvirt's default and routed networks, Calico",
	Needs: []string{"routing", "netfilter", "stack"},
	Knobs: []string{"netfilter.bypass", "netfilter.conntrack_max", "netfilter.conntrack_buckets", "netfilter.flowtable",
		"route.forwarding", "route.rp_filter", "route.neighbours", "nic.offload.gro_list"},
	Bottlenecks: []string{"conntrack-full", "nat-ports", "rp-filter", "no-route", "route-refuses", "not-forwarded",
		"neighbours-full", "next-hop"},
	// include/uapi/linux/snmp.h, net/core/neighbour.c (neigh_stat_seq_show), net/netfilter/nf_conntrack_standalone.c
	Counters: []Counter{
		{"snmp", "Ip.ForwDatagrams"}, {"snmp", "Ip.InAddrErrors"}, {"snmp", "Ip.OutNoRoutes"},
		{"snmp", "Ip.FragFails"}, {"snmp", "Ip.InHdrErrors"}, {"snmp", "Ip.ReasmReqds"}, {"snmp", "Ip.ReasmOKs"},
		{"snmp6", "Ip6ReasmReqds"}, {"snmp6", "Ip6ReasmOKs"},
		{"snmp6", "Ip6InNoRoutes"}, {"snmp6", "Ip6OutNoRoutes"}, {"snmp6", "Ip6InAddrErrors"},
		{"snmp6", "Ip6InTooBigErrors"}, {"snmp6", "Ip6InHdrErrors"},
		{"netstat", "IpExt.InNoRoutes"}, {"netstat", "TcpExt.IPReversePathFilter"},
		{"stat/arp_cache", "entries"}, {"stat/arp_cache", "forced_gc_runs"}, {"stat/arp_cache", "table_fulls"},
		{"stat/arp_cache", "unresolved_discards"}, {"stat/ndisc_cache", "unresolved_discards"},
		{"stat/ndisc_cache", "entries"}, {"stat/ndisc_cache", "forced_gc_runs"}, {"stat/ndisc_cache", "table_fulls"},
		{"stat/nf_conntrack", "entries"}, {"stat/nf_conntrack", "insert_failed"}, {"stat/nf_conntrack", "drop"},
		{"stat/nf_conntrack", "early_drop"}, {"stat/nf_conntrack", "chainlength"},
	},
	Present: func(h *facts.Host) bool {
		return h.Routing != nil && h.Routing.Forward == facts.Yes && len(h.Bridges)+len(h.Taps) > 0
	},
}
