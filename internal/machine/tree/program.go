package tree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"mpps/internal/model/setting"
	"mpps/internal/owned"
)

// commandPatience is how long a program may take where the caller's context has no deadline. A program that was killed
// may leave children behind that hold its output: they are not waited for longer than commandLinger.
const (
	commandPatience = 30 * time.Second
	commandLinger   = time.Second
)

// Command runs a program by its argument vector, never through a shell, with a fixed locale, and returns its standard
// output. The error names the program and has its standard error. Programs that change something are run by Change.
func (t *Tree) Command(ctx context.Context, stdin, name string, args ...string) (string, error) {
	text, _, _, err := t.Program(ctx, stdin, name, args...)
	return text, err
}

// Says reports whether a program said one of some words, as it does with LC_ALL=C: it has no other way to say what is
// wrong.
func Says(err error, words ...string) bool {
	text := err.Error()
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(text, word) })
}

// Change runs a program that changes something. The error is ErrInDoubt if the program was ended before it was done: a
// daemon or the kernel may still do what it had asked for.
func (t *Tree) Change(ctx context.Context, stdin, name string, args ...string) error {
	_, _, cut, err := t.Program(ctx, stdin, name, args...)
	return inDoubt(cut, err)
}

// ChangeWithUs is Change for a program that writes files for seconds, or asks a daemon to change what a rollback may be
// about to read: if mpps is killed meanwhile the kernel ends it too, so that it does not write on during the rollback.
func (t *Tree) ChangeWithUs(ctx context.Context, stdin, name string, args ...string) error {
	_, _, cut, err := t.run(ctx, owned.Run, stdin, name, args...)
	return inDoubt(cut, err)
}

func inDoubt(cut bool, err error) error {
	if err != nil && cut {
		return fmt.Errorf("%w: %w", setting.ErrInDoubt, err)
	}
	return err
}

// Program runs a program and returns what it wrote on standard output and on standard error. cut reports that it was
// started and did not exit by itself: killed by the deadline, a cancellation or somebody else.
func (t *Tree) Program(ctx context.Context, stdin, name string, args ...string) (text, stderr string, cut bool,
	err error) {
	return t.run(ctx, (*exec.Cmd).Run, stdin, name, args...)
}

func (t *Tree) run(
	ctx context.Context, run func(*exec.Cmd) error, stdin, name string, args ...string,
) (text, said string, cut bool, err error) {
	if !t.live {
		return "", "", false, ErrNotLive
	}
	ctx, cancel := Deadline(ctx, commandPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.Stdin = strings.NewReader(stdin)
	cmd.WaitDelay = commandLinger
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = run(cmd)
	said = strings.TrimSpace(stderr.String())
	if err == nil {
		return stdout.String(), said, false, nil
	}
	cut = cmd.Process != nil &&
		(cmd.ProcessState == nil || !cmd.ProcessState.Exited() || errors.Is(err, exec.ErrWaitDelay))
	if cause := context.Cause(ctx); cause != nil && cut {
		err = fmt.Errorf("%w (%w)", cause, err)
	}
	if said != "" {
		return stdout.String(), said, cut, fmt.Errorf("%s: %w: %s", name, err, said)
	}
	return stdout.String(), said, cut, fmt.Errorf("%s: %w", name, err)
}
