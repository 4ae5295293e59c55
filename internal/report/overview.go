package report

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/advise/audit"
	"mpps/internal/change/apply"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/reach"
	"mpps/internal/words"
)

// Overview says in five lines what a host is, what limits it, what mpps changed and which command helps most. The
// state of mpps is empty, with a reason, if it could not be read.
func Overview(t *Text, h *facts.Host, r audit.Report, s apply.Status) {
	c := h.Topology.Counts
	t.Wrap("", t.In(Bold, headline(h))+" · "+words.Join(", ", words.Count(c.CPUsOnline, "CPU"),
		words.Count(c.NUMANodes, "NUMA node")))
	t.Wrap("guests:   ", waysText(h))
	target := goal.FormatRate(r.Goal.PPS)
	t.Wrap("settings: ", "for "+target+" packets/s: "+r.Verdict)
	t.Wrap("mpps:     ", words.Join(": ", string(s.State), s.Why))
	command, why := nextCommand(h, r, s)
	t.Wrap("next:     ", t.In(Bold, command)+"  "+why+" ('mpps --help' lists all commands)")
}

// waysText says how the running guests reach the wire: how many by which bridge and NIC, the most first.
func waysText(h *facts.Host) string {
	paths := reach.Of(h)
	running := slices.Clone(paths.Paths)
	running = slices.DeleteFunc(running, func(p reach.Path) bool { return !p.Active })
	groups := Group(running, wayKey)
	slices.SortStableFunc(groups, func(a, b []reach.Path) int { return len(b) - len(a) })
	const most = 3
	ways := words.Each(groups[:min(len(groups), most)], func(all []reach.Path) string {
		by := words.Each(outward(all[0].Hops), func(hop reach.Hop) string {
			return words.If(hop.Kind != "NIC", "%s", hop.Device)
		})
		way := words.Either(all[0].Has(reach.Function), "virtual functions", words.Join(", ", by...))
		return fmt.Sprintf("%s by %s%s", words.Count(len(all), "NIC"), words.Either(way != "", way, "no bridge"),
			words.If(len(all[0].NICs) > 0, " over %s", strings.Join(all[0].NICs, ", ")))
	})
	on := 0
	for _, g := range h.Guests {
		if g.Active() {
			on++
		}
	}
	if len(h.Guests) == 0 {
		return words.Join("; ", words.Either(paths.Unsure() == "", "none", "none was seen"), paths.Unsure())
	}
	return words.Join(": ", fmt.Sprintf("%s, %d running", words.Count(len(h.Guests), "guest"), on),
		words.Join("; ", append(ways, words.If(len(groups) > most, "%d other ways", len(groups)-most))...))
}

// nextCommand returns the command that helps most on a host as it is, and why.
func nextCommand(h *facts.Host, r audit.Report, s apply.Status) (command, why string) {
	switch s.State {
	case apply.IsInFlight:
		return "mpps history", "shows what another mpps does at the moment"
	case apply.IsWaiting:
		return "mpps status", "shows what waits for a restart"
	case apply.IsDrifted:
		return "mpps verify", "lists the values that something else has changed"
	case apply.IsInterrupted, apply.IsInDoubt, apply.IsFailed:
		return "mpps status", "says how to restore what an interrupted run left"
	}
	switch {
	case len(h.Guests) == 0:
		return "mpps inspect", "shows what this host is"
	case len(r.InState(audit.Off)) > 0:
		return "mpps audit --pps " + goal.FormatRate(r.Goal.PPS), "lists what limits it, worst first"
	}
	return "mpps diagnose", "finds the limit while packets flow"
}
