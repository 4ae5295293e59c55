package knob

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// bridgeCalls are the hooks that br_netfilter hands bridged frames to.
var bridgeCalls = []string{"iptables", "ip6tables", "arptables"}

var netfilterBridge = &Knob{
	ID: "netfilter.bridge", Title: "Bridged frames skip iptables",
	Stage: datapath.Netfilter, Risk: goal.Security, Tiers: viaKernel(),
	Where: func(h *facts.Host) []setting.Address {
		var all []setting.Address
		for _, b := range h.Bridges {
			for _, call := range bridgeCalls {
				all = append(all, setting.Of(setting.Sysfs, "class/net", b.Name, "bridge/nf_call_"+call))
			}
		}
		for _, call := range bridgeCalls {
			all = append(all, setting.Of(setting.Sysctl, "net.bridge.bridge-nf-call-"+call))
		}
		return all
	},
	Want: func(v *View, a setting.Address) Advice {
		if !v.Netfilter.BridgeModule {
			return Skips("br_netfilter is not loaded: bridged frames skip iptables already")
		}
		if len(v.Bridges) == 0 {
			return Skips("there is no bridge")
		}
		tool := a.Path[strings.LastIndexAny(a.Path, "-_")+1:]
		rules := v.rulesFor(tool)
		if v.Tier == goal.Standard && len(rules) > 0 {
			return Fine(fmt.Sprintf("%s may belong to the guests' security, and the target does not need them gone",
				Count(len(rules), "rule")))
		}
		if len(rules) == 0 {
			advice := exact("0", "bridged frames are taken through the host's hooks, where no rule waits for them: "+
				"0.2 µs a packet for nothing").At(High)
			advice.Risk = goal.None
			return advice
		}
		advice := exact("0", fmt.Sprintf("bridged frames are taken through the host's hooks and %s of %s",
			Count(len(rules), "rule"), tool)).At(High)
		advice.Rules = rules
		return advice.warn("these rules stop matching bridged frames")
	},
}

// Count returns a number with its noun: "1 CPU", "3 CPUs".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// nflogTools are the rule sets that can have the skip rule.
var nflogTools = []string{"iptables-legacy", "nft"}

var netfilterNFLOGSkip = &Knob{
	ID: "netfilter.nflog_skip", Title: "Packets skip accounting rules in raw PREROUTING",
	Stage: datapath.Netfilter, Risk: goal.Security, After: []string{"netfilter.bridge"}, Tiers: tiers(goal.Aggressive),
	Where: func(h *facts.Host) []setting.Address {
		var all []setting.Address
		for _, tool := range nflogTools {
			if hasRules(h, tool) {
				all = append(all, setting.Of(setting.NetfilterRule, "nflog-skip", tool))
			}
		}
		return all
	},
	Want: func(v *View, a setting.Address) Advice {
		accounting, others := rawPrerouting(v.Host, a.Rest())
		if len(accounting) == 0 {
			return Skips("no NFLOG rule in raw PREROUTING")
		}
		advice := exact("present", fmt.Sprintf("every packet runs through %s for accounting",
			Count(len(accounting), "NFLOG rule"))).At(Medium).warn("the accounting of these rules stops counting")
		advice.Risk = goal.None
		if len(others) > 0 {
			advice.Risk, advice.Rules = goal.Security, others
			advice.Warning = "these other rules of raw PREROUTING are passed by too, and the accounting stops counting"
		}
		return advice
	},
}

func hasRules(h *facts.Host, tool string) bool {
	return slices.ContainsFunc(h.Netfilter.Rules, func(s facts.RuleSet) bool { return s.Tool == tool })
}

// bypassTools are the tools whose whole rule sets can be saved and restored, each table in one transaction.
var bypassTools = []string{"nft", "iptables-legacy", "ip6tables-legacy", "ebtables-legacy"}

var netfilterBypass = &Knob{
	ID: "netfilter.bypass", Title: "No rules at all, on a host that only measures",
	Stage: datapath.Netfilter, Risk: goal.Security, After: []string{"netfilter.bridge", "netfilter.nflog_skip"},
	Tiers: tiers(goal.Aggressive),
	Where: func(h *facts.Host) []setting.Address {
		var all []setting.Address
		for _, tool := range bypassTools {
			if slices.ContainsFunc(h.Netfilter.Rules,
				func(s facts.RuleSet) bool { return s.Tool == tool && s.Rules > 0 }) {
				all = append(all, setting.Of(setting.RuleSet, tool))
			}
		}
		return all
	},
	Want: func(v *View, a setting.Address) Advice {
		var rules facts.RuleSet
		for _, set := range v.Netfilter.Rules {
			if set.Tool == a.Path {
				rules = set
			}
		}
		if !slices.Contains(v.Goal.Consent, goal.Security) || !slices.Contains(v.Goal.Consent, goal.Connectivity) {
			return Fine(fmt.Sprintf("%s stand; only on a host that does nothing but measure they can be taken "+
				"away, with --consent security,connectivity", Count(rules.Rules, "rule")))
		}
		advice := Wants(setting.NotThere(), fmt.Sprintf("%s of %s are in the way of packets, and the user consents "+
			"to a host without any", Count(rules.Rules, "rule"), a.Path)).At(Low)
		advice.Rules = rules.Lines
		return advice.warn("the host is open, and guests behind NAT have no network, until the rollback")
	},
}

var netfilterConntrack = &Knob{
	ID: "netfilter.conntrack", Title: "Guests' packets are not tracked as connections",
	Stage: datapath.Netfilter, Risk: goal.Security, After: []string{"netfilter.bridge"}, Tiers: viaKernel(),
	Check: true,
	Where: fixed(hostFact("conntrack")),
	Want: func(v *View, a setting.Address) Advice {
		switch {
		case len(v.Bridges) == 0:
			return Skips("there is no bridge")
		case !v.Netfilter.Conntrack:
			return fact("not loaded", Fine("nf_conntrack is not loaded"))
		case !v.Netfilter.BridgeModule:
			return fact("loaded, not for bridged frames",
				Fine("loaded, but bridged frames do not reach it: br_netfilter is not loaded"))
		}
		handed := []string{}
		for _, b := range v.Bridges {
			if b.CallIPTables || b.CallIP6Tables {
				handed = append(handed, b.Name)
			}
		}
		unknown := false
		for _, call := range []string{"iptables", "ip6tables"} {
			switch r := v.Readings.At(setting.Of(setting.Sysctl, "net.bridge.bridge-nf-call-"+call)); {
			case r.State == setting.Unknown:
				unknown = true
			case r.Value == "1":
				handed = append(handed, "all bridges")
			}
		}
		switch {
		case len(handed) > 0:
			return fact("tracks bridged frames",
				exact("not for bridged frames", fmt.Sprintf("bridged frames of %s are handed to the IP hooks, and "+
					"tracked there: netfilter.bridge ends both", handed[len(handed)-1])).At(Medium))
		case unknown:
			return Unsure("whether br_netfilter hands bridged frames to it was not read: " +
				"net.bridge.bridge-nf-call-iptables tells")
		}
		return fact("loaded, not for bridged frames", Fine("loaded, but no bridge hands its frames to it"))
	},
}
