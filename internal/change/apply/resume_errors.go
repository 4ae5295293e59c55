package apply

import "fmt"

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

// Error says what stands against it.
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
