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
	ID: "netfilter.bridge", Title: "Bridged frames skip iptables", Stage: datapath.Netfilter, Risk: goal.Security,
	Tiers: viaKernel(),
	Doc: Doc{
		Want: "0, the bridges' own switches first; where rules would stop matching only with consent",
		Why: "With br_netfilter loaded, every bridged IP frame is taken through PREROUTING, FORWARD and POSTROUTING of iptables and nftables, " +
			"as if it were routed. Measured on the path veth–bridge–veth: 227 ns a packet without a single rule (a third of the throughput), 5 ns more for each rule it runs through.",
		Cost:   "Rules that guests' security depends on stop matching bridged frames: security groups, anti-spoofing, container policies. They are listed before consent is asked for (--consent security); where no rule would stop matching there is no risk, and none is asked for.",
		Verify: "sysctl net.bridge shows 0; the counters of rules in FORWARD no longer grow with bridged traffic.",
		Traps: []string{
			"Both switches are needed: the kernel runs the hooks if either the bridge's own nf_call_iptables or net.bridge.bridge-nf-call-iptables is 1. The bridge's own are changed first, so that at no moment more bridges are filtered than before.",
			"Loading br_netfilter again (docker, kube-proxy, firewalld and libvirt's nwfilter do) brings the sysctls back to 1.",
			"Container engines and Kubernetes need the sysctl at 1: on such a host leave it alone, or give their bridge its own nf_call_iptables=1.",
			"Unloading br_netfilter has the same effect, and fails while anything uses it.",
		},
		Sources: []Source{
			{"either switch runs the hooks", "net/bridge/br_netfilter_hooks.c, br_nf_pre_routing: !brnet->call_iptables && !br_opt_get(br, BROPT_NF_CALL_IPTABLES)"},
			{"the bridge's own switches", "net/bridge/br_sysfs_br.c, nf_call_iptables"},
			{"sysctls start at 1 for each network namespace", "net/bridge/br_netfilter_hooks.c, br_netfilter_sysctl_default; Documentation/networking/ip-sysctl.rst, /proc/sys/net/bridge"},
			{"cost", "measured, 0.63 of the throughput without a rule, 0.07 with 1000 rules"},
		},
	},
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
