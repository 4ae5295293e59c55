package main

import (
	"github.com/spf13/cobra"

	"mpps/internal/report"
)

// confirmed is the answer of confirm.
type confirmed struct {
	TX        string `json:"tx"`
	Confirmed bool   `json:"confirmed"`
}

func (a *app) confirmCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "confirm [TX]",
		Short: "keep the changes of an apply that would undo itself otherwise",
		Long: `Keeps the changes of 'mpps apply --confirm'. Without it they are undone when the
time is over: by a timer of systemd (mpps-confirm-TX), or by a process of its
own where systemd does not run.

  mpps apply plan.json --confirm 60s
  mpps confirm

Exit codes: 0 kept · 1 nothing waits to be confirmed, or it was undone already.`,
		Args: args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			if err := a.env().NeedsRoot("confirm"); err != nil {
				return err
			}
			e, err := a.engine(nil)
			if err != nil {
				return err
			}
			defer e.close()
			tx, err := e.Confirm(first(given))
			if err != nil {
				return err
			}
			a.unguard(cmd.Context(), tx)
			result := confirmed{tx, true}
			return a.out.Answer(report.Answer{
				Verb: "confirm", Host: e.name, Result: result,
				Text: func(t *report.Text) { t.Line("transaction %s is confirmed: its changes stay", tx) },
			})
		},
	}
}

// first is the first argument, empty where there is none.
func first(given []string) string {
	if len(given) == 0 {
		return ""
	}
	return given[0]
}
