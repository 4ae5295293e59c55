package report

import (
	"strings"
	"testing"

	"mpps/internal/advise/plan"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestPlanTerms: what an operator must see before signing: the rules that stop matching, also those consented to, under
// the changes that they belong to, and what becomes of the way in.
func TestPlanTerms(t *testing.T) {
	c := func(path, rule string, risk goal.Risk) plan.Change {
		change := plan.Change{ID: "netfilter.bridge", Address: setting.Of(setting.Sysctl, path),
			From: setting.Value("1"), To: setting.Value("0"), Risk: risk}
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
	text := Draw(100, func(t *Text) { Plan(t, p) })
	last := 0
	for _, line := range []string{
		" 1 netfilter.bridge", "sysctl:a.iptables", "these rules would stop matching:", "-A FORWARD -s 10.0.0.1",
		" 2 netfilter.bridge", "sysctl:a.ip6tables", "these rules would stop matching:", "-A FORWARD -s fc00::1",
		" 3 netfilter.bridge", "sysctl:b", "planned only with consent", "-A FORWARD -s 10.0.0.3", "add --consent data",
		"restart of guest vm1: 1 change takes effect then",
		"eth0: default route; this plan changes it, nothing that could cut it", "eth1: default route; not touched",
	} {
		at := strings.Index(text[last:], line)
		must.Need(t, at >= 0, "no %q in its place in\n%s", line, text)
		last += at
	}
	p.Changes[2].Risk = goal.Connectivity
	if text := Draw(100, func(t *Text) { Plan(t, p) }); !strings.Contains(text, "apply undoes itself unless") {
		t.Errorf("no word of confirming in\n%s", text)
	}
}

// TestPlanFolds: changes that differ in a number alone are one line, with the numbers as a list. Addresses of MACs and
// functions, whose numbers are no counts, and other values stay apart; each of many takes a line.
func TestPlanFolds(t *testing.T) {
	p := &plan.Plan{Phases: []plan.Phase{{Name: plan.PhaseNow, What: "at once"}}}
	change := func(id, path, from, to string, needs setting.Needs) {
		p.Changes = append(p.Changes, plan.Change{ID: id, Address: setting.Of(setting.Sysctl, path),
			From: setting.Value(from), To: setting.Value(to), Needs: needs})
	}
	for _, cpu := range []string{"0", "1", "2", "7", "03"} {
		change("governor", "cpu"+cpu+"/a0", "powersave", "performance", setting.Needs{})
	}
	change("governor", "cpu9/a0", "schedutil", "performance", setting.Needs{})
	for _, guest := range []string{"t1", "t2", "t3", "t4"} {
		change("backend", guest+"/52:54:00:00:00:2"+guest[1:]+"/x", "absent", "vhost", setting.RestartOf(guest))
		p.Phases = append(p.Phases, plan.Phase{Name: plan.PhaseGuest, What: "restart of guest " + guest, Changes: 1,
			IDs: []string{"backend"}})
	}
	change("texts", "mac 52:1:3", "a", "b", setting.Needs{})
	change("texts", "mac 52:2:3", "a", "b", setting.Needs{})
	text := Draw(100, func(t *Text) { Plan(t, p) })
	must.Contain(t, text, "restart of guest t1, restart of guest t2, restart of guest t3, restart of guest t4", "1 change each: backend",
		"sysctl:cpu{0-2,7}/a0\n   - powersave\n   + performance", "sysctl:cpu03/a0", "sysctl:cpu9/a0\n   - schedutil",
		"sysctl:t1/52:54:00:00:00:21/x  absent → vhost", "sysctl:t4/52:54:00:00:00:24/x  absent → vhost",
		"takes effect after restart of the guest that each belongs to", "sysctl:mac 52:1:3", "sysctl:mac 52:2:3")
}

// TestPlanLeftAlone: a reason that holds for several values is written once, with the values whole below it.
func TestPlanLeftAlone(t *testing.T) {
	skipped := func(id, path, found, why string) plan.Skipped {
		return plan.Skipped{ID: id, Address: setting.Of(setting.Sysctl, path), Found: found, Wanted: "1", Why: why}
	}
	mask := strings.Repeat("00000000,", 5) + "000000ff"
	p := &plan.Plan{Skipped: []plan.Skipped{skipped("nic.xps", "a", mask, "irqbalance runs"),
		skipped("nic.rps", "b", "2", "read only"), skipped("nic.rfs", "c", "3", "irqbalance runs"),
		skipped("nic.rfs", "d", "3", "irqbalance runs")}}
	text := Draw(100, func(t *Text) { Plan(t, p) })
	_, text, _ = strings.Cut(text, "left alone\n")
	must.Equal(t, text[:strings.Index(text, "digest")], `   irqbalance runs:
     nic.xps  sysctl:a: `+mask+` → 1
     nic.rfs  sysctl:c, sysctl:d: 3 → 1
   read only:
     nic.rps  sysctl:b: 2 → 1
`, "what is left alone")
}
