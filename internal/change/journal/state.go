package journal

import (
	"time"

	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// State is the outcome of a transaction.
type State string

// The states of a transaction.
const (
	InFlight      State = "in-flight"   // in progress
	Applied       State = "applied"     // everything was written and read back (rollback: everything is restored)
	FailedUndone  State = "undone"      // it failed, and everything is as before
	FailedPartly  State = "failed"      // it failed, and something could not be restored
	Interrupted   State = "interrupted" // its process died
	Doubtful      State = "in-doubt"    // a write did not return: unknown whether it took effect
	WasRolledBack State = "rolled-back" // undone later by another transaction
	WasSuperseded State = "superseded"  // a rollback that another rollback of the same transaction completed
)

// ChangeState is the outcome of one change.
type ChangeState string

// The states of a change.
const (
	ChangeIntended   ChangeState = "intended"    // written or not: unknown
	ChangeAlready    ChangeState = "already"     // was as wanted, nothing written
	ChangeDone       ChangeState = "done"        // written and read back
	ChangeFailed     ChangeState = "failed"      // refused, or read back differently; not undone (yet)
	ChangeInDoubt    ChangeState = "in-doubt"    // the write did not return
	ChangeUndone     ChangeState = "undone"      // put back and read back
	ChangeUndoFailed ChangeState = "undo-failed" // could not be put back
	ChangeLeft       ChangeState = "left"        // rollback: not written
)

// Change is one change of a transaction and its outcome.
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
	Found   *setting.Reading // as read back, or as found; nil if the write was not seen to end
	State   ChangeState
	Doubted bool // its write did not return at some point, whatever came later
	Error   string
	Reason  Reason // of ChangeLeft
	LeftFor string // transaction that needs the value
	Why     string
}

// Wrote reports whether the change may have written to the machine.
func (c Change) Wrote() bool { return c.State != ChangeAlready && c.State != ChangeLeft }

// Changes returns the transaction's changes in order.
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

// Bystanders are values that no change is about and that must be unchanged at the end.
type Bystanders struct {
	Addresses []setting.Address // in the order in which they were read
	Found     map[setting.Address]setting.Reading
	Moved     map[setting.Address]setting.Reading // those that could not be restored, with their final value
}

// Bystander lists the values that the transaction was to leave as they were.
func (t *Transaction) Bystanders() Bystanders {
	b := Bystanders{Found: map[setting.Address]setting.Reading{}, Moved: map[setting.Address]setting.Reading{}}
	for _, r := range t.Records {
		switch r.Event {
		case Bystander:
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

// State returns the state according to the transaction's own records: Interrupted if no record ends it. A Ledger knows
// more.
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

// Ended returns when the transaction ended; the zero time if it did not.
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
	Within    time.Duration // after the commit
	Until     time.Time     // zero before the commit; by the time of day as it was then
	// Up is the end in time since the boot of Header.BootID; 0 before the commit, and in journals of earlier versions.
	Up time.Duration
}

// Confirmation returns the state of the confirm timer.
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
				if r.Up > 0 {
					c.Up = time.Duration(r.Up*float64(time.Second)) + c.Within
				}
			}
		}
	}
	return c
}
