// Package apply makes planned changes on a machine and can always undo them. Each change is announced in the journal,
// written with a deadline, read back and compared; after a failure all changes are undone in reverse order. Rollback
// undoes them from a journal of any age; verify compares the machine with what was applied.
package apply

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mpps/internal/change/journal"
	"mpps/internal/model/setting"
)

// Engine changes one machine.
type Engine struct {
	Mechanisms setting.Mechanisms
	Journal    *journal.Dir
	Host       string        // host name, for the journal's header
	BootID     string        // of the running kernel: values written under another one were reset by a reboot
	Version    string        // of the program
	Deadline   time.Duration // of one read or write; 0 means 10 s, more for kinds that are slow

	// The functions that follow are questions about the machine. Each may be nil: the answer is then always "no".

	// Writable returns why no value can be written to an address on this machine, or nil. If the function is nil, only
	// the write itself shows it.
	Writable func(a setting.Address) error
	// Waiting returns why a change has not taken effect yet although its value is as wanted ("guest vm1 runs with its
	// former definition"), or "".
	Waiting func(c journal.Change) string
	// Lingers returns why a value that a transaction wrote at from or later, and that a rollback restored by until, is
	// still in effect ("guest vm1 still runs with it"), or "". The change is the rollback's. For kernel arguments it is
	// called only if the kernel was booted between the two.
	Lingers func(c journal.Change, from, until time.Time) string
	// Reset returns what has reset the value of a change since a time without writing it ("guest vm1 was started
	// again"), or "".
	Reset func(c journal.Change, since time.Time) string
	// Owner returns who else sets the value of a change, if that explains the value that was found, or "".
	Owner func(c journal.Change, found setting.Reading) string
	// Lent returns why a drifted value need not be as applied for now (its device is used by a guest for which it was
	// not set), or "".
	Lent func(a setting.Address) string
	// InHand returns why applied changes must not be undone right now: a guest runs with what they gave it. It is
	// called only for a rollback that a user asks for, without Force.
	InHand func(ctx context.Context, changes []journal.Change) error

	ahead ahead
}

const defaultDeadline = 10 * time.Second

// slow are the deadlines of kinds that take longer on a healthy machine: a program is run for them (libvirt answers
// after seconds on an emulated host), or a NIC goes down and up.
var slow = map[setting.Kind]time.Duration{
	setting.Domain: time.Minute, setting.NetfilterRule: time.Minute,
	// systemd kills what does not stop after 90 s (DefaultTimeoutStopSec): irqbalance that was started a moment ago
	setting.Service: 2 * time.Minute,
	// the same; and systemd first reloads all units, which took 12 s on a busy host
	setting.Unit: 2 * time.Minute,
	setting.File: time.Minute, // it may be a unit
	// grub-mkconfig and grubby look at every kernel and, with os-prober, at every disk
	setting.KernelArg: 3 * time.Minute, setting.BootKernel: 3 * time.Minute,
	setting.GuestArg:     5 * time.Minute,   // the same in a guest, and dozens of programs through its agent
	setting.DomainDevice: 100 * time.Second, // a guest may be slow to release a device
	setting.VirtNetwork:  time.Minute,
	// creating 63 functions takes 10 s on an idle host; then their devices are waited for
	setting.VFCount: 3 * time.Minute,
	setting.NICRing: 30 * time.Second, setting.NICChannels: 30 * time.Second, setting.NICFlag: 30 * time.Second,
	setting.Inside:    30 * time.Second,
	setting.PCIDriver: 30 * time.Second,
	setting.OVSDB:     30 * time.Second, // a database that restarts is waited for
}

func (e *Engine) deadline(a setting.Address) time.Duration {
	switch longer, isSlow := slow[a.Kind]; {
	case e.Deadline > 0:
		return e.Deadline
	case isSlow:
		return longer
	}
	return defaultDeadline
}

// read reads an address and gives up after the deadline. A cancelled parent does not shorten it: what was written must
// be read back.
func (e *Engine) read(ctx context.Context, a setting.Address) setting.Reading {
	if mechanism, able := e.Mechanisms[a.Kind].(setting.BatchReader); able {
		return e.ahead.read(ctx, mechanism, a, e.deadline(a))
	}
	late := fmt.Errorf("reading it did not return within %v", e.deadline(a))
	ctx, cancel := setting.WithPatience(context.WithoutCancel(ctx), e.deadline(a), late)
	defer cancel()
	answer := make(chan setting.Reading, 1)
	go func() { answer <- e.Mechanisms.Read(ctx, a) }()
	select {
	case r := <-answer:
		return r
	case <-ctx.Done():
		return setting.CouldNotTell(late.Error())
	}
}

