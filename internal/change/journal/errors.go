package journal

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// ErrNoTransaction: no transaction has this name.
var ErrNoTransaction error = noTransaction{}

type noTransaction struct{}

func (noTransaction) Error() string { return "no such transaction" }

func (noTransaction) Hint() string { return "'mpps history' lists the transactions" }

// Refused reports a journal that is not trusted: damaged, of another version, or writable by others. While there is
// one, nothing is written, because it is unknown what it would undo.
type Refused struct {
	File    string // path on the machine
	Problem error
	hint    string
	what    string // of file; empty: journal
}

func (r *Refused) Error() string {
	return fmt.Sprintf("%s %s is refused: %v", cmp.Or(r.what, "journal"), r.File, r.Problem)
}

func (r *Refused) Unwrap() error { return r.Problem }

// Hint returns the advice for the problem.
func (r *Refused) Hint() string {
	if r.hint != "" {
		return r.hint
	}
	var version *versionError
	if errors.As(r.Problem, &version) {
		return "use the version of mpps that wrote it, or roll back with that and move the file away"
	}
	return "look at it ('before' is what each value was), put the values back by hand, then move the file out of the " +
		"directory"
}

// versionError reports a format that this version does not know.
type versionError struct{ found string }

func (v *versionError) Error() string {
	return fmt.Sprintf("its format is %s, this mpps reads %s", v.found, Schema)
}

// Locked reports that another process is changing the machine.
type Locked struct {
	Holder Holder
	Ending bool // it was killed, but hangs in a system call
}

func (l *Locked) Error() string {
	h := l.Holder
	if h.PID == 0 {
		return "another mpps is changing this machine (it did not say who it is)"
	}
	text := fmt.Sprintf("another mpps is changing this machine: process %d (%s), since %s", h.PID, h.Command,
		h.Since.UTC().Format(time.RFC3339))
	if h.TX != "" {
		text += ", transaction " + h.TX
	}
	if l.Ending {
		text += "; it was killed, and hangs in the kernel"
	}
	return text
}

func (l *Locked) Hint() string {
	if l.Ending {
		return "the kernel's log tells what its last write waits for; then 'mpps rollback'"
	}
	return "wait until it is done; 'mpps status' shows how far it is"
}

// OutcomeCode returns the program's exit code for this error.
func (l *Locked) OutcomeCode() int { return 11 }
