package report

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"testing"

	"golang.org/x/sys/unix"

	"mpps/internal/must"
)

// TestRead: a stream says that it has lost its reader, and nothing of another failure.
func TestRead(t *testing.T) {
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
	reads, writes, err := os.Pipe()
	must.Do(t, err)
	defer writes.Close()
	gone := 0
	w := Read{writes, func() { gone++ }}
	must.Get(io.WriteString(w, "read"))(t)
	must.Fail(io.WriteString(Read{failing{}, w.Gone}, "lost"))(t, "a full disk")
	must.Equal(t, gone, 0, "losses with the reader there")
	must.Do(t, reads.Close())
	must.Fail(io.WriteString(w, "not read"))(t, "written without a reader")
	must.Equal(t, gone, 1, "losses")
	must.Fail(io.WriteString(Read{writes, nil}, "not read"))(t, "written without a reader or a notice")
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }
