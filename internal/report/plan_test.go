package report

import (
	"strings"
	"testing"

	"mpps/internal/advise/plan"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// TestPlanTerms: what an operator must see before signing: the rules that stop matching, also those consented to, under
// the changes that they belong to, and what becomes of the way in.
func TestPlanTerms(t *testing.T) {
	c := func(path, rule string, risk goal.Risk) plan.Change {
		change := plan.Change{ID: "netfilter.bridge", Address: setting.Of(setting.Sysctl, path),
			From: setting.Value("1"),
			To:   setting.Value("0"), Risk: risk}
		if rule != "" {
			change.Rules = []string{rule}
		}
		return change
	}
	p := &plan.Plan{
		Changes: []plan.Change{
			c("a.iptables", "-A FORWARD -s 10.0.0.1", goal.Security), c("a.ip6tables", "-A FORWARD -s fc00::1",
				goal.Security), c("b", "", goal.Security),
		},
		Consent: []plan.Change{c("c", "-A FORWARD -s 10.0.0.3", goal.Data)},
		Management: []plan.Management{{NIC: "eth0", Why: "default route", Touched: true},
			{NIC: "eth1", Why: "default route"}},
		Restarts: []plan.Restart{{What: setting.RestartOf("vm1"),
			Addresses: []setting.Address{setting.Of(setting.Sysctl, "b")}}},
	}
	text := draw(100, func(t *Text) { Plan(t, p) })
	last := 0
	for _, line := range []string{
		" 1 netfilter.bridge", "sysctl:a.iptables", "these rules would stop matching:", "-A FORWARD -s 10.0.0.1",
		" 2 netfilter.bridge", "sysctl:a.ip6tables", "these rules would stop matching:", "-A FORWARD -s fc00::1",
		" 3 netfilter.bridge", "sysctl:b", "planned only with consent", "-A FORWARD -s 10.0.0.3", "add --consent data",
		"restart of guest vm1: 1 change takes effect then",
		"eth0: default route; this plan changes it, nothing that could cut it", "eth1: default route; not touched",
	} {
		at := strings.Index(text[last:], line)
		if at < 0 {
			t.Fatalf("no %q in its place in\n%s", line, text)
		}
		last += at
	}
	p.Changes[2].Risk = goal.Connectivity
	if text := draw(100, func(t *Text) { Plan(t, p) }); !strings.Contains(text, "apply undoes itself unless") {
		t.Errorf("no word of confirming in\n%s", text)
	}
}
