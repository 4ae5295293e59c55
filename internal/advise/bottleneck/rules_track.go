package bottleneck

import "fmt"

// untracked are packets for whose connection there was no room in a table.
func (k *look) untracked() (n float64) {
	for _, t := range k.l.Tracked {
		n += float64(t.Dropped)
	}
	return n
}

// fullTables are tables of tracked connections that turn packets away: of each connection that has no entry, every one.
func fullTables(k *look) (found []suspect) {
	for _, t := range k.l.Tracked {
		lost := loss{at: atRule, cpu: -1, packets: float64(t.Dropped), source: "/proc/net/stat/nf_conntrack, drop"}
		lost.share = shareOf(lost.packets, max(k.packets-lost.packets, 0)) // these were received before
		if !k.matters(lost) {
			continue
		}
		where := ""
		if t.Netns != "" {
			where = " of namespace " + t.Netns
		}
		f := suspect{
			kind: Conntrack, object: "table of connections" + where, strength: 0.8, lost: lost.packets,
			share: lost.share, keys: []string{"rule"},
			say: fmt.Sprintf("tracking of connections%s turns %s of the packets away", where, percent(lost.share)),
			advice: "a larger table (net.netfilter.nf_conntrack_max), shorter timeouts, or exempt the guests' " +
				"packets from tracking",
			evidence: []Evidence{{"packets for whose connection there was no room", k.rate(lost.packets), "packets/s",
				lost.source}},
		}
		if t.Max > 0 && float64(t.Entries) >= 0.9*float64(t.Max) {
			f.strength = 0.95
			f.say = fmt.Sprintf("the table of connections%s is full: it holds %d of %d, and turns %s of the packets "+
				"away", where, t.Entries, t.Max, percent(lost.share))
		}
		f.evidence = append(f.evidence,
			Evidence{"connections in the table", float64(t.Entries), "connections", "nf_conntrack_count"},
			Evidence{"its length", float64(t.Max), "connections", "nf_conntrack_max"})
		found = append(found, f)
	}
	return found
}
