package apply

import (
	"context"
	"errors"
	"slices"
	"time"

	"mpps/internal/advise/lasting"
	"mpps/internal/change/journal"
	"mpps/internal/model/setting"
)

// Some values are not in the list and still have to be written when guests come and go: attributes that a guest leaves
// on a virtual function. What has to be written is decided elsewhere; here it is read and written like restored values.

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
	Values []lasting.Value            // to be written now if they differ
	Lent   map[setting.Address]string // values of the list that must not be restored now, and why
	Reset  []setting.Address          // values of the list that the event may have reset
}

// upkeepLooks are the delays after an event at which values are checked. For a while after a guest's process has ended,
// libvirt resets what it set and binds functions to their drivers on the host.
var upkeepLooks = [...]time.Duration{100 * time.Millisecond, 700 * time.Millisecond, 2 * time.Second, 5 * time.Second,
	12 * time.Second, 25 * time.Second}

// upkeep follows guests that came or went a moment ago.
type upkeep struct {
	events []Event
	since  time.Time // the last one
	looks  int       // done since then
}

// happened records what became of a guest, in place of any earlier event.
func (u *upkeep) happened(e Event, now time.Time) {
	others := slices.DeleteFunc(u.events, func(old Event) bool { return old.Object == e.Object })
	u.events, u.since, u.looks = append(others, e), now, 0
}

// wait is the time until the next look, or false if there is none.
func (u *upkeep) wait(now time.Time) (time.Duration, bool) {
	if len(u.events) == 0 {
		return 0, false
	}
	return max(0, u.since.Add(upkeepLooks[u.looks]).Sub(now)), true
}

// looked counts a look. After the last look the event has no further consequences.
func (u *upkeep) looked() {
	if u.looks++; u.looks == len(upkeepLooks) {
		u.events = nil
	}
}

// Consider asks what follows from guests that came and went (or, without any, from the current state): which values are
// lent.
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
	recreated := map[setting.Address]bool{}
	for _, a := range due.Reset {
		recreated[a] = true
	}
	for _, d := range r.values {
		_, was := r.lent[d.Address]
		if _, is := due.Lent[d.Address]; was && !is || recreated[d.Address] {
			d.standing, d.until = fresh, now.Add(freshWindow)
		}
	}
	r.lent = due.Lent
	return due, nil
}

// Tend writes the values that are due. It asks again under the lock: another mpps may have set or assigned something.
func (r *Restorer) Tend(ctx context.Context, events []Event, now time.Time) ([]PutBack, error) {
	due, err := r.Consider(ctx, events, now)
	if err != nil || !r.anyOff(ctx, due.Values) {
		return nil, err
	}
	lock, err := r.begin()
	if err != nil {
		return nil, err
	}
	defer lock.Release()
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
	return slices.ContainsFunc(values, func(v lasting.Value) bool {
		found := r.read(ctx, v.Address)
		return found.State == setting.Known && !v.Want.Met(found)
	})
}

// tend writes the values that are due, if it is time to look. The look counts unless another mpps holds the lock.
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
