package knob

import (
	"fmt"
	"slices"

	"mpps/internal/datapath"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

// bypassTools are the tools whose whole rule sets can be saved and put back, each table in one transaction.
var bypassTools = []string{"nft", "iptables-legacy", "ip6tables-legacy", "ebtables-legacy"}

var netfilterBypass = &Knob{
	ID: "netfilter.bypass", Title: "No rules at all, on a host that only measures", Stage: datapath.Netfilter, Risk: goal.Security,
	After: []string{"netfilter.bridge", "netfilter.nflog_skip"}, Tiers: tiers(goal.Aggressive),
	Doc: Doc{
		Want: "no rules, with the consents security and connectivity; else as they are",
		Why: "What a rule costs is known only without it. On a host that nothing else depends on, the rule sets of nft, iptables, ip6tables and ebtables are saved, emptied for the measurement, and put back by rollback. " +
			"On any other host netfilter.bridge and netfilter.nflog_skip take the rules out of the guests' way and leave the host's own alone.",
		Cost: "Everything that the rules did: the host's firewall, NAT of libvirt's default network and of containers, security groups. Guests behind NAT lose their network. " +
			"Daemons that own rules (firewalld, docker, libvirt) put theirs back when they are reloaded, and rollback then replaces what they made since.",
		Verify: "nft list ruleset, iptables-legacy-save and ebtables-legacy -L show no rule; after rollback they show what they showed before.",
		Traps: []string{
			"It needs two consents, --consent security,connectivity: the rule that accepts the operator's own connection goes with the others, and one consent is given too easily for another change.",
			"Counters start at zero after the restore, and connection tracking goes on for connections that it knows.",
			"Rule sets made by iptables-nft with old matches cannot be read back by nft: they are left alone, and mpps says so. So are rules that ebtables-legacy-restore cannot read back (lines of 2 kB and more, such as long --among lists), and all of arptables-legacy.",
			"rmmod of netfilter modules, often advised with it, is refused by the kernel while their use count is not 0, and brings nothing once no rule calls them.",
		},
		Sources: []Source{
			{"all rules gone, on benchmark hosts only", "founding experience"},
			{"5 ns a rule and packet", "measured, nftables and iptables-legacy with 10, 100 and 1000 rules"},
			{"one transaction each, or one a table", "nft(8), -f; iptables-restore(8); ebtables-restore.c of ebtables 2.0.11"},
		},
	},
	Where: func(h *facts.Host) []setting.Address {
		var all []setting.Address
		for _, tool := range bypassTools {
			if slices.ContainsFunc(h.Netfilter.Rules, func(s facts.RuleSet) bool { return s.Tool == tool && s.Rules > 0 }) {
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
		for _, risk := range []goal.Risk{goal.Security, goal.Connectivity} {
			if !slices.Contains(v.Goal.Consent, risk) {
				return Fine(fmt.Sprintf("%s stand; only on a host that does nothing but measure they can be taken away, with --consent security,connectivity", count(rules.Rules, "rule")))
			}
		}
		advice := Wants(setting.NotThere(), fmt.Sprintf("%s of %s are in the way of packets, and the user consents to a host without any", count(rules.Rules, "rule"), a.Path)).At(Low)
		advice.Rules = rules.Lines
		return advice.warn("the host is open, and guests behind NAT have no network, until the rollback")
	},
}

var netfilterConntrack = &Knob{
	ID: "netfilter.conntrack", Title: "Guests' packets are not tracked as connections", Stage: datapath.Netfilter, Risk: goal.Security, Check: true,
	After: []string{"netfilter.bridge"}, Tiers: viaKernel(),
	Doc: Doc{
		Want: "not loaded, or not for bridged frames",
		Why: "Connection tracking looks every packet up in a table and makes an entry for every new flow: some 100 ns a packet, a lock for each new flow, and a table that small packets of many flows fill, after which packets are dropped. " +
			"Bridged frames are tracked only where br_netfilter hands them to the IP hooks, or where a rule of the bridge family asks for it.",
		Cost:   "Stateful rules (ESTABLISHED, NAT, security groups) no longer see these packets.",
		Verify: "conntrack -C stays constant under load of the guests; nf_conntrack_count in /proc/sys/net/netfilter.",
		Traps: []string{
			"The module is loaded by the first rule that asks for state, in any namespace: that it is loaded does not mean that bridged frames pass it.",
			"NOTRACK for a bridge (raw PREROUTING, -m physdev) works only while br_netfilter hands frames over; netfilter.bridge off makes it needless.",
			"Raising nf_conntrack_max keeps a full table from dropping, and makes no packet cheaper.",
			"A rule of the bridge family with ct loads nf_conntrack_bridge, which tracks bridged frames without br_netfilter.",
		},
		Sources: []Source{
			{"bridged frames reach the IP hooks only through br_netfilter", "net/bridge/br_netfilter_hooks.c, br_nf_pre_routing"},
			{"tracking in the bridge family", "net/bridge/netfilter/nf_conntrack_bridge.c"},
			{"table full drops", "net/netfilter/nf_conntrack_core.c, early_drop"},
		},
	},
	Where: fixed(setting.Of(setting.Fact, "host", "conntrack")),
	Want: func(v *View, a setting.Address) Advice {
		switch {
		case !v.Netfilter.Conntrack:
			return seen("not loaded", Fine("nf_conntrack is not loaded"))
		case len(v.Bridges) == 0:
			return Skips("there is no bridge")
		case !v.Netfilter.BridgeModule:
			return seen("loaded, not for bridged frames", Fine("loaded, but bridged frames do not reach it: br_netfilter is not loaded"))
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
			return seen("tracks bridged frames", Wants(setting.Exact("not for bridged frames"), fmt.Sprintf("bridged frames of %s are handed to the IP hooks, and tracked there: netfilter.bridge ends both", handed[len(handed)-1])).At(Medium))
		case unknown:
			return Unsure("whether br_netfilter hands bridged frames to it was not read: net.bridge.bridge-nf-call-iptables tells")
		}
		return seen("loaded, not for bridged frames", Fine("loaded, but no bridge hands its frames to it"))
	},
}
