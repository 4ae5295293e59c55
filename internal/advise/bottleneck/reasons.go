package bottleneck

import (
	"strings"

	"mpps/internal/model/facts"
)

// dropMeaning describes why the kernel drops packets.
type dropMeaning struct {
	place place  // of the rule that judges the drop; empty: droppedForReason does
	kind  Kind   // empty: Dropped
	stage string // of the path; empty: the kind's
	what  string // "the source is not reached by the way that the packet came (reverse path filter)"
	do    string
	sends bool // of packets that leave by the device: those that it passed are its tx_packets
	// of packets that leave by the device or came by it: its counters tell which
	anyWay bool
	// the packet may be a copy, or one that nobody wanted: no loss unless the packets do not arrive elsewhere either
	benign bool
	copies bool // of these, for another host, as are copies that a bridge floods
	// of these, broadcasts and multicasts: they count where they are mostLost of what comes in
	unwanted bool
	long     bool // it may be that the packet is longer than an MTU allows
	down     bool // the device is not up, or a tap that no program has open
}

// dropReasons are the kernel's drop reasons (include/net/dropreason-core.h, include/net/vxlan.h).
var dropReasons = map[string]dropMeaning{
	"NETFILTER_DROP": {place: atRule},
	"BPF_CGROUP_EGRESS": {stage: "netfilter", sends: true,
		what: "an eBPF program of a control group refuses them", do: "bpftool cgroup tree names it"},
	"TC_INGRESS":        {place: atFilter},
	"TC_EGRESS":         {place: atFilter, sends: true},
	"FULL_RING":         {place: atTap, sends: true},
	"CPU_BACKLOG":       {place: atBacklog},
	"QDISC_DROP":        {place: atQdisc, sends: true},
	"QDISC_OVERLIMIT":   {place: atQdisc, sends: true},
	"QDISC_CONGESTED":   {place: atQdisc, sends: true},
	"FQ_FLOW_LIMIT":     {place: atQdisc, sends: true},
	"FQ_BAND_LIMIT":     {place: atQdisc, sends: true},
	"FQ_HORIZON_LIMIT":  {place: atQdisc, sends: true},
	"CAKE_FLOOD":        {place: atQdisc, sends: true},
	"DUALPI2_STEP_DROP": {place: atQdisc, sends: true},
	"SOCKET_RCVBUFF":    {place: atSocket},
	"SOCKET_BACKLOG":    {place: atSocket},
	"PROTO_MEM": {stage: "socket", what: "sockets have used up the memory of their protocol",
		do: "raise net.ipv4.udp_mem or tcp_mem, or have programs read faster"},
	"PACKET_SOCK_ERROR": {place: atPacket},
	"XDP": {stage: "nic", what: "an XDP program drops them, or could not pass them on",
		do: "find the program: ip link show, bpftool net"},
	"IP_RPFILTER": {kind: ReversePath,
		what: "the host would not answer their source by the device that they came from (reverse path filter)",
		do:   "add a route to the source, or set net.ipv4.conf.DEVICE.rp_filter and all.rp_filter to 0 or 2"},
	"IP_INHDR": {what: "the IP header is invalid, or their time to live ends here",
		do: "look for a loop of routes or for a sender with a short TTL: ip -s -s link, nstat IpInHdrErrors, " +
			"traceroute"},
	"IP_CSUM": {what: "the checksum of the IP header is wrong",
		do: "repair the sender or what changes headers on the way; turn off checksum offload there to see " +
			"whether it is to blame"},
	"UDP_CSUM": {stage: "socket", what: "the UDP checksum is wrong",
		do: "repair the sender, or turn its checksum offload off: ethtool -K DEVICE tx off"},
	"TCP_CSUM": {stage: "socket", what: "the TCP checksum is wrong",
		do: "repair the sender, or turn its checksum offload off: ethtool -K DEVICE tx off"},
	"ICMP_CSUM": {what: "the ICMP checksum is wrong", do: "repair the sender"},
	"SKB_CSUM":  {sends: true, what: "their checksum could not be calculated", do: "look at the device's offloads"},
	"OTHERHOST": {benign: true, copies: true, what: "they have the MAC address of another host",
		do: "correct the sender's neighbour entry or the bridge's forwarding table; a macvlan passes frames for " +
			"other addresses than its own in mode passthru alone"},
	"UNICAST_IN_L2_MULTICAST": {what: "they are for one host, but came as a broadcast", do: "correct the sender"},
	"IP_NOPROTO": {stage: "socket", benign: true, what: "no program here takes their protocol",
		do: "start the program, or correct the destination"},
	"NO_SOCKET": {stage: "socket", what: "no program listens on their port",
		do: "start the program, or correct address and port: ss -uln"},
	"SOCKET_CLOSE": {stage: "socket", what: "the socket was closed", do: "see why the program ends"},
	"SOCKET_FILTER": {stage: "socket",
		what: "a filter of the socket, or an eBPF program of its control group, refuses them",
		do:   "bpftool cgroup tree; a filter is the program's own (SO_ATTACH_FILTER, SO_ATTACH_BPF)"},
	"XFRM_POLICY":   {what: "an IPsec policy refuses them", do: "ip xfrm policy, ip -s xfrm state"},
	"SECURITY_HOOK": {stage: "socket", what: "a security module refuses them", do: "look into the audit log"},
	"IP_INADDRERRORS": {kind: NotForwarded,
		what: "no way is allowed for their destination: forwarding is off at the device, or the address is invalid",
		do:   "set net.ipv4.conf.DEVICE.forwarding, or correct the destination"},
	"IP_INNOROUTES": {kind: NoRoute, what: "there is no route to their destination",
		do: "add one: ip route get ADDRESS"},
	"IP_OUTNOROUTES": {kind: NoRoute, sends: true, what: "there is no route for what the host sends",
		do: "add one: ip route get ADDRESS"},
	"IP_LOCAL_SOURCE": {what: "their source is an address of this host", do: "look for a duplicate address or a loop"},
	"IP_INVALID_SOURCE": {what: "their source is an address that no host may have (martian)",
		do: "correct the sender; net.ipv4.conf.all.log_martians shows it"},
	"IP_LOCALNET": {what: "source or destination is in 127.0.0.0/8",
		do: "correct the sender, or set net.ipv4.conf.DEVICE.route_localnet if it is meant"},
	"IP_INVALID_DEST": {what: "their destination is an address that no host may have", do: "correct the sender"},
	"IPV6DISABLED": {benign: true, what: "IPv6 is off at the device",
		do: "set net.ipv6.conf.DEVICE.disable_ipv6 to 0, if it is meant"},
	"PKT_TOO_BIG": {sends: true, long: true,
		what: "they are longer than the MTU of the device, or of the route, that they should leave by",
		do:   "set the same MTU on all devices of the path, or let senders find it (ICMP)"},
	"PKT_TOO_SMALL": {what: "they are shorter than their headers say", do: "repair the sender"},
	"HDR_TRUNC":     {what: "their headers are cut off", do: "repair the sender"},
	"DUP_FRAG":      {what: "fragments overlap or come twice", do: "look at the sender"},
	"FRAG_REASM_TIMEOUT": {what: "fragments are missing when the time for them is over",
		do: "find where fragments are lost, or avoid them: a smaller MTU at the sender"},
	"FRAG_TOO_FAR": {what: "fragments are out of order by more than ipfrag_max_dist",
		do: "raise net.ipv4.ipfrag_max_dist"},
	"IP_TUNNEL_ECN": {stage: "overlay", what: "the tunnel's congestion marks contradict each other",
		do: "look at the tunnel's ends"},
	"TUNNEL_TXINFO": {stage: "overlay", sends: true, what: "the tunnel does not know where to send them",
		do: "add a default destination or forwarding entries"},
	"VXLAN_INVALID_HDR":   {stage: "overlay", what: "the VXLAN header is invalid", do: "look at the tunnel's far end"},
	"VXLAN_VNI_NOT_FOUND": {stage: "overlay", what: "no tunnel here has their VNI", do: "give both ends the same VNI"},
	"VXLAN_ENTRY_EXISTS": {stage: "overlay", what: "a forwarding entry says that their source is elsewhere",
		do: "bridge fdb show"},
	"MAC_INVALID_SOURCE": {stage: "bridge", what: "their source MAC address is invalid", do: "correct the sender"},
	"LOCAL_MAC": {stage: "bridge", what: "their source MAC address is one of this host's",
		do: "look for a loop, or for a duplicate address"},
	"NO_TX_TARGET": {stage: "overlay", sends: true, what: "the device has no port to send them by",
		do: "see that bond, macvlan or tunnel has a port that is up"},
	"ARP_PVLAN_DISABLE": {stage: "bridge", benign: true, what: "ARP between isolated ports is off",
		do: "proxy_arp_pvlan"},
	"MAC_IEEE_MAC_CONTROL": {stage: "bridge", benign: true,
		what: "they are control frames, which no bridge forwards", do: "nothing"},
	"BRIDGE_INGRESS_STP_STATE": {stage: "bridge",
		what: "the bridge port that they came by does not forward (spanning tree)",
		do:   "bridge link show: see why the port is not in state forwarding"},
	"TAP_FILTER":   {stage: "tap", what: "the tap's filter refuses them", do: "see the filter that the guest has set"},
	"TAP_TXFILTER": {stage: "tap", sends: true, what: "the tap's filter refuses them", do: "see the guest's filter"},
	"NEIGH_CREATEFAIL": {kind: NeighboursFull, sends: true, what: "the table of neighbours is full",
		do: "raise net.ipv4.neigh.default.gc_thresh3"},
	"NEIGH_FAILED": {kind: NextHop, sends: true, what: "nobody answers for the next hop (ARP or ND)",
		do: "see whether the next hop is up, in the same network, and its address right: ip neigh show"},
	"NEIGH_QUEUEFULL": {kind: NextHop, sends: true,
		what: "nobody answers for the next hop (ARP or ND), and the queue of what waits for it is full",
		do:   "see whether the next hop is up, in the same network, and its address right: ip neigh show"},
	"NEIGH_DEAD":        {sends: true, what: "the entry of the next hop was just removed", do: "ip neigh show"},
	"NEIGH_HH_FILLFAIL": {sends: true, what: "the next hop's header could not be written", do: "ip neigh show"},
	"DEV_HDR":           {sends: true, what: "the device's header could not be written", do: "ip -d link show"},
	"DEV_READY":         deviceDown,
	"SKB_GSO_SEG":       {sends: true, what: "they could not be split for the device", do: "ethtool -K DEVICE gso off"},
	"SKB_UCOPY_FAULT":   {stage: "tap", what: "the program's memory could not be read", do: "look at the program"},
	"NOMEM":             {what: "there was no memory", do: "look at the host's memory: vm.min_free_kbytes"},
	"PFMEMALLOC": {what: "memory is so short that only what frees some may pass",
		do: "look at the host's memory"},
	"RECURSION_LIMIT": {sends: true, what: "devices send through each other without end",
		do: "look for a tunnel whose far end is reached through itself"},
	"UNHANDLED_PROTO": {benign: true, what: "nothing here takes their protocol (EtherType)",
		do: "nothing, or load the protocol's module"},
	"INVALID_PROTO":   {benign: true, what: "their protocol is not valid there", do: "correct the sender"},
	"TC_COOKIE_ERROR": {stage: "qdisc", what: "a chain of tc filters was lost", do: "tc filter show"},
	"TC_CHAIN_NOTFOUND": {stage: "qdisc", what: "a tc filter leads to a chain that does not exist",
		do: "tc filter show"},
	"TC_RECLASSIFY_LOOP": {stage: "qdisc", what: "tc filters lead to each other without end", do: "tc filter show"},
	"QUEUE_PURGE":        {sends: true, what: "their queue was emptied", do: "see who resets the device or socket"},
	"TCP_LISTEN_OVERFLOW": {stage: "socket", what: "the queue of new connections is full",
		do: "have the program accept faster, or raise net.core.somaxconn and its backlog"},
	"TCP_ZEROWINDOW": {stage: "socket", what: "the program reads too slowly: its window is closed",
		do: "a faster application"},
	"TCP_OFO_QUEUE_PRUNE": {stage: "socket", what: "there was no room for segments out of order",
		do: "raise net.ipv4.tcp_rmem"},
	"TCP_OFO_DROP": {stage: "socket", what: "there was no room for segments out of order",
		do: "raise net.ipv4.tcp_rmem"},
	"TCP_MINTTL": {stage: "socket", what: "their time to live is below the socket's least",
		do: "look at the way that they take (GTSM)"},
	"TCP_AUTH_HDR":      {stage: "socket", what: authText, do: authDo},
	"TCP_MD5NOTFOUND":   {stage: "socket", what: authText, do: authDo},
	"TCP_MD5UNEXPECTED": {stage: "socket", what: authText, do: authDo},
	"TCP_MD5FAILURE":    {stage: "socket", what: authText, do: authDo},
	"TCP_AONOTFOUND":    {stage: "socket", what: authText, do: authDo},
	"TCP_AOUNEXPECTED":  {stage: "socket", what: authText, do: authDo},
	"TCP_AOKEYNOTFOUND": {stage: "socket", what: authText, do: authDo},
	"TCP_AOFAILURE":     {stage: "socket", what: authText, do: authDo},
	"IPV6_BAD_EXTHDR":   {what: "an IPv6 extension header is invalid", do: "repair the sender"},
	"PSP_INPUT":         {stage: "socket", what: "decryption failed (PSP)", do: "look at both ends' keys"},
	"PSP_OUTPUT":        {sends: true, what: "encryption failed (PSP)", do: "look at both ends' keys"},
}

