package bottleneck

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// Cost per packet beyond plain forwarding, in nanoseconds on one core of 2.x GHz, for hosts whose kernel gives no
// profile. docs/diagnose.md has the measurements; on other CPUs they hold within a factor of two.
const (
	ruleCost     = 5.0  // of an nft or iptables rule
	ebtablesCost = 47.0 // of a rule in the bridge's own tables
	bridgeNFCost = 227.0
	overlayCost  = 516.0
)

// packetCost returns what takes a CPU's time beyond forwarding: rules, connection tracking or encapsulation. It uses
// the profile if there is one.
func (p *path) packetCost(cpu int) (suspect, bool) {
	switch {
	case len(p.profile[cpu]) > 0:
		return p.costByProfile(cpu, min(max(p.softirqUse(cpu), 0.2), 1))
	case len(p.l.Profile) > 0:
		return suspect{}, false
	}
	return p.costByRules(cpu)
}

// costByProfile compares each cost with the packet time, the share of the CPU that goes into packets.
func (p *path) costByProfile(cpu int, packetTime float64) (suspect, bool) {
	var found []suspect
	add := func(kind Kind, strength, share float64, function, object, verb, what string) *suspect {
		f := suspect{kind: kind, stage: About(kind).Stage, object: object, strength: strength,
			say: fmt.Sprintf("%s of CPU %d goes into %s (%s)", percent(share), cpu, verb, function)}
		f.show(fmt.Sprintf("share of CPU %d in %s", cpu, what), share, "share", "profile: "+function)
		found = append(found, f)
		return &found[len(found)-1]
	}
	if p.ofOthers(cpu) {
		return suspect{}, false
	}
	ruleShare, function := p.profileShare(cpu, "netfilter")
	trackShare, trackFunction := p.profileShare(cpu, "conntrack")
	rules, track := min(ruleShare/packetTime, 1), min(trackShare/packetTime, 1)
	least := 0.25
	if bridge, other := p.countRules(); bridge+other == 0 && len(p.h.Netfilter.Rules) > 0 {
		least = 0.35 // no rules: it is the cost of the empty hooks
	}
	if rules >= least && rules >= track {
		kind, object, what := NetfilterRules, "netfilter", "rules of netfilter"
		tool, n := p.ruleTool(function)
		switch bridge, other := p.countRules(); {
		case bridge+other == 0 && p.h.AsRoot:
			kind, what = NetfilterHooks, "hooks of netfilter that have no rules"
		case tool == "ebtables":
			kind, object, what = EbtablesRules, "ebtables", "rules of the bridge"
		}
		add(kind, min(0.62+0.5*rules, 0.97), ruleShare, function, object, what, what).showRules(n, tool)
	}
	if track >= 0.12 && track > rules {
		f := add(Conntrack, min(0.68+0.6*track, 0.95), trackShare, trackFunction, "conntrack", "tracking connections",
			"connection tracking")
		if p.h.OpenVSwitch != nil {
			f.advice = "rules of the switch without state where their owner agrees, or exempt the guests' packets " +
				"from tracking"
			f.knobs = append([]string{"ovs.lookups"}, About(Conntrack).Knobs...)
		}
	}
	overlayShare, function := p.profileShare(cpu, "overlay")
	if overlay := min(overlayShare/packetTime, 1); overlay >= 0.15 {
		f := add(TunnelCost, min(0.62+0.6*overlay, 0.93), overlayShare, function, "tunnel", "encapsulation",
			"encapsulation")
		if t := p.tunnel(); t != nil {
			f.object, f.keys = deviceName(t), []string{deviceKey(t)}
		}
	}
	switchShare, function := p.profileShare(cpu, "bridge")
	lookups, tried := min(switchShare/packetTime, 1), p.masksTried()
	if tried >= manyMasks && lookups >= 0.35 {
		add(OVSMasks, min(0.62+0.5*lookups, 0.95), switchShare, function, "datapath of Open vSwitch",
			fmt.Sprintf("finding packets' flows, each with %.0f masks", tried), "Open vSwitch").showMasks(tried)
	}
	programShare, function := p.profileShare(cpu, "bpf")
	if programs := min(programShare/packetTime, 1); programs >= 0.35 && programs > rules &&
		strings.HasPrefix(function, "bpf_prog_") { // not the verifier, which works for whoever loads one
		object := bpfName(function)
		add(BPFPrograms, min(0.6+0.4*programs, 0.95), programShare, function, object, "BPF programs", "BPF programs")
	}
	if f, is := p.captureCost(cpu, packetTime); is {
		found = append(found, f)
	}
	return strongest(found)
}

