package bottleneck

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// What a packet costs besides being forwarded, in nanoseconds, as measured on one core of 2.x GHz: for hosts whose
// kernel gives no profile. docs/diagnose.md has the figures; on another CPU they are right within a factor of two.
const (
	ruleCost      = 5.0  // of an nft or iptables rule
	ebtablesCost  = 47.0 // of a rule in the bridge's own tables
	bridgeNFCost  = 227.0
	conntrackCost = 110.0
	overlayCost   = 516.0
)

// costly is what takes a CPU's time beyond forwarding: rules, connection tracking, encapsulation. By the profile where
// there is one.
func (k *look) costly(cpu int) (suspect, bool) {
	if len(k.profile[cpu]) > 0 {
		return k.costlyByProfile(cpu, min(max(k.handling(cpu), 0.2), 1))
	}
	if k.sampled() {
		return suspect{}, false
	}
	return k.costlyByRules(cpu)
}

// costlyByProfile takes shares of the part of a CPU's time that goes into packets: others may have the rest.
func (k *look) costlyByProfile(cpu int, of float64) (suspect, bool) {
	ruleShare, ruleFunction := k.part(cpu, "netfilter")
	trackShare, trackFunction := k.part(cpu, "conntrack")
	overlayShare, overlayFunction := k.part(cpu, "overlay")
	rules, track, overlay := min(ruleShare/of, 1), min(trackShare/of, 1), min(overlayShare/of, 1)
	var found []suspect
	least := 0.25
	if bridge, other := k.countRules(); bridge+other == 0 && len(k.h.Netfilter.Rules) > 0 {
		least = 0.35 // there are none: it is the way to them
	}
	if rules >= least && rules >= track {
		f := suspect{kind: NetfilterRules, stage: "netfilter", object: "netfilter", strength: min(0.62+0.5*rules, 0.97)}
		what := "rules of netfilter"
		if tool, n := k.ruleTool(ruleFunction); tool == "ebtables" {
			f.kind, f.object, what = EbtablesRules, "ebtables", "rules of the bridge"
			f.evidence = append(f.evidence, ruleEvidence(n, tool)...)
		} else {
			f.evidence = append(f.evidence, ruleEvidence(n, tool)...)
		}
		f.say = fmt.Sprintf("%s of CPU %d goes into %s (%s)", percent(ruleShare), cpu, what, ruleFunction)
		f.evidence = append([]Evidence{{fmt.Sprintf("share of CPU %d in %s", cpu, what), ruleShare, "share",
			"profile: " + ruleFunction}}, f.evidence...)
		found = append(found, f)
	}
	if track >= 0.12 && track > rules {
		found = append(found, suspect{
			kind: Conntrack, stage: "netfilter", object: "conntrack", strength: min(0.68+0.6*track, 0.95),
			say: fmt.Sprintf("%s of CPU %d goes into tracking connections (%s)", percent(trackShare), cpu,
				trackFunction),
			evidence: []Evidence{{fmt.Sprintf("share of CPU %d in connection tracking", cpu), trackShare, "share",
				"profile: " + trackFunction}},
		})
	}
	if overlay >= 0.15 {
		f := suspect{
			kind: TunnelCost, stage: "overlay", object: "tunnel", strength: min(0.62+0.6*overlay, 0.93),
			say: fmt.Sprintf("%s of CPU %d goes into encapsulation (%s)", percent(overlayShare), cpu,
				overlayFunction),
			evidence: []Evidence{{fmt.Sprintf("share of CPU %d in encapsulation", cpu), overlayShare, "share",
				"profile: " + overlayFunction}},
		}
		if t := k.tunnel(); t != nil {
			f.object = called(t)
			f.keys = []string{"dev:" + called(t)}
		}
		found = append(found, f)
	}
	if f, is := k.copies(cpu, of); is {
		found = append(found, f)
	}
	if len(found) == 0 {
		return suspect{}, false
	}
	return slices.MaxFunc(found, func(a, b suspect) int { return cmp.Compare(a.strength, b.strength) }), true
}

// costlyByRules estimates from the number of rules and packets what a profile would have told.
func (k *look) costlyByRules(cpu int) (suspect, bool) {
	row, _ := k.softnet(cpu)
	pps := k.rate(k.packets)
	if row != nil && row.Processed > 0 {
		pps = min(pps, k.rate(float64(row.Processed)))
	}
	estimate := func(kind Kind, object string, nanoseconds float64, say string, e ...Evidence) suspect {
		share := pps * nanoseconds * 1e-9
		f := suspect{kind: kind, object: object, stage: About(kind).Stage, strength: min(0.45+0.4*min(share, 1), 0.8),
			say: say}
		f.evidence = append(e, Evidence{fmt.Sprintf("estimated share of CPU %d", cpu), min(share, 1), "share",
			fmt.Sprintf("%s packets per second × %.0f ns", amount(pps), nanoseconds)})
		return f
	}
	var found []suspect
	bridge, other := k.countRules()
	if bridge > 0 {
		found = append(found, estimate(EbtablesRules, "ebtables", float64(bridge)*ebtablesCost,
			fmt.Sprintf("packets pass %s of the bridge on a CPU that has nothing left", some(bridge, "rule")),
			ruleEvidence(bridge, "ebtables")...))
	}
	if other > 0 && k.handed() {
		found = append(found, estimate(NetfilterRules, "netfilter", float64(other)*ruleCost+bridgeNFCost,
			fmt.Sprintf("packets pass up to %s of netfilter on a CPU that has nothing left", some(other, "rule")),
			ruleEvidence(other, "netfilter")...))
	}
	if t := k.tunnel(); t != nil && k.rate(float64(max(t.RxPackets, t.TxPackets))) > 0.3*pps {
		f := estimate(TunnelCost, called(t), overlayCost, fmt.Sprintf("packets pass the tunnel %s on a CPU that has "+
			"nothing left", called(t)))
		f.keys = []string{"dev:" + called(t)}
		found = append(found, f)
	}
	found = slices.DeleteFunc(found, func(f suspect) bool { return f.strength < 0.55 })
	if len(found) == 0 {
		return suspect{}, false
	}
	return slices.MaxFunc(found, func(a, b suspect) int { return cmp.Compare(a.strength, b.strength) }), true
}