// write writes an address and gives up waiting after the deadline, with setting.ErrInDoubt: a store into sysfs or an
// ethtool call that sleeps in a driver cannot be taken back. A cancelled parent does not end it, since that would only
// make doubt where there is none.
func (e *Engine) write(ctx context.Context, a setting.Address, to setting.Reading) error {
	return e.within(ctx, e.deadline(a), func(ctx context.Context) error { return e.Mechanisms.Write(ctx, a, to) })
}

// within calls a write and gives up waiting after a limit.
func (e *Engine) within(ctx context.Context, limit time.Duration, write func(context.Context) error) error {
	e.ahead.forget()
	defer e.ahead.forget()
	ctx, cancel := setting.WithPatience(
		context.WithoutCancel(ctx), limit, fmt.Errorf("the write did not return within %v", limit))
	defer cancel()
	err := setting.Within(ctx, func() error { return write(ctx) })
	if err != nil && ctx.Err() != nil && !errors.Is(err, setting.ErrInDoubt) {
		return fmt.Errorf("%w: %w", setting.ErrInDoubt, err)
	}
	return err
}

// restoring is the lock holder's name while values are restored, which takes moments.
const restoring = "restore"

// lock takes the machine's lock. It waits for a restore that is in progress, and for no other holder.
func (e *Engine) lock(command string) (*journal.Lock, error) {
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		lock, err := e.Journal.Lock(command)
		var locked *journal.Locked
		if !errors.As(err, &locked) || locked.Holder.Command != restoring || time.Since(began) > defaultDeadline {
			return lock, err
		}
	}
}

// Alone calls act, which is no transaction, under the machine's lock. command is the lock holder's name.
func (e *Engine) Alone(command string, act func()) error {
	lock, err := e.lock(command)
	if err != nil {
		return err
	}
	act()
	return lock.Release()
}

// Services and threads take a moment to change.
var readBackPauses = []time.Duration{10 * time.Millisecond, 50 * time.Millisecond, 200 * time.Millisecond}

// readBack reads an address until it is as it should be, for a quarter of a second at the most.
func (e *Engine) readBack(ctx context.Context, a setting.Address, is func(setting.Reading) bool) (setting.Reading,
	bool) {
	found := e.read(ctx, a)
	for _, pause := range readBackPauses {
		if is(found) {
			return found, true
		}
		time.Sleep(pause)
		e.ahead.forget()
		found = e.read(ctx, a)
	}
	return found, is(found)
}

// put writes a value that stood there before and proves that it stands there again.
func (e *Engine) put(ctx context.Context, a setting.Address, value setting.Reading) (setting.Reading, error) {
	if err := e.write(ctx, a, value); err != nil {
		return setting.Reading{}, refused(a, a.Brief(value), err)
	}
	found, same := e.readBack(ctx, a, value.Same)
	if !same {
		return found, fmt.Errorf("%s: wrote %s, but it reads back as %s", a, a.Brief(value), a.BriefWhy(found))
	}
	return found, nil
}

// refused returns the error of a failed write: the value, what was wanted, what the kernel said. A mechanism's
// AddressError already says all of that.
func refused(a setting.Address, wanted string, err error) error {
	if e, is := err.(*setting.AddressError); is && e.Address == a {
		return err
	}
	return fmt.Errorf("%s: wanted %s: %w", a, wanted, err)
}

// gone reports whether a value cannot be put back because what it belongs to is not there any more: a guest that is
// off, a device that was removed.
func gone(a setting.Address, found setting.Reading) bool {
	return found.State == setting.Absent && (found.NoObject || !setting.Kinds[a.Kind].CanAbsent)
}

// wanted is a want for messages.
func wanted(a setting.Address, w setting.Want) string {
	if a.Kind.IsText() && w.Op != setting.Gone {
		return a.Brief(setting.Value(w.Value))
	}
	return w.String()
}

// tidier is a mechanism whose writes may leave something behind where they are cut short.
type tidier interface {
	Tidy(ctx context.Context, a setting.Address) error
}

// tidy removes what writes of a transaction that were cut short have left behind.
func (e *Engine) tidy(ctx context.Context, changes []journal.Change) error {
	var problems []error
	for _, c := range changes {
		if t, able := e.Mechanisms[c.Address.Kind].(tidier); able && c.Wrote() {
			problems = append(problems, t.Tidy(ctx, c.Address))
		}
	}
	return errors.Join(problems...)
}
