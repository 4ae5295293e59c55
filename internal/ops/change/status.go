package change

import (
	"context"
	"errors"

	"mpps/internal/change/apply"
	"mpps/internal/change/journal"
	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// Standing is the state of a host.
type Standing struct {
	Host     string
	Status   apply.Status
	Warnings []outcome.Warning
}

// Stands reads the state of the host; with remains also what is left of a plan that waits.
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
	return &Standing{Host: e.Name, Status: s, Warnings: unreadable(s)}, nil
}

// Waiting reports whether the host waits for a reboot or a guest's restart, and nothing worse.
func (s *Standing) Waiting() bool { return s.Status.State == apply.IsWaiting }

// Code is the exit code of the state.
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

// unreadable warns of values that could not be read: they are not judged.
func unreadable(s apply.Status) []outcome.Warning {
	n := s.Counts[string(apply.Untold)]
	if n == 0 {
		return nil
	}
	return []outcome.Warning{{
		Code: "unknown-values",
		Text: ops.Count(n, "value") + " could not be read: whether they are as applied is not known",
		Hint: "repeat as root",
	}}
}

// Transactions are those of a host.
type Transactions struct {
	Transactions []apply.Entry `json:"transactions"`

	Host     string            `json:"-"`
	Warnings []outcome.Warning `json:"-"`
}

// History lists the transactions of the host. Journals that cannot be trusted are among the warnings.
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

// Detail returns one transaction with its changes, and what those that stand still wait for.
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

// refusals returns the journals that cannot be trusted, as warnings.
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
