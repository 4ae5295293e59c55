package tree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// How long the kernel may take for one value if the caller's context has no deadline. Changing rings or channels takes
// a NIC down and up, which lasts seconds with slow link firmware.
const (
	ReadPatience  = 5 * time.Second
	WritePatience = 20 * time.Second
)

// Deadline returns ctx with its own deadline, or one after patience if it has none.
func Deadline(ctx context.Context, patience time.Duration) (context.Context, context.CancelFunc) {
	if _, limited := ctx.Deadline(); limited {
		return context.WithCancel(ctx)
	}
	return setting.WithPatience(ctx, patience, fmt.Errorf("no answer within %v", patience))
}

// Refusal wraps the error of a write with the address and the value that was wanted.
func Refusal(a setting.Address, wanted string, err error) error {
	switch {
	case errors.Is(err, setting.ErrInDoubt):
		return a.Errorf("setting it to %q: %w", wanted, err)
	case Unprivileged(err):
		return a.Errorf("refused to be set to %q (needs root): %w", wanted, err)
	}
	return a.Errorf("refused to be set to %q: %w", wanted, err)
}

// Set writes the canonical value of a Known reading with write. Its errors name the address and the value.
func Set(a setting.Address, to setting.Reading, write func(value string) error) error {
	value, err := Canonical(a, to)
	if err != nil {
		return err
	}
	if err := write(value); err != nil {
		return Refusal(a, value, err)
	}
	return nil
}

// SetLive is Set for values of the running kernel, with a deadline. It fails on a recorded tree.
func (t *Tree) SetLive(
	ctx context.Context, a setting.Address, to setting.Reading, write func(value string) error,
) error {
	return Set(a, to, func(value string) error {
		if !t.live {
			return ErrNotLive
		}
		ctx, cancel := Deadline(ctx, WritePatience)
		defer cancel()
		return setting.Within(ctx, func() error { return write(value) })
	})
}

// Canonical returns the canonical value of a Known reading, and an error for other readings: they cannot be written to
// kinds whose values always exist.
func Canonical(a setting.Address, to setting.Reading) (string, error) {
	if to.State != setting.Known {
		return "", a.Errorf("expected a value to write, found %s", to)
	}
	value, err := setting.Kinds[a.Kind].Canonical(to.Value)
	if err != nil {
		return "", a.Errorf("%w", err)
	}
	return value, nil
}

// Unreadable returns the reading for a read error: absent (ENODEV, ENOENT, EOPNOTSUPP), otherwise could not tell.
func Unreadable(what string, err error) setting.Reading {
	switch {
	case errors.Is(err, unix.ENODEV), errors.Is(err, fs.ErrNotExist):
		return setting.Missing("there is no " + what)
	case errors.Is(err, unix.EOPNOTSUPP):
		return setting.Reading{State: setting.Absent, Why: what + ": not offered by this device", Unsupported: true}
	case Unprivileged(err):
		return setting.CouldNotTell(what + ": needs root")
	}
	return setting.CouldNotTell(what + ": " + err.Error())
}

// Value reads a file below a directory as a value. The name resolves from that directory: neither dots nor links in a
// recorded tree lead out of it.
func (t *Tree) Value(dir, name string, canonical func(string) (string, error)) setting.Reading {
	below, err := t.Below(dir)
	if err != nil {
		return Unreadable("/"+dir, err)
	}
	defer below.Close()
	text, err := below.Read(name)
	if err != nil {
		return Unreadable("/"+dir+"/"+name, err)
	}
	value, err := canonical(text)
	if err != nil {
		return setting.CouldNotTell(fmt.Sprintf("/%s/%s: %v", dir, name, err))
	}
	r := setting.Value(value)
	if info, err := below.Stat(name); err == nil && info.Mode().Perm()&0o222 == 0 {
		r.ReadOnly, r.Why = true, "the kernel offers no way to change it"
	}
	return r
}

// SetValue writes a value to a file below a directory.
func (t *Tree) SetValue(ctx context.Context, dir, name, text string) error {
	below, err := t.Below(dir)
	if err != nil {
		return err
	}
	if !t.live {
		return errors.Join(below.record(name, text), below.Close())
	}
	ctx, cancel := Deadline(ctx, WritePatience)
	defer cancel()
	err = below.Write(ctx, name, text)
	if errors.Is(err, setting.ErrInDoubt) {
		return err // not closed: the write still uses the directory
	}
	return errors.Join(err, below.Close())
}

// Write writes a pseudo-file in one write(2) and returns the kernel's error.
func (t *Tree) Write(ctx context.Context, name, text string) error {
	return setting.Within(ctx, func() error {
		f, err := openRegular(t.Root, name, os.O_WRONLY)
		if err != nil {
			return err
		}
		_, err = f.WriteString(text)
		return errors.Join(err, f.Close())
	})
}

// ErrNotLive is returned on a recorded tree by everything that needs the running kernel.
var ErrNotLive = errors.New("a recorded tree has no running kernel to ask")

// AddUnseen adds a part and the error of its read to h.Unseen, once.
func AddUnseen(h *facts.Host, what string, err error) {
	Note(h, facts.Unseen{What: what, Why: Reason(err)})
}

// Note adds a part that could not be read to h.Unseen, once.
func Note(h *facts.Host, u facts.Unseen) {
	if !slices.Contains(h.Unseen, u) {
		h.Unseen = append(h.Unseen, u)
	}
}

// Reason returns the text of an error, or "needs root" if it may go away for root.
func Reason(err error) string {
	if Unprivileged(err) {
		return "needs root"
	}
	return err.Error()
}

// Unprivileged reports whether an error may go away for root.
func Unprivileged(err error) bool { return errors.Is(err, os.ErrPermission) && os.Geteuid() != 0 }

// NoSuch is the error for a device or object that does not exist. It unwraps to ENODEV.
type NoSuch string

func (n NoSuch) Error() string { return string(n) }
func (n NoSuch) Unwrap() error { return unix.ENODEV }
