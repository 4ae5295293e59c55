// Package sriov carries virtual functions through their life: made, set, given to guests, taken back, removed. Each
// verb looks at a facts.Host and answers with the changes that would bring the host there, or with the reason why not;
// the changes are made, journaled and undone like any others. The package is pure.
package sriov

import (
	"mpps/internal/advise/knob"
	"mpps/internal/advise/plan"
	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// Refused is a wish that cannot or must not be carried out, with what to do instead.
type Refused struct {
	Why    string // lowercase, found against expected
	Advice string // empty: there is nothing to do about it
}

func (r *Refused) Error() string { return r.Why }

// Hint says what to do instead.
func (r *Refused) Hint() string { return r.Advice }

// change is one value that somebody asked for by name. What the host has now is taken from its readings, which must
// hold the address.
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
