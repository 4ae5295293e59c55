package cli

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// ErrNoReader is why a context ended whose command has lost the reader of its output.
var ErrNoReader = errors.New("nobody reads the output any more")

// Endings are the signals that end a command. SIGHUP is one, so that nothing keeps running after the shell has gone,
// and no rollback stops half-way. A program started with nohup ignores SIGHUP and still does: listening for the signal
// would undo nohup.
func Endings() []os.Signal {
	all := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		all = append(all, syscall.SIGHUP)
	}
	return all
}

// OutliveReader has writes to a pipe without a reader fail, such as that of a lost SSH connection: SIGPIPE would kill
// the process in the middle of what it changes. A signal that is listened to is the default again in programs that are
// started (execve(2)).
func OutliveReader() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }
