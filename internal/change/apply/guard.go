package apply

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mpps/internal/change/journal"
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

// Confirm keeps a transaction that would otherwise be undone, and returns its name. tx may be a prefix of the name;
// empty means the transaction that waits.
func (e *Engine) Confirm(tx string) (string, error) {
	lock, err := e.lock("confirm")
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

// guardPause is how often a guard reads the journal. guardPatience is how long it retries if reading or rolling back
// fails: a driver that is busy for a moment must not lock the operator out.
const (
	guardPause    = 200 * time.Millisecond
	guardPatience = 2 * time.Minute
)

// Guard waits until a transaction is confirmed or undone, and rolls it back if neither happens in time or if its
// process dies before it is done. Guard outlives the process that made the transaction and needs only its journal. The
// time runs from the commit, whatever the time of day is set to.
func (e *Engine) Guard(ctx context.Context, tx string) ([]Restored, error) {
	return (&guard{Engine: e, tx: tx}).wait(ctx)
}

// Orphaned rolls back an unconfirmed transaction at once, because the process that would have done so is gone. It is as
// patient as Guard.
func (e *Engine) Orphaned(ctx context.Context, tx string) error {
	_, err := (&guard{Engine: e, tx: tx, orphan: "the process that applied it is gone"}).wait(ctx)
	return err
}

// wait looks at the transaction until there is nothing left to wait for.
func (g *guard) wait(ctx context.Context) ([]Restored, error) {
	var since time.Time // of the first of the failures in a row
	for {
		restored, done, err := g.look(ctx)
		var locked *journal.Locked
		switch {
		case done:
			return restored, err
		case err == nil || errors.As(err, &locked):
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) > guardPatience:
			return restored, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(g.pause()):
		}
	}
}

// guard is one wait for a confirmation.
type guard struct {
	*Engine
	tx      string
	expires time.Duration // since the boot; zero before the commit was seen
	orphan  string        // why it is not waited for a confirmation; empty: it is
}

// pause is the time until the next look. It is longer while much time is left, since others may be measuring.
func (g *guard) pause() time.Duration {
	return min(max((g.expires-g.Journal.Clock.Up())/4, guardPause), 2*time.Second)
}

// left returns how much time an unconfirmed transaction has left, 0 or less if it is over. Setting the clock after the
// commit does not change it, except for journals of earlier versions or another boot, which only have the time of day.
func (e *Engine) left(t *journal.Transaction) time.Duration {
	c := t.Confirmation()
	if c.Up > 0 && e.BootID != "" && t.Header.BootID == e.BootID {
		return min(c.Up-e.Journal.Clock.Up(), c.Within)
	}
	return min(c.Until.Sub(e.Journal.Clock.Now()), c.Within)
}

// until is when the time of an unconfirmed transaction is over, by the clock as it is set now.
func (e *Engine) until(t *journal.Transaction) time.Time {
	return e.Journal.Clock.Now().Add(e.left(t)).UTC().Round(time.Second)
}

// look checks the transaction once and rolls it back when it is time. done means that there is nothing left to wait
// for.
func (g *guard) look(ctx context.Context) (restored []Restored, done bool, err error) {
	ledger, err := g.Journal.Ledger()
	if err != nil {
		return nil, false, err
	}
	t, err := ledger.Find(g.tx)
	if err != nil {
		return nil, errors.Is(err, journal.ErrNoTransaction), err
	}
	c := t.Confirmation()
	why := ""
	switch state := ledger.State(t); state {
	case journal.InFlight:
		return nil, false, nil
	case journal.Interrupted, journal.FailedPartly, journal.Doubtful:
		why = "not completed: " + string(state)
	case journal.Applied:
		if g.orphan != "" && !c.Confirmed {
			why = g.orphan
			break
		}
		if c.Confirmed || !c.Armed {
			return nil, true, nil
		}
		up := g.Journal.Clock.Up()
		if g.expires == 0 {
			g.expires = up + g.left(t)
		}
		if up < g.expires {
			return nil, false, nil
		}
		why = fmt.Sprintf("not confirmed within %v", c.Within)
	default:
		return nil, true, nil
	}
	restored, err = g.Rollback(ctx, RollbackOptions{TX: g.tx, WithLater: true, Why: why, unconfirmed: true})
	for _, r := range restored {
		if err == nil && r.Unrecorded != "" {
			err = &Unrecorded{TX: r.Of, Why: r.Unrecorded}
		}
	}
	return restored, err == nil, err
}
