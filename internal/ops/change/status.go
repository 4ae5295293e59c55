package change

import (
	"context"
	"errors"

	"mpps/internal/apply"
	"mpps/internal/journal"
	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// Standing is how a host stands.
type Standing struct {
	Host     string
	Status   apply.Status
	Warnings []outcome.Warning
}

// Stands reads how the host stands; with remains it also looks at what is left of a plan that waits.
func Stands(ctx context.Context, env *ops.Env, remains bool) (*Standing, error) {
	e, err := Open(env, nil)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	e.Explain(ctx)
	s, err := e.Status(ctx)
	if err != nil {
		return nil, err
	}
	if remains {
		whatRemains(ctx, env, &s)
	}
	return &Standing{Host: e.Name, Status: s, Warnings: untold(s)}, nil
}

// Waiting reports whether values wait for a reboot or for a guest's restart, and nothing is worse.
func (s *Standing) Waiting() bool { return s.Status.State == apply.IsWaiting }

// Code is the exit code that tells a state.
func (s *Standing) Code() int {
	switch s.Status.State {
	case apply.IsClean:
		return outcome.CodeNotConfigured
	case apply.IsApplied:
		return outcome.CodeOK
	case apply.IsWaiting:
		return outcome.CodeChanges
	case apply.IsDrifted:
		return outcome.CodeDrifted
	case apply.IsInFlight:
		return outcome.CodeLocked
	}
	return outcome.CodeFailed
}

// untold warns of values that could not be read: they are no verdict.
func untold(s apply.Status) []outcome.Warning {
	n := s.Counts[string(apply.Untold)]
	if n == 0 {
		return nil
	}
	return []outcome.Warning{{
		Code: "unknown-values", Text: ops.Count(n, "value") + " could not be read: whether they are as applied is not known", Hint: "repeat as root",
	}}
}

// Transactions are those of a host.
type Transactions struct {
	Transactions []apply.Entry `json:"transactions"`

	Host     string            `json:"-"`
	Warnings []outcome.Warning `json:"-"`
}

// History lists the transactions of the host. Journals that are not believed are among the warnings.
func History(env *ops.Env) (*Transactions, error) {
	e, err := Open(env, nil)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	entries, err := e.History()
	t := &Transactions{Transactions: entries, Host: e.Name, Warnings: refusals(err)}
	if len(t.Warnings) > 0 {
		err = outcome.Exit(outcome.CodeFailed)
	}
	return t, err
}

// Detail is one transaction with its changes, and what those that stand still wait for.
func Detail(ctx context.Context, env *ops.Env, tx string) (host string, d apply.Detail, err error) {
	e, err := Open(env, nil)
	if err != nil {
		return "", d, err
	}
	defer e.Close()
	e.WatchGuests(ctx)
	d, err = e.Detail(ctx, tx)
	return e.Name, d, err
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
