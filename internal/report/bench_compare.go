package report

import (
	"fmt"
	"strings"

	"mpps/internal/measure"
)

// BenchTurns draws a comparison of two configurations that were measured in turns.
func BenchTurns(t *Text, ab *measure.AB, saved []string) {
	title := "bench " + string(ab.Kind) + " in turns"
	if ab.Name != "" {
		title += ": " + ab.Name
	}
	t.Heading(title)
	t.Wrapped("  ", endpointText(ab.BeforeRun.From)+" → "+endpointText(ab.BeforeRun.To))
	t.Wrapped("  ", fmt.Sprintf("%s; %d blocks of four, seed %d", loadOf(&ab.BeforeRun), len(ab.Order), ab.Seed))
	for _, c := range ab.Changes {
		t.Wrapped("  plan: ", fmt.Sprintf("%s %s → %s", c.Address, c.From, c.To))
	}
	t.Blank()
	t.Table([][]string{
		{"  as found", estimate(ab.Before, ab.Unit), spread(ab.Before)},
		{"  as planned", estimate(ab.After, ab.Unit), spread(ab.After)},
	})
	verdict := ab.Verdict
	if !ab.Significant {
		verdict += " no significant difference"
	}
	t.Line("  %s  (%s, p = %.2g)", t.In(Bold, verdict), ab.Test, ab.P)
	if ab.Cost != nil && ab.Cost.Ratio.N > 0 {
		t.Line("  CPU cost of each: %s", ab.Cost)
	}
	for _, r := range []*measure.Run{&ab.BeforeRun, &ab.AfterRun} {
		style := Green
		if !r.Valid() {
			style = RedBold
		}
		if r.Kind == measure.PPS {
			t.Wrapped("  "+r.Name+": limited by "+t.In(style, string(r.LimitedBy))+": ", strings.Join(r.Evidence, "; "))
		}
	}
	t.Blank()
	rows := [][]string{{"  block", "order", "as found, " + ab.Unit, "as planned, " + ab.Unit}}
	for i, block := range ab.Values {
		rows = append(rows, []string{fmt.Sprintf("  %5d", i+1), ab.Order[i], rateList(block.A), rateList(block.B)})
	}
	t.Table(rows)
	if ab.RolledBack {
		t.Line("  everything is as it was found; the plan was applied %s", count(ab.Switches, "time"))
	}
	for _, file := range saved {
		t.Line("  saved as %s", file)
	}
}

// BenchCompare draws a comparison of two runs.
func BenchCompare(t *Text, c *measure.Compared) {
	t.Heading(fmt.Sprintf("%s: %s → %s", c.Kind, c.Runs[0], c.Runs[1]))
	t.Table([][]string{
		{"  before", estimate(c.Before, c.Unit), spread(c.Before)},
		{"  after", estimate(c.After, c.Unit), spread(c.After)},
	})
	verdict := c.Verdict
	if !c.Significant {
		verdict += " no significant difference"
	}
	t.Line("  %s  (%s, p = %.2g)", t.In(Bold, verdict), c.Test, c.P)
	if c.Cost.Ratio.N > 0 {
		t.Line("  CPU cost of each: %s", c.Cost)
	}
}