// bpfName returns the name of a BPF program by that of its function (kernel/bpf/core.c, bpf_get_prog_name:
// bpf_prog_TAG_NAME).
func bpfName(function string) string {
	if rest, is := strings.CutPrefix(function, "bpf_prog_"); is {
		if _, name, named := strings.Cut(rest, "_"); named {
			return name
		}
	}
	return function
}

// minOfOurs is the share of a CPU's received packets that devices of the watched namespaces have had at least, where
// its time is said to go into the path's packets.
const minOfOurs = 0.1

// ofOthers reports whether nearly all packets that a CPU received are of namespaces that are not watched: the profile
// does not tell them apart. A packet that goes through several namespaces is counted in each.
func (p *path) ofOthers(cpu int) bool {
	var ours float64
	for _, d := range p.l.Devices {
		ours += float64(d.RxPackets)
	}
	row, _ := p.softnet(cpu)
	return row != nil && len(p.l.Devices) > 0 && ours < minOfOurs*float64(row.Processed)
}

// costByRules estimates the costs from the number of rules and packets where there is no profile.
func (p *path) costByRules(cpu int) (suspect, bool) {
	row, _ := p.softnet(cpu)
	pps := p.rate(p.packets)
	if row != nil && row.Processed > 0 {
		pps = min(pps, p.rate(float64(row.Processed)))
	}
	var found []suspect
	add := func(kind Kind, object string, nanoseconds float64, what string, rules int, keys ...string) {
		share := min(pps*nanoseconds*1e-9, 1)
		f := suspect{kind: kind, object: object, stage: About(kind).Stage, strength: min(0.45+0.4*share, 0.8),
			say: fmt.Sprintf("packets pass %s on a CPU that has nothing left", what), keys: keys}
		f.showRules(rules, object)
		f.show(fmt.Sprintf("estimated share of CPU %d", cpu), share, "share",
			fmt.Sprintf("%s packets per second × %.0f ns", amount(pps), nanoseconds))
		if f.strength >= 0.55 {
			found = append(found, f)
		}
	}
	bridge, other := p.countRules()
	if bridge > 0 {
		add(EbtablesRules, "ebtables", float64(bridge)*ebtablesCost, count(bridge, "rule")+" of the bridge", bridge)
	}
	if other > 0 && p.rulesSeePackets() {
		add(NetfilterRules, "netfilter", float64(other)*ruleCost+bridgeNFCost,
			fmt.Sprintf("up to %s of netfilter", count(other, "rule")), other)
	}
	if tried := p.masksTried(); tried >= manyMasks {
		add(OVSMasks, "datapath of Open vSwitch", tried*maskCost, fmt.Sprintf("%.0f masks each", tried), 0)
		if n := len(found); n > 0 && found[n-1].kind == OVSMasks {
			found[n-1].showMasks(tried)
		}
	}
	if t := p.tunnel(); t != nil && p.rate(float64(max(t.RxPackets, t.TxPackets))) > 0.3*pps {
		add(TunnelCost, deviceName(t), overlayCost, "the tunnel "+deviceName(t), 0, deviceKey(t))
	}
	return strongest(found)
}

// showRules adds the number of a tool's rules to the evidence, if there are any.
func (s *suspect) showRules(n int, tool string) {
	if n > 0 {
		s.show("rules of "+tool, float64(n), "rules", tool)
	}
}

// countRules returns the number of rules in the bridge's own tables, and of all others. A hook may see only some.
func (p *path) countRules() (bridge, other int) {
	for _, set := range p.h.Netfilter.Rules {
		n := facts.Count(set.Lines, func(line string) bool { return strings.HasPrefix(line, "bridge ") })
		switch {
		case strings.HasPrefix(set.Tool, "ebtables"):
			n = set.Rules
		case len(set.Lines) > 0 && len(set.Lines) < set.Rules: // the list is cut: extrapolate
			n = n * set.Rules / len(set.Lines)
		}
		bridge += n
		other += set.Rules - n
	}
	return bridge, other
}

// rulesSeePackets reports whether iptables and nft rules see the packets: routed ones always, bridged ones if a bridge
// passes them on, those of Open vSwitch only as outer packets of tunnels.
func (p *path) rulesSeePackets() bool {
	switched := p.tunnel() == nil && len(p.h.Taps) > 0 && !slices.ContainsFunc(p.h.Taps, func(t facts.Tap) bool {
		return t.Guest != "" && t.Master != facts.OVSDatapath
	})
	return len(p.h.Bridges) == 0 && !switched ||
		slices.ContainsFunc(p.h.Bridges, func(b facts.Bridge) bool {
			return b.CallIPTables || b.CallIP6Tables || b.CallARPTables
		}) ||
		slices.ContainsFunc(bridgeNF, func(a setting.Address) bool {
			on, known := p.reading(a)
			return known && on != 0
		})
}

