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
	ID: "netfilter.nflog_skip", Stage: datapath.Netfilter, Risk: goal.Security,
	After: []string{"netfilter.bridge"}, Tiers: tiers(goal.Aggressive),
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
