package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"mpps/internal/change/journal"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// RollbackOptions say what to restore.
type RollbackOptions struct {
	TX        string // or the beginning of its name; empty means the last that stands
	Force     bool   // also values that somebody else changed since
	WithLater bool   // first the later transactions that build on it
	DryRun    bool
	// Session is the caller's own session. Transactions of another session whose process is alive are not touched.
	Session *journal.Session
	Why     string // for the journal; empty means "asked for"

	unconfirmed bool // only where it has not been confirmed in the meantime
}

// Restored is the result of one rollback.
type Restored struct {
	Of      string        `json:"of"`           // the transaction that was put back
	TX      string        `json:"tx,omitempty"` // the rollback's own
	State   journal.State `json:"state"`
	Changes []Outcome     `json:"changes"`
	Seconds float64       `json:"seconds"`
	// Unrecorded is why the journal does not say that the values are put back; empty where it does.
	Unrecorded string `json:"unrecorded,omitempty"`

	Guarded bool `json:"-"` // a process still waits to undo the transaction unless it is confirmed
}

// Drifted is the number of values that somebody else has changed since and that were left alone.
func (r Restored) Drifted() int {
	return facts.Count(r.Changes, func(c Outcome) bool { return c.Reason == journal.Drifted })
}

// Written is the number of values that were restored, or with DryRun would be.
func (r Restored) Written() int {
	return facts.Count(r.Changes, func(c Outcome) bool {
		return c.State == journal.ChangeDone || c.State == journal.ChangeIntended
	})
}

// leaving is why a rollback leaves a value alone; the zero value means that it restores it.
type leaving struct {
	reason journal.Reason
	tx     string // that needs the value
	why    string // for people
}

var leftAsBefore = leaving{reason: journal.AsBefore, why: "is as it was before"}

// Rollback restores what a transaction changed, in reverse order, and continues after errors. A value is written only
// if it is still what the transaction wrote, or if the transaction was interrupted while writing it. Each rollback is a
// transaction itself; calling Rollback again completes an interrupted one. Values are restored even where the disk of
// the journal takes no writes (Restored.Unrecorded); calling Rollback again records it. An empty result means that
// there was nothing to restore.
func (e *Engine) Rollback(ctx context.Context, o RollbackOptions) ([]Restored, error) {
	lock, err := e.lock("rollback")
	if err != nil {
		return nil, err
	}
	defer lock.Release()
	ledger, err := e.Journal.Ledger()
	if err != nil {
		return nil, err
	}
	if session, of := ledger.OpenSession(); session != nil && !session.Is(o.Session) && session.Running() && !o.DryRun {
		return nil, &journal.Locked{Holder: sessionHolder(session, of)}
	}
	targets, err := choose(ledger, o)
	if err == nil && !o.DryRun {
		err = e.Journal.Sweep()
	}
	if err != nil && !journal.Unwritable(err) {
		return nil, err
	}
	for _, t := range targets {
		if e.InHand == nil || o.Force || o.Why != "" || ledger.State(t) != journal.Applied {
			continue
		}
		if err := e.InHand(ctx, t.Changes()); err != nil {
			return nil, fmt.Errorf("transaction %s is not put back: %w", t.Header.TX, err)
		}
	}
	var all []Restored
	var failures []error
	for _, t := range targets {
		restored, err := e.restore(ctx, lock, t, ledger.Unfinished(t), e.shares(ledger, t).without(all), o)
		all = append(all, restored)
		failures = append(failures, err)
		if err == nil && len(targets) > 1 && !o.DryRun { // what is open is another now
			ledger, err = e.Journal.Ledger()
			failures = append(failures, err)
		}
		if err != nil {
			break // what the others built on is not in place
		}
	}
	e.unneeded(all, o.DryRun)
	return all, errors.Join(failures...)
}

