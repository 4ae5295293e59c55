package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/advise/bottleneck"
	"mpps/internal/must"
	"mpps/internal/report"
	"mpps/internal/report/top"
)

// terminal is a pseudo-terminal with a program on it.
type terminal struct {
	t        *testing.T
	far      *os.File // what a person would see and type
	near     *os.File
	cmd      *exec.Cmd
	found    unix.Termios
	mu       sync.Mutex
	shown    bytes.Buffer
	finished chan error
}

// onTerminal starts the test binary as a program of TestMain on its own terminal.
func onTerminal(t *testing.T, program string, args ...string) *terminal {
	t.Helper()
	far, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals: %v", err)
	}
	t.Cleanup(func() { far.Close() })
	must.Do(t, unix.IoctlSetPointerInt(int(far.Fd()), unix.TIOCSPTLCK, 0))
	n := must.Get(unix.IoctlGetInt(int(far.Fd()), unix.TIOCGPTN))(t)
	near := must.Get(os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0))(t)
	t.Cleanup(func() { near.Close() })
	must.Do(t, unix.IoctlSetWinsize(int(far.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}))
	x := &terminal{t: t, far: far, near: near, finished: make(chan error, 1)}
	x.found = x.settings()
	self := must.Get(os.Executable())(t)
	x.cmd = &exec.Cmd{Path: self, Args: append([]string{program}, args...)}
	x.cmd.Env = append(os.Environ(), "TERM=xterm", "NO_COLOR=")
	x.cmd.Stdin, x.cmd.Stdout, x.cmd.Stderr = near, near, near
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	must.Do(t, x.cmd.Start())
	go func() { x.finished <- x.cmd.Wait() }()
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, err := far.Read(buffer)
			x.mu.Lock()
			x.shown.Write(buffer[:n])
			x.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { _ = x.cmd.Process.Kill() })
	return x
}

func (x *terminal) settings() unix.Termios {
	x.t.Helper()
	found := must.Get(unix.IoctlGetTermios(int(x.near.Fd()), unix.TCGETS))(x.t)
	return *found
}

func (x *terminal) screen() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.shown.String()
}

// until waits for a condition.
func (x *terminal) until(what string, holds func() bool) {
	x.t.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			x.t.Fatalf("waited for %s in vain; on the screen: %q", what, x.screen())
		}
	}
}

func (x *terminal) shows(text string) {
	x.t.Helper()
	x.until(fmt.Sprintf("%q", text), func() bool { return strings.Contains(x.screen(), text) })
}

func (x *terminal) types(keys string) {
	x.t.Helper()
	must.Get(io.WriteString(x.far, keys))(x.t)
}

// isBack waits for the end and looks whether the terminal is as it was found.
func (x *terminal) isBack(wanted int) {
	x.t.Helper()
	x.ends(wanted)
	x.asFound()
}

// ends waits for the end with an exit code.
func (x *terminal) ends(wanted int) {
	x.t.Helper()
	select {
	case err := <-x.finished:
		code := 0
		var ended *exec.ExitError
		if errors.As(err, &ended) {
			code = ended.ExitCode()
		} else if err != nil {
			x.t.Fatal(err)
		}
		if code != wanted {
			x.t.Errorf("exit code %d, wanted %d; on the screen: %q", code, wanted, x.screen())
		}
	case <-time.After(30 * time.Second):
		x.t.Fatalf("did not end; on the screen: %q", x.screen())
	}
}

func (x *terminal) asFound() {
	x.t.Helper()
	must.Equal(x.t, x.settings(), x.found, "the terminal")
	x.until("the usual screen and the cursor", func() bool {
		s := x.screen()
		return strings.LastIndex(s, "\x1b[?1049l") > strings.LastIndex(s, "\x1b[?1049h") &&
			strings.LastIndex(s, "\x1b[?25h") > strings.LastIndex(s, "\x1b[?25l")
	})
}

// looking is a terminal on which a live view has drawn its first look.
func looking(t *testing.T) *terminal {
	t.Helper()
	x := onTerminal(t, "mpps", "top", "--every", "200ms", "--counters", "--idle")
	x.shows("q quit")
	x.until("keys one by one", func() bool { return x.settings() != x.found })
	return x
}

// TestTopGivesTheTerminalBack ends a live view in every way in which it can be ended.
func TestTopGivesTheTerminalBack(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*terminal){
		"q":       func(x *terminal) { x.types("q") },
		"Ctrl-C":  func(x *terminal) { x.types("\x03") },
		"Ctrl-\\": func(x *terminal) { x.types("\x1c") },
	} {
		t.Run(name, func(t *testing.T) {
			x := looking(t)
			end(x)
			x.isBack(0)
		})
	}
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(s.String(), func(t *testing.T) {
			x := looking(t)
			must.Do(t, x.cmd.Process.Signal(s))
			x.isBack(0)
		})
	}
	t.Run("the time is over", func(t *testing.T) {
		x := onTerminal(t, "mpps", "top", "--every", "200ms", "--for", "1s", "--counters")
		x.shows("mpps top") // before the first look, which a second is too short for beside enough other programs
		x.isBack(0)
	})
	t.Run("a panic", func(t *testing.T) {
		x := onTerminal(t, "panicking")
		x.isBack(2)
		x.shows("panic: planted")
	})
}

