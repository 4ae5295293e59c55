package bench

import (
	"fmt"
	"strings"

	"mpps/internal/measure"
	"mpps/internal/report"
	"mpps/internal/words"
)

// TurnsText draws a comparison of two configurations that were measured in turns.
func TurnsText(t *report.Text, ab *measure.AB, saved []string) {
	t.Heading(words.Join(": ", "bench "+string(ab.Kind)+" in turns", ab.Name))
	t.Wrap("  ", endpointText(ab.BeforeRun.From)+" → "+endpointText(ab.BeforeRun.To))
	t.Wrap("  ", fmt.Sprintf("%s; %d blocks of four, seed %d", loadLine(&ab.BeforeRun), len(ab.Order), ab.Seed))
	for _, c := range ab.Changes {
		t.Wrap("  plan: ", fmt.Sprintf("%s %s → %s", c.Address, c.From, c.To))
	}
	t.Blank()
	t.Table([][]string{
		{"  as found", inUnit(ab.Before, ab.Unit), spread(ab.Before)},
		{"  as planned", inUnit(ab.After, ab.Unit), spread(ab.After)},
	})
	drawVerdict(t, ab.Verdict, &ab.Comparison, ab.Cost)
	for _, r := range []*measure.Run{&ab.BeforeRun, &ab.AfterRun} {
		if r.Kind == measure.PPS {
			t.Wrap("  "+r.Name+": limited by "+limit(t, r.Valid(), string(r.LimitedBy))+": ",
				strings.Join(r.Evidence, "; "))
		}
	}
	t.Blank()
	rows := [][]string{{"  block", "order", "as found, " + ab.Unit, "as planned, " + ab.Unit}}
	for i, block := range ab.Values {
		rows = append(rows, []string{fmt.Sprintf("  %5d", i+1), ab.Order[i], rateList(block.A), rateList(block.B)})
	}
	t.Table(rows)
	t.LineIf(ab.RolledBack, "  everything is as it was found; the plan was applied %s",
		words.Count(ab.Switches, "time"))
	t.SavedFiles(saved)
}

// ComparedText draws a comparison of two runs.
func ComparedText(t *report.Text, c *measure.Compared) {
	t.Heading(fmt.Sprintf("%s: %s → %s", c.Kind, c.Runs[0], c.Runs[1]))
	t.Table([][]string{
		{"  before", inUnit(c.Before, c.Unit), spread(c.Before)},
		{"  after", inUnit(c.After, c.Unit), spread(c.After)},
	})
	drawVerdict(t, c.Verdict, &c.Comparison, c.Cost)
}

// drawVerdict draws how two sides compare, and what each packet, transaction or byte costs.
func drawVerdict(t *report.Text, verdict string, c, cost *measure.Comparison) {
	verdict += words.If(!c.Significant, " no significant difference")
	t.Line("  %s  (%s, p = %.2g)", t.In(report.Bold, verdict), c.Test, c.P)
	if cost != nil && cost.Ratio.N > 0 {
		t.Line("  CPU cost of each: %s", cost)
	}
}
