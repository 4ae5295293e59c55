package bottleneck

import "fmt"

// conntrackDrops returns the packets that tracking of connections dropped.
func (p *path) conntrackDrops() (n float64) {
	for _, t := range p.l.Tracked {
		n += float64(t.Dropped)
	}
	return n
}

// clashes blames address translation that has no free port: the connection that a packet would begin has the same
// addresses and ports as another one (net/netfilter/nf_conntrack_core.c, nf_ct_resolve_clash).
func clashes(p *path) (found []suspect) {
	for _, t := range p.l.Tracked {
		lost := loss{at: atRule, cpu: -1, packets: float64(min(t.Clashed, t.Dropped)),
			source: "/proc/net/stat/nf_conntrack, insert_failed"}
		lost.share = shareOf(lost.packets, max(p.packets-lost.packets, 0))
		if !p.matters(lost) {
			continue
		}
		f := suspect{
			kind: DroppedByRule, object: "address translation", strength: 0.85, lost: lost.packets, share: lost.share,
			keys: []string{"clash:" + t.Netns},
			say: fmt.Sprintf("%s of the packets are dropped as their connections clash with others: address "+
				"translation has no free port for them", percent(lost.share)),
			advice: "more addresses or ports to translate to, or shorter timeouts of connections",
		}
		f.show("packets whose connection clashed", p.rate(lost.packets), "packets/s", lost.source)
		found = append(found, f)
	}
	return found
}

// fullTables blames conntrack tables that are full: every packet of a connection without an entry is dropped.
func fullTables(p *path) (found []suspect) {
	for _, t := range p.l.Tracked {
		lost := loss{at: atRule, cpu: -1, packets: float64(t.Dropped - min(t.Clashed, t.Dropped)),
			source: "/proc/net/stat/nf_conntrack, drop"}
		lost.share = shareOf(lost.packets, max(p.packets-lost.packets, 0)) // counted as received before
		if !p.matters(lost) {
			continue
		}
		where := ""
		if t.Netns != "" {
			where = " of namespace " + t.Netns
		}
		f := suspect{
			kind: ConntrackFull, object: "table of connections" + where, strength: 0.8, lost: lost.packets,
			share: lost.share, keys: []string{"rule"},
			say: fmt.Sprintf("tracking of connections%s turns %s of the packets away", where, percent(lost.share)),
		}
		f.show("packets for whose connection there was no room", p.rate(lost.packets), "packets/s", lost.source)
		f.show("connections in the table", float64(t.Entries), "connections", "nf_conntrack_count")
		f.show("its length", float64(t.Max), "connections", "nf_conntrack_max")
		if t.Max > 0 && float64(t.Entries) >= 0.9*float64(t.Max) {
			f.strength = 0.95
			f.say = fmt.Sprintf("the table of connections%s is full: it holds %d of %d, and turns %s of the packets "+
				"away", where, t.Entries, t.Max, percent(lost.share))
		}
		found = append(found, f)
	}
	return found
}