// ruleTool returns whose rules a netfilter function evaluates, the bridge's (ebtables) or others, and their number.
func (p *path) ruleTool(function string) (tool string, rules int) {
	bridge, other := p.countRules()
	switch {
	case strings.HasPrefix(function, "ebt_") || strings.HasPrefix(function, "nft_do_chain_bridge"):
		return "ebtables", bridge
	case strings.HasPrefix(function, "ipt_") || strings.HasPrefix(function, "br_nf_"):
		return "netfilter", other
	case float64(bridge)*ebtablesCost > float64(other)*ruleCost && (bridge > 10 || !p.rulesSeePackets()):
		return "ebtables", bridge
	}
	return "netfilter", other
}

// tunnel returns the tunnel device with the most packets; nil if none carries any traffic.
func (p *path) tunnel() *facts.DeviceLoad {
	if d := p.busiestDevice("tunnel"); d != nil && p.bothWays(d) >= minPPS {
		return d
	}
	return nil
}

func droppedByRule(p *path) (found []suspect) {
	for _, s := range p.lossesAt(atRule) {
		if full := p.conntrackDrops(); full > 0 { // conntrack drops them in its hook, for the same reason
			left := max(s.packets-full, 0)
			s.share *= left / s.packets
			s.packets = left
		}
		strength := 0.85
		switch { // dropping some packets is a firewall's job
		case s.share < 0.01:
			continue
		case s.share < 0.05:
			strength = 0.52
		case s.share < 0.1:
			strength = 0.55
		case s.share < 0.3:
			strength = 0.7
		}
		found = append(found, suspect{
			kind: DroppedByRule, object: "netfilter", strength: strength, lost: s.packets, share: s.share,
			keys:     []string{"rule:" + s.space()},
			say:      fmt.Sprintf("a rule of netfilter drops %s of the packets", percent(s.share)) + s.way(),
			evidence: []Evidence{{"dropped by a rule", p.rate(s.packets), "packets/s", s.source}},
		})
	}
	if len(found) == 0 && len(p.l.Drops) == 0 {
		return p.missingPackets()
	}
	return found
}

// way tells which packets a loss at a device is of, as far as that is known.
func (s *loss) way() string {
	switch {
	case s.device == nil || s.at == atRule && !s.wayKnown:
		return ""
	case s.means.sends:
		return " that should leave by " + deviceName(s.device)
	}
	return " that came by " + deviceName(s.device)
}

// missingPackets blames rules without a tracepoint's evidence: packets go into bridges and do not come out, are not
// lost at a port and not for the host itself, and there are rules that may drop them.
func (p *path) missingPackets() []suspect {
	bridge, other := p.countRules()
	if bridge == 0 && (other == 0 || !p.rulesSeePackets()) {
		return nil
	}
	var in, out, lost float64
	for _, b := range p.h.Bridges {
		if d := p.device(b.Name); d != nil {
			out += float64(d.RxPackets) - float64(d.TxPackets)
		}
		for _, port := range b.Ports {
			d := p.device(port)
			if d == nil {
				continue
			}
			in, out = in+float64(d.RxPackets), out+float64(d.TxPackets)
			for _, s := range p.losses {
				if s.device == d && (s.at == atTap || s.at == atQdisc || s.at == atFilter ||
					s.at == atDevice && d.Counters["tx_dropped"] > 0) {
					lost += s.packets
				}
			}
		}
	}
	gone := in - max(out, 0) - lost - p.conntrackDrops()
	if in <= 0 || p.rate(in) < minPPS || gone < 0.3*in {
		return nil
	}
	f := suspect{
		kind: DroppedByRule, object: "netfilter", strength: 0.62, lost: gone, share: gone / in, keys: []string{"rule"},
		say: fmt.Sprintf("%s of the packets that come into bridges do not come out, and %s stand in their way",
			percent(gone/in), count(bridge+other, "rule")),
	}
	f.showRules(bridge+other, "netfilter")
	f.show("packets that came into bridges and did not come out", p.rate(gone), "packets/s",
		"/sys/class/net/*/statistics")
	return []suspect{f}
}