const authText, authDo = "their signature is missing or wrong (TCP-MD5, TCP-AO)", "give both ends the same keys"

// benignPrefixes begin the names of reasons that say nothing of a path's health: protocols do without such packets.
var benignPrefixes = []string{"TCP_", "IPV6_NDISC_", "UNIX_", "SKB_CONSUMED", "CAN", "MAX", "SKB_NOT_DROPPED_YET"}

// dropPlaces are functions that drop packets without telling a reason (NOT_SPECIFIED), by their names' beginnings.
var dropPlaces = []struct {
	function string
	dropMeaning
}{
	{"ovs_dp_process_packet", dropMeaning{place: atUpcall}},
	{"br_dev_queue_push_xmit", dropMeaning{stage: "bridge", sends: true, long: true,
		what: "they are longer than the MTU of the bridge port, or the port is not up",
		do:   "set the same MTU on all ports of the bridge and behind them"}},
	{"br_handle_frame_finish", dropMeaning{stage: "bridge",
		what: "the bridge has no port to forward them to: ports are isolated, down or not forwarding, the VLAN " +
			"does not match, or their destination is behind the port that they came by, which does not reflect " +
			"them (hairpin)",
		do: "bridge -d link show, bridge vlan show, bridge fdb show br BRIDGE"}},
	{"br_forward", dropMeaning{stage: "bridge", sends: true,
		what: "the bridge port may not send them: it does not forward, its VLAN does not match, or both ports " +
			"are isolated", do: "bridge -d link show, bridge vlan show"}},
	{"__br_forward", dropMeaning{stage: "bridge", sends: true,
		what: "the bridge port may not send them: its VLAN does not match, or they are longer than its MTU",
		do:   "bridge vlan show, ip link show"}},
	{"__allowed_ingress", dropMeaning{stage: "bridge", what: "the bridge port has no VLAN for them",
		do: "bridge vlan show"}},
	{"br_", dropMeaning{stage: "bridge", what: "the bridge refuses them",
		do: "bridge -d link show, bridge vlan show, bridge fdb show"}},
	{"ip_error", refusingRoute}, {"dst_discard", refusingRoute},
	{"ip_rcv_finish_core", dropMeaning{benign: true, unwanted: true,
		what: "they are for a multicast group that nobody has joined at this device, or have IP options that it does " +
			"not take (source routes); before Linux 6.13 also what IP refuses without a reason",
		do: "where others should get them: bridge -d link show (mcast_flood), bridge mdb show; nstat -az"}},
	{"__udp4_lib_rcv", dropMeaning{stage: "socket", benign: true, unwanted: true,
		what: "they are broadcasts or multicasts for a port that no program here takes (IgnoredMulti)",
		do: "see who sends them: tcpdump -n broadcast or multicast; where others should get them: bridge -d link " +
			"show (bcast_flood, mcast_flood)"}},
	{"run_lwt_bpf", dropMeaning{stage: "routing", anyWay: true, what: "an eBPF program of their route drops them",
		do: "ip -d route show names it (encap bpf)"}},
	{"nf_queue", dropMeaning{stage: "netfilter",
		what: "a rule hands them to a program (NFQUEUE), which does not run or whose queue is full",
		do: "have the program run and keep up, let packets pass without it (queue bypass), or take the rule away; " +
			"/proc/net/netfilter/nfnetlink_queue has its number and losses"}},
	{"ipv6_rthdr_rcv", dropMeaning{what: "they have an IPv6 routing header that this host does not take",
		do: "see who sends them: RFC 5095 forbids type 0, and segments need net.ipv6.conf.DEVICE.seg6_enabled"}},
	{"ip_rcv", dropMeaning{what: "IP refuses them: a route that says so (blackhole), or an invalid header",
		do: "ip route get ADDRESS, nstat -az"}},
	{"ip6_", dropMeaning{benign: true, what: "IPv6 does not take them", do: "ip -6 route get ADDRESS, nstat -az"}},
	{"ip_forward", dropMeaning{what: "the host may not forward them: their time to live ends here, or a route or " +
		"policy says so", do: "look for a loop of routes: nstat IpInHdrErrors, traceroute"}},
	{"do_xdp_generic", xdpDrops},
	{"netif_receive_generic_xdp", xdpDrops},
	{"bpf_prog_run_generic_xdp", xdpDrops},
	{"dev_forward_skb", dropMeaning{sends: true, long: true, what: "the other end is down, or its MTU is too small",
		do: "ip link show on both sides"}},
	{"__dev_forward_skb", dropMeaning{sends: true, long: true, what: "the other end is down, or its MTU is too small",
		do: "ip link show on both sides"}},
	{"veth_xmit", dropMeaning{sends: true, long: true,
		what: "the other end of the veth does not take them: it is down, or its MTU is too small",
		do:   "ip link show on both sides"}},
	{"tun_net_xmit", dropMeaning{place: atTap, sends: true}},
}

