package apply

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"mpps/internal/change/journal"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

// Failure is a run that failed after it had begun to write.
type Failure struct {
	TX      string
	State   journal.State     // FailedUndone, FailedPartly or Doubtful
	Cause   error             // what failed: the value, what was wanted, what the kernel said; or why it was cancelled
	Undone  int               // how many changes were put back
	Left    []error           // what could not be put back
	Doubted []setting.Address // whose writes may still take effect, whatever was restored
	Writes  []error           // failures to write the journal itself
}

func (f *Failure) note(err error) {
	if err != nil {
		f.Writes = append(f.Writes, err)
	}
}

// Error says what failed and in what state the machine is.
func (f *Failure) Error() string {
	var b strings.Builder
	b.WriteString(f.Cause.Error())
	switch {
	case len(f.Left) > 0:
		fmt.Fprintf(&b, "; %d put back, %d could not be: %v", f.Undone, len(f.Left), errors.Join(f.Left...))
	case f.Undone == 0:
		b.WriteString("; nothing was changed")
	case f.Undone == 1:
		b.WriteString("; the one change that was begun is put back")
	default:
		fmt.Fprintf(&b, "; all %d changes that were begun are put back", f.Undone)
	}
	for _, a := range f.Doubted {
		fmt.Fprintf(&b, "; a write of %s may still take effect", a)
	}
	if len(f.Writes) > 0 {
		fmt.Fprintf(&b, "; %v", errors.Join(f.Writes...))
	}
	return strings.ReplaceAll(b.String(), "\n", "; ")
}

// Unwrap gives all errors that led to it.
func (f *Failure) Unwrap() []error { return append(append([]error{f.Cause}, f.Left...), f.Writes...) }

// Hint says what to do.
func (f *Failure) Hint() string {
	switch f.State {
	case journal.FailedUndone:
		return "the machine is as it was; 'mpps history' keeps the record of " + f.TX
	case journal.Doubtful:
		return "a write may still take effect: see the kernel's log, then 'mpps rollback " + f.TX + "'"
	}
	return "remove the cause, then 'mpps rollback " + f.TX + "'"
}

// Unwritable refuses a plan with changes that cannot be written on this machine.
type Unwritable struct {
	First setting.Address
	More  int
	Why   error
}

// Error names the first of them.
func (u *Unwritable) Error() string {
	more := ""
	if u.More > 0 {
		more = fmt.Sprintf(" and %d more", u.More)
	}
	return fmt.Sprintf("nothing was changed: %s%s cannot be written here: %s", u.First, more, u.Why)
}

// Unwrap gives the reason.
func (u *Unwritable) Unwrap() error { return u.Why }

// Hint says what to do.
func (u *Unwritable) Hint() string {
	return "apply the plan on the machine itself; --dry-run names every such value"
}

// Unsettled is an earlier transaction that must be repaired first.
type Unsettled struct {
	TX    string
	State journal.State
}

// Error names it.
func (u *Unsettled) Error() string { return fmt.Sprintf("transaction %s is %s", u.TX, u.State) }

// Hint says what to do.
func (u *Unsettled) Hint() string {
	return "put the machine in order first: 'mpps rollback " + u.TX + "'"
}

// Unended is an earlier session, a tuning run, that was interrupted.
type Unended struct {
	Session      string
	Transactions int // of it that stand
}

// Error names it.
func (u *Unended) Error() string {
	return fmt.Sprintf("the run %s was interrupted: %s of it still stand", u.Session,
		words.Count(u.Transactions, "transaction"))
}

// Hint says what to do.
func (u *Unended) Hint() string {
	return "put the machine in order first: 'mpps rollback' restores the beginning of the run"
}

// Unconfirmed is an earlier transaction that will be undone unless it is confirmed.
type Unconfirmed struct {
	TX    string
	Until time.Time
}

// Error names it.
func (u *Unconfirmed) Error() string {
	return fmt.Sprintf("transaction %s waits to be confirmed until %s", u.TX, u.Until.Format(time.RFC3339))
}

