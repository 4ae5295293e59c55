package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/libvirt"
	"mpps/internal/machine/tree"
)

// Place is where a measurement's programs run: this machine, or a guest through its agent.
type Place struct {
	machine *Machine
	guest   string // empty: this machine
	agents  libvirt.Agents
}

// How long a program that was asked to end has for it, and by how much longer than planned one may take before it is
// ended.
const (
	endPatience  = 5 * time.Second
	overPatience = 20 * time.Second
)

// maxOutput bounds what is kept of a program's words, of each stream: a load may talk without end.
const maxOutput = 32 << 20

// firstWords keeps what a program says first, and takes the rest without keeping it, so that the program does not wait.
type firstWords struct {
	text strings.Builder
	room int
}

// Write takes all.
func (w *firstWords) Write(b []byte) (int, error) {
	kept := b[:min(len(b), w.room)]
	w.room -= len(kept)
	w.text.Write(kept)
	return len(b), nil
}

// Here is this machine as a place for programs.
func (m *Machine) Here() (*Place, error) {
	if !m.Live() {
		return nil, tree.ErrNotLive
	}
	return &Place{machine: m}, nil
}

// InGuest is a guest as a place for programs. The error says why it cannot be asked, and what to do.
func (m *Machine) InGuest(ctx context.Context, guest string) (*Place, error) {
	if !m.Live() {
		return nil, tree.ErrNotLive
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("the agent of a guest needs root")
	}
	if err := libvirt.Unreachable(m.Tree, guest); err != nil {
		return nil, err
	}
	l, err := libvirt.Open(m.Tree)
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
	if err := allows(answers[0], "guest-exec", "guest-exec-status"); err != nil {
		return nil, err
	}
	return &Place{m, guest, v}, nil
}

// Ended is what became of a program.
type Ended struct {
	Out, Err string
	Code     int
	Cut      bool // it was asked to end before its time
	From, To time.Time
}

// Problem is what a program that failed said, in a line; empty where it did not fail.
func (e *Ended) Problem() string {
	if e.Code == 0 {
		return ""
	}
	for _, text := range []string{e.Err, e.Out} {
		if said, _, _ := strings.Cut(strings.TrimSpace(text), "\n"); said != "" {
			return said
		}
	}
	return fmt.Sprintf("exit code %d", e.Code)
}

// ErrNoProgram is wrapped where there is no such program.
var ErrNoProgram = errors.New("there is no such program")

// Run runs a program by its argument vector that is planned to take so long, and waits for its end. It is not looked at
// before, so that nothing of it disturbs what it measures. When the context ends it is interrupted (SIGINT) and what it
// still said is returned; one that does not end is killed.
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
	runtime.LockOSThread() // the signal for our own death comes when the thread that forked ends
	defer runtime.UnlockOSThread()
	limited, cancel := context.WithTimeout(ctx, planned+overPatience)
	defer cancel()
	cmd := exec.CommandContext(limited, path, argv[1:]...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	// Ctrl-C of the terminal comes through us
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: deathSignal(path), Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGINT) } // with its children
	cmd.WaitDelay = endPatience
	stdout, stderr := firstWords{room: maxOutput}, firstWords{room: maxOutput}
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	e := &Ended{From: time.Now()}
	err = cmd.Run()
	e.To, e.Out, e.Err = time.Now(), stdout.text.String(), stderr.text.String()
	if cmd.Process != nil {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // children that did not end with it; mostly there are none
	}
	if cmd.ProcessState == nil {
		return nil, err
	}
	e.Code, e.Cut = cmd.ProcessState.ExitCode(), ctx.Err() != nil
	if limited.Err() != nil && ctx.Err() == nil {
		return e, fmt.Errorf("%s: did not end by itself within %v", argv[0], planned+overPatience)
	}
	return e, nil
}

// deathSignal is what a program gets when we die. rtla would leave its tracer running in the kernel if it were killed.
func deathSignal(path string) syscall.Signal {
	if filepath.Base(path) == "rtla" {
		return syscall.SIGINT
	}
	return syscall.SIGKILL
}

// runInGuest has the agent run it. A program is started and asked for in one go each: the first question comes when its
// time is over.
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
		if ctx.Err() != nil { // the look was cut, not the program
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

// start has the agent start a program.
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
	// The agent's words are GLib's ("Failed to execute child process").
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

// Monotonic is CLOCK_MONOTONIC of the place at a moment of ours, and by how much that may be wrong. A guest tells its
// own in /proc/timer_list ("now at 1234 nsecs"; kernel/time/timer_list.c), which root can read.
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
	span := time.Since(before) // it looked in between
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
