package main

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"mpps/internal/change/watch"
	"mpps/internal/cli"
	"mpps/internal/model/setting"
	"mpps/internal/ops/change"
	"mpps/internal/ops/monitor"
	"mpps/internal/outcome"
	"mpps/internal/report"
)

func (a *app) statusCommand() *cobra.Command {
	var detailed bool
	cmd := verb("status", "show what mpps changed on this host, and its state", cobra.NoArgs,
		func(cmd *cobra.Command, _ []string) error {
			s, err := change.ReadStatus(cmd.Context(), a.env(), true)
			if err == nil {
				err = a.out.Answer(report.Answer{
					Verb: "status", Host: s.Host, Result: s.Status, Warnings: s.Warnings,
					Text: func(t *report.Text) { report.Status(t, s.Status, a.verbose) },
				})
			}
			if err != nil || !detailed {
				return err
			}
			return outcome.Exit(s.Code())
		})
	cmd.Flags().BoolVar(&detailed, "detailed-exit-code", false, "exit code shows the state")
	return cmd
}

func (a *app) verifyCommand() *cobra.Command {
	var detailed, watching bool
	var o monitor.Options
	var cpus string
	cmd := verb("verify", "check that every applied value is still set", cobra.NoArgs,
		func(cmd *cobra.Command, _ []string) error {
			if watching {
				var err error
				if o.CPUs, err = setting.ParseCPUs(cpus); err != nil {
					return usage(fmt.Errorf("--cpus: %w", err), "such as --cpus 20-23")
				}
				o.Event = func(e watch.Event) error { return a.out.Line(e, report.Event(e)) }
				return monitor.Watch(cmd.Context(), a.env(), o)
			}
			if err := checkWatchFlags(cmd); err != nil {
				return err
			}
			s, err := change.ReadStatus(cmd.Context(), a.env(), false)
			if err != nil {
				return err
			}
			code := s.Code()
			if s.Waiting() && !detailed {
				code = outcome.CodeOK
			}
			return a.answerAs(report.Answer{
				Verb: "verify", Host: s.Host, Result: s.Status, Warnings: s.Warnings,
				Text: func(t *report.Text) { report.VerifyResult(t, s.Status, a.verbose) },
			}, code, cmp.Or(s.Status.Why, string(s.Status.State)))
		})
	cmd.Flags().BoolVar(&detailed, "detailed-exit-code", false, "exit code 2 if values wait for a restart")
	a.addExitCodes(cmd)
	cmd.Flags().BoolVar(&watching, "watch", false, "keep running and report when problems begin and end")
	cmd.Flags().DurationVar(&o.Every, "every", 30*time.Second, "with --watch: check interval, 1s to 1h")
	cmd.Flags().DurationVar(&o.For, "for", 0, "with --watch: how long to run; 0 until stopped")
	cmd.Flags().StringVar(&o.Metrics, "metrics", "", "with --watch: Prometheus metrics, as a file or on this "+
		"loopback HOST:PORT")
	cli.NumberVar(cmd.Flags(), &o.Cost, "cost", 1, 0.1, 50, "with --watch: CPU limit in percent of one CPU, 0.1 to 50")
	cmd.Flags().StringVar(&cpus, "cpus", "", "with --watch: CPUs to check (default: the isolated ones)")
	return cmd
}

// checkWatchFlags refuses flags that need --watch.
func checkWatchFlags(cmd *cobra.Command) error {
	for _, name := range []string{"every", "for", "metrics", "cost", "cpus"} {
		if cmd.Flags().Changed(name) {
			return usage(errors.New("--"+name+" belongs to --watch"), "mpps verify --watch --"+name+" …")
		}
	}
	return nil
}

func (a *app) historyCommand() *cobra.Command {
	var last int
	cmd := verb("history [TX]", "list applies and rollbacks, or show one with its changes", cobra.MaximumNArgs(1),
		func(cmd *cobra.Command, given []string) error {
			if len(given) > 0 {
				host, detail, err := change.Detail(cmd.Context(), a.env(), given[0])
				if err != nil {
					return err
				}
				return a.out.Answer(report.Answer{
					Verb: "history-tx", Host: host, Result: detail,
					Text: func(t *report.Text) { report.Transaction(t, detail) },
				})
			}
			all, err := change.History(a.env(), last)
			if all == nil {
				return err
			}
			printed := a.out.Answer(report.Answer{
				Verb: "history", Host: all.Host, Result: all, Warnings: all.Warnings,
				Text: func(t *report.Text) { report.History(t, all.Transactions, all.Earlier, a.verbose) },
			})
			return cmp.Or(printed, err)
		})
	cli.IntVar(cmd.Flags(), &last, "last", 200, 0, 1<<30, "list the last `N` transactions; 0 lists all")
	return cmd
}
