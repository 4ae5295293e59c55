package ops

import (
	"fmt"
	"time"

	"mpps/internal/facts"
	"mpps/internal/host"
	"mpps/internal/knob"
	"mpps/internal/outcome"
)

// Saying is one thing that a person says; an empty value takes back.
type Saying struct{ ID, Value string }

// Attested is what persons said.
type Attested struct {
	Attested []knob.Attestation `json:"attested"`

	Host   string `json:"-"`
	Listed bool   `json:"-"` // it is all that can be said, not what was said now
}

// Attest records what a person says.
func (e *Env) Attest(said []Saying, by string) (*Attested, error) {
	if err := e.NeedsRoot("attest"); err != nil {
		return nil, err
	}
	all, now := &Attested{}, time.Now()
	return all, e.With(func(m *host.Machine) error {
		for _, s := range said {
			before, err := m.Attest(s.ID, s.Value, by, now)
			if err != nil {
				return outcome.Failed(fmt.Errorf("record what was attested: %w", err), "")
			}
			row := knob.Attested(s.ID, facts.Attestation{Value: s.Value, By: by, At: now}, now)
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
	return all, e.With(func(m *host.Machine) error {
		said, err := m.Attested()
		if err != nil {
			return outcome.Failed(err, "move the file away to begin anew")
		}
		for _, id := range knob.AttestableIDs() {
			all.Attested = append(all.Attested, knob.Attested(id, said[id], now))
		}
		all.Host, _ = m.Identity()
		return nil
	})
}
