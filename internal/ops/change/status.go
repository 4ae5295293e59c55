package change

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"mpps/internal/advise/site"
	"mpps/internal/change/apply"
	"mpps/internal/change/journal"
	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// HostStatus is the state of a host's transactions.
type HostStatus struct {
	Host     string
	Status   apply.Status
	Warnings []outcome.Warning
}

// ReadStatus reads the state of the host, and with remains also the rest of a waiting plan.
func ReadStatus(ctx context.Context, env *ops.Env, remains bool) (*HostStatus, error) {
	h := &HostStatus{}
	asked, err := site.LoadGoal(env.Root)
	if err != nil {
		return nil, err
	}
	var goals []outcome.Warning
	err = withEngine(env, func(e *Engine) (err error) {
		e.Explain(ctx)
		h.Host = e.Name
		if h.Status, err = e.Status(ctx); err == nil && asked != nil {
			goals, err = goalWarnings(e, asked)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if remains {
		addRest(ctx, env, &h.Status)
	}
	h.Warnings = append(unreadableWarnings(h.Status), goals...)
	return h, nil
}

// goalWarnings warns if the goal file asks for something else than the newest transaction that was made for a goal.
func goalWarnings(e *Engine, asked *site.GoalFile) ([]outcome.Warning, error) {
	ledger, err := e.Journal.Ledger()
	if err != nil {
		return nil, err
	}
	for _, t := range slices.Backward(ledger.Open()) {
		made, err := t.Resume()
		switch {
		case err != nil || made == nil: // of another version, or for no goal
			continue
		case asked.Goal.Flags() == made.Goal.Flags():
			return nil, nil
		}
		return []outcome.Warning{{
			Code: "goal-changed", Text: fmt.Sprintf("%s asks for %s, applied is %s", asked.Goal.From,
				asked.Goal.Flags(), made.Goal.Flags()),
			Hint: "'mpps plan' shows what would change, 'mpps apply' does it",
		}}, nil
	}
	return []outcome.Warning{{Code: "goal-not-applied", Text: "the goal of " + asked.Goal.From + " is not applied",
		Hint: "'mpps plan' shows what would change, 'mpps apply' does it"}}, nil
}

// Waiting reports whether the host waits for a reboot or a guest's restart, and nothing worse.
func (s *HostStatus) Waiting() bool { return s.Status.State == apply.IsWaiting }

// Code returns the exit code for the state.
func (s *HostStatus) Code() int {
	code, known := map[apply.Summary]int{
		apply.IsClean: outcome.CodeNotConfigured, apply.IsApplied: outcome.CodeOK, apply.IsWaiting: outcome.CodeChanges,
		apply.IsDrifted: outcome.CodeDrifted, apply.IsInFlight: outcome.CodeLocked,
	}[s.Status.State]
	if !known {
		return outcome.CodeFailed
	}
	return code
}

// unreadableWarnings warns about values that could not be read.
func unreadableWarnings(s apply.Status) []outcome.Warning {
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

// Transactions lists the transactions of a host.
type Transactions struct {
	Transactions []apply.Entry `json:"transactions"`
	Earlier      int           `json:"earlier,omitempty"` // transactions before these, which are not listed

	Host     string            `json:"-"`
	Warnings []outcome.Warning `json:"-"`
}

// History lists the last n transactions of the host (n < 1: all), with a warning for each journal that cannot be
// trusted.
func History(env *ops.Env, n int) (*Transactions, error) {
	e, err := Open(env, nil)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	entries, earlier, err := e.History(n)
	t := &Transactions{Transactions: entries, Earlier: earlier, Host: e.Name, Warnings: refusedJournals(err)}
	if len(t.Warnings) > 0 {
		err = outcome.Exit(outcome.CodeFailed)
	}
	return t, err
}

// Detail returns one transaction with its changes and what they still wait for.
func Detail(ctx context.Context, env *ops.Env, tx string) (host string, d apply.Detail, err error) {
	err = withEngine(env, func(e *Engine) (err error) {
		e.WatchGuests(ctx)
		host = e.Name
		d, err = e.Detail(ctx, tx)
		return err
	})
	return host, d, err
}

// refusedJournals returns a warning for each journal that cannot be trusted.
func refusedJournals(err error) []outcome.Warning {
	var all []outcome.Warning
	var joined interface{ Unwrap() []error }
	var refused *journal.Refused
	switch {
	case errors.As(err, &joined):
		for _, one := range joined.Unwrap() {
			all = append(all, refusedJournals(one)...)
		}
	case errors.As(err, &refused):
		all = append(all, outcome.Warning{Code: "journal-refused", Text: refused.Error(), Hint: refused.Hint()})
	}
	return all
}
