package planted

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
	"unsafe"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// actorVariable holds, in the environment of a process of this program, what it is to play.
const actorVariable = "MPPS_PLANTED_ACTOR"

// part is what a process of its own plays: exactly one of its pointers is set. Each is a process so that mpps sees it as it sees
// others' programs: with threads, names and CPU time.
type part struct {
	Netns  string      `json:"netns"`
	Comm   string      `json:"comm"`
	CPUs   []int       `json:"cpus"` // real numbers; empty: all
	Sender *senderPart `json:"sender,omitempty"`
	Guest  *guestPart  `json:"guest,omitempty"`
	Socket *socketPart `json:"socket,omitempty"`
	Hog    *hogPart    `json:"hog,omitempty"`

	Capture *capturePart `json:"capture,omitempty"`
}

// counts is what an actor has done.
type counts struct {
	Sent     uint64 `json:"sent"`
	Received uint64 `json:"received"`
	Refused  uint64 `json:"refused"` // by a full device
}

// acting is one of the parts while it is played.
type acting interface {
	counts() counts
}

// ActIfAsked plays a part and ends the process, where it was started for that. Call it first thing in TestMain.
func ActIfAsked() {
	text := os.Getenv(actorVariable)
	if text == "" {
		return
	}
	if err := act(text); err != nil {
		fmt.Fprintln(os.Stderr, "planted:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// act plays until standard input ends, so that no actor outlives who started it. A line on standard input is answered with counts.
func act(text string) error {
	var p part
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return fmt.Errorf("part: %w", err)
	}
	// Threads that compute each keep a processor of Go's: the kernel is to share CPUs among them, not Go.
	runtime.GOMAXPROCS(64)
	runtime.LockOSThread()
	if p.Netns != "" {
		ns, err := netns.GetFromName(p.Netns)
		if err != nil {
			return fmt.Errorf("namespace %s: %w", p.Netns, err)
		}
		if err := netns.Set(ns); err != nil {
			return fmt.Errorf("enter namespace %s: %w", p.Netns, err)
		}
		ns.Close()
	}
	if err := name(p.Comm); err != nil {
		return err
	}
	var a acting
	var err error
	switch {
	case p.Sender != nil:
		a, err = p.Sender.start(p.CPUs)
	case p.Guest != nil:
		a, err = p.Guest.start()
	case p.Socket != nil:
		a, err = p.Socket.start(p.CPUs)
	case p.Hog != nil:
		a, err = p.Hog.start(p.CPUs)
	case p.Capture != nil:
		a, err = p.Capture.start(p.CPUs)
	default:
		err = errors.New("part: nothing to play")
	}
	if err != nil {
		return err
	}
	answers := json.NewEncoder(os.Stdout)
	if err := answers.Encode(a.counts()); err != nil { // it is ready
		return err
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if err := answers.Encode(a.counts()); err != nil {
			return err
		}
	}
	return lines.Err()
}

// name gives the calling thread a name, as QEMU does; the kernel keeps 15 bytes.
func name(comm string) error {
	if comm == "" {
		return nil
	}
	b, err := unix.BytePtrFromString(comm)
	if err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(b)), 0, 0, 0); err != nil {
		return fmt.Errorf("name a thread %q: %w", comm, err)
	}
	return nil
}

// thread runs f on a thread of its own, with a name and CPUs, and reports to failed how it ended.
func thread(comm string, cpus []int, f func() error) {
	go func() {
		runtime.LockOSThread()
		err := name(comm)
		if err == nil {
			err = pin(cpus)
		}
		if err == nil {
			err = f()
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "planted: %s: %v\n", comm, err)
			os.Exit(1)
		}
	}()
}

// pin binds the calling thread to CPUs.
func pin(cpus []int) error {
	if len(cpus) == 0 {
		return nil
	}
	var set unix.CPUSet
	for _, n := range cpus {
		set.Set(n)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("bind to CPUs %v: %w", cpus, err)
	}
	return nil
}

// burn computes until the calling thread has had so much CPU time.
func burn(d time.Duration) {
	if d <= 0 {
		return
	}
	begun := threadTime()
	for threadTime()-begun < d {
		for i := range 64 {
			work += uint64(i)
		}
	}
}

// work keeps burn from being optimised away; races on it do not matter to anybody.
var work uint64

// threadTime is the CPU time of the calling thread.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err) // POSIX has it, and it takes no arguments that could be wrong
	}
	return time.Duration(t.Nano())
}

// actor is such a process seen from who started it.
type actor struct {
	name    string
	process *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	stderr  *strings.Builder
}

// startActor starts one and waits until it is ready. Argv is what it shows as its command line.
func startActor(ctx context.Context, label string, p part, argv ...string) (*actor, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	a := &actor{name: label, process: exec.CommandContext(ctx, self), stderr: &strings.Builder{}}
	if len(argv) > 0 {
		a.process.Args = argv
	}
	a.process.Env = append(os.Environ(), actorVariable+"="+string(text))
	a.process.Stderr = a.stderr
	out, err := a.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	a.out = bufio.NewReader(out)
	if a.in, err = a.process.StdinPipe(); err != nil {
		return nil, err
	}
	if err := a.process.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", label, err)
	}
	if _, err := a.answer(); err != nil {
		return nil, errors.Join(err, a.stop())
	}
	return a, nil
}

// answer reads what it says next.
func (a *actor) answer() (counts, error) {
	line, err := a.out.ReadString('\n')
	if err != nil {
		return counts{}, fmt.Errorf("%s: %w: %s", a.name, err, a.stderr)
	}
	var c counts
	return c, json.Unmarshal([]byte(line), &c)
}

// ask asks what it has done so far.
func (a *actor) ask() (counts, error) {
	if _, err := io.WriteString(a.in, "?\n"); err != nil {
		return counts{}, fmt.Errorf("%s: %w: %s", a.name, err, a.stderr)
	}
	return a.answer()
}

// stop ends it. One that its control group holds back gets three seconds, then it is killed.
func (a *actor) stop() error {
	a.in.Close()
	killed := false
	timer := time.AfterFunc(3*time.Second, func() {
		killed = true
		_ = a.process.Process.Kill() // gone already, then
	})
	err := a.process.Wait()
	timer.Stop()
	if err != nil && !killed {
		return fmt.Errorf("%s: %w: %s", a.name, err, a.stderr)
	}
	return nil
}
