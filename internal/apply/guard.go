package apply

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mpps/internal/journal"
)

// NotWaiting says that a transaction cannot be confirmed.
type NotWaiting struct {
	TX  string // empty where none waits at all
	Why string
}

// Error says why.
func (n *NotWaiting) Error() string {
	if n.TX == "" {
		return "no transaction waits to be confirmed"
	}
	return fmt.Sprintf("transaction %s does not wait to be confirmed: %s", n.TX, n.Why)
}

// Hint says what to do.
func (n *NotWaiting) Hint() string { return "'mpps history' shows what became of it" }

// Confirm keeps a transaction that would be undone otherwise. tx may be the beginning of its name; empty means the one
// that waits. It returns the name.
func (e *Engine) Confirm(tx string) (string, error) {
	lock, err := e.Journal.Lock("confirm")
	if err != nil {
		return "", err
	}
	defer lock.Release()
	ledger, err := e.Journal.Ledger()
	if err != nil {
		return "", err
	}
	t, err := waits(ledger, tx)
	if err != nil {
		return "", err
	}
	w, _, err := e.Journal.Reopen(lock, t.Header.TX)
	if err != nil {
		return "", err
	}
	return t.Header.TX, errors.Join(w.Append(journal.Record{Event: journal.Confirmed}), w.Close())
}

// waits finds the transaction that waits to be confirmed.
func waits(l *journal.Ledger, tx string) (*journal.Transaction, error) {
	if tx == "" {
		for _, t := range l.Open() {
			if c := t.Confirmation(); c.Armed && !c.Confirmed && l.State(t) == journal.Applied {
				return t, nil
			}
		}
		return nil, &NotWaiting{}
	}
	t, err := l.Find(tx)
	if err != nil {
		return nil, err
	}
	switch c := t.Confirmation(); {
	case l.State(t) != journal.Applied:
		return nil, &NotWaiting{TX: t.Header.TX, Why: "it is " + string(l.State(t))}
	case c.Confirmed:
		return nil, &NotWaiting{TX: t.Header.TX, Why: "it is confirmed already"}
	case !c.Armed:
		return nil, &NotWaiting{TX: t.Header.TX, Why: "it was applied without --confirm"}
	}
	return t, nil
}

// guardPause is how often a guard looks at the journal.
const guardPause = 200 * time.Millisecond

// Guard waits until a transaction is confirmed or has been undone, and rolls it back where neither happens in its time,
// or where its process dies before it is done. It outlives the process that made the transaction, and needs nothing of
// it but the journal. The time runs from the commit on, on a clock that does not jump.
func (e *Engine) Guard(ctx context.Context, tx string) ([]Restored, error) {
	var expires time.Time
	for {
		ledger, err := e.Journal.Ledger()
		if err != nil {
			return nil, err
		}
		t, err := ledger.Find(tx)
		if err != nil {
			return nil, err
		}
		c := t.Confirmation()
		why := ""
		switch state := ledger.State(t); {
		case state == journal.InFlight:
		case state != journal.Applied && state != journal.Interrupted && state != journal.FailedPartly && state != journal.Doubtful:
			return nil, nil
		case state == journal.Applied && (c.Confirmed || !c.Armed):
			return nil, nil
		case state != journal.Applied:
			why = "not completed: " + string(state)
		case expires.IsZero():
			left := min(max(time.Until(c.Until), 0), c.Within)
			expires = time.Now().Add(left)
		case !time.Now().Before(expires):
			why = fmt.Sprintf("not confirmed within %v", c.Within)
		}
		if why != "" {
			restored, err := e.Rollback(ctx, RollbackOptions{TX: tx, WithLater: true, Why: why, unconfirmed: true})
			var locked *journal.Locked
			if !errors.As(err, &locked) {
				return restored, err
			}
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(guardPause):
		}
	}
}
