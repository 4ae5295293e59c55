// Package place runs a measurement's programs on this machine, or in a guest through its agent.
package place

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/libvirt"
	"mpps/internal/machine/tree"
	"mpps/internal/owned"
)

// Place runs a measurement's programs: on this machine, or in a guest through its agent.
type Place struct {
	guest  string // empty: this machine
	agents libvirt.Agents
}

// How long a program may take to end after SIGINT, and how much longer than planned it may run before it is ended.
const (
	endPatience  = 5 * time.Second
	overPatience = 20 * time.Second
)

// maxOutput is how many bytes of each output stream are kept: a load may print without end.
const maxOutput = 32 << 20

// headWriter keeps the first bytes of a program's output and discards the rest, so that the program does not block.
type headWriter struct {
	text strings.Builder
	room int
}

func (w *headWriter) Write(b []byte) (int, error) {
	kept := b[:min(len(b), w.room)]
	w.room -= len(kept)
	w.text.Write(kept)
	return len(b), nil
}

// Here returns this machine as a place for programs.
func Here(t *tree.Tree) (*Place, error) {
	if !t.Live() {
		return nil, tree.ErrNotLive
	}
	return &Place{}, nil
}

// InGuest returns a guest as a place for programs. The error says why its agent cannot be reached, and what to do.
func InGuest(ctx context.Context, t *tree.Tree, guest string) (*Place, error) {
	if !t.Live() {
		return nil, tree.ErrNotLive
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("the agent of a guest needs root")
	}
	if err := libvirt.Unreachable(t, guest); err != nil {
		return nil, err
	}
	l, err := libvirt.Open(t)
	if err != nil {
		return nil, err
	}
	v, isVirsh := l.(libvirt.Virsh)
	if !isVirsh {
		return nil, tree.ErrNotLive
	}
	ctx, cancel := context.WithTimeoutCause(ctx, libvirt.AgentPatience, libvirt.ErrAgentHangs)
	defer cancel()
	answers, err := v.Ask(ctx, guest, libvirt.AgentCommand{Execute: "guest-info"})
	if len(answers) != 1 || answers[0] == nil {
		return nil, libvirt.AskError(err)
	}
	if err := libvirt.Allows(answers[0], "guest-exec", "guest-exec-status"); err != nil {
		return nil, err
	}
	return &Place{guest, v}, nil
}

// Ended is the result of a program.
type Ended struct {
	Out, Err string
	Code     int
	Cut      bool // it was interrupted
	From, To time.Time
}

// Problem returns the first line of a failed program's output; empty if it did not fail.
func (e *Ended) Problem() string {
	if e.Code == 0 {
		return ""
	}
	for _, text := range []string{e.Err, e.Out} {
		if line := libvirt.FirstLine(text); line != "" {
			return line
		}
	}
	return fmt.Sprintf("exit code %d", e.Code)
}

var ErrNoProgram = errors.New("there is no such program")

// Run runs a program by its argument vector and waits for its end. It does not poll before the planned time is over, so
// as not to disturb the measurement. When the context ends it interrupts the program (SIGINT) and returns its output;
// it kills a program that does not end. The error wraps ErrNoProgram if there is no such program.
func (p *Place) Run(ctx context.Context, planned time.Duration, argv ...string) (*Ended, error) {
	if p.guest == "" {
		return p.runHere(ctx, planned, argv)
	}
	return p.runInGuest(ctx, planned, argv)
}

func (p *Place) runHere(ctx context.Context, planned time.Duration, argv []string) (*Ended, error) {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", argv[0], ErrNoProgram)
	}
	limited, cancel := context.WithTimeout(ctx, planned+overPatience)
	defer cancel()
	cmd := exec.CommandContext(limited, path, argv[1:]...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	var end func()
	started := make(chan struct{})
	cmd.Cancel = func() error {
		<-started
		time.AfterFunc(endPatience, end)
		return unix.Kill(-cmd.Process.Pid, unix.SIGINT) // with its children
	}
	cmd.WaitDelay = 2 * endPatience
	stdout, stderr := headWriter{room: maxOutput}, headWriter{room: maxOutput}
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	e := &Ended{From: time.Now()}
	end, err = start(cmd)
	close(started)
	if err != nil {
		return nil, err
	}
	err = cmd.Wait()
	end()
	e.To, e.Out, e.Err = time.Now(), stdout.text.String(), stderr.text.String()
	if cmd.ProcessState == nil {
		return nil, err
	}
	e.Code, e.Cut = cmd.ProcessState.ExitCode(), ctx.Err() != nil
	if limited.Err() != nil && ctx.Err() == nil {
		return e, fmt.Errorf("%s: did not end by itself within %v", argv[0], planned+overPatience)
	}
	return e, nil
}

// start starts a program in its own process group, because the terminal's Ctrl-C is forwarded. It ends when end is
// called and when mpps does, with all that it has started. Two must not be killed when mpps dies but interrupted: rtla
// would leave its tracer running in the kernel, and cyclictest its file in /dev/shm.
func start(cmd *exec.Cmd) (end func(), err error) {
	if base := filepath.Base(cmd.Path); base != "rtla" && base != "cyclictest" {
		return owned.StartAll(cmd)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGINT, Setpgid: true}
	return func() { _ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }, owned.Start(cmd)
}

