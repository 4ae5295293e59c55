package journal

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Ledger holds all transactions of a machine, oldest first, and the process that holds the lock.
type Ledger struct {
	Transactions []*Transaction
	Holder       *Holder // nil if the lock is free
}

// Ledger reads every transaction. The error joins those that are refused; the ledger holds the others, which is enough
// to show but not to write.
func (d *Dir) Ledger() (*Ledger, error) {
	l := &Ledger{}
	var err error
	if l.Holder, err = d.Holder(); err != nil {
		return l, err
	}
	names, err := d.names()
	if err != nil {
		return l, err
	}
	var refused []error
	for _, name := range names {
		t, err := d.Load(name)
		if err != nil {
			refused = append(refused, err)
			continue
		}
		l.Transactions = append(l.Transactions, t)
	}
	return l, errors.Join(refused...)
}

// State returns the state of a transaction, including the effect of later ones: an apply whose rollback stopped
// half-way has the state in which that rollback stopped.
func (l *Ledger) State(t *Transaction) State {
	own := t.State()
	if l.Holder != nil && l.Holder.TX == t.Header.TX && t.Ended().IsZero() {
		return InFlight
	}
	if t.Header.Kind == Rollback {
		if last := l.LastRollback(t.Header.Of); own != Applied && last != t && last.State() == Applied {
			return WasSuperseded
		}
		return own
	}
	if own == FailedUndone {
		return own
	}
	last := l.LastRollback(t.Header.TX)
	switch {
	case last == nil:
		return own
	case last.State() == Applied:
		return WasRolledBack
	}
	return l.State(last)
}

// Unfinished returns the first rollback of a transaction that was not completed, after the last completed one; nil if
// there is none.
func (l *Ledger) Unfinished(t *Transaction) *Transaction {
	var first *Transaction
	for _, other := range l.Transactions {
		switch {
		case other.Header.Kind != Rollback || other.Header.Of != t.Header.TX:
		case other.State() == Applied:
			first = nil
		case first == nil:
			first = other
		}
	}
	return first
}

// LastRollback returns the last rollback of a transaction, completed or not; nil if there was none.
func (l *Ledger) LastRollback(tx string) *Transaction {
	for _, t := range slices.Backward(l.Transactions) {
		if t.Header.Kind == Rollback && t.Header.Of == tx {
			return t
		}
	}
	return nil
}

// Open lists the applies, oldest first, whose changes are or may be in effect.
func (l *Ledger) Open() []*Transaction {
	var open []*Transaction
	for _, t := range l.Transactions {
		if t.Header.Kind != Apply {
			continue
		}
		switch l.State(t) {
		case Applied, FailedPartly, Interrupted, Doubtful, InFlight:
			open = append(open, t)
		}
	}
	return open
}

// Unsettled lists the applies that must be rolled back before anything else is changed, because their outcome is
// unknown.
func (l *Ledger) Unsettled() []*Transaction {
	return slices.DeleteFunc(l.Open(), func(t *Transaction) bool {
		return l.State(t) == Applied || l.State(t) == InFlight
	})
}

// Find returns the transaction with a name, or with an unambiguous prefix of one.
func (l *Ledger) Find(name string) (*Transaction, error) {
	var found []*Transaction
	for _, t := range l.Transactions {
		if strings.HasPrefix(t.Header.TX, name) {
			found = append(found, t)
		}
	}
	switch {
	case name == "" || len(found) == 0:
		return nil, fmt.Errorf("%w: %q", ErrNoTransaction, name)
	case len(found) > 1:
		return nil, fmt.Errorf("%q is the beginning of %d transactions, expected one", name, len(found))
	}
	return found[0], nil
}

// Newest names the last transaction and says whether it is still in progress; empty if there is none. If two calls
// return the same and nobody held the lock in between, mpps changed nothing between them.
func (l *Ledger) Newest() string {
	if len(l.Transactions) == 0 {
		return ""
	}
	t := l.Transactions[len(l.Transactions)-1]
	if l.State(t) == InFlight {
		return t.Header.TX + " (at work)"
	}
	return t.Header.TX
}
