package apply

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mpps/internal/advise/lasting"
	"mpps/internal/change/journal"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// Restore restores values that a reboot, an ifup, a driver reload or a guest start has reset. A reset differs from a
// change by hand in that something happened to the object that holds the value: it appeared, was brought up or was
// started a moment ago. A value that changes while nothing happens was changed by somebody; it is reported and left
// alone, even when its object is brought up again. Only an object that is created again starts fresh.

// How long after an event a drifted value counts as reset by it: drivers, udev and libvirt continue to set things up
// for a while. After a boot other services do too, and a guest's threads may start seconds after its process file
// appears.
const (
	resetWindow = 5 * time.Second
	freshWindow = 8 * time.Second
	slowWindow  = 30 * time.Second
)

// window is how long the values of a new object may still be reset.
func window(object string, a setting.Address) time.Duration {
	if object == "" || a.Kind == setting.ThreadAffinity {
		return slowWindow
	}
	return freshWindow
}

// standing is what is known of one desired value.
type standing int

const (
	fresh    standing = iota // not looked at yet
	met                      // as wanted
	away                     // its object is not there, or it is lent
	byHand                   // changed by somebody
	refusing                 // reset, and its object does not accept it now
)

// desired is one value with what is known of it.
type desired struct {
	lasting.Value
	standing standing
	until    time.Time // if it drifts before then, it was reset
	found    string
	since    time.Time // byHand
	seen     string    // setting.Reading.Verbatim of the value when it was as wanted
}

// Restorer restores values that were reset.
type Restorer struct {
	*Engine
	// Desired reads the list of desired values; with an empty list nothing is restored.
	Desired func() ([]lasting.Value, error)
	// Insist also restores values that were changed by hand.
	Insist bool
	// Due, if set, returns what follows from guests that came or went a moment ago, or without events from the current
	// state.
	Due func(ctx context.Context, events []Event, list []lasting.Value) (Due, error)

	values []*desired
	lent   map[setting.Address]string
}

// PutBack is one value that was restored, or could not be.
type PutBack struct {
	ID      string          `json:"id"`
	Address setting.Address `json:"address"`
	From    string          `json:"from"`
	To      string          `json:"to"`
	Error   string          `json:"error,omitempty"`
}

// ByHand is one value that somebody changed and that is left alone.
type ByHand struct {
	ID      string          `json:"id"`
	Address setting.Address `json:"address"`
	Wanted  string          `json:"wanted"`
	Found   string          `json:"found"`
	Since   time.Time       `json:"since"` // when it was seen
}

// Pass is the result of one look at the values.
type Pass struct {
	Values  int       `json:"values"`
	PutBack []PutBack `json:"put_back"`
	ByHand  []ByHand  `json:"by_hand"`
	Absent  int       `json:"absent"` // of objects that are not there
	Open    int       `json:"-"`      // values that may still be reset by what happened a moment ago
	Seconds float64   `json:"seconds"`
}

// Failed is the number of values that could not be restored.
func (p Pass) Failed() int {
	return facts.Count(p.PutBack, func(b PutBack) bool { return b.Error != "" })
}

// Load reads the list again and keeps what is known of values that remain in it. New values were written a moment ago
// by the apply that added them.
func (r *Restorer) Load() error {
	list, err := r.Desired()
	if err != nil {
		return err
	}
	known := map[setting.Address]*desired{}
	for _, d := range r.values {
		known[d.Address] = d
	}
	r.values = r.values[:0:0]
	for _, v := range list {
		d := &desired{Value: v}
		if old := known[v.Address]; old != nil && old.Want.String() == v.Want.String() {
			d, d.Value = old, v
		}
		r.values = append(r.values, d)
	}
	return nil
}

// Boot records that the host has just booted: every drifted value was reset.
func (r *Restorer) Boot(now time.Time) { r.Reset("", true, now) }

// Recall takes over an earlier process's knowledge of values changed by hand.
func (r *Restorer) Recall(known []ByHand) {
	for _, b := range known {
		for _, d := range r.values {
			if d.Address == b.Address {
				d.standing, d.since, d.found = byHand, b.Since, b.Found
			}
		}
	}
}

// Look reads the values (all of them, or only those that may have been reset a moment ago) and restores what was reset.
// It takes the lock only if there is something to write; after a *journal.Locked try again.
func (r *Restorer) Look(ctx context.Context, now time.Time, all bool) (Pass, error) {
	began := time.Now()
	pass := Pass{Values: len(r.values), PutBack: []PutBack{}, ByHand: []ByHand{}}
	var off []*desired
	for _, d := range r.values {
		if !all && d.standing != fresh && !now.Before(d.until) {
			continue
		}
		if ctx.Err() != nil {
			return pass, context.Cause(ctx)
		}
		if r.judge(ctx, d, now) {
			off = append(off, d)
		}
	}
	var err error
	if len(off) > 0 {
		pass.PutBack, err = r.putBack(ctx, off)
	}
	pass.ByHand = r.byHand()
	for _, d := range r.values {
		if d.standing == away {
			pass.Absent++
		}
		if now.Before(d.until) {
			pass.Open++
		}
	}
	pass.Seconds = time.Since(began).Seconds()
	return pass, err
}

