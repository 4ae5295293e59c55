package cli

import (
	"context"
	"errors"
	"io"
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

// TestRead: a command ends with the reader of its output, and with no other failure of a write.
func TestRead(t *testing.T) {
	OutliveReader()
	reads, writes, err := os.Pipe()
	must.Do(t, err)
	defer writes.Close()
	ctx, gone := context.WithCancelCause(t.Context())
	w := Read{writes, gone}
	must.Get(io.WriteString(w, "read"))(t)
	must.Fail(io.WriteString(Read{failing{}, gone}, "lost"))(t, "a full disk")
	must.Hold(t, ctx.Err() == nil, "it ended with its reader there")
	must.Do(t, reads.Close())
	must.Fail(io.WriteString(w, "not read"))(t, "written to nobody")
	must.Is(t, context.Cause(ctx), ErrNoReader, "the cause")
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }
