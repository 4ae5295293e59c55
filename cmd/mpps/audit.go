package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mpps/internal/audit"
	"mpps/internal/knob"
	"mpps/internal/ops"
	"mpps/internal/outcome"
	"mpps/internal/report"
)

func (a *app) auditCommand() *cobra.Command {
	var flags goalFlags
	var snapshot, failOn string
	var interval time.Duration
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "what holds the path back, worst first",
		Long: `Judges every value of which the catalogue speaks against a target. Findings that
are off come first, worst first; a value that could not be read is no verdict.
Some knobs decide by what is lost now: watch under load with --interval.

  mpps audit --pps 1.8M
  mpps audit --pps 500k --guest web1 --interval 2s
  mpps audit --snapshot customer.json --pps 1.8M --json
  mpps audit --fail-on high          exit code 4 where one is high or worse`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			g, err := flags.goal()
			if err != nil {
				return err
			}
			if failOn != "" && !slices.Contains(knob.Severities(), failOn) {
				return usage(fmt.Errorf("--fail-on %q: expected one of %s", failOn, strings.Join(knob.Severities(), ", ")), "")
			}
			m, err := a.env().Gather(cmd.Context(), ops.Look{Snapshot: snapshot, Guest: g.Guest, Interval: interval})
			if err != nil {
				return err
			}
			defer m.Close()
			if err := m.Has(g); err != nil {
				return err
			}
			r := audit.RunWith(m.Facts, g, knob.Catalogue(), m.Site.Adjust)
			err = a.out.Answer(report.Answer{
				Verb: "audit", Host: m.Facts.Name, Result: r, Warnings: ops.Caveats(m.Facts, g),
				Text: func(t *report.Text) { report.Audit(t, r, a.verbose) },
			})
			if err != nil {
				return err
			}
			if failOn != "" {
				var worst knob.Severity
				if err := worst.UnmarshalText([]byte(failOn)); err != nil {
					return err
				}
				if len(r.AtLeast(worst)) > 0 {
					return outcome.Exit(outcome.CodeDrifted)
				}
			}
			return nil
		},
	}
	flags.add(cmd)
	cmd.Flags().StringVar(&snapshot, "snapshot", "", "a snapshot file instead of this machine")
	cmd.Flags().StringVar(&failOn, "fail-on", "", "exit with 4 where a finding has this severity or worse: "+strings.Join(knob.Severities(), ", "))
	cmd.Flags().DurationVar(&interval, "interval", 0, "watch the counters for this long first, such as 2s")
	return cmd
}
