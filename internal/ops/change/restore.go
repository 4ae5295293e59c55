package change

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"mpps/internal/advise/lasting"
	"mpps/internal/advise/sriov"
	"mpps/internal/change/apply"
	"mpps/internal/change/journal"
	"mpps/internal/machine"
	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// restoreMemory is where the watching process keeps what it knows of values changed by hand, below the root. It is
// lost at a reboot, like those changes.
const restoreMemory = "run/mpps/restore.json"

// Restoring puts back values that something has reset.
type Restoring struct {
	*apply.Restorer
	Name string // of the host

	ask    RestoreAsk
	env    *ops.Env
	engine *Engine
}

// RestoreAsk is what to put back.
type RestoreAsk struct {
	Insist bool          // also what somebody changed by hand
	VFs    bool          // only what makes virtual functions what they are
	Wait   time.Duration // with VFs: for devices and links
}

// OpenRestoring opens the engine for it.
func OpenRestoring(ctx context.Context, env *ops.Env, ask RestoreAsk) (*Restoring, error) {
	if err := env.NeedsRoot("restore"); err != nil {
		return nil, err
	}
	e, err := Open(env, nil)
	if err != nil {
		return nil, err
	}
	return &Restoring{
		Restorer: &apply.Restorer{
			Engine: e.Engine, Insist: ask.Insist, Desired: func() ([]lasting.Value, error) { return e.desired(ctx) },
		},
		Name: e.Name, ask: ask, env: env, engine: e,
	}, nil
}

// Close closes the engine.
func (r *Restoring) Close() error { return r.engine.Close() }

// Put puts the values back once. If not all is well then, the error is how the verb ends, and the pass comes with it.
func (r *Restoring) Put(ctx context.Context) (*apply.Pass, error) {
	if r.ask.VFs {
		return r.vfs(ctx, r.ask.Wait)
	}
	return r.once(ctx)
}

// once puts back every value that has drifted, except those known to be changed by hand.
func (r *Restoring) once(ctx context.Context) (*apply.Pass, error) {
	if err := r.lent(ctx); err != nil {
		return nil, err
	}
	pass, err := r.Restorer.Once(ctx, r.recall().ByHand)
	switch {
	case err != nil:
		return nil, err
	case pass.Failed() > 0:
		return &pass, outcome.Exit(outcome.CodeFailed)
	case len(pass.ByHand) > 0:
		return &pass, outcome.Exit(outcome.CodeDrifted)
	}
	return &pass, nil
}

// lent loads the list of values and finds those that belong to another guest than the one that has their function now.
func (r *Restoring) lent(ctx context.Context) error {
	if err := r.Load(); err != nil {
		return err
	}
	r.Due = (&keeper{machine: r.engine.Machine, had: sriov.NewMemory()}).due
	_, err := r.Consider(ctx, nil, time.Now())
	r.Due = nil
	return err
}

// Watch stays and puts values back. It begins with transactions that were not confirmed before the host rebooted.
func (r *Restoring) Watch(ctx context.Context) error {
	r.engine.WatchGuests(ctx)
	expired, err := r.Expired(ctx)
	for _, x := range expired {
		r.env.Out.Step("transaction %s was not confirmed before the host was started anew: %s put back",
			x.Of, ops.Count(x.Written(), "value"))
	}
	if err != nil {
		r.env.Out.Failure(err, "")
	}
	return r.env.With(func(m *machine.Machine) error {
		happened, err := m.Events(ctx)
		if err != nil {
			return err
		}
		r.Due = (&keeper{machine: m, had: sriov.NewMemory()}).due
		if err := r.Load(); err != nil {
			return err
		}
		remembered := r.recall()
		r.Recall(remembered.ByHand)
		return r.Restorer.Watch(ctx, remembered.BootID == "", translate(ctx, happened), r.passed)
	})
}

// passed reports a pass of the watching process, and remembers it.
func (r *Restoring) passed(pass apply.Pass, err error) {
	if err == nil {
		err = r.remember(memory{BootID: r.BootID, ByHand: pass.ByHand})
	}
	if err != nil {
		r.env.Out.Failure(err, "")
	}
	for _, b := range pass.PutBack {
		if b.Error != "" {
			r.env.Out.Step("not put back: %s", b.Error)
			continue
		}
		r.env.Out.Step("put back %s: %s, was %s", b.Address, b.To, b.From)
	}
	for _, b := range pass.ByHand {
		r.env.Out.Step("left alone, changed by hand: %s is %s, wanted %s", b.Address, b.Found, b.Wanted)
	}
}