// byHand are the values that somebody changed, as last seen.
func (r *Restorer) byHand() []ByHand {
	all := []ByHand{}
	for _, d := range r.values {
		if d.standing == byHand {
			all = append(all, ByHand{ID: d.ID, Address: d.Address, Wanted: wanted(d.Address, d.Want), Found: d.found,
				Since: d.since})
		}
	}
	return all
}

// judge reads one value and reports whether it must be restored.
func (r *Restorer) judge(ctx context.Context, d *desired, now time.Time) bool {
	if _, lent := r.lent[d.Address]; lent {
		d.standing = away
		return false
	}
	found := r.read(ctx, d.Address)
	before := d.standing
	switch {
	case found.State == setting.Unknown:
		return false // no verdict
	case d.Want.Met(found):
		d.standing, d.seen = met, found.Verbatim
		return false
	case gone(d.Address, found):
		d.standing = away
		return false
	case found.ReadOnly:
		return false
	case r.Insist, now.Before(d.until):
	case before == refusing: // until its object is set up again; lanes: until a device is created
		return false
	// it was created, and no event reported it
	case before == away, fewerLanes(d.Address, d.To, found), newThreads(d.Address, d.To, d.seen, found):
		d.until = now.Add(freshWindow)
	default:
		if before != byHand {
			d.since = now
		}
		d.standing, d.found = byHand, d.Address.Brief(found)
		return false
	}
	d.found = d.Address.Brief(found)
	return true
}

// begin takes the lock for a restore and reads the list again. It refuses while a transaction is half done.
func (r *Restorer) begin() (*journal.Lock, error) {
	lock, err := r.Journal.Lock(restoring)
	if err != nil {
		return nil, err
	}
	ledger, err := r.Journal.Ledger()
	if err == nil {
		err = unsettled(ledger)
	}
	if err == nil {
		err = r.Load()
	}
	if err != nil {
		lock.Release()
	}
	return lock, err
}

// putBack writes values under the lock. It skips values that are no longer desired: a rollback may have just ended.
func (r *Restorer) putBack(ctx context.Context, off []*desired) ([]PutBack, error) {
	lock, err := r.begin()
	if err != nil {
		return []PutBack{}, err
	}
	defer lock.Release()
	still := map[*desired]bool{}
	for _, d := range r.values {
		still[d] = true
	}
	done := []PutBack{}
	for _, d := range off {
		if !still[d] {
			continue
		}
		one := PutBack{ID: d.ID, Address: d.Address, From: d.found, To: d.Address.Brief(d.To)}
		if err := r.again(ctx, d); err != nil {
			one.Error, d.standing = err.Error(), refusing
		} else {
			d.standing = met
		}
		done = append(done, one)
	}
	return done, nil
}

// again writes one value and reads it back. The original value is in the journal of the apply.
func (r *Restorer) again(ctx context.Context, d *desired) error {
	if err := r.write(ctx, d.Address, d.To); err != nil {
		return refused(d.Address, wanted(d.Address, d.Want), err)
	}
	if found, is := r.readBack(ctx, d.Address, d.Want.Met); !is {
		return fmt.Errorf("%s: wrote %s, but it reads back as %s", d.Address, d.Address.Brief(d.To),
			d.Address.BriefWhy(found))
	}
	return nil
}

// Unconfirmed names the transactions that nobody confirmed before the host was restarted: their guards died with the
// host, and their files would bring the values back.
func (e *Engine) Unconfirmed() (all []string, err error) {
	ledger, err := e.Journal.Ledger()
	if err != nil {
		return nil, err
	}
	for _, t := range ledger.Open() {
		c := t.Confirmation()
		if c.Armed && !c.Confirmed && t.Header.BootID != e.BootID && ledger.State(t) != journal.InFlight {
			all = append(all, t.Header.TX)
		}
	}
	return all, nil
}

// Expired undoes those of Unconfirmed.
func (e *Engine) Expired(ctx context.Context) ([]Restored, error) {
	unconfirmed, err := e.Unconfirmed()
	if err != nil {
		return nil, err
	}
	var all []Restored
	var problems []error
	for _, tx := range unconfirmed {
		restored, err := e.Rollback(ctx, RollbackOptions{TX: tx, WithLater: true,
			Why: "not confirmed before the host was restarted", unconfirmed: true})
		all, problems = append(all, restored...), append(problems, err)
	}
	return all, errors.Join(problems...)
}

// Once restores every drifted value except those known to be changed by hand (with Insist those too).
func (r *Restorer) Once(ctx context.Context, known []ByHand) (Pass, error) {
	now := time.Now()
	r.Recall(known)
	r.Reset("", false, now.Add(time.Hour))
	return r.Look(ctx, now, true)
}
