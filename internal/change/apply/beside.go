package apply

import (
	"context"
	"errors"
	"fmt"

	"mpps/internal/change/journal"
	"mpps/internal/model/setting"
)

// Some writes move values that nobody asked to change: a NIC may come back from new rings with other interrupt
// affinities, and new channels reset the masks of its queues. Those values are read and journaled before the first
// write and restored after the last one, in an apply, its undo and a rollback alike.

// Moved is a value that the changes moved and that could not be restored.
type Moved struct {
	Address setting.Address `json:"address"`
	From    string          `json:"from"`
	Found   string          `json:"found"`
	Why     string          `json:"why"`
}

// beside is one value that must stay as it is.
type beside struct {
	address setting.Address
	value   setting.Reading
}

// watch reads and journals values that must stay as they are. It skips absent and unwritable ones, which could not be
// restored. The next intent brings the records to disk.
func (r *run) watch(ctx context.Context, addresses []setting.Address) error {
	for _, a := range addresses {
		found := r.read(ctx, a)
		if found.State != setting.Known || found.ReadOnly {
			continue
		}
		if err := r.stay(a, found); err != nil {
			return err
		}
	}
	return nil
}

// stay journals a value that must stay as it is.
func (r *run) stay(a setting.Address, value setting.Reading) error {
	r.besides = append(r.besides, beside{a, value})
	return r.record(journal.Record{Event: journal.Bystander, Address: &a, Found: &value})
}

// keep restores what was moved and returns what it could not restore. A value that no longer exists need not be: its
// queue or interrupt is gone.
func (r *run) keep(ctx context.Context) (moved []Moved, err error) {
	ctx = context.WithoutCancel(ctx)
	for _, b := range r.besides {
		found := r.read(ctx, b.address)
		if found.Same(b.value) || found.State == setting.Absent {
			continue
		}
		back, problem := r.put(ctx, b.address, b.value)
		if problem == nil {
			err = errors.Join(err, r.record(journal.Record{Event: journal.Kept, Address: &b.address,
				Before: &found, Found: &back}))
			continue
		}
		found = r.read(ctx, b.address)
		moved = append(moved, Moved{Address: b.address, From: b.value.String(), Found: found.String(),
			Why: problem.Error()})
		err = errors.Join(err, r.record(journal.Record{
			Event: journal.Moved, Address: &b.address, Before: &b.value, Found: &found, Error: problem.Error(),
		}))
	}
	return moved, err
}

// watchFor journals the values that a rollback of t must not change. If t was completed, these are the current values,
// except those that t moved and could not restore and those that t removed together with a queue or a virtual function,
// which comes back with its driver's defaults. If t, or an earlier rollback of it, was not completed, these are the
// values before it began.
func (r *run) watchFor(ctx context.Context, t *journal.Transaction, earlier *journal.Transaction) error {
	source := t
	if earlier != nil {
		source = earlier
	}
	sameBoot := source.Header.BootID == r.BootID
	before := source.Bystanders()
	for _, a := range before.Addresses {
		found := r.read(ctx, a)
		then := before.Found[a]
		if found.State == setting.Absent && then.State == setting.Known {
			found = then
		}
		if found.State != setting.Known || found.ReadOnly {
			continue
		}
		value := found
		switch {
		case !sameBoot:
		case source.State() != journal.Applied:
			value = then
		case before.Moved[a].Same(found):
			value = then
		}
		if err := r.stay(a, value); err != nil {
			return err
		}
	}
	return nil
}

// unkept turns values that could not be restored into errors.
func unkept(moved []Moved) error {
	var all []error
	for _, m := range moved {
		all = append(all, fmt.Errorf("%s was moved from %s to %s by another change: %s", m.Address, m.From, m.Found,
			m.Why))
	}
	return errors.Join(all...)
}
