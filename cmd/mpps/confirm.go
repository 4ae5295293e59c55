package main

import (
	"github.com/spf13/cobra"

	"mpps/internal/ops/change"
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
		Short: "keep the changes of an apply before they are reverted",
		Args:  args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			host, tx, err := change.Confirm(cmd.Context(), a.env(), firstArg(given))
			if err != nil {
				return err
			}
			return a.out.Answer(report.Answer{
				Verb: "confirm", Host: host, Result: confirmed{tx, true},
				Text: func(t *report.Text) { t.Line("transaction %s is confirmed: its changes stay", tx) },
			})
		},
	}
}

// firstArg returns the first argument, empty if there is none.
func firstArg(given []string) string {
	if len(given) == 0 {
		return ""
	}
	return given[0]
}
