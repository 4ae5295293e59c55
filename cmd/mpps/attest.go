package main

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mpps/internal/facts"
	"mpps/internal/knob"
	"mpps/internal/outcome"
	"mpps/internal/report"
)

// attestations is the answer of attest.
type attestations struct {
	Attested []attestation `json:"attested"`
}

// attestation is one thing that a person said, as a row.
type attestation struct {
	ID     string   `json:"id"`
	Value  string   `json:"value"`
	By     string   `json:"by"`
	At     string   `json:"at"` // RFC 3339
	Age    string   `json:"age"`
	Wanted string   `json:"wanted"`
	Before string   `json:"before,omitempty"` // what was said until now
	Values []string `json:"values"`           // that can be said of it
}

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
				return a.listAttested()
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
			return a.attest(said, by)
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

// saying is one thing to be recorded; an empty value takes back.
type saying struct{ id, value string }

func parseAttested(given []string, forget bool) ([]saying, error) {
	var all []saying
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
			return nil, usage(fmt.Errorf("%s: expected %s", text, map[bool]string{true: "an ID alone", false: "ID=VALUE"}[forget]), "one of "+strings.Join(values, ", "))
		case !forget && !slices.Contains(values, value):
			return nil, usage(fmt.Errorf("%s: expected one of %s, found %q", id, strings.Join(values, ", "), value), "")
		}
		if slices.ContainsFunc(all, func(s saying) bool { return s.id == id }) {
			return nil, usage(fmt.Errorf("%s stands there twice", id), "say one thing of it")
		}
		all = append(all, saying{id, value})
	}
	return all, nil
}

func (a *app) attest(said []saying, by string) error {
	if err := a.env().NeedsRoot("attest"); err != nil {
		return err
	}
	m, err := a.env().Open()
	if err != nil {
		return err
	}
	defer m.Close()
	now := time.Now()
	var rows []attestation
	for _, s := range said {
		before, err := m.Attest(s.id, s.value, by, now)
		if err != nil {
			return outcome.Failed(fmt.Errorf("record what was attested: %w", err), "")
		}
		row := attested(s.id, facts.Attestation{Value: s.value, By: by, At: now}, now)
		row.Before = before.Value
		rows = append(rows, row)
	}
	name, _ := m.Identity()
	return a.out.Answer(report.Answer{
		Verb: "attest", Host: name, Result: attestations{rows},
		Text: func(t *report.Text) {
			for _, r := range rows {
				line := fmt.Sprintf("%s: %s (%s)", r.ID, r.Value, r.By)
				if r.Value == "" {
					line = r.ID + ": nothing is attested any more"
				}
				if r.Before != "" && r.Before != r.Value {
					line += ", until now " + r.Before
				}
				t.Line("%s", line)
			}
		},
	})
}

func attested(id string, said facts.Attestation, now time.Time) attestation {
	values, _ := knob.Attestable(id)
	row := attestation{ID: id, Value: said.Value, By: said.By, Values: values}
	if len(values) > 0 {
		row.Wanted = values[0]
	}
	if said.Value != "" {
		row.At, row.Age = said.At.UTC().Format(time.RFC3339), knob.Age(said.At, now)
	}
	return row
}

// listAttested shows what was said, and what can be.
func (a *app) listAttested() error {
	m, err := a.env().Open()
	if err != nil {
		return err
	}
	defer m.Close()
	all, err := m.Attested()
	if err != nil {
		return outcome.Failed(err, "move the file away to begin anew")
	}
	now := time.Now()
	rows := []attestation{}
	for _, id := range knob.AttestableIDs() {
		rows = append(rows, attested(id, all[id], now))
	}
	name, _ := m.Identity()
	return a.out.Answer(report.Answer{
		Verb: "attest", Host: name, Result: attestations{rows},
		Text: func(t *report.Text) {
			table := [][]string{{"check", "attested", "one of, as it should be first"}}
			for _, r := range rows {
				said := "–"
				if r.Value != "" {
					said = fmt.Sprintf("%s (%s, %s)", r.Value, r.By, r.Age)
				}
				table = append(table, []string{r.ID, said, strings.Join(r.Values, ", ")})
			}
			t.Table(table)
		},
	})
}
