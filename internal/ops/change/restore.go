package change

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"mpps/internal/advise/lasting"
	"mpps/internal/advise/sriov"
	"mpps/internal/change/apply"
	"mpps/internal/change/journal"
	"mpps/internal/machine"
	"mpps/internal/machine/vf"
	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// restoreMemory is the file, below the root, in which the watching process remembers values changed by hand. It is on
// tmpfs: a reboot loses it, like those changes.
const restoreMemory = "run/mpps/restore.json"

// Restorer puts back values that something has reset.
type Restorer struct {
	*apply.Restorer
	Name string // of the host

	ask    RestoreOptions
	env    *ops.Env
	engine *Engine
}

// RestoreOptions is what to put back.
type RestoreOptions struct {
	Insist bool          // also values that somebody changed by hand
	VFs    bool          // only VF counts and attributes
	Wait   time.Duration // with VFs: how long to wait for devices and links
}

// OpenRestorer opens the engine for restoring.
func OpenRestorer(ctx context.Context, env *ops.Env, ask RestoreOptions) (*Restorer, error) {
	if err := env.NeedsRoot("restore"); err != nil {
		return nil, err
	}
	e, err := Open(env, nil)
	if err != nil {
		return nil, err
	}
	return &Restorer{
		Restorer: &apply.Restorer{
			Engine: e.Engine, Insist: ask.Insist, Desired: func() ([]lasting.Value, error) { return e.desired(ctx) },
		},
		Name: e.Name, ask: ask, env: env, engine: e,
	}, nil
}

// Close closes the engine.
func (r *Restorer) Close() error { return r.engine.Close() }

// Put puts the values back once. If some are not as desired afterwards, it returns the pass and an error with the exit
// code.
func (r *Restorer) Put(ctx context.Context) (*apply.Pass, error) {
	if r.ask.VFs {
		return r.vfs(ctx, r.ask.Wait)
	}
	return r.once(ctx)
}

