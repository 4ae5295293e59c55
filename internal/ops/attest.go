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

// saying is one thing that a person says; an empty value takes back.
type saying struct{ id, value string }

// Attested is what persons said.
type Attested struct {
	Attested []knob.Attestation `json:"attested"`

	Host   string `json:"-"`
	Listed bool   `json:"-"` // it is all that can be said, not what was said now
}

// Attest records what a person says: ID=VALUE each, or with forget IDs of which what was said is taken back. Where
// nobody is named the person is the user behind sudo.
func (e *Env) Attest(given []string, by string, forget bool) (*Attested, error) {
	said, err := sayings(given, forget)
	if err != nil {
		return nil, err
	}
	if by = strings.TrimSpace(by); !forget {
		if by, err = person(cmp.Or(by, loginName())); err != nil {
			return nil, err
		}
	}
	if err := e.NeedsRoot("attest"); err != nil {
		return nil, err
	}
	all, now := &Attested{}, time.Now()
	return all, e.With(func(m *machine.Machine) error {
		for _, s := range said {
			before, err := m.Attest(s.id, s.value, by, now)
			if err != nil {
				return outcome.Failed(fmt.Errorf("record what was attested: %w", err), "")
			}
			row := knob.Attested(s.id, facts.Attestation{Value: s.value, By: by, At: now}, now)
			row.Before = before.Value
			all.Attested = append(all.Attested, row)
		}
		all.Host, _ = m.Identity()
		return nil
	})
}

// Attested lists what was said, and what can be.
func (e *Env) Attested() (*Attested, error) {
	all, now := &Attested{Listed: true, Attested: []knob.Attestation{}}, time.Now()
	return all, e.With(func(m *machine.Machine) error {
		said, err := m.Attested()
		if err != nil {
			return outcome.Failed(err, "move the file away to start over")
		}
		for _, id := range knob.AttestableIDs() {
			all.Attested = append(all.Attested, knob.Attested(id, said[id], now))
		}
		all.Host, _ = m.Identity()
		return nil
	})
}

// sayings reads what is said.
func sayings(given []string, forget bool) ([]saying, error) {
	var all []saying
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
			return nil, outcome.Usage(fmt.Errorf("%q is nothing that can be attested", id), hint)
		case forget && has, !forget && !has:
			return nil, outcome.Usage(fmt.Errorf("%s: expected %s", text, form), "one of "+strings.Join(values, ", "))
		case !forget && !slices.Contains(values, value):
			return nil, outcome.Usage(fmt.Errorf("%s: expected one of %s, found %q", id, strings.Join(values, ", "),
				value), "")
		}
		if slices.ContainsFunc(all, func(s saying) bool { return s.id == id }) {
			return nil, outcome.Usage(fmt.Errorf("%s stands there twice", id), "say one thing of it")
		}
		all = append(all, saying{id, value})
	}
	return all, nil
}

// person refuses what is nobody's name.
func person(by string) (string, error) {
	if by == "" || strings.ContainsFunc(by, func(r rune) bool { return r < ' ' || r == 0x7f }) || len(by) > 100 {
		return "", outcome.Usage(errors.New("whose word is it? expected --by NAME"), "the name is shown wherever the "+
			"attestation is")
	}
	return by, nil
}

// loginName returns the user behind sudo; empty for root, and if unknown.
func loginName() string {
	if name := os.Getenv("SUDO_USER"); name != "" && name != "root" {
		return name
	}
	if u, err := user.Current(); err == nil && u.Username != "root" {
		return u.Username
	}
	return ""
}
