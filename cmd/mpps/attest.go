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
		Long: `Some of what slows packets down is chosen in the firmware's setup, where no
operating system can look. Look there, and record what it says: audit then
judges it, and shows who said it and how long ago. Whose guests run here can be
recorded too. Updates of the firmware take switches back to their defaults: look
again after one. Kept in /var/lib/mpps/attest.json.

  mpps attest                               what was said, and what could be
  mpps attest firmware.patrol_scrub=disabled --by Erika
  mpps attest guests.owner=own --by Erika   all guests are our own
  mpps attest --forget firmware.patrol_scrub`,
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
	cmd.Flags().StringVar(&by, "by", "", "who says so (default: the user behind sudo)")
	cmd.Flags().BoolVar(&forget, "forget", false, "take back what was said of these IDs")
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
