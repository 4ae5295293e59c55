package ops

import (
	"context"
	"os/signal"
	"syscall"
)

// UntilHangup returns a context that also ends on SIGHUP, so that nothing keeps running after the shell has gone. A
// program started with nohup ignores SIGHUP and still does: listening for the signal would undo nohup.
func UntilHangup(ctx context.Context) (context.Context, context.CancelFunc) {
	if signal.Ignored(syscall.SIGHUP) {
		return context.WithCancel(ctx)
	}
	return signal.NotifyContext(ctx, syscall.SIGHUP)
}
