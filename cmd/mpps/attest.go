package main

import (
	"errors"

	"github.com/spf13/cobra"

	"mpps/internal/ops"
	"mpps/internal/report"
)

func (a *app) attestCommand() *cobra.Command {
	var by string
	var forget bool
	cmd := &cobra.Command{
		Use:   "attest [ID=VALUE…] --by NAME",
		Short: "record firmware settings that the system cannot read",
		RunE: func(_ *cobra.Command, given []string) error {
			switch {
			case len(given) == 0 && (forget || by != ""):
				return usage(errors.New("expected what to attest: ID=VALUE"),
					"'mpps attest' alone lists what can be attested")
			case len(given) == 0:
				return a.answerAttested(a.env().Attestations())
			}
			return a.answerAttested(a.env().Attest(given, by, forget))
		},
	}
	cmd.Flags().StringVar(&by, "by", "", "name of the person (default: the user who ran sudo)")
	cmd.Flags().BoolVar(&forget, "forget", false, "delete the records of these IDs")
	return cmd
}

// answerAttested prints attestations.
func (a *app) answerAttested(said *ops.Attested, err error) error {
	if err != nil {
		return err
	}
	return a.out.Answer(report.Answer{
		Verb: "attest", Host: said.Host, Result: said,
		Text: func(t *report.Text) { report.Attestations(t, said.Attested, said.Listed) },
	})
}
