package report

import (
	"fmt"

	"mpps/internal/apply"
	"mpps/internal/facts"
	"mpps/internal/sriov"
)

// Assigned draws what a guest was given, and what that means.
func Assigned(t *Text, g *sriov.Gift, r apply.Result, dryRun, verbose bool) {
	what := fmt.Sprintf("function %d of %s (%s)", g.Index, g.PF, g.PCI)
	if g.Form == facts.ByNetwork {
		what = "one function of pool " + g.Network + " (" + g.PF + ")"
	}
	where := ""
	if g.Node >= 0 {
		where = fmt.Sprintf(", card on node %d", g.Node)
		if len(g.GuestNodes) > 0 {
			where += ", guest on node " + g.GuestNodes.String()
		}
	}
	gets := "gets"
	if dryRun {
		gets = "would get"
	}
	t.Wrapped(t.In(Bold, "guest "+g.Guest)+" ", fmt.Sprintf("%s %s as %s, MAC %s%s", gets, what, g.Form, g.MAC, where))
	Applied(t, r, dryRun, verbose)
	t.Line("")
	t.Line("what it means:")
	for _, line := range g.Means {
		t.Wrapped("  - ", line)
	}
	t.Line("in the guest:")
	for _, line := range g.Inside {
		t.Wrapped("  - ", line)
	}
}

// Released draws what was taken back.
func Released(t *Text, b *sriov.Returned, r apply.Result, dryRun, verbose bool) {
	what := fmt.Sprintf("function %d of %s (%s)", b.Index, b.PF, b.PCI)
	if b.Network != "" {
		what = "interface " + b.MAC + " of pool " + b.Network
	}
	back := "is taken back"
	if dryRun {
		back = "would be taken back"
	}
	t.Wrapped(t.In(Bold, what)+" ", back+" from guest "+b.Guest)
	Applied(t, r, dryRun, verbose)
	for _, line := range b.Left {
		t.Wrapped("later: ", line)
	}
}
