package apply

import (
	"context"
	"errors"
	"time"

	"mpps/internal/advise/lasting"
	"mpps/internal/change/journal"
	"mpps/internal/model/setting"
)

// Some values are not in the list and are due all the same when guests come and go: attributes that a guest leaves
// behind on a virtual function. What is due is not decided here; it is looked at, and written, as values that are put
// back are.

// GuestChange is what became of a guest: started, stopped or undefined; empty for events of devices.
type GuestChange string

// The changes.
const (
	Started   GuestChange = "started"
	Stopped   GuestChange = "stopped"
	Undefined GuestChange = "undefined"
)

// Due is what follows from guests that came and went.
type Due struct {
	Values []lasting.Value            // to be written now where they are off
	Lent   map[setting.Address]string // values of the list that are not to be put back now, and why
	Anew   []setting.Address          // values of the list that what happened may have reset
}

// upkeepLooks are how long after an event is looked what is due. libvirt takes back what it set, and binds functions to
// their drivers on the host, for a while after a guest's process has ended.
var upkeepLooks = [...]time.Duration{100 * time.Millisecond, 700 * time.Millisecond, 2 * time.Second, 5 * time.Second,
	12 * time.Second, 25 * time.Second}

// upkeep follows guests that came or went a moment ago.
type upkeep struct {
	events []Event
	since  time.Time // the last one
	looks  int       // done since then
}

// happened takes in what became of a guest. What it was before that counts no more.
func (u *upkeep) happened(e Event, now time.Time) {
	var others []Event
	for _, old := range u.events {
		if old.Object != e.Object {
			others = append(others, old)
		}
	}
	u.events, u.since, u.looks = append(others, e), now, 0
}

// wait is how long until the next look; false where none is to come.
func (u *upkeep) wait(now time.Time) (time.Duration, bool) {
	if len(u.events) == 0 {
		return 0, false
	}
	return max(0, u.since.Add(upkeepLooks[u.looks]).Sub(now)), true
}

// looked counts a look. After the last one what happened has no consequences any more.
func (u *upkeep) looked() {
	if u.looks++; u.looks == len(upkeepLooks) {
		u.events = nil
	}
}

// Consider asks what follows from guests that came and went, none for what stands now: which values are lent.
func (r *Restorer) Consider(ctx context.Context, events []Event, now time.Time) (Due, error) {
	if r.Due == nil {
		return Due{}, nil
	}
	list := make([]lasting.Value, len(r.values))
	for i, d := range r.values {
		list[i] = d.Value
	}
	due, err := r.Due(ctx, events, list)
	if err != nil {
		return Due{}, err
	}
	anew := map[setting.Address]bool{}
	for _, a := range due.Anew {
		anew[a] = true
	}
	for _, d := range r.values {
		_, was := r.lent[d.Address]
		if _, is := due.Lent[d.Address]; was && !is || anew[d.Address] {
			d.standing, d.until = fresh, now.Add(anewWindow)
		}
	}
	r.lent = due.Lent
	return due, nil
}

// Tend writes what is due. Under the lock it asks again: somebody may have set or given away something since.
func (r *Restorer) Tend(ctx context.Context, events []Event, now time.Time) ([]PutBack, error) {
	due, err := r.Consider(ctx, events, now)
	if err != nil || !r.anyOff(ctx, due.Values) {
		return nil, err
	}
	lock, err := r.Journal.Lock(restoring)
	if err != nil {
		return nil, err
	}
	defer lock.Release()
	ledger, err := r.Journal.Ledger()
	if err != nil {
		return nil, err
	}
	if open := ledger.Unsettled(); len(open) > 0 {
		return nil, &Unsettled{TX: open[0].Header.TX, State: ledger.State(open[0])}
	}
	if err := r.Load(); err != nil {
		return nil, err
	}
	if due, err = r.Consider(ctx, events, now); err != nil {
		return nil, err
	}
	var done []PutBack
	for _, v := range due.Values {
		found := r.read(ctx, v.Address)
		if found.State != setting.Known || v.Want.Met(found) {
			continue
		}
		one := PutBack{ID: v.ID, Address: v.Address, From: v.Address.Brief(found), To: v.Address.Brief(v.To)}
		if err := r.again(ctx, &desired{Value: v}); err != nil {
			one.Error = err.Error()
		}
		done = append(done, one)
	}
	return done, nil
}

func (r *Restorer) anyOff(ctx context.Context, values []lasting.Value) bool {
	for _, v := range values {
		if found := r.read(ctx, v.Address); found.State == setting.Known && !v.Want.Met(found) {
			return true
		}
	}
	return false
}

// tend looks what is due, where it is time, and counts it done unless another mpps is at work.
func (w *watch) tend(ctx context.Context, now time.Time) {
	if wait, any := w.guests.wait(now); !any || wait > 0 {
		return
	}
	done, err := w.Tend(ctx, w.guests.events, now)
	var locked *journal.Locked
	if errors.As(err, &locked) {
		w.guests.since = now.Add(2*firstLook - upkeepLooks[w.guests.looks]) // again in a moment
		return
	}
	w.guests.looked()
	if len(done) > 0 || err != nil {
		w.tell(Pass{Values: len(w.values), PutBack: append([]PutBack{}, done...), ByHand: w.byHand()}, err)
	}
	w.idle, w.pause = false, firstLook
}
