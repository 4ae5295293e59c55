// Package sriov plans the life cycle of virtual functions (VFs): create, set, assign to guests, release, destroy. Each
// verb takes a facts.Host and returns the changes to make, or the reason why it must not be done; the changes are
// applied, journaled and undone like any others. The package is pure.
package sriov

import (
	"fmt"

	"mpps/internal/advise/knob"
	"mpps/internal/advise/plan"
	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// Refused is the error for a request that cannot or must not be carried out.
type Refused struct {
	Why    string // lowercase; what was expected and found
	Advice string // what to do instead; empty: nothing
}

func (r *Refused) Error() string { return r.Why }

// Hint returns what to do instead.
func (r *Refused) Hint() string { return r.Advice }

// refuse returns a Refused with a formatted reason.
func refuse(advice, why string, args ...any) *Refused {
	return &Refused{Why: fmt.Sprintf(why, args...), Advice: advice}
}

// changes collects the changes of a verb, and the first error.
type changes struct {
	h   *facts.Host
	all []plan.Change
	err error
}

// add adds a change and returns it, so that the caller can set more of its fields.
func (c *changes) add(id, title string, a setting.Address, want setting.Want, risk goal.Risk,
	because string) *plan.Change {
	one, err := change(c.h, id, title, a, want, risk, because)
	if c.err == nil {
		c.err = err
	}
	c.all = append(c.all, one)
	return &c.all[len(c.all)-1]
}

// result returns the changes, or the first error.
func (c *changes) result() ([]plan.Change, error) {
	if c.err != nil {
		return nil, c.err
	}
	return c.all, nil
}

// change returns one change that the user asked for. The current value is taken from the readings of the host, which
// must have the address.
func change(h *facts.Host, id, title string, a setting.Address, want setting.Want, risk goal.Risk,
	because string) (plan.Change, error) {
	want, err := want.Canonical(a)
	if err != nil {
		return plan.Change{}, err
	}
	return plan.Change{
		ID: id, Title: title, Address: a, From: h.Readings.At(a), To: want.Target(), Want: want, Risk: risk,
		Lasts: setting.Kinds[a.Kind].Lasts, Because: because, Stage: datapath.SRIOV, Severity: knob.Info,
	}, nil
}
