package reach

// Bridged: a tap and Linux bridges, with whatever devices are between them and a NIC.
const Bridged Kind = "bridged"

var bridged = &Hops{
	Kind: Bridged, Words: "a Linux bridge", Judged: true, Kernel: true,
	What:  "tap, Linux bridges, veth pairs, VLANs, bonds, teams, tunnels, a NIC",
	Needs: []string{"nics", "bridges", "taps", "tunnels", "links", "netfilter"},
	Knobs: []string{"netfilter.bridge", "netfilter.nflog_skip", "netfilter.bypass", "netfilter.conntrack",
		"bridge.multicast_snooping", "bridge.stp", "bridge.vlan_filtering", "bridge.unicast_flood", "bridge.tap_qdisc",
		"overlay.queues", "overlay.queue_mapping", "overlay.mtu"},
	Bottlenecks: []string{"ebtables-rules", "netfilter-hooks", "tap-queue"},
}
