package main

import (
	"github.com/spf13/cobra"

	"mpps/internal/measure"
	"mpps/internal/measure/export"
	"mpps/internal/ops/saved"
	"mpps/internal/report"
	"mpps/internal/report/bench"
)

func (a *app) benchCompare() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "compare BEFORE.json AFTER.json",
		Short: "compare two runs: ratio and interval, or ~ for no difference",
		Args:  args(cobra.ExactArgs(2)),
		RunE: func(_ *cobra.Command, files []string) error {
			var runs [2]*measure.Run
			var names [2]string
			for i, file := range files {
				r, err := saved.ReadRun(file)
				if err != nil {
					return err
				}
				runs[i], names[i] = r.Run, r.Label()
			}
			before, after := runs[0], runs[1]
			c, caveats, err := measure.CompareRuns(before, after, names)
			if err != nil {
				return usage(err, "compare runs of the same kind")
			}
			return a.answer(report.Answer{
				Verb: "bench-compare", Host: after.Host, Result: c, Warnings: caveats,
				Text: func(t *report.Text) { bench.ComparedText(t, c) },
			}, func(s *export.Set) {
				s.Runs = []export.Labeled{{Label: c.Runs[0], Side: "before", Run: before},
					{Label: c.Runs[1], Side: "after", Run: after}}
				s.Ratios = []export.Ratio{{Label: c.Runs[0] + " → " + c.Runs[1], Kind: c.Kind,
					Comparison: c.Comparison}}
			})
		},
	}
	formatFlag(cmd, "text", "json")
	return cmd
}
