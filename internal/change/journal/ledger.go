package journal

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Ledger holds the transactions of a machine, and the process that holds the lock.
type Ledger struct {
	// Transactions are those that were read, oldest first: all but the settled ones, which Find and Last read.
	Transactions []*Transaction
	Holder       *Holder // nil if the lock is free

	dir     *Dir
	settled []note // oldest first
	// rollbacks has the last rollback that was read of each apply.
	rollbacks map[string]*Transaction
}

// Ledger reads every transaction that is not settled. The error joins those that are refused; the ledger holds the
// others, which is enough to show but not to write.
func (d *Dir) Ledger() (*Ledger, error) {
	l := &Ledger{dir: d, rollbacks: map[string]*Transaction{}}
	var err error
	if l.Holder, err = d.Holder(); err != nil {
		return l, err
	}
	names, err := d.names()
	if err != nil {
		return l, err
	}
	noted, others, err := d.noted(names)
	if err != nil {
		return l, err
	}
	draft := d.draftIndex(len(others))
	refused := l.read(others)
	unnoted := slices.Clone(l.Transactions)
	var open []string
	l.settled, open = split(noted, l.Transactions)
	refused = append(refused, l.read(open)...)
	draft.write(noted, unnoted)
	return l, errors.Join(refused...)
}

// read adds transactions to those that were read, and returns an error for each that is refused.
func (l *Ledger) read(names []string) (refused []error) {
	for _, name := range names {
		t, err := l.dir.Load(name)
		if err != nil {
			refused = append(refused, err)
			continue
		}
		l.Transactions = append(l.Transactions, t)
	}
	slices.SortFunc(l.Transactions, func(a, b *Transaction) int { return strings.Compare(a.Header.TX, b.Header.TX) })
	for _, t := range l.Transactions {
		if t.Header.Kind == Rollback {
			l.rollbacks[t.Header.Of] = t
		}
	}
	return refused
}

// readSettled reads the settled transactions that have to do with one of some applies.
func (l *Ledger) readSettled(applies map[string]bool) error {
	var names []string
	l.settled = slices.DeleteFunc(l.settled, func(n note) bool {
		if applies[n.apply()] {
			names = append(names, n.tx)
		}
		return applies[n.apply()]
	})
	return errors.Join(l.read(names)...)
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

// Unfinished returns the first rollback of a transaction that was not completed and that may have written something,
// after the last completed one; nil if there is none. Before its first intent a journal may have only some of the
// values that a rollback must not change.
func (l *Ledger) Unfinished(t *Transaction) *Transaction {
	var first *Transaction
	for _, other := range l.Transactions {
		switch {
		case other.Header.Kind != Rollback || other.Header.Of != t.Header.TX:
		case other.State() == Applied:
			first = nil
		case first == nil && slices.ContainsFunc(other.Changes(), Change.Wrote):
			first = other
		}
	}
	return first
}

// LastRollback returns the last rollback of a transaction, completed or not; nil if there was none.
func (l *Ledger) LastRollback(tx string) *Transaction { return l.rollbacks[tx] }

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
	if i, exact := slices.BinarySearchFunc(l.Transactions, name, func(t *Transaction, name string) int {
		return strings.Compare(t.Header.TX, name)
	}); exact {
		return l.Transactions[i], nil
	}
	applies, found := map[string]bool{}, 0
	for _, n := range l.settled {
		if strings.HasPrefix(n.tx, name) {
			applies[n.apply()] = true
			found++
		}
	}
	for _, t := range l.Transactions {
		if strings.HasPrefix(t.Header.TX, name) {
			found++
		}
	}
	switch {
	case name == "" || found == 0:
		return nil, fmt.Errorf("%w: %q", ErrNoTransaction, name)
	case found > 1:
		return nil, fmt.Errorf("%q is the beginning of %d transactions, expected one", name, found)
	}
	if err := l.readSettled(applies); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(l.Transactions, func(t *Transaction) bool { return strings.HasPrefix(t.Header.TX, name) })
	return l.Transactions[i], nil
}

// Last returns the last n transactions, oldest first, settled ones included, and the number of those before them. n < 1
// means all. The error joins those that are refused.
func (l *Ledger) Last(n int) (last []*Transaction, before int, err error) {
	var names []string
	for _, t := range l.Transactions {
		names = append(names, t.Header.TX)
	}
	for _, s := range l.settled {
		names = append(names, s.tx)
	}
	slices.Sort(names)
	if n > 0 {
		before = max(len(names)-n, 0)
	}
	applies := map[string]bool{}
	for _, s := range l.settled {
		if s.tx >= names[before] {
			applies[s.apply()] = true
		}
	}
	err = l.readSettled(applies)
	for _, t := range l.Transactions {
		if t.Header.TX >= names[before] {
			last = append(last, t)
		}
	}
	return last, before, err
}

// Newest names the last transaction and says whether it is still in progress; empty if there is none. If two calls
// return the same and nobody held the lock in between, mpps changed nothing between them.
func (l *Ledger) Newest() string {
	newest := ""
	if len(l.settled) > 0 {
		newest = l.settled[len(l.settled)-1].tx
	}
	if len(l.Transactions) == 0 {
		return newest
	}
	t := l.Transactions[len(l.Transactions)-1]
	if l.State(t) == InFlight {
		return t.Header.TX + " (at work)"
	}
	return max(newest, t.Header.TX)
}
