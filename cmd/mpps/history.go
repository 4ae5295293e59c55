package main

import (
	"errors"

	"github.com/spf13/cobra"

	"mpps/internal/apply"
	"mpps/internal/journal"
	"mpps/internal/outcome"
	"mpps/internal/report"
)

// transactions is the answer of history.
type transactions struct {
	Transactions []apply.Entry `json:"transactions"`
}

func (a *app) historyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "history [TX]",
		Short: "every apply and rollback on this host, or one with its changes",
		Long: `Lists what mpps did on this host, the latest last: when, how many values, and
what became of it. With the name of a transaction (or its beginning) its
changes too, and what those that stand still wait for. The trials of a tuning
run that are put back are one line; -v lists them.

  mpps history
  mpps history 20261120T210912

Exit codes: 0 · 1 a journal could not be read, and is named.`,
		Args: args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			e, err := a.engine(nil)
			if err != nil {
				return err
			}
			defer e.close()
			if len(given) > 0 {
				e.watchGuests(cmd.Context(), a.root)
				detail, err := e.Detail(cmd.Context(), given[0])
				if err != nil {
					return err
				}
				return a.out.Answer(report.Answer{
					Verb: "history-tx", Host: e.name, Result: detail,
					Text: func(t *report.Text) { report.Transaction(t, detail) },
				})
			}
			entries, err := e.History()
			result := transactions{entries}
			printed := a.out.Answer(report.Answer{
				Verb: "history", Host: e.name, Result: result, Warnings: refusals(err),
				Text: func(t *report.Text) { report.History(t, entries, a.verbose) },
			})
			if printed != nil {
				return printed
			}
			var refused *journal.Refused
			if errors.As(err, &refused) {
				return outcome.Exit(outcome.CodeFailed)
			}
			return err
		},
	}
}

// refusals are the journals that are not believed, as warnings.
func refusals(err error) []outcome.Warning {
	var all []outcome.Warning
	var joined interface{ Unwrap() []error }
	var refused *journal.Refused
	switch {
	case errors.As(err, &joined):
		for _, one := range joined.Unwrap() {
			all = append(all, refusals(one)...)
		}
	case errors.As(err, &refused):
		all = append(all, outcome.Warning{Code: "journal-refused", Text: refused.Error(), Hint: refused.Hint()})
	}
	return all
}