// translate passes the machine's events on to the engine.
func translate(ctx context.Context, in <-chan machine.Event) <-chan apply.Event {
	out := make(chan apply.Event)
	go func() {
		defer close(out)
		for e := range in {
			select {
			case out <- apply.Event{
				Object: e.Object, Anew: e.Anew, Carrier: e.Carrier, Function: e.Function,
				Guest: apply.GuestChange(e.Guest),
			}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// memory is what is remembered until the next reboot.
type memory struct {
	BootID string         `json:"boot_id"`
	ByHand []apply.ByHand `json:"by_hand"`
}

// recall reads the memory; it is empty if there is none of this boot.
func (r *Restoring) recall() memory {
	text, err := os.ReadFile(filepath.Join(r.env.Root, restoreMemory))
	var m memory
	if err != nil || json.Unmarshal(text, &m) != nil || m.BootID != r.BootID {
		return memory{}
	}
	return m
}

func (r *Restoring) remember(m memory) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	name := filepath.Join(r.env.Root, restoreMemory)
	if err := os.Mkdir(filepath.Dir(name), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return ops.ReplaceFile(name, append(text, '\n'))
}

// vfsPause is the time between two tries for what is missing.
const vfsPause = 200 * time.Millisecond

// vfs puts back what makes virtual functions, in the order of the list. At boot devices appear one by one, and their
// links come up seconds later: what is missing or refused is tried again until the time is up. A device that udev has
// not named yet may briefly have the name of another.
func (r *Restoring) vfs(ctx context.Context, wait time.Duration) (*apply.Pass, error) {
	m, all := r.engine.Machine, r.Desired
	r.Desired = func() ([]lasting.Value, error) {
		values, err := all()
		return slices.DeleteFunc(values, func(v lasting.Value) bool {
			return !lasting.OfVFs(v.Address) || m.Live() && !m.Named(lasting.PF(v.Address))
		}), err
	}
	total, err := r.untilThere(ctx, wait, func() (int, error) {
		values, err := all()
		return len(slices.DeleteFunc(values, func(v lasting.Value) bool { return !lasting.OfVFs(v.Address) })), err
	})
	switch {
	case err != nil:
		return nil, err
	case total.Absent > 0:
		return &total, outcome.Failed(fmt.Errorf("%s of devices that did not appear within %v",
			ops.Count(total.Absent, "value"), wait),
			"mpps-restore.service puts them back when they appear")
	case total.Failed() > 0:
		return &total, outcome.Exit(outcome.CodeFailed)
	}
	return &total, nil
}

// untilThere puts values back until all expected ones stand, or the time is up.
func (r *Restoring) untilThere(ctx context.Context, wait time.Duration, expected func() (int, error)) (apply.Pass,
	error) {
	known := r.recall().ByHand
	total := apply.Pass{PutBack: []apply.PutBack{}, ByHand: []apply.ByHand{}}
	for began := time.Now(); ; {
		n, err := expected()
		if err != nil {
			return total, err
		}
		if err := r.Load(); err != nil {
			return total, err
		}
		pass, err := r.Restorer.Once(ctx, known)
		var locked *journal.Locked
		if err != nil && !errors.As(err, &locked) {
			return total, err
		}
		total = gathered(total, pass, n)
		total.Seconds = time.Since(began).Seconds()
		done := err == nil && pass.Values == n && pass.Absent == 0 && pass.Failed() == 0
		if done && len(pass.PutBack) == 0 || time.Since(began) >= wait {
			return total, err
		}
		select {
		case <-ctx.Done():
			return total, context.Cause(ctx)
		case <-time.After(vfsPause):
		}
	}
}

// gathered adds a pass to those before it. The last outcome of each value counts.
func gathered(total, pass apply.Pass, values int) apply.Pass {
	for _, b := range pass.PutBack {
		at := slices.IndexFunc(total.PutBack, func(o apply.PutBack) bool { return o.Address == b.Address })
		if at < 0 {
			total.PutBack = append(total.PutBack, b)
			continue
		}
		b.From = total.PutBack[at].From
		total.PutBack[at] = b
	}
	total.Values, total.ByHand = values, pass.ByHand
	total.Absent = pass.Absent + values - pass.Values
	return total
}
