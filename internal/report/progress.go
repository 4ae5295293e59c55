package report

import (
	"fmt"
	"time"
)

// logEvery is how often progress is a separate line where standard error is no terminal.
const logEvery = 10 * time.Second

// Progress replaces the line of progress on a terminal. Elsewhere it prints a line each ten seconds, none for what is
// over before.
func (p *Printer) Progress(format string, args ...any) {
	line := sanitize(fmt.Sprintf(format, args...), false)
	if !p.live {
		p.log(line)
		return
	}
	if limit := columns(p.err) - 1; limit > 1 {
		line = Cut(line, limit)
	}
	_ = p.send(p.err, "\r\x1b[K"+line)
	p.drawn = true
}

// log prints a line of progress if the last one is old enough.
func (p *Printer) log(line string) {
	switch now := time.Now(); {
	case p.logged.IsZero():
		p.logged = now
	case now.Sub(p.logged) >= logEvery:
		p.logged = now
		p.Step("%s", line)
	}
}

func (p *Printer) clear() {
	if p.drawn {
		fmt.Fprint(p.err, "\r\x1b[K")
		p.drawn = false
	}
}