var xdpDrops = dropMeaning{stage: "nic", what: "an XDP program (generic mode) drops them",
	do: "find the program: ip link show, bpftool net"}

var deviceDown = dropMeaning{sends: true, down: true, what: "the device is not up", do: "ip link set DEVICE up"}

// xdpRefuses is of packets that an XDP program redirected in vain (net/core/filter.c, xdp_do_redirect;
// kernel/bpf/devmap.c, __xdp_enqueue: the device needs NETDEV_XDP_ACT_NDO_XMIT, which a veth has while its other end
// has NAPI).
var xdpRefuses = dropMeaning{stage: "nic",
	what: "an XDP program sends them to a device that takes no XDP frames or is down, or to an AF_XDP socket that " +
		"has no room for them",
	do: "send them to a device that does: bridges and tunnels do not; a veth does while its other end has an XDP " +
		"program or GRO on (ethtool -K DEVICE gro on, there). An AF_XDP program has to fill its fill ring and read " +
		"its receive ring; perf trace -e xdp:xdp_redirect_err tells the error"}

// udp6Checksum is of UDP over IPv6, where a checksum of zero is allowed to sockets alone that say so (net/ipv6/udp.c,
// __udp6_lib_rcv).
var udp6Checksum = dropMeaning{stage: "socket",
	what: "the UDP checksum is wrong, or zero where that is not taken",
	do: "of a tunnel: udp6zerocsumrx here, or udp6zerocsumtx off at the far end; else repair the sender, or turn its " +
		"checksum offload off: ethtool -K DEVICE tx off"}

