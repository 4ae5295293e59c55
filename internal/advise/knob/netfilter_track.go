package knob

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/reach"
	"mpps/internal/model/setting"
)

// maxConnections bounds the table of connections: an entry takes 320 bytes and more with extensions.
const maxConnections = 1 << 22

var (
	conntrackMax     = setting.Of(setting.Sysctl, "net.netfilter.nf_conntrack_max")
	conntrackBuckets = setting.Of(setting.Sysctl, "net.netfilter.nf_conntrack_buckets")
)

// tracked lists an address where connections are tracked on a host that routes, or has Open vSwitch, whose flows may
// send packets to tracking.
func tracked(a setting.Address) func(*facts.Host) []setting.Address {
	return func(h *facts.Host) []setting.Address {
		if !h.Netfilter.Conntrack || !reach.Routed.Present(h) && !reach.OpenVSwitch.Present(h) {
			return nil
		}
		return []setting.Address{a}
	}
}

// forTracked returns the Want of a knob that has an opinion only where packets of running guests may be tracked.
func forTracked(want func(v *View, a setting.Address) Advice) func(*View, setting.Address) Advice {
	return func(v *View, a setting.Address) Advice {
		if !slices.ContainsFunc(v.paths.Paths, func(p reach.Path) bool {
			return p.Active && (p.Has(reach.Routed) || p.Has(reach.OpenVSwitch))
		}) {
			return Skips("the host routes no guest's packets, and none passes Open vSwitch")
		}
		return want(v, a)
	}
}

// connections returns how many connections are tracked, and what happened for want of room while mpps watched: packets
// refused, connections evicted, and packets refused to keep the table's chains short; false if the number was not
// recorded. Packets for which NAT had no free port do not count: a larger table does not help them.
func (v *View) connections() (entries, refused, longChains uint64, known bool) {
	entries, known = v.Stack["nf_conntrack.entries"]
	if v.Interval != nil {
		drop := v.Interval.Stack["nf_conntrack.drop"]
		longChains = v.Interval.Stack["nf_conntrack.chainlength"]
		_, hasChains := v.Stack["nf_conntrack.chainlength"]
		limit, _ := number(v.Readings.At(conntrackMax))
		refused = drop + v.Interval.Stack["nf_conntrack.early_drop"] -
			facts.ConntrackClashes(drop, v.Interval.Stack["nf_conntrack.insert_failed"], longChains, hasChains,
				facts.ConntrackFull(entries, uint64(max(limit, 0))))
	}
	return entries, refused, longChains, known
}

var netfilterConntrackMax = &Knob{
	ID: "netfilter.conntrack_max", Title: "The table of connections has room",
	Stage: datapath.Netfilter, Risk: goal.None, Tiers: viaKernel(), Most: maxConnections,
	Where: tracked(conntrackMax),
	Want: forTracked(func(v *View, a setting.Address) Advice {
		entries, refused, _, counted := v.connections()
		limit, known := number(v.Readings.At(a))
		if !counted || !known {
			return Unsure("how many connections there are, or may be, was not read")
		}
		used := fmt.Sprintf("%d of %d connections are in use", entries, limit)
		switch {
		case refused == 0 && float64(entries) < 0.8*float64(limit):
			return Fine(used)
		case float64(entries) < 0.5*float64(limit):
			return Fine(fmt.Sprintf("%s: what %d packets were refused for %s is not its length", used, refused,
				v.overInterval()))
		}
		if limit >= maxConnections {
			return Fine(fmt.Sprintf("%s, but %d is as far as mpps raises it: shorter timeouts, or rules that exempt "+
				"packets from tracking (notrack)", used, maxConnections))
		}
		severity := Medium
		if refused > 0 {
			severity = High
			used += fmt.Sprintf(", and %d packets found no room, or took that of others, %s", refused, v.overInterval())
		}
		return Wants(setting.Least(min(4*limit, maxConnections)), used+": packets of new connections are dropped").
			At(severity)
	}),
}

// writableBuckets is the kernel from which the number of buckets is a parameter that can be written (commit
// 3183ab8997a4).
const writableBuckets = "4.8"

var netfilterConntrackBuckets = &Knob{
	ID: "netfilter.conntrack_buckets", Title: "Connections are found in short chains",
	Stage: datapath.Netfilter, Risk: goal.Blip, After: []string{"netfilter.conntrack_max"}, Tiers: viaKernel(),
	Most:  maxConnections,
	Where: tracked(conntrackBuckets),
	Want: forTracked(func(v *View, a setting.Address) Advice {
		if facts.CompareVersions(v.Kernel.Release, writableBuckets) < 0 {
			return Skips("it can be written since Linux " + writableBuckets + "; before, nf_conntrack's parameter " +
				"hashsize is")
		}
		entries, _, longChains, counted := v.connections()
		buckets, known := number(v.Readings.At(a))
		if !counted || !known || buckets <= 0 {
			return Unsure("how many connections there are, or how many buckets, was not read")
		}
		// each connection is in the table twice, once for each direction
		chain := 2 * float64(entries) / float64(buckets)
		if longChains == 0 && chain <= 2 {
			return Fine(fmt.Sprintf("a chain has %.1f entries in the mean", chain))
		}
		want := min(max(2*buckets, int64(min(entries, maxConnections))), maxConnections)
		if buckets >= want {
			return Fine(fmt.Sprintf("%d is as far as mpps raises it", buckets))
		}
		because := fmt.Sprintf("a chain has %.1f entries in the mean, and each packet searches one", chain)
		severity := Medium
		if longChains > 0 {
			because += fmt.Sprintf("; %d packets were dropped for too long a chain %s", longChains, v.overInterval())
			severity = High
		}
		return Wants(setting.Least(want), because).At(severity).warn("the table is hashed again: packets wait for " +
			"some milliseconds")
	}),
}

var netfilterFlowtable = &Knob{
	ID: "netfilter.flowtable", Title: "Established connections skip rules and routes",
	Stage: datapath.Netfilter, Risk: goal.Security, Tiers: tiers(goal.Aggressive), Check: true,
	Where: onPaths(reach.Routed, fixed(hostFact("flowtable"))),
	Want: forRouted(func(v *View, a setting.Address) Advice {
		switch {
		case !v.Netfilter.Conntrack:
			return fact("none", Fine("connections are not tracked, and only tracked ones can have it"))
		case facts.CompareVersions(v.Kernel.Release, "4.16") < 0:
			return Skips("nf_tables has flowtables since Linux 4.16")
		case slices.ContainsFunc(v.Netfilter.Rules, func(s facts.RuleSet) bool {
			return s.Tool == "nft" && slices.ContainsFunc(s.Lines, func(line string) bool {
				return strings.Contains(line, "flow add @") || strings.Contains(line, "flow offload @")
			})
		}):
			return fact("used", Fine("a rule puts connections into a flowtable"))
		case slices.ContainsFunc(v.Unseen, func(u facts.Unseen) bool {
			return u.Part == facts.UnseenRules && u.Of == "nft"
		}):
			return Unsure("the rules of nft could not be seen")
		}
		return fact("none", exact("used", "reported only: each packet of an established connection passes all hooks, "+
			"rules and the routing decision again; a flowtable skips them from the ingress of the device on").At(Low))
	}),
}
