package main

import (
	"context"
	"path/filepath"
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
		m, err := host.Open(a.root)
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
	if m, err := host.Open(a.root); err == nil {
		m.CancelLater(context.WithoutCancel(ctx), guardUnit(tx))
		m.Close()
	}
}
