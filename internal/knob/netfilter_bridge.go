package knob

import (
	"fmt"
	"strings"

	"mpps/internal/datapath"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

var bridgeCalls = []struct{ name, tools string }{
	{"iptables", "iptables"}, {"ip6tables", "ip6tables"}, {"arptables", "arptables"},
}

var netfilterBridge = &Knob{
	ID: "netfilter.bridge", Stage: datapath.Netfilter, Risk: goal.Security,
	Tiers: viaKernel(),
	Where: func(h *facts.Host) []setting.Address {
		var all []setting.Address
		for _, b := range h.Bridges {
			for _, call := range bridgeCalls {
				all = append(all, setting.Of(setting.Sysfs, "class/net", b.Name, "bridge/nf_call_"+call.name))
			}
		}
		for _, call := range bridgeCalls {
			all = append(all, setting.Of(setting.Sysctl, "net.bridge.bridge-nf-call-"+call.name))
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
		rules := v.bridged(tool)
		if v.Tier == goal.Standard && len(rules) > 0 {
			return Fine(fmt.Sprintf("%s may belong to the guests' security, and the target does not need them gone", count(len(rules), "rule")))
		}
		if len(rules) == 0 {
			advice := Wants(setting.Exact("0"), "bridged frames are taken through the host's hooks, where no rule waits for them: 0.2 µs a packet for nothing").At(High)
			advice.Risk = goal.None
			return advice
		}
		advice := Wants(setting.Exact("0"), fmt.Sprintf("bridged frames are taken through the host's hooks and %s of %s", count(len(rules), "rule"), tool)).At(High)
		advice.Rules = rules
		return advice.warn("these rules stop matching bridged frames")
	},
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
