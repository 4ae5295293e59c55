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

const (
	commandPatience = 30 * time.Second // how long a program may run if the caller's context has no deadline
	commandLinger   = time.Second      // how long children of a killed program may keep its output open

	// Bounds of what a program prints, in bytes: the definitions of some thousand guests, and a complaint for people.
	maxOutput    = 64 << 20
	maxComplaint = 64 << 10
)

// ErrOutput is returned for a program that prints more than anything that mpps asks for. It is ended.
var ErrOutput = fmt.Errorf("more than %d MiB of output", maxOutput>>20)

// bounded keeps the first bytes that are written to it. If there are more, it fails with full, or drops them if that is
// nil.
type bounded struct {
	strings.Builder
	room int
	full error
	over bool // there was more
}

func (b *bounded) Write(p []byte) (int, error) {
	kept := p[:min(len(p), b.room)]
	b.room -= len(kept)
	b.Builder.Write(kept)
	b.over = b.over || len(kept) < len(p)
	if b.over && b.full != nil {
		return len(kept), b.full
	}
	return len(p), nil
}

// Command runs a program by its argument vector, never through a shell, with LC_ALL=C, and returns its standard output.
// The error names the program and includes its standard error. Use Change for programs that change something. The
// kernel kills the program if mpps is killed: one that hangs does not stay, and one that writes for seconds, or makes a
// daemon change what a rollback reads next, does not go on during the rollback.
func (t *Tree) Command(ctx context.Context, name string, args ...string) (string, error) {
	text, _, _, err := t.Program(ctx, "", name, args...)
	return text, err
}

// Mentions reports whether the error of a program contains one of the words. It is for programs that report the cause
// only as text, which LC_ALL=C keeps stable.
func Mentions(err error, words ...string) bool {
	text := err.Error()
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(text, word) })
}

// Change runs a program that changes something. The error is ErrInDoubt if the program was killed before it finished: a
// daemon or the kernel may still carry out its request.
func (t *Tree) Change(ctx context.Context, stdin, name string, args ...string) error {
	if t.remote != nil {
		return errors.Join(t.remote.Run(ctx, stdin, append([]string{name}, args...)...), t.fetch())
	}
	_, _, cut, err := t.Program(ctx, stdin, name, args...)
	return inDoubt(cut, err)
}

func inDoubt(cut bool, err error) error {
	if err != nil && cut {
		return fmt.Errorf("%w: %w", setting.ErrInDoubt, err)
	}
	return err
}

// Program runs a program and returns its standard output and standard error. cut reports whether it was started and did
// not exit by itself: the deadline, a cancellation or somebody else killed it.
func (t *Tree) Program(ctx context.Context, stdin, name string, args ...string) (text, complaint string, cut bool,
	err error) {
	if !t.live {
		return "", "", false, ErrNotLive
	}
	ctx, cancel := Deadline(ctx, commandPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.Stdin = strings.NewReader(stdin)
	cmd.WaitDelay = commandLinger
	stdout, stderr := bounded{room: maxOutput, full: ErrOutput}, bounded{room: maxComplaint}
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = owned.Run(cmd)
	if stdout.over { // what ended it is the closed pipe
		err = ErrOutput
	}
	text, complaint = stdout.String(), strings.TrimSpace(stderr.String())
	if err == nil {
		return text, complaint, false, nil
	}
	cut = cmd.Process != nil &&
		(cmd.ProcessState == nil || !cmd.ProcessState.Exited() || errors.Is(err, exec.ErrWaitDelay))
	if cause := context.Cause(ctx); cause != nil && cut {
		err = fmt.Errorf("%w (%w)", cause, err)
	}
	err = fmt.Errorf("%s: %w", name, err)
	if complaint != "" {
		err = fmt.Errorf("%w: %s", err, complaint)
	}
	return text, complaint, cut, err
}
