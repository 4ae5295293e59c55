package report

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"
)

// TestProgressInALog: where there is no terminal, what takes long says where it is every ten seconds, what is short
// says nothing, and with --quiet nothing is said.
func TestProgressInALog(t *testing.T) {
	for _, c := range []struct {
		seconds int
		quiet   bool
		want    string
	}{
		{9, false, ""},
		{25, false, "watching: 10 of 25 s\nwatching: 20 of 25 s\n"},
		{25, true, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			var problems bytes.Buffer
			p := NewPrinter(&bytes.Buffer{}, &problems, Options{Quiet: c.quiet})
			for n := range c.seconds {
				p.Progress("watching: %d of %d s", n, c.seconds)
				time.Sleep(time.Second)
			}
			if problems.String() != c.want {
				t.Errorf("%+v: printed %q", c, problems.String())
			}
		})
	}
}