func ruleEvidence(n int, tool string) []Evidence {
	if n == 0 {
		return nil
	}
	return []Evidence{{"rules of " + tool, float64(n), "rules", tool}}
}

// countRules are the rules of the bridge's own tables, and all others. Some hooks see only some of them.
func (k *look) countRules() (bridge, other int) {
	for _, set := range k.h.Netfilter.Rules {
		n := 0
		for _, line := range set.Lines {
			if strings.HasPrefix(set.Tool, "ebtables") || strings.HasPrefix(line, "bridge ") {
				n++
			}
		}
		switch {
		case strings.HasPrefix(set.Tool, "ebtables"):
			n = set.Rules
		case len(set.Lines) > 0 && len(set.Lines) < set.Rules: // cut: the rest is like them
			n = n * set.Rules / len(set.Lines)
		}
		bridge += n
		other += set.Rules - n
	}
	return bridge, other
}

// handed reports whether rules of iptables and nft see the packets: those that are routed, and bridged ones where a
// bridge hands them over.
func (k *look) handed() bool {
	if len(k.h.Bridges) == 0 {
		return true
	}
	return slices.ContainsFunc(k.h.Bridges, func(b facts.Bridge) bool {
		return b.CallIPTables || b.CallIP6Tables ||
			b.CallARPTables
	}) ||
		slices.ContainsFunc(bridgeNF, func(a setting.Address) bool {
			on, known := k.reading(a)
			return known && on != 0
		})
}

// ruleTool tells whose rules a function of netfilter runs through: those of the bridge, or others.
func (k *look) ruleTool(function string) (tool string, rules int) {
	bridge, other := k.countRules()
	switch {
	case strings.HasPrefix(function, "ebt_") || strings.HasPrefix(function, "nft_do_chain_bridge"):
		return "ebtables", bridge
	case strings.HasPrefix(function, "ipt_") || strings.HasPrefix(function, "br_nf_"):
		return "netfilter", other
	case float64(bridge)*ebtablesCost > float64(other)*ruleCost && (bridge > 10 || !k.handed()):
		return "ebtables", bridge
	}
	return "netfilter", other
}

// tunnel is the tunnel device with the most packets.
func (k *look) tunnel() *facts.DeviceLoad {
	var found *facts.DeviceLoad
	for i := range k.l.Devices {
		if d := &k.l.Devices[i]; d.Kind == "tunnel" &&
			(found == nil || d.RxPackets+d.TxPackets > found.RxPackets+found.TxPackets) {
			found = d
		}
	}
	if found == nil || k.rate(float64(found.RxPackets+found.TxPackets)) < quiet {
		return nil
	}
	return found
}

func droppedByRule(k *look) (found []suspect) {
	for _, s := range k.lost(atRule) {
		if full := k.untracked(); full > 0 { // conntrack drops them in its hook, for the same reason
			s.share *= max(s.packets-full, 0) / s.packets
			s.packets = max(s.packets-full, 0)
		}
		if s.share < 0.3 { // a firewall drops; that is what it is for
			continue
		}
		found = append(found, suspect{
			kind: DroppedByRule, object: "netfilter", strength: 0.85, lost: s.packets, share: s.share,
			keys:     []string{"rule"},
			say:      fmt.Sprintf("a rule of netfilter drops %s of the packets", percent(s.share)),
			evidence: []Evidence{{"dropped by a rule", k.rate(s.packets), "packets/s", s.source}},
		})
	}
	if len(found) == 0 && len(k.l.Drops) == 0 {
		return k.vanished()
	}
	return found
}

// vanished tells, where no tracepoint does, that much of what comes into bridges does not come out, is not lost at a
// port and not for the host itself, while rules stand in its way.
func (k *look) vanished() []suspect {
	bridge, other := k.countRules()
	if bridge == 0 && (other == 0 || !k.handed()) {
		return nil
	}
	var in, out, lost float64
	for _, b := range k.h.Bridges {
		if d := k.device(b.Name); d != nil {
			out += float64(d.RxPackets) - float64(d.TxPackets)
		}
		for _, port := range b.Ports {
			d := k.device(port)
			if d == nil {
				continue
			}
			in, out = in+float64(d.RxPackets), out+float64(d.TxPackets)
			for _, s := range k.losses {
				if s.device == d && (s.at == atTap || s.at == atQdisc || s.at == atFilter || s.at == atDevice &&
					d.Counters["tx_dropped"] > 0) {
					lost += s.packets
				}
			}
		}
	}
	gone := in - max(out, 0) - lost - k.untracked()
	if in <= 0 || k.rate(in) < quiet || gone < 0.3*in {
		return nil
	}
	return []suspect{{
		kind: DroppedByRule, object: "netfilter", strength: 0.62, lost: gone, share: gone / in, keys: []string{"rule"},
		say: fmt.Sprintf("%s of the packets that come into bridges do not come out, and %s stand in their way",
			percent(gone/in), some(bridge+other, "rule")),
		evidence: append(ruleEvidence(bridge+other, "netfilter"),
			Evidence{"packets that came into bridges and did not come out", k.rate(gone), "packets/s",
				"/sys/class/net/*/statistics"}),
	}}
}
