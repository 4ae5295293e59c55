package bottleneck

import (
	"fmt"

	"mpps/internal/model/facts"
)

const trackStat = "/proc/net/stat/nf_conntrack, "

// conntrackDrops returns the packets that conntrack dropped, for whatever reason.
func (p *path) conntrackDrops() (n float64) {
	for _, t := range p.l.Tracked {
		n += trackDrops(t)
	}
	return n
}

func trackDrops(t facts.TrackLoad) float64 { return float64(t.Dropped + t.Clashes + t.Chained) }

// tracked returns what is to say of a conntrack table that drops so many packets, by a counter; false if it drops too
// few to matter.
func (p *path) tracked(kind Kind, t *facts.TrackLoad, packets uint64, counter string) (f suspect, ok bool) {
	lost := loss{at: atRule, cpu: -1, packets: float64(packets), source: trackStat + counter}
	lost.share = shareOf(lost.packets, max(p.packets-lost.packets, 0)) // counted as received before
	f = suspect{kind: kind, object: "table of connections" + inNetns(t), strength: 0.95, lost: lost.packets,
		share: lost.share, keys: []string{"rule"}}
	return f, p.matters(lost)
}

// inNetns returns " of namespace NAME", or nothing for mpps's own.
func inNetns(t *facts.TrackLoad) string {
	if t.Netns == "" {
		return ""
	}
	return " of namespace " + t.Netns
}

// tables blames conntrack tables for the packets that they turn away, by why.
func tables(p *path) (found []suspect) {
	for t := range facts.Each(p.l.Tracked) {
		for _, judge := range []func(*path, *facts.TrackLoad) (suspect, bool){fullTable, longChains, noPorts} {
			if f, ok := judge(p, t); ok {
				f.show("connections in the table", float64(t.Entries), "connections", "nf_conntrack_count")
				f.show("its length", float64(t.Max), "connections", "nf_conntrack_max")
				found = append(found, f)
			}
		}
	}
	return found
}

// fullTable blames a table that is full: every packet of a connection without an entry is dropped.
func fullTable(p *path, t *facts.TrackLoad) (suspect, bool) {
	full := facts.ConntrackFull(t.Entries, t.Max)
	f, drops := p.tracked(ConntrackFull, t, t.Dropped, "drop")
	switch {
	case drops && full:
		f.say = fmt.Sprintf("the table of connections%s is full: it holds %d of %d, and turns %s of the packets away",
			inNetns(t), t.Entries, t.Max, percent(f.share))
	case drops:
		f.strength = 0.8
		f.say = fmt.Sprintf("tracking of connections%s turns %s of the packets away", inNetns(t), percent(f.share))
	case full && float64(t.Evicted) >= largeLossShare*p.packets && p.rate(float64(t.Evicted)) >= minPPS:
		f.strength, f.lost, f.share = 0.65, 0, 0
		f.say = fmt.Sprintf("the table of connections%s is full: it holds %d of %d, and each second %.0f new ones "+
			"evict others that had no answer yet", inNetns(t), t.Entries, t.Max, p.rate(float64(t.Evicted)))
		f.show("connections evicted", p.rate(float64(t.Evicted)), "connections/s", trackStat+"early_drop")
	default:
		return f, false
	}
	f.show("packets for whose connection there was no room", p.rate(float64(t.Dropped)), "packets/s", trackStat+"drop")
	return f, true
}

// longChains blames a table with too few buckets: a connection is not added to a chain that is longer than 50 to 130
// entries (net/netfilter/nf_conntrack_core.c, MIN_CHAINLEN and MAX_CHAINLEN).
func longChains(p *path, t *facts.TrackLoad) (suspect, bool) {
	f, ok := p.tracked(ConntrackFull, t, t.Chained, "chainlength")
	f.say = fmt.Sprintf("the table of connections%s has too few buckets for its %d connections: its chains are as "+
		"long as they may be, and it turns %s of the packets away", inNetns(t), t.Entries, percent(f.share))
	f.advice = "more buckets (net.netfilter.nf_conntrack_buckets)"
	f.knobs = []string{"netfilter.conntrack_buckets"}
	f.show("packets for whose connection a chain was too long", p.rate(f.lost), "packets/s", trackStat+"chainlength")
	return f, ok
}

// noPorts blames NAT without free ports: it gives a new connection the address and port of another one, and the packet
// is dropped where that is added to the table.
func noPorts(p *path, t *facts.TrackLoad) (suspect, bool) {
	f, ok := p.tracked(NATPorts, t, t.Clashes, "insert_failed")
	f.object, f.strength = "NAT"+inNetns(t), 0.9
	f.say = fmt.Sprintf("%s of the packets are of new connections for which NAT%s has no address and port that are "+
		"free: another connection to the same destination has them", percent(f.share), inNetns(t))
	f.show("packets of connections that clash with another", p.rate(f.lost), "packets/s", trackStat+"insert_failed")
	return f, ok
}
