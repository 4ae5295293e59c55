package ops

import (
	"context"
	"os/signal"
	"syscall"
)

// UntilHangup returns a context that also ends when the shell goes away (SIGHUP), so that nothing is left running. A
// program started with nohup goes on: listening for the signal would undo nohup.
func UntilHangup(ctx context.Context) (context.Context, context.CancelFunc) {
	if signal.Ignored(syscall.SIGHUP) {
		return context.WithCancel(ctx)
	}
	return signal.NotifyContext(ctx, syscall.SIGHUP)
}