// Hint says what to do.
func (u *Unconfirmed) Hint() string { return "'mpps confirm' keeps it, 'mpps rollback' undoes it" }

// BuiltOn refuses to roll back what later transactions built on.
type BuiltOn struct {
	TX      string
	Later   []string
	Because []string // how each built on it
}

// Error names the later transactions.
func (b *BuiltOn) Error() string {
	all := make([]string, len(b.Later))
	for i, later := range b.Later {
		all[i] = fmt.Sprintf("transaction %s built on it (%s)", later, b.Because[i])
	}
	return fmt.Sprintf("transaction %s cannot be rolled back alone: %s", b.TX, strings.Join(all, "; "))
}

// Hint says what to do.
func (b *BuiltOn) Hint() string {
	return "roll those back first, or all together: 'mpps rollback --with-later " + b.TX + "'"
}

// NotApplied refuses to roll back a rollback.
type NotApplied struct{ TX, Of string }

// Error names the transaction that it put back.
func (n *NotApplied) Error() string {
	return fmt.Sprintf("transaction %s is a rollback of %s: it cannot be rolled back itself", n.TX, n.Of)
}

// Hint says what to do.
func (n *NotApplied) Hint() string { return "apply a plan again: 'mpps plan', 'mpps apply'" }

// Unrestored is a rollback that could not restore everything.
type Unrestored struct {
	TX      string
	Problem error
}

// Error names every value that is not back.
func (u *Unrestored) Error() string {
	return fmt.Sprintf("transaction %s is not wholly put back: %s", u.TX, strings.ReplaceAll(u.Problem.Error(), "\n",
		"; "))
}

// Unwrap gives the problem.
func (u *Unrestored) Unwrap() error { return u.Problem }

// Hint says what to do.
func (u *Unrestored) Hint() string {
	return "remove the cause, then 'mpps rollback " + u.TX + "' again: it completes what is left"
}

// Unrecorded is a rollback that restored everything and could not write its journal.
type Unrecorded struct{ TX, Why string }

// Error says why.
func (u *Unrecorded) Error() string {
	return fmt.Sprintf("transaction %s is put back, but the journal could not be written: %s", u.TX, u.Why)
}

// Hint says what to do.
func (u *Unrecorded) Hint() string {
	return "'mpps rollback " + u.TX + "' again records it, once the disk takes writes"
}

// NothingWaits means that no transaction waits to be resumed.
type NothingWaits struct {
	Older string // one that waits, of an mpps that did not keep its goal; empty: none
}

// Error says so.
func (n *NothingWaits) Error() string {
	if n.Older != "" {
		return fmt.Sprintf("transaction %s does not say what it was for: another mpps, or another command than "+
			"apply, made it", n.Older)
	}
	return "no transaction waits to be resumed"
}

// Hint says what to do.
func (n *NothingWaits) Hint() string {
	if n.Older != "" {
		return "apply the goal again: 'mpps apply' with its flags changes what is not as it should be"
	}
	return "'mpps apply' with a goal begins one; 'mpps status' says how this host stands"
}

// OutcomeCode is the program's exit code for it: nothing is there.
func (n *NothingWaits) OutcomeCode() int { return 3 }

// NotYet refuses to resume a transaction.
type NotYet struct{ TX, Why, Next string }

// Error says why.
func (n *NotYet) Error() string {
	return fmt.Sprintf("transaction %s cannot be resumed: %s", n.TX, n.Why)
}

// Hint says what to do.
func (n *NotYet) Hint() string { return n.Next }

// OtherKernel refuses to go on under another kernel than the one that the transaction chose.
type OtherKernel struct{ TX, Running, Chosen, Goal string }

// Error names both.
func (o *OtherKernel) Error() string {
	return fmt.Sprintf("transaction %s cannot be resumed: the host runs kernel %s, and it chose %s", o.TX,
		o.Running, o.Chosen)
}

// Hint says what to do.
func (o *OtherKernel) Hint() string {
	return fmt.Sprintf("reboot into %s; or 'mpps rollback %s', and 'mpps apply %s' for the kernel that runs", o.Chosen,
		o.TX, o.Goal)
}
