package main

import (
	"io"
	"time"

	"github.com/spf13/cobra"

	"mpps/internal/advise/plan"
	"mpps/internal/cli"
	"mpps/internal/ops"
	"mpps/internal/ops/change"
	"mpps/internal/outcome"
	"mpps/internal/report"
	"mpps/internal/report/sheet"
)

func (a *app) planCommand() *cobra.Command {
	var flags goalFlags
	var snapshot, output string
	var interval time.Duration
	var detailed, runtimeOnly bool
	cmd := verb("plan", "show what would change: from, to, why, risk", cobra.NoArgs,
		func(cmd *cobra.Command, _ []string) error {
			g, err := flags.goal()
			if err != nil {
				return err
			}
			h, err := a.env().Gather(cmd.Context(), ops.Look{Snapshot: snapshot, Guest: g.Guest, Interval: interval})
			if err != nil {
				return err
			}
			defer h.Close()
			p, err := change.Plan(a.env(), h, change.Target{Goal: g, RuntimeOnly: runtimeOnly, Watch: flags.watch})
			if err != nil {
				return err
			}
			view := sheet.Sheet{Host: h.Facts, Plan: p, Warnings: ops.Caveats(h.Facts, g), Data: p}
			switch {
			case isPage(output):
				err = a.writeSheet(output, view)
			case output != "":
				err = a.writeJSON(output, func(w io.Writer) error { return plan.Encode(w, p) })
			}
			if err != nil {
				return err
			}
			if output != "-" {
				err = a.out.Answer(report.Answer{
					Verb: "plan", Host: h.Facts.Name, Result: p,
					Warnings: append(ops.Caveats(h.Facts, g), change.TunedCaveats(p, h.Facts)...),
					Text:     func(t *report.Text) { report.Plan(t, p) },
				})
				if err != nil {
					return err
				}
			}
			return exitIf(detailed && !p.Empty(), outcome.CodeChanges)
		})
	flags.add(cmd, a)
	flags.addWatch(cmd)
	cmd.Flags().StringVar(&snapshot, "snapshot", "", "use this snapshot file instead of this host")
	cli.OutputVar(cmd.Flags(), &output, "output,o", "", "write the plan to this file for 'mpps apply', or as a page "+
		"if it ends in .html; - is standard output")
	addInterval(cmd.Flags(), &interval)
	cmd.Flags().BoolVar(&runtimeOnly, "runtime-only", false, "change only the running host, nothing persistent")
	cmd.Flags().BoolVar(&detailed, "detailed-exit-code", false, "exit code 2 if changes are pending")
	return cmd
}
