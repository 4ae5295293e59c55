package journal

import (
	"time"

	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// State is what became of a transaction.
type State string

// The states of a transaction.
const (
	InFlight      State = "in-flight"   // its process is at work
	Applied       State = "applied"     // everything was written and read back (of a rollback: everything is back)
	FailedUndone  State = "undone"      // it failed, and everything is as before
	FailedPartly  State = "failed"      // it failed, and something could not be put back
	Interrupted   State = "interrupted" // its process died on the way
	Doubtful      State = "in-doubt"    // a write did not return: whether it took effect is not known
	WasRolledBack State = "rolled-back" // put back later by another transaction
	WasSuperseded State = "superseded"  // a rollback that another rollback of the same transaction completed
)

// ChangeState is what became of one change of a transaction.
type ChangeState string

// The states of a change.
const (
	ChangeIntended   ChangeState = "intended"    // its write may or may not have happened
	ChangeAlready    ChangeState = "already"     // was as wanted, nothing written
	ChangeDone       ChangeState = "done"        // written and read back
	ChangeFailed     ChangeState = "failed"      // refused, or read back as something else; not undone (yet)
	ChangeInDoubt    ChangeState = "in-doubt"    // the write did not return
	ChangeUndone     ChangeState = "undone"      // put back and read back
	ChangeUndoFailed ChangeState = "undo-failed" // could not be put back
	ChangeLeft       ChangeState = "left"        // rollback: nothing was to be written, or it was left alone
)

// Change is one change of a transaction with what became of it.
type Change struct {
	N       int
	ID      string
	Address setting.Address
	Before  setting.Reading // what a rollback writes
	After   setting.Reading // what was written
	Want    setting.Want
	Risk    goal.Risk
	Lasts   setting.Lasting
	Needs   setting.Needs
	Found   *setting.Reading // as read back, or as found; nil where the write was not seen to end
	State   ChangeState
	Doubted bool // its write did not return at some time, whatever came later
	Error   string
	Reason  Reason // of ChangeLeft
	LeftFor string // transaction that needs what is left
	Why     string
}

// Wrote reports whether the change may have written to the machine.
func (c Change) Wrote() bool { return c.State != ChangeAlready && c.State != ChangeLeft }

// Changes lists the transaction's changes in their order.
func (t *Transaction) Changes() []Change {
	var changes []Change
	for _, r := range t.Records {
		var c *Change
		if r.N >= 1 && r.N <= len(changes) {
			c = &changes[r.N-1]
		}
		switch r.Event {
		case Intent:
			changes = append(changes, Change{
				N: r.N, ID: r.ID, Address: *r.Address, Before: *r.Before, After: *r.After, Want: *r.Want,
				Risk: r.Risk, Lasts: r.Lasts, Needs: r.Needs, Why: r.Why, State: ChangeIntended,
			})
		case Already, Left:
			added := Change{N: r.N, ID: r.ID, Address: *r.Address, Found: r.Found, Before: *r.Found, After: *r.Found,
				Needs: r.Needs, Lasts: r.Lasts, Risk: r.Risk, Reason: r.Reason, LeftFor: r.LeftFor, Why: r.Why,
				State: ChangeAlready}
			if r.Event == Left {
				added.State = ChangeLeft
			}
			if r.Want != nil {
				added.Want = *r.Want
			}
			changes = append(changes, added)
		case Done:
			c.State, c.Found = ChangeDone, r.Found
		case Failed:
			c.State, c.Error = ChangeFailed, r.Error
		case InDoubt:
			c.State, c.Error, c.Doubted = ChangeInDoubt, r.Error, true
		case Undone:
			c.State, c.Found = ChangeUndone, r.Found
		case UndoFailed:
			c.State, c.Error = ChangeUndoFailed, r.Error
		}
	}
	return changes
}

// Besides are values that no change of a transaction is about, and that must be as they were when it has ended.
type Besides struct {
	Addresses []setting.Address // in the order in which they were read
	Found     map[setting.Address]setting.Reading
	Moved     map[setting.Address]setting.Reading // those that could not be put back, as they were left
}

// Beside lists the values that the transaction was to leave as they were.
func (t *Transaction) Beside() Besides {
	b := Besides{Found: map[setting.Address]setting.Reading{}, Moved: map[setting.Address]setting.Reading{}}
	for _, r := range t.Records {
		switch r.Event {
		case Beside:
			if _, known := b.Found[*r.Address]; !known {
				b.Addresses = append(b.Addresses, *r.Address)
			}
			b.Found[*r.Address] = *r.Found
		case Kept:
			delete(b.Moved, *r.Address)
		case Moved:
			b.Moved[*r.Address] = *r.Found
		}
	}
	return b
}

// State is what the transaction's own records tell: Interrupted where nothing tells how it ended. A Ledger knows more.
func (t *Transaction) State() State {
	state := Interrupted
	for _, r := range t.Records {
		switch r.Event {
		case InDoubt:
			return Doubtful
		case Committed:
			state = Applied
		case RolledBack:
			state = FailedUndone
		case Incomplete:
			state = FailedPartly
		}
	}
	return state
}

// Ended is when the transaction ended; the zero time where it did not.
func (t *Transaction) Ended() time.Time {
	for _, r := range t.Records {
		if r.Event.ends() {
			return r.At
		}
	}
	return time.Time{}
}

// Confirmation is the state of a transaction's confirm timer.
type Confirmation struct {
	Armed     bool
	Confirmed bool
	Within    time.Duration // from the commit on
	Until     time.Time     // zero before the commit
}

// Confirmation reports whether the transaction waits to be confirmed.
func (t *Transaction) Confirmation() Confirmation {
	var c Confirmation
	for _, r := range t.Records {
		switch r.Event {
		case ConfirmArmed:
			c.Armed, c.Within = true, time.Duration(r.Seconds*float64(time.Second))
		case Confirmed:
			c.Confirmed = true
		case Committed:
			if c.Armed {
				c.Until = r.At.Add(c.Within)
			}
		}
	}
	return c
}