// unneeded clears Needs of restored values that need no restart: a change that was undone before it took effect leaves
// the old value in effect.
func (e *Engine) unneeded(all []Restored, dryRun bool) {
	if e.Waiting == nil {
		return
	}
	for _, r := range all {
		for i := range r.Changes {
			c := &r.Changes[i]
			if c.Needs.IsZero() {
				continue
			}
			waits := e.Waiting(journal.Change{ID: c.ID, Address: c.Address, Want: c.want}) != ""
			if c.Address.Kind.FromBootLoader() { // the running kernel was booted with the restored value, or not
				if !waits {
					c.Needs = setting.Needs{}
				}
				continue
			}
			if dryRun && c.State == journal.ChangeIntended && waits || c.State == journal.ChangeDone && !waits {
				c.Needs = setting.Needs{}
			}
		}
	}
}

// restore undoes one transaction. A cancelled context does not stop it: half a rollback helps nobody.
func (e *Engine) restore(ctx context.Context, lock *journal.Lock, t, unfinished *journal.Transaction, s sharing,
	o RollbackOptions) (Restored, error) {
	began := time.Now()
	ctx = context.WithoutCancel(ctx)
	confirmation := t.Confirmation()
	result := Restored{Of: t.Header.TX, Guarded: confirmation.Armed && !confirmation.Confirmed}
	if o.DryRun {
		result.Changes = e.preview(ctx, t, s, o)
		return result, nil
	}
	why := o.Why
	if why == "" {
		why = "asked for"
	}
	w, err := e.Journal.Create(lock, journal.Header{
		Kind: journal.Rollback, Of: t.Header.TX, Why: why, Session: t.Header.Session, Host: e.Host, BootID: e.BootID,
		Version: e.Version,
		Changes: len(t.Changes()),
	})
	if err != nil && !journal.Unwritable(err) {
		return result, err
	}
	r := &run{Engine: e, writer: w, lenient: true, unrecorded: err}
	err = r.watchFor(ctx, t, unfinished)
	if err == nil {
		err = r.restoreAll(ctx, t, s, o.Force)
	}
	result.State = journal.Applied
	end := journal.Record{Event: journal.Committed}
	if err != nil {
		result.State = journal.FailedPartly
		end = journal.Record{Event: journal.Incomplete, Error: err.Error()}
	}
	err = errors.Join(err, r.record(end), r.close())
	if w != nil {
		result.TX = w.TX()
	}
	if r.unrecorded != nil {
		result.Unrecorded = journal.Unadorned(r.unrecorded)
	} else if err == nil {
		err = e.Journal.Unreserve(t.Header.TX)
	}
	for i, c := range r.changes {
		again := func(later journal.Change) bool { return later.Address == c.Address }
		if c.State == journal.ChangeFailed && slices.ContainsFunc(r.changes[i+1:], again) {
			continue // what became of it stands below
		}
		result.Changes = append(result.Changes, outcome(c))
	}
	result.Seconds = time.Since(began).Seconds()
	if err != nil {
		return result, &Unrestored{TX: t.Header.TX, Problem: err}
	}
	return result, nil
}

// close closes the journal, if there is one.
func (r *run) close() error {
	if r.writer == nil {
		return nil
	}
	err := r.writer.Close()
	if err != nil && r.lenient && journal.Unwritable(err) {
		r.unrecorded, err = cmp.Or(r.unrecorded, err), nil
	}
	return err
}

// preview is what a rollback would do.
func (e *Engine) preview(ctx context.Context, t *journal.Transaction, s sharing, o RollbackOptions) []Outcome {
	var outcomes []Outcome
	for _, c := range slices.Backward(append(t.Changes(), s.inherited...)) {
		if !c.Wrote() {
			continue
		}
		found := e.read(ctx, c.Address)
		c, partly := undoing(c, found)
		row := Outcome{ID: c.ID, Address: c.Address, From: found.String(), To: c.Before.String(),
			State: journal.ChangeIntended, Needs: c.Needs, want: wantOf(c.Before)}
		if left := e.decide(t, c, found, s, o.Force || partly); left.reason != "" {
			row.State, row.Reason, row.Why, row.To = journal.ChangeLeft, left.reason, left.why, found.String()
		}
		outcomes = append(outcomes, row)
	}
	return outcomes
}

