package ops

import (
	"context"
	"os/signal"
	"syscall"
)

// UntilHangup is a context that ends too when the shell goes away (SIGHUP), so that nothing is left behind. One that was started
// with nohup goes on, as it was asked to: to listen would undo that.
func UntilHangup(ctx context.Context) (context.Context, context.CancelFunc) {
	if signal.Ignored(syscall.SIGHUP) {
		return context.WithCancel(ctx)
	}
	return signal.NotifyContext(ctx, syscall.SIGHUP)
}