// unknownOption is of IPv6 packets that say to drop them where one of their options is not known (RFC 8200, 4.2).
var unknownOption = dropMeaning{
	what: "they have an IPv6 option that this host does not know, and say to drop them then",
	do:   "repair the sender, or have it mark the option as one to skip"}

// refusingRoute is of a route or policy rule of type blackhole, unreachable or prohibit. net/ipv4/route.c, ip_error,
// gives no reason for packets that would be forwarded; net/ipv6/route.c, ip6_pkt_prohibit, that of a missing route.
var refusingRoute = dropMeaning{kind: RouteRefuses,
	what: "a route or policy rule says that they end here (blackhole, unreachable, prohibit)",
	do:   "if that is not meant: ip route get ADDRESS from SOURCE iif DEVICE, ip rule show"}

// meaningOf returns what a drop means, by the kernel's name of its reason. What is not in the tables is named as the
// kernel names it.
func meaningOf(name, function string) dropMeaning {
	name = strings.TrimPrefix(name, "SKB_DROP_REASON_")
	if strings.HasPrefix(function, "ip6_pkt_prohibit") {
		return refusingRoute
	}
	switch {
	case function == facts.XDPRedirect:
		return xdpRefuses
	case name == "QUEUE_PURGE" && function == "neigh_invalidate": // what waited for the address
		name = "NEIGH_FAILED"
	case name == "QUEUE_PURGE" && strings.HasPrefix(function, "sk_"),
		name == "QUEUE_PURGE" && strings.HasPrefix(function, "inet_sock_"): // of a socket that its program has closed
		return dropMeaning{stage: "socket", benign: true, what: "a program closed its socket before it had read them",
			do: "nothing"}
	case name == "UNHANDLED_PROTO" && strings.HasPrefix(function, "ip6_tlvopt"):
		return unknownOption
	}
	if name == "UDP_CSUM" && strings.HasPrefix(function, "__udp6_") {
		return udp6Checksum
	}
	if m, known := dropReasons[name]; known {
		// the packet's device is the one that it came by until ip_forward has its route
		m.sends = m.sends && function != "ip_forward" && function != "ip6_forward"
		return m
	}
	if name == "NOT_SPECIFIED" {
		for _, at := range dropPlaces {
			if strings.HasPrefix(function, at.function) {
				return at.dropMeaning
			}
		}
		// freed without a reason: often no loss at all
		return dropMeaning{benign: true, what: "the kernel gives no reason", do: "read the source of " + function}
	}
	m := dropMeaning{what: "the kernel gives no more than this name", do: "look it up in the kernel's " +
		"include/net/dropreason-core.h"}
	for _, prefix := range benignPrefixes {
		m.benign = m.benign || strings.HasPrefix(name, prefix)
	}
	return m
}
