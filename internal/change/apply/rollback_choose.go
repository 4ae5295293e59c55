package apply

import (
	"slices"
	"strings"

	"mpps/internal/change/journal"
)

// sessionHolder is the process that works on a session.
func sessionHolder(s *journal.Session, of []*journal.Transaction) journal.Holder {
	return journal.Holder{PID: s.PID, Began: s.Began, Command: s.Name, Since: of[0].Header.Started,
		TX: of[len(of)-1].Header.TX}
}

// choose returns the transactions to undo, the latest first: without a name the last one and, if it is part of a
// session, the whole session.
func choose(l *journal.Ledger, o RollbackOptions) ([]*journal.Transaction, error) {
	open := l.Open()
	if o.TX == "" {
		if len(open) == 0 {
			return nil, nil
		}
		last := open[len(open)-1]
		if session, of := l.OpenSession(); session.Is(last.Header.Session) {
			slices.Reverse(of)
			return of, nil
		}
		return []*journal.Transaction{last}, nil
	}
	t, err := l.Find(o.TX)
	if err != nil {
		return nil, err
	}
	if t.Header.Kind == journal.Rollback {
		return nil, &NotApplied{TX: t.Header.TX, Of: t.Header.Of}
	}
	if o.unconfirmed && t.Confirmation().Confirmed {
		return nil, nil
	}
	switch l.State(t) {
	case journal.FailedUndone:
		return nil, nil
	case journal.WasRolledBack:
		if !o.Force {
			return nil, nil
		}
	}
	targets := []*journal.Transaction{t}
	// Add what built on the targets, until nothing is added: a later transaction may have been built upon in turn.
	for added := true; added; {
		added = false
		for _, target := range targets {
			for _, later := range l.Dependents(target) {
				if !slices.Contains(targets, later.Transaction) {
					targets, added = append(targets, later.Transaction), true
				}
			}
		}
	}
	slices.SortFunc(targets, func(a, b *journal.Transaction) int { return strings.Compare(b.Header.TX, a.Header.TX) })
	if len(targets) > 1 && !o.WithLater {
		refusal := &BuiltOn{TX: t.Header.TX}
		for _, later := range l.Dependents(t) {
			refusal.Later, refusal.Because = append(refusal.Later, later.Header.TX),
				append(refusal.Because, later.Because)
		}
		return nil, refusal
	}
	return targets, nil
}
