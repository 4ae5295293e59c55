// Package adapter drives generators that other programs drive: a program is started once and speaks a line of JSON per
// trial, so that TRex, testpmd, a hardware tester or a simulation can stand behind a search.
//
// Standard input has a line per trial, {"pps": 1000000, "frame_bytes": 64, "seconds": 1}; standard output answers each
// with a line {"sent": 1000000, "received": 999990, "seconds": 1}, whose seconds are as they passed for the device,
// which may be simulated, or with {"error": "why there was no trial"}. Standard error is for people: its end is shown
// when something fails.
package adapter

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/kballard/go-shellquote"

	"mpps/internal/measure/search"
	"mpps/internal/owned"
)

const (
	maxLine = 64 << 10 // bytes of an answer
	kept    = 2 << 10  // bytes of standard error that are kept
	patient = time.Second
)

// Program is a running adapter. It implements search.Device.
type Program struct {
	name    string
	grace   time.Duration
	waits   [2]time.Duration // for it to end by itself, and after SIGTERM
	cmd     *exec.Cmd
	kill    func() // it and all that it has started
	in      io.WriteCloser
	lines   chan []byte // closed at the end of the output
	stopped chan struct{}
	readErr error
	stderr  tail
	broken  error // after which no trial is possible
	closed  sync.Once
}

