package apply

import (
	"context"
	"errors"
	"fmt"

	"mpps/internal/change/journal"
	"mpps/internal/model/setting"
)

// Some writes move values that nobody asked to change: a NIC that is set up again with other rings may come back with
// other interrupt affinities, other channels reset the masks of its queues. Those values are read and journaled ahead
// of the first write and put back behind the last one, in an apply, in its undo and in a rollback alike.

// Moved is a value beside the changes that could not be put back.
type Moved struct {
	Address setting.Address `json:"address"`
	From    string          `json:"from"`
	Found   string          `json:"found"`
	Why     string          `json:"why"`
}

// beside is one value that is to stay as it is.
type beside struct {
	address setting.Address
	value   setting.Reading
}

// watch reads values that are to stay as they are, and journals them. Those that are not there, or cannot be written,
// cannot be put back and are passed over. The next intent brings the records to disk.
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

// stay journals a value that is to stay.
func (r *run) stay(a setting.Address, value setting.Reading) error {
	r.besides = append(r.besides, beside{a, value})
	return r.writer.Append(journal.Record{Event: journal.Beside, Address: &a, Found: &value})
}

// keep puts back what was moved, and tells what it could not. A value that is not there any more cannot be put back and
// need not be: its queue or interrupt is gone.
func (r *run) keep(ctx context.Context) (moved []Moved, err error) {
	ctx = context.WithoutCancel(ctx)
	for _, b := range r.besides {
		found := r.read(ctx, b.address)
		if found.Same(b.value) || found.State == setting.Absent {
			continue
		}
		back, problem := r.put(ctx, b.address, b.value)
		if problem == nil {
			err = errors.Join(err, r.writer.Append(journal.Record{Event: journal.Kept, Address: &b.address,
				Before: &found, Found: &back}))
			continue
		}
		found = r.read(ctx, b.address)
		moved = append(moved, Moved{Address: b.address, From: b.value.String(), Found: found.String(),
			Why: problem.Error()})
		err = errors.Join(err, r.writer.Append(journal.Record{
			Event: journal.Moved, Address: &b.address, Before: &b.value, Found: &found, Error: problem.Error(),
		}))
	}
	return moved, err
}

// watchFor journals the values that a rollback of t must leave as they are. Where t was completed that is what they are
// now, but for those that t moved and could not put back, and for those that t took away with what they belong to, a
// queue or a virtual function, which comes back with the defaults of its driver; where it was not, or an earlier
// rollback of it was not, what they were before that began.
func (r *run) watchFor(ctx context.Context, t *journal.Transaction, earlier *journal.Transaction) error {
	source := t
	if earlier != nil {
		source = earlier
	}
	sameBoot := source.Header.BootID == r.BootID
	before := source.Beside()
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

// unkept turns what could not be put back into errors.
func unkept(moved []Moved) error {
	var all []error
	for _, m := range moved {
		all = append(all, fmt.Errorf("%s was moved from %s to %s by another change: %s", m.Address, m.From, m.Found,
			m.Why))
	}
	return errors.Join(all...)
}
