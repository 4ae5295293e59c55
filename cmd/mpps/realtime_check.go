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

func (a *app) realtimeCheckCommand() *cobra.Command {
	var ask monitor.RealtimeOptions
	var list string
	var failOn failOn
	cmd := &cobra.Command{
		Use:   "check",
		Short: "find what runs on CPUs that are set aside, and why",
		Long: `Compares everything that says which CPU is for what: isolcpus, nohz_full,
rcu_nocbs and irqaffinity of this boot and of the next one, what the kernel
shows of them, irqbalance, control groups, the guests' pins, priorities, memory
and threads, interrupts, workqueues, watchdogs. Then it watches the CPUs for a
while and says what ran and what interrupted there, and whether the CPUs that
are left are enough for the host. Each contradiction and each intruder is named
worst first, with its numbers and with what mends it, or that nothing does.
Nothing is changed. Watching takes at most 2 % of one CPU.

The CPUs are those of --cpus, else of the vCPUs of --guest, else those that are
isolated or without a tick. What could not be seen is said, and is no finding.

  mpps realtime check
  mpps realtime check --guest rt1 --for 30s
  mpps realtime check --cpus 20-23 --fail-on high --json
  mpps snapshot --interval 5s -o host.json     carries what was watched
  mpps realtime check --snapshot host.json

Exit codes: 0 all well, or findings below --fail-on · 1 failed · 3 no CPU is set
aside · 4 a finding is as severe as --fail-on or more.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
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
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&ask.Guest, "guest", "", "the guest that the CPUs are for")
	flags.StringVar(&list, "cpus", "", "CPUs that should be quiet, such as 20-23")
	flags.DurationVar(&ask.For, "for", 5*time.Second, "how long to watch, at most an hour; 0 does not watch")
	flags.StringVar(&ask.Snapshot, "snapshot", "", "a snapshot file instead of this machine")
	failOn.add(cmd, "finding")
	return cmd
}
