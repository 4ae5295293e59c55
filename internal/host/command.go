package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"mpps/internal/owned"
)

// commandPatience is how long a program may take where the caller's context has no deadline. A program that was killed
// may leave children behind that hold its output: they are not waited for longer than commandLinger.
const (
	commandPatience = 30 * time.Second
	commandLinger   = time.Second
)

// command runs a program by its argument vector, never through a shell, with a fixed locale, and returns its standard
// output. The error names the program and carries its standard error. Programs that change something are run by change.
func (m *Machine) command(ctx context.Context, stdin, name string, args ...string) (string, error) {
	text, _, _, err := m.program(ctx, stdin, name, args...)
	return text, err
}

// says reports whether a program said one of some words, as it does with LC_ALL=C: it has no other way to say what is wrong.
func says(err error, words ...string) bool {
	text := err.Error()
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(text, word) })
}

// change runs a program that changes something. Where the program was ended before it was done the error is ErrInDoubt:
// what it had asked a daemon or the kernel to do may come about all the same.
func (m *Machine) change(ctx context.Context, stdin, name string, args ...string) error {
	_, _, cut, err := m.program(ctx, stdin, name, args...)
	if err != nil && cut {
		return fmt.Errorf("%w: %w", ErrInDoubt, err)
	}
	return err
}

// changeWithUs is change for a program that writes files for seconds, or asks a daemon to change what a rollback may be about to
// look at: where mpps is killed meanwhile the kernel ends it too, so that it does not write on while things are put back.
func (m *Machine) changeWithUs(ctx context.Context, stdin, name string, args ...string) error {
	return m.change(context.WithValue(ctx, withUs{}, true), stdin, name, args...)
}

// withUs marks the context of such a program.
type withUs struct{}

// program runs a program and returns what it wrote on standard output and on standard error. cut tells that it was started and did not come to its own end: killed by the deadline, by a
// cancellation or by somebody else.
func (m *Machine) program(ctx context.Context, stdin, name string, args ...string) (text, said string, cut bool, err error) {
	if !m.live {
		return "", "", false, errNotLive
	}
	ctx, cancel := patient(ctx, commandPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.Stdin = strings.NewReader(stdin)
	cmd.WaitDelay = commandLinger
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	run := cmd.Run
	if ctx.Value(withUs{}) != nil {
		run = func() error { return owned.Run(cmd) }
	}
	err = run()
	said = strings.TrimSpace(stderr.String())
	if err == nil {
		return stdout.String(), said, false, nil
	}
	cut = cmd.Process != nil && (cmd.ProcessState == nil || !cmd.ProcessState.Exited() || errors.Is(err, exec.ErrWaitDelay))
	if cause := context.Cause(ctx); cause != nil && cut {
		err = fmt.Errorf("%w (%w)", cause, err)
	}
	if said != "" {
		return stdout.String(), said, cut, fmt.Errorf("%s: %w: %s", name, err, said)
	}
	return stdout.String(), said, cut, fmt.Errorf("%s: %w", name, err)
}
