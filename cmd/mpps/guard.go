package main

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

	"mpps/internal/host"
)

// guardUnit is the name of the timer that undoes a transaction which nobody confirms.
func guardUnit(tx string) string { return "mpps-confirm-" + strings.ReplaceAll(tx, ".", "-") }

// guard starts what undoes a transaction unless it is confirmed: a timer of systemd, or a process of its own.
func (a *app) guard(ctx context.Context, within time.Duration) func(tx string) error {
	return func(tx string) error {
		root, err := filepath.Abs(a.root)
		if err != nil {
			return err
		}
		m, err := a.env().Open()
		if err != nil {
			return err
		}
		defer m.Close()
		args := []string{"rollback", "--unconfirmed", tx, "--root", root, "--quiet"}
		done, err := m.DetachLater(context.WithoutCancel(ctx), guardUnit(tx), "undo transaction "+tx+" of mpps unless it is confirmed", within, args...)
		if done {
			return nil
		}
		if err != nil {
			a.out.Step("%v: a process of its own waits for the confirmation instead", err)
		}
		_, err = host.Detach(args...)
		return err
	}
}

// unguard takes the timer of a transaction back that is confirmed, or was put back before its time was over.
func (a *app) unguard(ctx context.Context, tx string) {
	if m, err := a.env().Open(); err == nil {
		m.CancelLater(context.WithoutCancel(ctx), guardUnit(tx))
		m.Close()
	}
}

// orphans is a process that puts back the transactions which it was told of last, once this process has died.
type orphans struct{ told io.WriteCloser }

// watchOrphans starts it.
func (a *app) watchOrphans() (*orphans, error) {
	root, err := filepath.Abs(a.root)
	if err != nil {
		return nil, err
	}
	m, err := a.env().Open()
	if err != nil {
		return nil, err
	}
	defer m.Close()
	told, err := m.DetachListening(fmt.Sprintf("mpps-orphans-%d", os.Getpid()), "rollback", "--orphans", "--root", root, "--quiet")
	if err != nil {
		return nil, fmt.Errorf("start what would put the plan back if this process died: %w", err)
	}
	return &orphans{told}, nil
}

// stand tells it what is to be put back, the last first; none: nothing.
func (o *orphans) stand(txs ...string) error {
	_, err := fmt.Fprintln(o.told, strings.Join(txs, " "))
	return err
}

// stands is stand for one transaction.
func (o *orphans) stands(tx string) error { return o.stand(tx) }

// adopt is that process: it reads until the one that started it is gone.
func (a *app) adopt(ctx context.Context) error {
	if _, err := fmt.Fprintln(a.stdout, "listening"); err != nil {
		return err
	}
	var txs []string
	lines := bufio.NewScanner(a.stdin)
	for lines.Scan() {
		txs = strings.Fields(lines.Text())
	}
	if len(txs) == 0 {
		return lines.Err()
	}
	return a.alone(ctx, func(e *engine) error {
		var problems []error
		for _, tx := range slices.Backward(txs) { // one that cannot be put back is no reason to leave the others
			_, err := e.Orphaned(ctx, tx, "the process that applied it is gone")
			problems = append(problems, err)
		}
		return errors.Join(problems...)
	})
}

// guarded is the detached process of apply --confirm.
func (a *app) guarded(ctx context.Context, tx string) error {
	return a.alone(ctx, func(e *engine) error {
		_, err := e.Guard(ctx, tx)
		return err
	})
}

// alone opens the engine for a detached process. Nobody reads its streams: what it did stands in the journal.
func (a *app) alone(ctx context.Context, do func(*engine) error) error {
	e, err := a.engine(nil)
	if err != nil {
		return err
	}
	defer e.close()
	e.watchGuests(ctx, a.root)
	e.Waiting = nil // nobody reads what waits for a restart
	return do(e)
}
