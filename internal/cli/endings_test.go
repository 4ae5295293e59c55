package cli

import (
	"os"
	"os/signal"
	"slices"
	"syscall"
	"testing"

	"mpps/internal/must"
)

// TestEndings: a lost shell ends a command, unless nohup started it.
func TestEndings(t *testing.T) {
	ignored := signal.Ignored(syscall.SIGHUP) // by nohup, which may have started the tests
	must.Equal(t, slices.Contains(Endings(), os.Signal(syscall.SIGHUP)), !ignored, "SIGHUP ends")
	signal.Ignore(syscall.SIGHUP)
	if !ignored {
		defer signal.Reset(syscall.SIGHUP)
	}
	must.Hold(t, !slices.Contains(Endings(), os.Signal(syscall.SIGHUP)), "SIGHUP ends what nohup started")
}
