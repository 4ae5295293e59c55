package apply

import (
	"context"
	"errors"
	"slices"

	"mpps/internal/change/journal"
	"mpps/internal/model/setting"
)

// Adjacent changes whose mechanism is a setting.BatchWriter are announced one by one, written together, and read back
// one by one. A journal that ends in between has several open intents, and a rollback checks each.

// together is the number of changes, from the first of n, that are written together: at least one.
func (e *Engine) together(n int, at func(int) setting.Address) int {
	kind := at(0).Kind
	if _, able := e.Mechanisms[kind].(setting.BatchWriter); !able {
		return 1
	}
	seen := []setting.Address{at(0)}
	for len(seen) < n && at(len(seen)).Kind == kind && !slices.Contains(seen, at(len(seen))) {
		seen = append(seen, at(len(seen)))
	}
	return len(seen)
}

// writeAll writes several values of one kind together, with the deadline of one.
func (e *Engine) writeAll(ctx context.Context, all []setting.Assignment) error {
	first := all[0].Address
	mechanism, able := e.Mechanisms[first.Kind].(setting.BatchWriter)
	if !able {
		return errors.New("values of kind " + string(first.Kind) + " are not written in one go")
	}
	return e.within(ctx, e.deadline(first), func(ctx context.Context) error { return mechanism.WriteAll(ctx, all) })
}

// undoTogether restores one change, or several that were written together. Values that are not restored by that are
// written one by one.
func (r *run) undoTogether(ctx context.Context, changes []journal.Change) error {
	var back []setting.Assignment
	var written []error
	for _, c := range slices.Backward(changes) {
		if !c.Wrote() || len(changes) == 1 {
			continue
		}
		if found := r.read(ctx, c.Address); !found.Same(c.Before) && !gone(c.Address, found) {
			written = append(written, r.writer.Append(journal.Record{Event: journal.UndoIntent, N: c.N}))
			back = append(back, setting.Assignment{Address: c.Address, To: c.Before})
		}
	}
	if len(back) > 1 {
		_ = r.writeAll(ctx, back) // undoOne looks at what became of it
	}
	for i := range slices.Backward(changes) {
		if changes[i].Wrote() {
			written = append(written, r.undoOne(ctx, &changes[i]))
		}
	}
	return errors.Join(written...)
}
