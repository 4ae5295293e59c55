package main

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"mpps/internal/knob"
	"mpps/internal/ops"
	"mpps/internal/report"
)

func (a *app) attestCommand() *cobra.Command {
	var by string
	var forget bool
	cmd := &cobra.Command{
		Use:   "attest [ID=VALUE…] --by NAME",
		Short: "record what only a person sees: the firmware's setup",
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
				return usage(errors.New("expected what to attest: ID=VALUE"), "'mpps attest' alone lists what can be attested")
			case len(given) == 0:
				return a.attested(a.env().Attested())
			}
			said, err := parseAttested(given, forget)
			if err != nil {
				return err
			}
			if by = strings.TrimSpace(by); !forget {
				if by == "" {
					by = loginName()
				}
				if by == "" || strings.ContainsFunc(by, func(r rune) bool { return r < ' ' || r == 0x7f }) || len(by) > 100 {
					return usage(errors.New("whose word is it? expected --by NAME"), "the name is shown wherever the attestation is")
				}
			}
			return a.attested(a.env().Attest(said, by))
		},
	}
	cmd.Flags().StringVar(&by, "by", "", "who says so (default: the user behind sudo)")
	cmd.Flags().BoolVar(&forget, "forget", false, "take back what was said of these IDs")
	return cmd
}

// loginName is who is behind sudo, empty for root and where it is not known.
func loginName() string {
	if name := os.Getenv("SUDO_USER"); name != "" && name != "root" {
		return name
	}
	if u, err := user.Current(); err == nil && u.Username != "root" {
		return u.Username
	}
	return ""
}

func parseAttested(given []string, forget bool) ([]ops.Saying, error) {
	var all []ops.Saying
	form := "ID=VALUE"
	if forget {
		form = "an ID alone"
	}
	for _, text := range given {
		id, value, has := strings.Cut(text, "=")
		values, near := knob.Attestable(id)
		switch {
		case values == nil:
			hint := "'mpps attest' lists what can be attested"
			if len(near) > 0 {
				hint = "did you mean " + strings.Join(near, " or ") + "?"
			}
			return nil, usage(fmt.Errorf("%q is nothing that can be attested", id), hint)
		case forget && has, !forget && !has:
			return nil, usage(fmt.Errorf("%s: expected %s", text, form), "one of "+strings.Join(values, ", "))
		case !forget && !slices.Contains(values, value):
			return nil, usage(fmt.Errorf("%s: expected one of %s, found %q", id, strings.Join(values, ", "), value), "")
		}
		if slices.ContainsFunc(all, func(s ops.Saying) bool { return s.ID == id }) {
			return nil, usage(fmt.Errorf("%s stands there twice", id), "say one thing of it")
		}
		all = append(all, ops.Saying{ID: id, Value: value})
	}
	return all, nil
}

// attested shows what was said.
func (a *app) attested(said *ops.Attested, err error) error {
	if err != nil {
		return err
	}
	return a.out.Answer(report.Answer{
		Verb: "attest", Host: said.Host, Result: said, Text: func(t *report.Text) { report.Attested(t, said.Attested, said.Listed) },
	})
}