// once puts back every value that has drifted, except those known to be changed by hand.
func (r *Restorer) once(ctx context.Context) (*apply.Pass, error) {
	if err := r.loadLent(ctx); err != nil {
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

// loadLent loads the desired values and finds the VF attributes that are kept for another guest than the one that has
// the VF now.
func (r *Restorer) loadLent(ctx context.Context) error {
	if err := r.Load(); err != nil {
		return err
	}
	r.Due = (&vfKeeper{machine: r.engine.Machine, had: sriov.NewMemory()}).due
	_, err := r.Consider(ctx, nil, time.Now())
	r.Due = nil
	return err
}

// lockPatience is how long UndoExpired waits for another mpps: the boot waits for it.
const lockPatience = 2 * time.Minute

// UndoExpired undoes transactions that were not confirmed before the host rebooted. While another mpps is at work it
// waits, for lockPatience at most.
func (r *Restorer) UndoExpired(ctx context.Context) error {
	r.engine.WatchGuests(ctx)
	for began := time.Now(); ; {
		expired, err := r.Expired(ctx)
		for _, x := range expired {
			r.env.Out.Step("transaction %s was not confirmed before the host rebooted: %s put back",
				x.Of, ops.Count(x.Written(), "value"))
		}
		var locked *journal.Locked
		if !errors.As(err, &locked) || time.Since(began) >= lockPatience {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(vfsPause):
		}
	}
}

// reportExpired names the transactions that UndoExpired could not undo.
func (r *Restorer) reportExpired(context.Context) error {
	all, err := r.Unconfirmed()
	for _, tx := range all {
		r.env.Out.Failure(fmt.Errorf("transaction %s was not confirmed before the host rebooted, and could not be put "+
			"back", tx), "mpps rollback "+tx+" --with-later")
	}
	return err
}

// Watch puts values back until the context ends. It first undoes transactions that were not confirmed before the host
// rebooted, unless it runs in its service's sandbox: UndoExpired has already run outside of it, and with a read-only
// /etc a rollback would be incomplete.
func (r *Restorer) Watch(ctx context.Context) error {
	undo := r.UndoExpired
	if r.engine.Machine.Confined() {
		undo = r.reportExpired
	}
	if err := undo(ctx); err != nil {
		r.env.Out.Failure(err, "")
	}
	return r.env.With(func(m *machine.Machine) error {
		happened, err := m.Events(ctx)
		if err != nil {
			return err
		}
		r.Due = (&vfKeeper{machine: m, had: sriov.NewMemory()}).due
		if err := r.Load(); err != nil {
			return err
		}
		remembered := r.recall()
		r.Recall(remembered.ByHand)
		return r.Restorer.Watch(ctx, remembered.BootID == "", translate(ctx, happened), r.reportPass)
	})
}

// reportPass reports a pass of the watching process, and remembers it.
func (r *Restorer) reportPass(pass apply.Pass, err error) {
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
				Object: e.Object, Created: e.Created, Carrier: e.Carrier, Function: e.Function,
				Guest: apply.GuestChange(e.Guest),
			}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// memory is the content of restoreMemory.
type memory struct {
	BootID string         `json:"boot_id"`
	ByHand []apply.ByHand `json:"by_hand"`
}

// recall reads the memory; it is empty if there is none from this boot, or somebody else can write it.
func (r *Restorer) recall() memory {
	f, err := r.env.OpenState(restoreMemory)
	if err != nil {
		return memory{}
	}
	defer f.Close()
	var m memory
	if json.NewDecoder(ops.JSON(f)).Decode(&m) != nil || m.BootID != r.BootID {
		return memory{}
	}
	return m
}

func (r *Restorer) remember(m memory) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return r.env.WriteState(restoreMemory, append(text, '\n'))
}

// vfsPause is the time between two attempts.
const vfsPause = 200 * time.Millisecond

// vfs puts back VF counts and attributes, in the order of the list. At boot, devices appear one by one and their links
// come up seconds later: values that are absent or refused are tried again until none was put back for the first time
// for the time wait; making VFs alone may take longer. A device that udev has not renamed yet may briefly have the name
// of another, so unnamed PFs are skipped.
func (r *Restorer) vfs(ctx context.Context, wait time.Duration) (*apply.Pass, error) {
	m, all := r.engine.Machine, r.Desired
	r.Desired = func() ([]lasting.Value, error) {
		values, err := all()
		return slices.DeleteFunc(values, func(v lasting.Value) bool {
			return !lasting.OfVFs(v.Address) || m.Live() && !vf.Named(m.Tree, lasting.PF(v.Address))
		}), err
	}
	total, err := r.vfsUntilComplete(ctx, wait, func() (int, error) {
		values, err := all()
		return len(slices.DeleteFunc(values, func(v lasting.Value) bool { return !lasting.OfVFs(v.Address) })), err
	})
	switch {
	case err != nil:
		return nil, err
	case total.Absent > 0:
		return &total, outcome.Failed(fmt.Errorf("%s of devices that did not appear within %v",
			ops.Count(total.Absent, "value"), wait), "mpps-restore.service puts them back when they appear")
	case total.Failed() > 0:
		return &total, outcome.Exit(outcome.CodeFailed)
	}
	return &total, nil
}

// vfsUntilComplete puts values back until all expected ones stand or wait is over.
func (r *Restorer) vfsUntilComplete(ctx context.Context, wait time.Duration, expected func() (int, error)) (apply.Pass,
	error) {
	known := r.recall().ByHand
	total := apply.Pass{PutBack: []apply.PutBack{}, ByHand: []apply.ByHand{}}
	began := time.Now()
	for last := began; ; {
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
		before := len(total.PutBack)
		if total = mergePass(total, pass, n); len(total.PutBack) > before {
			last = time.Now()
		}
		total.Seconds = time.Since(began).Seconds()
		done := err == nil && pass.Values == n && pass.Absent == 0 && pass.Failed() == 0
		if done && len(pass.PutBack) == 0 || time.Since(last) >= wait {
			return total, err
		}
		select {
		case <-ctx.Done():
			return total, context.Cause(ctx)
		case <-time.After(vfsPause):
		}
	}
}

// mergePass adds a pass to the total. The last outcome of each value counts.
func mergePass(total, pass apply.Pass, values int) apply.Pass {
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