// TestTopStops: Ctrl-Z gives the terminal to the shell and stops the view; fg goes on with it.
func TestTopStops(t *testing.T) {
	t.Parallel()
	x := onTerminal(t, "smallshell", "top", "--every", "200ms", "--counters", "--idle")
	x.shows("q quit")
	x.until("keys one by one", func() bool { return x.settings() != x.found })
	x.types("\x1a")
	x.shows("stopped")
	x.asFound()
	x.types("fg\n")
	x.until("the other screen twice", func() bool { return strings.Count(x.screen(), "\x1b[?1049h") == 2 })
	x.until("keys one by one", func() bool { return x.settings() != x.found })
	x.types("q")
	x.isBack(0)
}

// TestTopIsNotStoppedForEver: where it leads its session there is nobody who could let it go on.
func TestTopIsNotStoppedForEver(t *testing.T) {
	t.Parallel()
	x := looking(t)
	x.types("\x1a")
	x.until("the other screen twice", func() bool { return strings.Count(x.screen(), "\x1b[?1049h") == 2 })
	x.types("?")
	x.shows("any key goes back")
	x.types("q")
	x.types("q")
	x.isBack(0)
}

// TestTopStoppedByAnother: whoever stops it from outside may change the terminal; it takes it again when it goes on.
func TestTopStoppedByAnother(t *testing.T) {
	t.Parallel()
	x := looking(t)
	must.Do(t, x.cmd.Process.Signal(syscall.SIGSTOP))
	must.Do(t, unix.IoctlSetTermios(int(x.near.Fd()), unix.TCSETS, &x.found))
	must.Do(t, x.cmd.Process.Signal(syscall.SIGCONT))
	x.until("keys one by one", func() bool { return x.settings() != x.found })
	x.types("q")
	x.isBack(0)
}

// TestTopFollowsTheTerminal: a terminal that becomes wider is used.
func TestTopFollowsTheTerminal(t *testing.T) {
	t.Parallel()
	x := looking(t)
	must.Do(t, unix.IoctlSetWinsize(int(x.far.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: 200}))
	wide := "in/s  out/s" + strings.Repeat(" ", 29) + "use lost/s" // the bar has twenty columns more
	x.shows(wide)
	x.types("q")
	x.isBack(0)
}

// TestTopOnNoTerminal: one look after the other, without a sequence for terminals.
func TestTopOnNoTerminal(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out := &looked{enough: cancel}
	a := &app{stdin: strings.NewReader(""), stdout: out, stderr: io.Discard}
	must.Do(t, a.execute(ctx, []string{"top", "--every", "200ms", "--counters"}))
	if text := out.text.String(); strings.Count(text, "\nmpps top · ") != 1 || strings.Contains(text, "\x1b") {
		t.Errorf("without a terminal: %q", text)
	}
}

// looked is what two looks have written.
type looked struct {
	text   bytes.Buffer
	looks  int
	enough func()
}

func (l *looked) Write(b []byte) (int, error) {
	if l.looks++; l.looks == 2 {
		l.enough()
	}
	return l.text.Write(b)
}

// smallShell runs mpps as a job in the foreground of the terminal, as a shell does, and lets it go on behind a line
// that is typed when it was stopped.
func smallShell() {
	signal.Ignore(syscall.SIGTTOU, syscall.SIGTSTP)
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	job := &exec.Cmd{Path: self, Args: append([]string{"mpps"}, os.Args[1:]...), Stdin: os.Stdin, Stdout: os.Stdout,
		Stderr:      os.Stderr,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Foreground: true, Ctty: 0}}
	if err := job.Start(); err != nil {
		panic(err)
	}
	for {
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(job.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil {
			panic(err)
		}
		if !status.Stopped() {
			os.Exit(status.ExitStatus())
		}
		if err := unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, unix.Getpgrp()); err != nil {
			panic(err)
		}
		fmt.Println("stopped")
		if _, err := os.Stdin.Read(make([]byte, 100)); err != nil {
			panic(err)
		}
		if err := unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, job.Process.Pid); err != nil {
			panic(err)
		}
		if err := syscall.Kill(-job.Process.Pid, syscall.SIGCONT); err != nil {
			panic(err)
		}
	}
}

// panics takes one look and panics at the next.
type panics struct{ looks int }

func (p *panics) Next(context.Context) *bottleneck.Look {
	if p.looks++; p.looks > 1 {
		panic("planted")
	}
	return &bottleneck.Look{Seconds: 1}
}

func (*panics) Close() {}

// panicking is a live view of them.
func panicking() {
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}
	a.out = report.NewPrinter(os.Stdout, os.Stderr, report.Options{})
	s, err := a.out.Screen(os.Stdin)
	if err == nil && s != nil {
		err = a.liveTop(context.Background(), &panics{}, &top.View{}, s)
	}
	panic(fmt.Sprint("no panic came: ", err))
}
