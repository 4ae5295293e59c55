package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"mpps/internal/measure"
	"mpps/internal/measure/export"
	"mpps/internal/outcome"
	"mpps/internal/report"
)

// compared is the answer of bench compare.
type compared struct {
	Kind  measure.Kind `json:"kind"`
	Unit  string       `json:"unit"`
	Names [2]string    `json:"runs"` // what the runs are called
	measure.Comparison
	Verdict string              `json:"verdict"` // "~" for no significant difference
	Cost    *measure.Comparison `json:"cpu_ns_per_unit,omitempty"`
}

func (a *app) benchCompare() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "compare BEFORE.json AFTER.json",
		Short: "two runs: the ratio with its interval, or ~ for no difference",
		Long: `Compares two runs that 'mpps bench … -o FILE' wrote, by the Mann–Whitney U test
at the level of 5 %. The ratio is the Hodges–Lehmann estimate with its
interval. What else differed between the runs (host, kernel, load, generator)
is said.

  mpps bench compare before.json after.json`,
		Args: args(cobra.ExactArgs(2)),
		RunE: func(_ *cobra.Command, files []string) error {
			before, err := readRun(files[0])
			if err != nil {
				return err
			}
			after, err := readRun(files[1])
			if err != nil {
				return err
			}
			caveats, err := measure.Comparable(before, after)
			if err != nil {
				return usage(err, "compare runs of the same kind")
			}
			c := compared{
				Kind: before.Kind, Unit: before.Kind.Unit(), Names: [2]string{seriesLabel(before, files[0]), seriesLabel(after, files[1])},
				Comparison: measure.Compare(before.Values(), after.Values()),
			}
			c.Verdict = c.Comparison.String()
			cost := measure.Compare(costs(before), costs(after))
			c.Cost = &cost
			var warnings []outcome.Warning
			warnings = append(warnings, append(c.Comparison.Warnings, caveats...)...)
			return a.answer(report.Answer{
				Verb: "bench-compare", Host: after.Host, Result: c, Warnings: warnings,
				Text: func(t *report.Text) { drawComparison(t, &c) },
			}, func(s *export.Set) {
				s.Runs = []export.Labeled{{Label: c.Names[0], Side: "before", Run: before}, {Label: c.Names[1], Side: "after", Run: after}}
				s.Ratios = []export.Ratio{{Label: c.Names[0] + " → " + c.Names[1], Kind: c.Kind, Comparison: c.Comparison}}
			})
		},
	}
	formatFlag(cmd, "text", "json")
	return cmd
}

func costs(r *measure.Run) []float64 {
	values := make([]float64, len(r.Samples))
	for i, s := range r.Samples {
		values[i] = s.CPUNsPerUnit
	}
	return values
}

func drawComparison(t *report.Text, c *compared) {
	t.Heading(fmt.Sprintf("%s: %s → %s", c.Kind, c.Names[0], c.Names[1]))
	t.Table([][]string{
		{"  before", estimate(c.Before, c.Unit), spread(c.Before)},
		{"  after", estimate(c.After, c.Unit), spread(c.After)},
	})
	verdict := c.Verdict
	if !c.Significant {
		verdict += " no significant difference"
	}
	t.Line("  %s  (%s, p = %.2g)", t.In(report.Bold, verdict), c.Test, c.P)
	if c.Cost.Ratio.N > 0 {
		t.Line("  CPU cost of each: %s", c.Cost)
	}
}
