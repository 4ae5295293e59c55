package ops

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"mpps/internal/advise/knob"
	"mpps/internal/machine"
	"mpps/internal/model/facts"
	"mpps/internal/outcome"
)

// claim is one attested value; an empty value withdraws it.
type claim struct{ id, value string }

// Attested lists attestations.
type Attested struct {
	Attested []knob.Attestation `json:"attested"`

	Host   string `json:"-"`
	Listed bool   `json:"-"` // the list of everything that can be attested, not the result of one call
}

// Attest records attestations, each ID=VALUE, or with forget withdraws those of the given IDs. If by is empty, the
// attester is the user who ran sudo.
func (e *Env) Attest(given []string, by string, forget bool) (*Attested, error) {
	claims, err := parseClaims(given, forget)
	if err != nil {
		return nil, err
	}
	if by = strings.TrimSpace(by); !forget {
		if by, err = checkName(cmp.Or(by, loginName())); err != nil {
			return nil, err
		}
	}
	if err := e.NeedsRoot("attest"); err != nil {
		return nil, err
	}
	all, now := &Attested{}, time.Now()
	return all, e.With(func(m *machine.Machine) error {
		for _, c := range claims {
			before, err := m.Attest(c.id, c.value, by, now)
			if err != nil {
				return outcome.Failed(fmt.Errorf("record what was attested: %w", err), "")
			}
			row := knob.AttestationRow(c.id, facts.Attestation{Value: c.value, By: by, At: now}, now)
			row.Before = before.Value
			all.Attested = append(all.Attested, row)
		}
		all.Host, _ = m.Identity()
		return nil
	})
}

// Attestations lists everything that can be attested, with the values that were.
func (e *Env) Attestations() (*Attested, error) {
	all, now := &Attested{Listed: true, Attested: []knob.Attestation{}}, time.Now()
	return all, e.With(func(m *machine.Machine) error {
		said, err := m.Attested()
		if err != nil {
			return outcome.Failed(err, "move the file away to start over")
		}
		for _, id := range knob.AttestableIDs() {
			all.Attested = append(all.Attested, knob.AttestationRow(id, said[id], now))
		}
		all.Host, _ = m.Identity()
		return nil
	})
}

// parseClaims reads ID=VALUE arguments, or with forget IDs alone.
func parseClaims(given []string, forget bool) ([]claim, error) {
	var all []claim
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
			return nil, outcome.Usage(fmt.Errorf("%q cannot be attested", id), hint)
		case forget && has, !forget && !has:
			return nil, outcome.Usage(fmt.Errorf("%s: expected %s", text, form), "one of "+strings.Join(values, ", "))
		case !forget && !slices.Contains(values, value):
			return nil, outcome.Usage(fmt.Errorf("%s: expected one of %s, found %q", id, strings.Join(values, ", "),
				value), "")
		}
		if slices.ContainsFunc(all, func(s claim) bool { return s.id == id }) {
			return nil, outcome.Usage(fmt.Errorf("%s is given twice", id), "give it one value")
		}
		all = append(all, claim{id, value})
	}
	return all, nil
}

// checkName refuses an attester's name that is empty, longer than 100 bytes or has control characters.
func checkName(by string) (string, error) {
	if by == "" || strings.ContainsFunc(by, func(r rune) bool { return r < ' ' || r == 0x7f }) || len(by) > 100 {
		return "", outcome.Usage(errors.New("no name of the attester: expected --by NAME"),
			"the name is shown with the attestation")
	}
	return by, nil
}

// loginName returns the user who ran sudo, else the current user; empty for root or if unknown.
func loginName() string {
	if name := os.Getenv("SUDO_USER"); name != "" && name != "root" {
		return name
	}
	if u, err := user.Current(); err == nil && u.Username != "root" {
		return u.Username
	}
	return ""
}
