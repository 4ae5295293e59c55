package report

import (
	"fmt"
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

// TestPlanFoldsCPUs: what is set alike for many CPUs is one line, with their list; what differs is not folded.
func TestPlanFoldsCPUs(t *testing.T) {
	p := &plan.Plan{}
	add := func(from, format string, cpus ...int) {
		for _, cpu := range cpus {
			p.Changes = append(p.Changes, plan.Change{ID: "cpu.governor", Risk: goal.None, From: setting.Value(from),
				To: setting.Value("performance"), Address: setting.Of(setting.Sysfs, fmt.Sprintf(format, cpu))})
		}
	}
	const governor = "devices/system/cpu/cpu%d/cpufreq/scaling_governor"
	add("powersave", governor, 0, 1, 2, 3, 5, 10, 11)
	add("schedutil", governor, 4)
	add("powersave", "devices/system/cpu/cpu%d/cpufreq/other", 6, 7)
	add("powersave", "devices/other/cpu%d/x", 8)
	text := draw(100, func(t *Text) { Plan(t, p) })
	for _, line := range []string{
		" 1-11 cpu.governor", "sysfs:devices/system/cpu/cpuN/cpufreq/scaling_governor CPUs 0-3,5,10-11\n",
		"sysfs:devices/system/cpu/cpu4/cpufreq/scaling_governor\n", "sysfs:devices/system/cpu/cpuN/cpufreq/other CPUs 6-7\n",
		"sysfs:devices/other/cpu8/x\n",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("no %q in\n%s", line, text)
		}
	}
	if n := strings.Count(text, "sysfs:"); n != 4 {
		t.Errorf("%d addresses in\n%s", n, text)
	}
}
