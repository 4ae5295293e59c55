package main

import (
	"cmp"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"mpps/internal/advise/realtime"
	"mpps/internal/model/setting"
	"mpps/internal/ops"
	"mpps/internal/ops/monitor"
	"mpps/internal/outcome"
	"mpps/internal/report"
)

func (a *app) realtimeCommand() *cobra.Command {
	return verbs("realtime", "check the CPUs of realtime guests", a.realtimeCheckCommand())
}

func (a *app) realtimeCheckCommand() *cobra.Command {
	var ask monitor.RealtimeOptions
	var list string
	var failOn failOn
	cmd := verb("check", "find what disturbs isolated CPUs, and why", cobra.NoArgs,
		func(cmd *cobra.Command, _ []string) (err error) {
			if ask.CPUs, err = setting.ParseCPUs(list); err != nil {
				return usage(fmt.Errorf("--cpus: %w", err), "such as --cpus 20-23")
			}
			fails, err := failOn.severity()
			if err != nil {
				return err
			}
			ask.Asked = cmd.Flags().Changed("for")
			h, r, err := monitor.Realtime(cmd.Context(), a.env(), ask)
			if err != nil {
				return err
			}
			err = a.out.Answer(report.Answer{
				Verb: "realtime-check", Host: h.Name, Result: r, Warnings: ops.AccessWarnings(h),
				Text: func(t *report.Text) { report.RealtimeCheck(t, r, a.verbose) },
			})
			return cmp.Or(err, exitIf(r.State == realtime.NotIsolated, outcome.CodeNotConfigured),
				exitIf(fails != nil && len(r.AtLeast(*fails)) > 0, outcome.CodeDrifted))
		})
	flags := cmd.Flags()
	flags.StringVar(&ask.Guest, "guest", "", "guest that the CPUs are isolated for")
	flags.StringVar(&list, "cpus", "", "CPUs to check, such as 20-23")
	flags.DurationVar(&ask.For, "for", 5*time.Second, "how long to watch, at most 1h; 0 only compares settings")
	flags.StringVar(&ask.Snapshot, "snapshot", "", "use this snapshot file instead of this host")
	failOn.add(cmd, "finding")
	return cmd
}