// decide returns why the value before of a change is not written.
func (e *Engine) decide(t *journal.Transaction, c journal.Change, found setting.Reading, s sharing,
	force bool) leaving {
	write := leaving{}
	switch {
	case found.State == setting.Unknown:
		return write // the read-back decides whether it worked
	case found.Same(c.Before):
		return leftAsBefore
	case c.Before.State == setting.Absent && s.neededBy(c.Address) != "":
		return leaving{journal.Needed, s.neededBy(c.Address), "still needed by " + s.neededBy(c.Address)}
	case gone(c.Address, found):
		return leaving{reason: journal.Gone, why: "nothing to restore: " + found.Why}
	case force:
		return write
	case s.begun[c.Address]:
		return write // an earlier rollback died while writing it: the value is ours
	case c.State == journal.ChangeDone && c.Found != nil:
		if found.Same(*c.Found) || tookAway(c) || fewerLanes(c.Address, *c.Found, found) {
			return write
		}
	case c.Doubted && (c.Want.Met(found) || found.Same(c.After)):
		return write // a write in doubt came through after its undo
	case c.State == journal.ChangeUndone:
	case e.BootID == t.Header.BootID || c.Want.Met(found) || found.Same(c.After):
		// The journal ends during the write, or the undo failed: the value is most likely ours, as the driver rounded
		// it. After a reboot it is ours only if we recognize it.
		return write
	}
	if e.Reset != nil && c.State == journal.ChangeDone {
		if reset := e.Reset(c, t.Ended()); reset != "" {
			return leaving{reason: journal.Gone, why: fmt.Sprintf("nothing to restore: is %s, since %s",
				c.Address.BriefWhy(found), reset)}
		}
	}
	ours := c.After
	if c.Found != nil {
		ours = *c.Found
	}
	return leaving{reason: journal.Drifted, why: fmt.Sprintf("changed by somebody else since: is %s, mpps left it at "+
		"%s, before that it was %s",
		c.Address.BriefWhy(found), c.Address.Brief(ours), c.Address.Brief(c.Before))}
}

// restoreAll restores the changes from the last to the first, then tries again those that could not be restored before
// earlier ones were, and those that the others moved.
func (r *run) restoreAll(ctx context.Context, t *journal.Transaction, s sharing, force bool) error {
	var problems []error
	var touched []journal.Change
	var refused []restored
	all := append(t.Changes(), s.inherited...)
	r.ahead.expect(addressesOf(all))
	for end := len(all); end > 0; {
		n := r.together(end, func(k int) setting.Address { return all[end-1-k].Address })
		var these []restored
		for _, c := range slices.Backward(all[end-n : end]) {
			if !c.Wrote() {
				continue
			}
			found := r.read(ctx, c.Address)
			c, partly := undoing(c, found)
			if left := r.decide(t, c, found, s, force || partly); left.reason != "" {
				problems = append(problems, r.leave(c, found, left))
				if left.reason == journal.AsBefore {
					touched = append(touched, c)
				}
				continue
			}
			these = append(these, restored{c: c, found: found})
		}
		for _, one := range r.restoreThese(ctx, these) {
			if one.err != nil {
				refused = append(refused, one)
				continue
			}
			touched = append(touched, one.c)
		}
		end -= n
	}
	for _, one := range refused {
		if one = r.restoreAgain(ctx, one); one.err != nil {
			problems = append(problems, one.err)
			continue
		}
		touched = append(touched, one.c)
	}
	slices.Reverse(touched)
	for range 2 {
		moved := false
		for _, c := range touched {
			if found := r.read(ctx, c.Address); !found.Same(c.Before) && !gone(c.Address, found) {
				moved = true
				problems = append(problems, r.restoreThese(ctx, []restored{{c: c, found: found}})[0].err)
			}
		}
		if !moved {
			break
		}
	}
	moved, err := r.keep(ctx)
	return errors.Join(append(problems, unkept(moved), err, r.tidy(ctx, all))...)
}

