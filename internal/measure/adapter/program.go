// Package adapter runs trials through other programs: a program is started once and exchanges one line of JSON per
// trial, so that TRex, testpmd, a hardware tester or a simulation can serve a search.
//
// Standard input gets a line per trial, {"pps": 1000000, "frame_bytes": 64, "seconds": 1}. Standard output answers each
// with a line {"sent": 1000000, "received": 999990, "seconds": 1}, whose seconds are the device's time, which may be
// simulated, or with {"error": "why there was no trial"}. Standard error is for people: its end is shown when something
// fails.
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
	"mpps/internal/outcome"
	"mpps/internal/owned"
)

const (
	maxLine   = 64 << 10 // bytes of an answer
	maxStderr = 2 << 10  // bytes of standard error to keep
	grace     = time.Second
)

// Program is a running adapter. It implements search.Device.
type Program struct {
	name    string
	wait    time.Duration
	grace   [2]time.Duration // before SIGTERM, and from there to SIGKILL
	cmd     *exec.Cmd
	kill    func() // kills it and everything it has started
	in      io.WriteCloser
	lines   chan []byte // closed at the end of the output
	stopped chan struct{}
	readErr error
	stderr  tail
	broken  error // if set, no further trial is possible
	closed  sync.Once
}

// Start starts a program. The command is split into words as a shell would, without a shell. An answer may come up to
// wait after the end of its trial. Close the program after use.
func Start(command string, wait time.Duration) (*Program, error) {
	words, err := shellquote.Split(command)
	switch {
	case err != nil:
		return nil, outcome.Usage(fmt.Errorf("trial command %q: %w", command, err), "")
	case len(words) == 0 || words[0] == "":
		return nil, outcome.Usage(errors.New("trial command: expected a program, found nothing"), "")
	}
	p := &Program{name: words[0], wait: wait, grace: [2]time.Duration{grace, grace},
		cmd: exec.Command(words[0], words[1:]...), lines: make(chan []byte, 1), stopped: make(chan struct{})}
	p.cmd.Stderr = &p.stderr
	p.cmd.WaitDelay = 2 * grace // for children that it left with its standard error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	// In its own process group: Ctrl-C is for this program, which then ends the trial in an orderly way; and whatever
	// it starts ends with Close.
	if p.kill, err = owned.StartAll(p.cmd); err != nil {
		return nil, outcome.Usage(fmt.Errorf("start the trial command: %w", err), "--trial-command 'PROGRAM "+
			"ARGUMENTS'; it is found as a shell finds it")
	}
	go p.read(out)
	return p, nil
}

// read reads the output line by line until it ends.
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

// Trial requests a trial and waits for the answer.
func (p *Program) Trial(ctx context.Context, t search.Trial) (search.Outcome, error) {
	if p.broken != nil {
		return search.Outcome{}, p.broken
	}
	o, err := p.trial(ctx, t)
	if err != nil {
		p.broken = err // a later answer may belong to this trial
	}
	return o, err
}

func (p *Program) trial(ctx context.Context, t search.Trial) (search.Outcome, error) {
	select {
	case line, more := <-p.lines:
		if more {
			return search.Outcome{}, p.misbehaved("said %s before it was asked", excerpt(line))
		}
		return search.Outcome{}, p.endError()
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
	limit := time.NewTimer(time.Duration(t.Seconds*float64(time.Second)) + p.wait)
	defer limit.Stop()
	for {
		select {
		case err := <-written:
			if err != nil && !errors.Is(err, syscall.EPIPE) {
				return search.Outcome{}, p.misbehaved("could not be asked: %v", err)
			}
			written = nil
		case line, more := <-p.lines:
			if !more {
				return search.Outcome{}, p.endError()
			}
			return p.parse(line)
		case <-limit.C:
			return search.Outcome{}, p.misbehaved("gave no answer to a trial of %g s for %v beyond it", t.Seconds,
				p.wait)
		case <-ctx.Done():
			return search.Outcome{}, context.Cause(ctx)
		}
	}
}

// parse parses an answer. Counts may have a fraction, as some languages write them; all are required.
func (p *Program) parse(line []byte) (search.Outcome, error) {
	var a struct {
		Sent, Received, Seconds *float64
		Error                   string
	}
	if err := json.Unmarshal(line, &a); err != nil {
		return search.Outcome{}, p.misbehaved("answered %s: expected a line of JSON with sent, received and seconds",
			excerpt(line))
	}
	if a.Error != "" {
		return search.Outcome{}, outcome.Failed(fmt.Errorf("the trial command %s could not do a trial: %s", p.name,
			a.Error), p.complaint())
	}
	for _, f := range []struct {
		name  string
		value *float64
	}{{"sent", a.Sent}, {"received", a.Received}, {"seconds", a.Seconds}} {
		switch {
		case f.value == nil:
			return search.Outcome{}, p.misbehaved("answered %s: %s is missing", excerpt(line), f.name)
		case *f.value < 0 || *f.value > 1e18:
			return search.Outcome{}, p.misbehaved("answered %s: %s is %g", excerpt(line), f.name, *f.value)
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

// misbehaved returns an error about what the program did, with the end of its standard error as the hint.
func (p *Program) misbehaved(format string, args ...any) error {
	return outcome.Failed(fmt.Errorf("the trial command %s %s", p.name, fmt.Sprintf(format, args...)), p.hint())
}

func (p *Program) hint() string {
	if text := p.complaint(); text != "" {
		return text
	}
	return "each trial is a line of JSON on its standard input, and each answer one on its standard output: see " +
		"docs/search.md"
}

// complaint returns the end of standard error, if there is any.
func (p *Program) complaint() string {
	time.Sleep(20 * time.Millisecond) // its last words come through another pipe
	if text := p.stderr.String(); text != "" {
		return "it said: " + text
	}
	return ""
}

// endError is the error of a program that ended its output.
func (p *Program) endError() error {
	if errors.Is(p.readErr, bufio.ErrTooLong) {
		return p.misbehaved("answered with a line of more than %d bytes", maxLine)
	}
	if p.readErr != nil {
		return p.misbehaved("could not be read: %v", p.readErr)
	}
	return p.misbehaved("ended without an answer")
}

// Close ends the program: by closing its input, after a while with SIGTERM, then with SIGKILL. Whatever it started ends
// too. Closing it again does nothing.
func (p *Program) Close() error {
	p.closed.Do(p.end)
	return nil
}

func (p *Program) end() {
	close(p.stopped)
	_ = p.in.Close()
	done := make(chan error, 1)
	go func() { done <- p.cmd.Wait() }()
	for i := range p.grace {
		select {
		case <-done: // kill what it left behind
			p.kill()
			return
		case <-time.After(p.grace[i]):
		}
		if i == 0 {
			_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM)
		}
	}
	p.kill()
	<-done
}

// tail keeps the last maxStderr bytes written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if over := len(t.text) - maxStderr; over > 0 {
		t.text = t.text[over:]
	}
	return len(b), nil
}

// String returns the last three lines, joined into one.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(t.text)), "\n")
	return strings.TrimSpace(strings.Join(lines[max(0, len(lines)-3):], " / "))
}
