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
	"mpps/internal/ops"
)

// guardUnit is the name of the timer that undoes an unconfirmed transaction.
func guardUnit(tx string) string { return "mpps-confirm-" + strings.ReplaceAll(tx, ".", "-") }

// guard starts what undoes an unconfirmed transaction: a timer of systemd, or a detached process.
func guard(ctx context.Context, env *ops.Env, within time.Duration) func(tx string) error {
	return func(tx string) error {
		root, err := filepath.Abs(env.Root)
		if err != nil {
			return err
		}
		args := []string{"rollback", "--unconfirmed", tx, "--root", root, "--quiet"}
		return env.With(func(m *machine.Machine) error {
			what := "undo transaction " + tx + " of mpps unless it is confirmed"
			done, err := m.DetachLater(context.WithoutCancel(ctx), guardUnit(tx), what, within, args...)
			if done {
				return nil
			}
			if err != nil {
				env.Out.Step("%v: a process of its own waits for the confirmation instead", err)
			}
			_, err = machine.Detach(args...)
			return err
		})
	}
}

// unguard cancels the timer of a transaction that was confirmed or undone in time.
func unguard(ctx context.Context, m *machine.Machine, tx string) {
	m.CancelLater(context.WithoutCancel(ctx), guardUnit(tx))
}

// Confirm keeps the changes of a transaction that would be undone otherwise: the named one, or the only one. It
// returns the names of host and transaction.
func Confirm(ctx context.Context, env *ops.Env, name string) (host, tx string, err error) {
	if err := env.NeedsRoot("confirm"); err != nil {
		return "", "", err
	}
	e, err := Open(env, nil)
	if err != nil {
		return "", "", err
	}
	defer e.Close()
	if tx, err = e.Confirm(name); err != nil {
		return "", "", err
	}
	unguard(ctx, e.Machine, tx)
	return e.Name, tx, nil
}

// Orphans is a process that undoes the transactions last named to it once this process has died.
type Orphans struct{ To io.WriteCloser }

// WatchOrphans starts it.
func WatchOrphans(env *ops.Env) (*Orphans, error) {
	root, err := filepath.Abs(env.Root)
	if err != nil {
		return nil, err
	}
	var o Orphans
	err = env.With(func(m *machine.Machine) (err error) {
		unit := fmt.Sprintf("mpps-orphans-%d", os.Getpid())
		o.To, err = m.DetachListening(unit, "rollback", "--orphans", "--root", root, "--quiet")
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("start what would put the plan back if this process died: %w", err)
	}
	return &o, nil
}

// Stand names the transactions to undo, the last first. Without any, nothing will be undone.
func (o *Orphans) Stand(txs ...string) error {
	_, err := fmt.Fprintln(o.To, strings.Join(txs, " "))
	return err
}

// Close ends the process.
func (o *Orphans) Close() error { return o.To.Close() }

// Adopt runs that process: it reads names until its parent is gone.
func Adopt(ctx context.Context, env *ops.Env, in io.Reader, out io.Writer) error {
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
	return alone(ctx, env, func(e *Engine) error {
		var problems []error
		for _, tx := range slices.Backward(txs) { // one that cannot be put back is no reason to leave the others
			_, err := e.Orphaned(ctx, tx, "the process that applied it is gone")
			problems = append(problems, err)
		}
		return errors.Join(problems...)
	})
}

// Guard runs the detached process of apply --confirm.
func Guard(ctx context.Context, env *ops.Env, tx string) error {
	return alone(ctx, env, func(e *Engine) error {
		_, err := e.Engine.Guard(ctx, tx)
		return err
	})
}

// alone opens the engine for a detached process. Nobody reads its streams; the journal records what it did.
func alone(ctx context.Context, env *ops.Env, do func(*Engine) error) error {
	e, err := Open(env, nil)
	if err != nil {
		return err
	}
	defer e.Close()
	e.WatchGuests(ctx)
	e.Waiting = nil // nobody reads what waits for a restart
	return do(e)
}
