package knob

import (
	"fmt"
	"slices"

	"mpps/internal/datapath"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

// nflogTools are the rule sets in which the skip rule can stand.
var nflogTools = []string{"iptables-legacy", "nft"}

var netfilterNFLOGSkip = &Knob{
	ID: "netfilter.nflog_skip", Title: "Packets skip accounting rules in raw PREROUTING", Stage: datapath.Netfilter, Risk: goal.Security,
	After: []string{"netfilter.bridge"}, Tiers: tiers(goal.Aggressive),
	Doc: Doc{
		Want: "present where NFLOG rules stand in raw PREROUTING",
		Why: "Some platforms count traffic with NFLOG rules for every interface in raw PREROUTING: each packet runs through all of them, at about 5 ns a rule, and matching ones are copied to user space. " +
			"One rule at the head of the chain that accepts everything but IP protocol 253 lets packets pass them by.",
		Cost:   "The accounting of those rules stops counting, except for protocol 253. Other rules in raw PREROUTING are passed by too: they are listed, and need consent.",
		Verify: "iptables -t raw -L PREROUTING -v -n: the first rule counts, the NFLOG rules do not.",
		Traps: []string{
			"It is needed on ZStack up to 3.9.1; 3.9.2 has such a rule itself.",
			"Bridged frames meet raw PREROUTING only while netfilter.bridge lets them; with that off this rule concerns routed packets.",
			"Rules added with -I later stand before it again.",
			"NOTRACK rules in raw are passed by as well, and connection tracking comes back.",
		},
		Sources: []Source{
			{"the rule, and ZStack's versions", "founding experience"},
			{"5 ns a rule", "measured, nftables and iptables-legacy with 10, 100 and 1000 rules"},
			{"protocol 253 is for experiments", "RFC 3692 section 2.1"},
		},
	},
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
		advice := Wants(setting.Exact("present"), fmt.Sprintf("every packet runs through %s for accounting", count(len(accounting), "NFLOG rule"))).
			At(Medium).warn("the accounting of these rules stops counting")
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
