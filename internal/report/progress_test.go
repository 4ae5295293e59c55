package report

import (
	"bytes"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"mpps/internal/must"
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
			must.Equal(t, problems.String(), c.want, "%+v: printed", c)
		})
	}
}

// TestReaderIsGone: Gone is called once the reader of a stream has closed it.
func TestReaderIsGone(t *testing.T) {
	for name, say := range map[string]func(p *Printer){
		"step":   func(p *Printer) { p.Step("halfway") },
		"answer": func(p *Printer) { must.Refuse(t, p.Line(1, "one"), "an answer that nobody reads") },
	} {
		reader, writer, err := os.Pipe()
		must.Do(t, err)
		gone := 0
		p := NewPrinter(writer, writer, Options{Gone: func() { gone++ }})
		p.Step("begun")
		must.Equal(t, gone, 0, "%s, with a reader", name)
		must.Do(t, reader.Close())
		say(p)
		must.Equal(t, gone, 1, "%s, without a reader", name)
		must.Do(t, writer.Close())
	}
}
