package change

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mpps/internal/machine"
	"mpps/internal/machine/systemd"
	"mpps/internal/ops"
)

// guardUnit returns the name of the timer that undoes an unconfirmed transaction.
func guardUnit(tx string) string { return "mpps-confirm-" + strings.ReplaceAll(tx, ".", "-") }

// armGuard returns a function that arms the undoing of an unconfirmed transaction: by a systemd timer, or else by a
// detached process.
func armGuard(ctx context.Context, env *ops.Env, within time.Duration) func(tx string) error {
	return func(tx string) error {
		root, err := filepath.Abs(env.Root)
		if err != nil {
			return err
		}
		args := []string{"rollback", "--unconfirmed", tx, "--root", root, "--quiet"}
		return env.With(func(m *machine.Machine) error {
			what := "undo transaction " + tx + " of mpps unless it is confirmed"
			done, err := systemd.DetachLater(context.WithoutCancel(ctx), m.Tree, guardUnit(tx), what, within, args...)
			if done {
				return nil
			}
			if err != nil {
				env.Out.Step("%v: a process of its own waits for the confirmation instead", err)
			}
			_, err = systemd.Detach(args...)
			return err
		})
	}
}

// cancelGuard cancels the timer of a transaction that was confirmed or undone.
func cancelGuard(ctx context.Context, m *machine.Machine, tx string) {
	systemd.CancelLater(context.WithoutCancel(ctx), m.Tree, guardUnit(tx))
}

// Confirm confirms the named transaction, or the only unconfirmed one, so that it is not undone. It returns the names
// of host and transaction.
func Confirm(ctx context.Context, env *ops.Env, name string) (host, tx string, err error) {
	if err := env.NeedsRoot("confirm"); err != nil {
		return "", "", err
	}
	err = withEngine(env, func(e *Engine) error {
		host = e.Name
		if tx, err = e.Confirm(name); err == nil {
			cancelGuard(ctx, e.Machine, tx)
		}
		return err
	})
	return host, tx, err
}

// OrphanGuard is a process that undoes the transactions last named to it if this process dies.
type OrphanGuard struct{ To io.WriteCloser }

// StartOrphanGuard starts an OrphanGuard.
func StartOrphanGuard(env *ops.Env) (*OrphanGuard, error) {
	root, err := filepath.Abs(env.Root)
	if err != nil {
		return nil, err
	}
	var o OrphanGuard
	err = env.With(func(m *machine.Machine) (err error) {
		unit := fmt.Sprintf("mpps-orphans-%d", os.Getpid())
		o.To, err = systemd.DetachListening(m.Tree, unit, "rollback", "--orphans", "--root", root, "--quiet")
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("start what would put the plan back if this process died: %w", err)
	}
	return &o, nil
}

// Set names the transactions to undo, in the order in which they were made; none: nothing will be undone.
func (o *OrphanGuard) Set(txs ...string) error {
	_, err := fmt.Fprintln(o.To, strings.Join(txs, " "))
	return err
}

// Close ends the process, which then undoes the transactions last named.
func (o *OrphanGuard) Close() error { return o.To.Close() }

// RunOrphanGuard is the OrphanGuard process: it reads names until its parent closes the pipe, then undoes the last
// ones.
func RunOrphanGuard(ctx context.Context, env *ops.Env, in io.Reader, out io.Writer) error {
	if _, err := fmt.Fprintln(out, "listening"); err != nil {
		return err
	}
	var txs []string
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		txs = strings.Fields(lines.Text())
	}
	if len(txs) == 0 {
		return lines.Err()
	}
	return withDetachedEngine(ctx, env, func(e *Engine) error {
		var problems []error
		for _, tx := range slices.Backward(txs) { // continue past one that cannot be undone
			problems = append(problems, e.Orphaned(ctx, tx))
		}
		return errors.Join(problems...)
	})
}

// RunGuard is the detached process of apply --confirm.
func RunGuard(ctx context.Context, env *ops.Env, tx string) error {
	return withDetachedEngine(ctx, env, func(e *Engine) error {
		_, err := e.Engine.Guard(ctx, tx)
		return err
	})
}

// withDetachedEngine opens the engine for a detached process: it prints nothing, the journal records what it did.
func withDetachedEngine(ctx context.Context, env *ops.Env, do func(*Engine) error) error {
	return withEngine(env, func(e *Engine) error {
		e.WatchGuests(ctx)
		e.Waiting = nil // nobody reads what waits for a restart
		return do(e)
	})
}
