package bottleneck

import "mpps/internal/model/facts"

// trackPlants are those of connection tracking and NAT.
var trackPlants = []plant{
	{"the table of connections is full", ConntrackFull, func(s *scene) {
		s.untracked(func(t *facts.TrackLoad, lost uint64) { t.Entries, t.Max, t.Dropped = 498, 500, lost })
	}, true},
	{"the table of connections is full, and connections without an answer make room", ConntrackFull, func(s *scene) {
		s.taken = s.offered
		s.flow()
		s.l.Tracked = []facts.TrackLoad{{Entries: 498, Max: 500, Evicted: s.count(s.offered * 0.4)}}
	}, true},
	{"the table of connections has too few buckets", ConntrackFull, func(s *scene) {
		s.untracked(func(t *facts.TrackLoad, lost uint64) { t.Entries, t.Max, t.Chained = 4000, 50e3, lost })
	}, true},
	{"NAT without free ports", NATPorts, func(s *scene) {
		s.untracked(func(t *facts.TrackLoad, lost uint64) { t.Entries, t.Max, t.Clashes = 60, 50e3, lost })
	}, true},
}

// refusedPlants are packets that are refused on purpose, or by a limit that is none of rate.
var refusedPlants = []plant{
	{"a route that refuses", RouteRefuses, func(s *scene) {
		s.dropFor("NOT_SPECIFIED", "ip_error", "eth0", 0.3+0.6*s.Float64())
	}, false},
	{"a route of IPv6 that refuses", RouteRefuses, func(s *scene) {
		s.dropFor("IP_INNOROUTES", "ip6_pkt_prohibit", "eth0", 0.3+0.6*s.Float64())
		s.countedAs("Ip6InNoRoutes")
	}, false},
	{"no route, on a kernel that gives no reasons", NoRoute, func(s *scene) {
		s.dropFor("NOT_SPECIFIED", "ip_error", "eth0", 0.3+0.6*s.Float64())
		s.countedAs("IpExt.InNoRoutes")
	}, false},
	{"a bridge that does not flood multicast", Dropped, func(s *scene) {
		s.dropFor("NOT_SPECIFIED", "ip_rcv_finish_core", "eth0", 0.3+0.6*s.Float64())
	}, false},
	{"a program that does not accept", Socket, func(s *scene) {
		s.receive(3e3, 3e3, 0)
		s.l.Drops = nil
		s.l.Sockets = facts.SocketLoad{TCPListen: s.count(2e3)}
		s.l.Local[0].Received = s.count(2.5e3)
	}, true},
	{"a tbf whose burst is shorter than the packets", RateLimit, func(s *scene) {
		s.l.Drops = nil
		delete(s.dev("vnet0").Counters, "tx_dropped")
		s.dev("vnet0").Qdisc = []facts.QdiscLoad{{Kind: "tbf", Parent: "root", Packets: s.dev("vnet0").TxPackets,
			Drops: s.count(s.offered * 0.4), RateBps: 1e12}}
	}, true},
}