// restoreAgain retries a value that could not be restored before others were: the kernel refuses a thread its former
// CPUs as long as its cpuset is narrower. Writes in doubt are not retried.
func (r *run) restoreAgain(ctx context.Context, one restored) restored {
	if errors.Is(one.err, setting.ErrInDoubt) {
		return one
	}
	one.found = r.read(ctx, one.c.Address)
	if one.found.Same(one.c.Before) {
		one.err = r.leave(one.c, one.found, leftAsBefore)
		return one
	}
	return r.restoreThese(ctx, []restored{one})[0]
}

// leave records that a value is not written, and why.
func (r *run) leave(c journal.Change, found setting.Reading, left leaving) error {
	c.N, c.State, c.Reason, c.LeftFor, c.Why, c.Error = len(r.changes)+1, journal.ChangeLeft, left.reason, left.tx,
		left.why, ""
	c.Before, c.After, c.Found = found, found, &found
	r.changes = append(r.changes, c)
	return r.record(journal.Record{
		Event: journal.Left, N: c.N, ID: c.ID, Address: &c.Address, Found: &found, Reason: left.reason,
		LeftFor: left.tx, Why: left.why,
	})
}

// wantOf is what a restored value must satisfy.
func wantOf(before setting.Reading) setting.Want {
	if before.State == setting.Absent {
		return setting.NotThere()
	}
	return setting.Exact(before.Value)
}

// restored is one value that is being restored.
type restored struct {
	c     journal.Change // Before is what is written
	found setting.Reading
	err   error
}

// restoreThese announces, writes and reads back former values: one, or several that are written together and, if that
// fails, one by one. They are restored even if the journal cannot be written: the journal of the transaction that is
// undone still has them.
func (r *run) restoreThese(ctx context.Context, these []restored) []restored {
	first := len(r.changes)
	journaled := make([]error, len(these))
	for i, one := range these {
		c, before := one.c, one.found
		if one.found.State == setting.Unknown { // an intent must hold a value that a rollback of it could write
			before = c.After
		}
		n, want := len(r.changes)+1, wantOf(c.Before)
		journaled[i] = r.record(journal.Record{
			Event: journal.Intent, N: n, ID: c.ID, Address: &c.Address, Before: &before, After: &c.Before, Want: &want,
			Risk: c.Risk, Lasts: c.Lasts, Needs: c.Needs,
		})
		r.changes = append(r.changes, journal.Change{N: n, ID: c.ID, Address: c.Address, Before: before,
			After: c.Before, Want: want, Needs: c.Needs, State: journal.ChangeDone})
	}
	written := false
	if len(these) > 1 {
		all := make([]setting.Assignment, len(these))
		for i, one := range these {
			all[i] = setting.Assignment{Address: one.c.Address, To: one.c.Before}
		}
		written = r.writeAll(ctx, all) == nil
	}
	for i := range these {
		one, done := &these[i], &r.changes[first+i]
		back, is := setting.Reading{}, false
		if written {
			back, is = r.readBack(ctx, one.c.Address, one.c.Before.Same)
		}
		if !is {
			back, one.err = r.put(ctx, one.c.Address, one.c.Before)
		}
		end := journal.Record{Event: journal.Done, N: done.N, Found: &back}
		if one.err != nil {
			done.State, done.Error = journal.ChangeFailed, one.err.Error()
			end = journal.Record{Event: journal.Failed, N: done.N, Error: one.err.Error()}
			if errors.Is(one.err, setting.ErrInDoubt) {
				done.State, end.Event = journal.ChangeInDoubt, journal.InDoubt
			}
		} else {
			done.Found = &back
		}
		if journaled[i] == nil {
			journaled[i] = r.record(end)
		}
		one.err = errors.Join(one.err, journaled[i])
	}
	return these
}
