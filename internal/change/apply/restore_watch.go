package apply

import (
	"context"
	"errors"
	"slices"
	"time"

	"mpps/internal/change/journal"
	"mpps/internal/model/setting"
)

// Event means that a device or a guest (empty: any) was set up again or, with Created, was created.
type Event struct {
	Object  string
	Created bool
	Carrier bool // the port of a device that is up got its carrier: only values that the driver ties to the link
	// Function says that the object is a virtual function, PF/N.
	Function bool
	Guest    GuestChange // what became of a guest
}

// How often values are checked. While an event may still reset values, they are checked soon and then less and less
// often; otherwise so rarely that checking takes less than 1 % of a CPU.
const (
	firstLook  = 20 * time.Millisecond
	lastLook   = 500 * time.Millisecond
	idleLook   = 10 * time.Second
	idleFactor = 100
)

// Watch restores values until the context ends. It starts with all of them: right after a boot every drifted value was
// reset; otherwise somebody changed it while nobody watched. report gets the first pass, every pass that restored
// something or found something newly changed by hand, and every failure.
func (r *Restorer) Watch(ctx context.Context, booted bool, events <-chan Event, report func(Pass, error)) error {
	if err := r.Load(); err != nil {
		return err
	}
	now := time.Now()
	if booted {
		r.Boot(now)
	}
	w := watch{Restorer: r, report: report, pause: firstLook}
	if _, err := r.Consider(ctx, nil, now); err != nil {
		w.tell(Pass{}, err)
	}
	w.look(ctx, true)
	r.settle()
	for {
		pause := w.pause
		if wait, any := w.guests.wait(time.Now()); any {
			pause = min(pause, wait)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case e, open := <-events:
			timer.Stop()
			if !open {
				if ctx.Err() != nil {
					return nil
				}
				return errors.New("the kernel sends no more events")
			}
			w.happened(e)
		case <-timer.C:
			w.tend(ctx, time.Now())
			w.look(ctx, w.idle)
		}
	}
}

// settle ends the window after a boot for values that were as wanted at the first look: if they change now, somebody
// has changed them.
func (r *Restorer) settle() {
	for _, d := range r.values {
		if d.standing == met && d.found == "" {
			d.until = time.Time{}
		}
	}
}

type watch struct {
	*Restorer
	report func(Pass, error)
	pause  time.Duration
	idle   bool // no event may still reset values: the next look is at all of them
	guests upkeep
	hand   []setting.Address // values changed by hand, as reported last
	failed string            // failures, likewise
	spoken bool              // a pass was reported
}

// happened takes an event in. The list may have been changed since the last look.
func (w *watch) happened(e Event) {
	if err := w.Load(); err != nil {
		w.tell(Pass{}, err)
		return
	}
	now := time.Now()
	if (e.Guest != "" || e.Function) && w.Due != nil {
		w.guests.happened(e, now)
	}
	concerned := 0
	switch {
	case e.Carrier:
		concerned = w.Link(e.Object, now)
	case e.Function:
		concerned = w.Function(e.Object, now)
	case e.Guest == "" || e.Guest == Started:
		concerned = w.Reset(e.Object, e.Created, now)
	}
	if concerned > 0 {
		w.pause, w.idle = firstLook, false
	}
}

// look looks once and works out when to look again.
func (w *watch) look(ctx context.Context, all bool) {
	if all {
		if holder, err := w.Journal.Holder(); err == nil && holder != nil && len(w.hand)+len(w.values) > 0 {
			w.pause = lastLook // another mpps is changing values
			return
		}
		if err := w.Load(); err != nil {
			w.tell(Pass{}, err)
			w.pause, w.idle = idleLook, true
			return
		}
	}
	pass, err := w.Look(ctx, time.Now(), all)
	var locked *journal.Locked
	if errors.As(err, &locked) {
		w.pause = 2 * firstLook
		return
	}
	w.tell(pass, err)
	if w.idle = pass.Open == 0; w.idle {
		w.pause = max(idleLook, time.Duration(pass.Seconds*idleFactor*float64(time.Second)))
		return
	}
	w.pause = min(max(w.pause*3/2, firstLook), lastLook)
}

// tell reports a pass if it has news: the same failure, and the same values changed by hand, are reported once.
func (w *watch) tell(pass Pass, err error) {
	var hand []setting.Address
	for _, b := range pass.ByHand {
		hand = append(hand, b.Address)
	}
	failed := ""
	if err != nil {
		failed = err.Error()
	}
	for _, b := range pass.PutBack {
		failed += b.Error
	}
	news := !w.spoken || failed != w.failed || failed == "" && len(pass.PutBack) > 0 || !slices.Equal(hand, w.hand)
	w.failed, w.hand, w.spoken = failed, hand, true
	if news {
		w.report(pass, err)
	}
}