// runInGuest runs a program through the agent. It polls for the first time when the planned time is over.
func (p *Place) runInGuest(ctx context.Context, planned time.Duration, argv []string) (*Ended, error) {
	e := &Ended{From: time.Now()}
	pid, err := p.start(ctx, argv)
	if err != nil {
		return nil, err
	}
	results := make([]libvirt.Result, 1)
	open := []int{0}
	deadline := time.Now().Add(planned + overPatience)
	wait, asked := planned, false
	for len(open) > 0 {
		select {
		case <-ctx.Done():
			if !asked {
				asked, e.Cut = true, true
				ctx = context.WithoutCancel(ctx)
				if err := p.signal(ctx, pid, "INT"); err != nil {
					return e, fmt.Errorf("%s in guest %s could not be ended, it ends by itself within %v: %w", argv[0],
						p.guest, planned, err)
				}
				deadline = time.Now().Add(endPatience)
			}
			wait = 200 * time.Millisecond
			continue
		case <-time.After(wait):
		}
		wait = 100 * time.Millisecond
		look, cancel := context.WithTimeoutCause(ctx, libvirt.AgentPatience, libvirt.ErrAgentHangs)
		still, err := libvirt.Poll(look, p.agents, p.guest, []int64{pid}, open, results)
		cancel()
		if ctx.Err() != nil { // the poll was cancelled, not the program
			continue
		}
		if errors.Is(err, libvirt.ErrNotRunning) {
			return e, fmt.Errorf("%s: %w", argv[0], err)
		}
		open = still
		if len(open) > 0 && time.Now().After(deadline) {
			killed := p.signal(context.WithoutCancel(ctx), pid, "KILL")
			if err == nil {
				err = fmt.Errorf("it did not end by itself within %v", planned+overPatience)
			}
			return e, errors.Join(fmt.Errorf("%s in guest %s: %w", argv[0], p.guest, err), killed)
		}
	}
	e.To = time.Now()
	if err := results[0].Failed; err != nil {
		return e, fmt.Errorf("%s in guest %s: %w", argv[0], p.guest, err)
	}
	e.Code, e.Out, e.Err = results[0].Code, results[0].Out, results[0].Err
	return e, nil
}

// start starts a program through the agent.
func (p *Place) start(ctx context.Context, argv []string) (pid int64, err error) {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), libvirt.AgentPatience, libvirt.ErrAgentHangs)
	defer cancel()
	answers, err := p.agents.Ask(ctx, p.guest, libvirt.AgentCommand{
		Execute: "guest-exec", Arguments: map[string]any{"path": argv[0], "arg": argv[1:], "capture-output": true},
	})
	if len(answers) == 1 && answers[0] != nil {
		if pid = libvirt.StartedPID(answers[0]); pid > 0 {
			return pid, nil
		}
	}
	err = libvirt.AskError(err)
	// The agent returns GLib's message ("Failed to execute child process").
	if tree.Mentions(err, "execute child process", "No such file") {
		return 0, fmt.Errorf("%s in guest %s: %w", argv[0], p.guest, ErrNoProgram)
	}
	return 0, fmt.Errorf("%s in guest %s: %w", argv[0], p.guest, err)
}

// signal sends a signal to a program that the agent has started.
func (p *Place) signal(ctx context.Context, pid int64, name string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, libvirt.AgentPatience, libvirt.ErrAgentHangs)
	defer cancel()
	results, err := libvirt.Execute(ctx, p.agents, p.guest,
		libvirt.Call{Argv: []string{"kill", "-" + name, strconv.FormatInt(pid, 10)}})
	if err != nil {
		return err
	}
	return results[0].Problem()
}

// Monotonic returns the place's CLOCK_MONOTONIC at a time of our clock, and its maximum error. A guest's is in
// /proc/timer_list ("now at 1234 nsecs"; kernel/time/timer_list.c), which only root can read.
func (p *Place) Monotonic(ctx context.Context) (there time.Duration, at time.Time, off time.Duration, err error) {
	if p.guest == "" {
		var ts unix.Timespec
		err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
		return time.Duration(ts.Nano()), time.Now(), time.Microsecond, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, libvirt.AgentPatience, libvirt.ErrAgentHangs)
	defer cancel()
	before := time.Now()
	pid, err := p.start(ctx, []string{"grep", "-m1", "now at", "/proc/timer_list"})
	if err != nil {
		return 0, at, 0, err
	}
	results, open := make([]libvirt.Result, 1), []int{0}
	for len(open) > 0 {
		if open, err = libvirt.Poll(ctx, p.agents, p.guest, []int64{pid}, open, results); err != nil {
			return 0, at, 0, err
		}
		if ctx.Err() != nil {
			return 0, at, 0, context.Cause(ctx)
		}
	}
	if err := results[0].Problem(); err != nil {
		return 0, at, 0, fmt.Errorf("/proc/timer_list of guest %s: %w", p.guest, err)
	}
	if there, err = parseTimerList(results[0].Out); err != nil {
		return 0, at, 0, err
	}
	span := time.Since(before) // the guest read its clock within this time
	return there, before.Add(span / 2), span / 2, nil
}

// parseTimerList reads the line "now at 1234 nsecs".
func parseTimerList(text string) (time.Duration, error) {
	f := strings.Fields(text)
	if len(f) == 4 && f[0] == "now" && f[3] == "nsecs" {
		if n, err := strconv.ParseInt(f[2], 10, 64); err == nil && n >= 0 {
			return time.Duration(n), nil
		}
	}
	return 0, fmt.Errorf("/proc/timer_list: expected \"now at N nsecs\", found %.60q", text)
}
