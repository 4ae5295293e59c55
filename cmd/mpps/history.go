package main

import (
	"cmp"

	"github.com/spf13/cobra"

	"mpps/internal/cli"
	"mpps/internal/ops/change"
	"mpps/internal/report"
)

func (a *app) historyCommand() *cobra.Command {
	var last int
	cmd := &cobra.Command{
		Use:   "history [TX]",
		Short: "list applies and rollbacks, or show one with its changes",
		Args:  args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
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
		},
	}
	cli.IntVar(cmd.Flags(), &last, "last", 200, 0, 1<<30, "list the last `N` transactions; 0 lists all")
	return cmd
}