// Error is a complaint with what the user can do about it.
type Error struct {
	Err   error
	Tip   string
	Usage bool // about the command line
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Hint is what the user can do.
func (e *Error) Hint() string { return e.Tip }

// ExitCode is 64 for a wrong command line, 1 for a failure.
func (e *Error) ExitCode() int {
	if e.Usage {
		return 64
	}
	return 1
}

// Start starts a program with its arguments, split as a shell splits words, without a shell. An answer may take grace
// longer than the trial that it is about. Close it after use.
func Start(command string, grace time.Duration) (*Program, error) {
	words, err := shellquote.Split(command)
	switch {
	case err != nil:
		return nil, &Error{Err: fmt.Errorf("trial command %q: %w", command, err), Usage: true}
	case len(words) == 0 || words[0] == "":
		return nil, &Error{Err: errors.New("trial command: expected a program, found nothing"), Usage: true}
	}
	p := &Program{name: words[0], grace: grace, waits: [2]time.Duration{patient, patient},
		cmd: exec.Command(words[0], words[1:]...), lines: make(chan []byte, 1), stopped: make(chan struct{})}
	p.cmd.Stderr = &p.stderr
	p.cmd.WaitDelay = 2 * patient // for what it started and left with its standard error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	// In a group of its own: Ctrl-C is for this program, which then ends the trial in its own way; and what it starts
	// ends with Close.
	if p.kill, err = owned.StartAll(p.cmd); err != nil {
		return nil, &Error{Err: fmt.Errorf("start the trial command: %w", err), Tip: "--trial-command 'PROGRAM " +
			"ARGUMENTS'; it is found as a shell finds it", Usage: true}
	}
	go p.read(out)
	return p, nil
}

// read takes the output line by line until it ends.
func (p *Program) read(out io.Reader) {
	defer close(p.lines)
	scan := bufio.NewScanner(out)
	scan.Buffer(make([]byte, 0, 4096), maxLine)
	for scan.Scan() {
		select {
		case p.lines <- bytes.Clone(scan.Bytes()):
		case <-p.stopped:
			return
		}
	}
	p.readErr = scan.Err()
}

// Trial asks for a trial and waits for its answer.
func (p *Program) Trial(ctx context.Context, t search.Trial) (search.Outcome, error) {
	if p.broken != nil {
		return search.Outcome{}, p.broken
	}
	o, err := p.trial(ctx, t)
	if err != nil {
		p.broken = err // whatever it answers from now on may belong to an earlier trial
	}
	return o, err
}

func (p *Program) trial(ctx context.Context, t search.Trial) (search.Outcome, error) {
	select {
	case line, more := <-p.lines:
		if more {
			return search.Outcome{}, p.wrong("said %s before it was asked", excerpt(line))
		}
		return search.Outcome{}, p.ended()
	default:
	}
	question, err := json.Marshal(t)
	if err != nil {
		return search.Outcome{}, err
	}
	written := make(chan error, 1)
	go func() {
		_, err := p.in.Write(append(question, '\n'))
		written <- err
	}()
	limit := time.NewTimer(time.Duration(t.Seconds*float64(time.Second)) + p.grace)
	defer limit.Stop()
	for {
		select {
		case err := <-written:
			if err != nil && !errors.Is(err, syscall.EPIPE) {
				return search.Outcome{}, p.wrong("could not be asked: %v", err)
			}
			written = nil
		case line, more := <-p.lines:
			if !more {
				return search.Outcome{}, p.ended()
			}
			return p.parse(line)
		case <-limit.C:
			return search.Outcome{}, p.wrong("gave no answer to a trial of %g s for %v beyond it", t.Seconds, p.grace)
		case <-ctx.Done():
			return search.Outcome{}, context.Cause(ctx)
		}
	}
}

// parse reads an answer. Counts may be written as numbers with a fraction, as some languages do; there is no default
// for any.
func (p *Program) parse(line []byte) (search.Outcome, error) {
	var a struct {
		Sent, Received, Seconds *float64
		Error                   string
	}
	if err := json.Unmarshal(line, &a); err != nil {
		return search.Outcome{}, p.wrong("answered %s: expected a line of JSON with sent, received and seconds",
			excerpt(line))
	}
	if a.Error != "" {
		return search.Outcome{}, &Error{Err: fmt.Errorf("the trial command %s could not do a trial: %s", p.name,
			a.Error), Tip: p.said()}
	}
	for _, f := range []struct {
		name  string
		value *float64
	}{{"sent", a.Sent}, {"received", a.Received}, {"seconds", a.Seconds}} {
		switch {
		case f.value == nil:
			return search.Outcome{}, p.wrong("answered %s: %s is missing", excerpt(line), f.name)
		case *f.value < 0 || *f.value > 1e18:
			return search.Outcome{}, p.wrong("answered %s: %s is %g", excerpt(line), f.name, *f.value)
		}
	}
	return search.Outcome{Sent: uint64(math.Round(*a.Sent)), Received: uint64(math.Round(*a.Received)),
		Seconds: *a.Seconds}, nil
}

func excerpt(line []byte) string {
	const most = 120
	if len(line) > most {
		return fmt.Sprintf("%q…", line[:most])
	}
	return fmt.Sprintf("%q", line)
}

// wrong is what the program did, with the end of what it said to people.
func (p *Program) wrong(format string, args ...any) error {
	return &Error{Err: fmt.Errorf("the trial command %s %s", p.name, fmt.Sprintf(format, args...)), Tip: p.lastWords()}
}

func (p *Program) lastWords() string {
	if said := p.said(); said != "" {
		return said
	}
	return "each trial is a line of JSON on its standard input, and each answer one on its standard output: see " +
		"docs/search.md"
}

// said is the end of what it said to people, if anything.
func (p *Program) said() string {
	time.Sleep(20 * time.Millisecond) // what it says as it ends comes by another pipe
	if said := p.stderr.String(); said != "" {
		return "it said: " + said
	}
	return ""
}

// ended is for a program that ended its output.
func (p *Program) ended() error {
	if errors.Is(p.readErr, bufio.ErrTooLong) {
		return p.wrong("answered with a line of more than %d bytes", maxLine)
	}
	if p.readErr != nil {
		return p.wrong("could not be read: %v", p.readErr)
	}
	return p.wrong("ended without an answer")
}

// Close ends the program: by the end of its input, after a while by SIGTERM, and then by SIGKILL. What it started ends
// with it. Closing it again does nothing.
func (p *Program) Close() error {
	p.closed.Do(p.end)
	return nil
}

func (p *Program) end() {
	close(p.stopped)
	_ = p.in.Close()
	done := make(chan error, 1)
	go func() { done <- p.cmd.Wait() }()
	for i := range p.waits {
		select {
		case <-done: // what it left behind has been killed
			p.kill()
			return
		case <-time.After(p.waits[i]):
		}
		if i == 0 {
			_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM)
		}
	}
	p.kill()
	<-done
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if over := len(t.text) - kept; over > 0 {
		t.text = t.text[over:]
	}
	return len(b), nil
}

// String is the last line or lines, on one.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(t.text)), "\n")
	return strings.TrimSpace(strings.Join(lines[max(0, len(lines)-3):], " / "))
}
