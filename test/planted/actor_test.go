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
	"runtime/debug"
	"strings"
	"time"
	"unsafe"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// actorVariable holds, in the environment of a process of this program, what it is to play.
const actorVariable = "MPPS_PLANTED_ACTOR"

// part is what a process of its own plays: exactly one of its pointers is set. Each is a process so that mpps sees it
// as it sees others' programs: with threads, names and CPU time.
type part struct {
	Netns  string      `json:"netns"`
	Comm   string      `json:"comm"`
	CPUs   []int       `json:"cpus"` // real numbers; empty: all
	Sender *senderPart `json:"sender,omitempty"`
	Guest  *guestPart  `json:"guest,omitempty"`
	Socket *socketPart `json:"socket,omitempty"`
	Hog    *hogPart    `json:"hog,omitempty"`

	Capture *capturePart `json:"capture,omitempty"`
	Exec    []string     `json:"exec,omitempty"` // a program in place of this one
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

// ofMain is a part that has work for the process's main thread.
type ofMain interface {
	main() error
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

// act plays until standard input ends, so that no actor outlives who started it. A line on standard input is answered
// with counts.
func act(text string) error {
	var p part
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return fmt.Errorf("part: %w", err)
	}
	// Threads keep a processor of Go's each, and nothing is collected: the kernel is to share CPUs among them, and Go's
	// own threads are to have nothing to do.
	runtime.GOMAXPROCS(64)
	debug.SetGCPercent(-1)
	if err := onMain(); err != nil {
		return err
	}
	if len(p.Exec) > 0 {
		return become(p.Netns, p.Exec)
	}
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
	answer := func() error {
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			if err := answers.Encode(a.counts()); err != nil {
				return err
			}
		}
		return lines.Err()
	}
	busy, ok := a.(ofMain)
	if !ok {
		return answer()
	}
	ended := make(chan error, 2)
	go func() { ended <- answer() }()
	go func() {
		if err := <-ended; err != nil {
			fmt.Fprintln(os.Stderr, "planted:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}()
	ended <- busy.main()
	select {}
}

// become makes this process another program in a namespace, with the /sys of that namespace and, which "ip netns exec"
// hides, the control groups and the like that are mounted below it.
func become(ns string, argv []string) error {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("keep mounts to itself: %w", err)
	}
	below := []string{"/sys/fs/cgroup", "/sys/fs/bpf", "/sys/kernel/debug", "/sys/kernel/tracing"}
	trees := make([]int, len(below))
	for i, dir := range below {
		var err error
		if trees[i], err = unix.OpenTree(unix.AT_FDCWD, dir,
			unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE); err != nil {
			trees[i] = -1 // not there
		}
	}
	h, err := netns.GetFromName(ns)
	if err != nil {
		return fmt.Errorf("namespace %s: %w", ns, err)
	}
	if err := netns.Set(h); err != nil {
		return fmt.Errorf("enter namespace %s: %w", ns, err)
	}
	if err := unix.Mount("sysfs", "/sys", "sysfs", 0, ""); err != nil {
		return fmt.Errorf("mount sysfs: %w", err)
	}
	for i, dir := range below {
		if trees[i] < 0 {
			continue
		}
		if err := unix.MoveMount(trees[i], "", unix.AT_FDCWD, dir, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("mount %s again: %w", dir, err)
		}
	}
	if err := os.Unsetenv(actorVariable); err != nil {
		return err
	}
	return fmt.Errorf("%s: %w", argv[0], unix.Exec(argv[0], argv, os.Environ()))
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

// thread runs f on its own thread, with a name and CPUs, and reports to failed how it ended.
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
			runtime.KeepAlive(i) // or the loop would be taken out
		}
	}
}

// threadTime is the CPU time of the calling thread.
func threadTime() time.Duration {
	var t unix.Timespec
	if _, err := raw(unix.SYS_CLOCK_GETTIME, unix.CLOCK_THREAD_CPUTIME_ID, uintptr(unsafe.Pointer(&t)), 0); err != 0 {
		panic(err) // POSIX has it, and it takes no arguments that could be wrong
	}
	return time.Duration(t.Nano())
}

// raw makes a system call of which Go's scheduler does not know: its thread keeps its processor, and nobody has to look
// after it.
func raw(trap, a, b, c uintptr) (uintptr, unix.Errno) {
	n, _, err := unix.RawSyscall(trap, a, b, c)
	return n, err
}

// nap sleeps on the calling thread. A signal ends it early.
func nap(d time.Duration) {
	t := unix.NsecToTimespec(int64(d))
	_, _ = raw(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&t)), 0, 0)
}

// actor is such a process seen from who started it.
type actor struct {
	name    string
	process *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	stderr  *strings.Builder
}

// command is a process that plays a part.
func command(ctx context.Context, p part) (*exec.Cmd, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, self)
	c.Env = append(os.Environ(), actorVariable+"="+string(text))
	if len(p.Exec) == 0 {
		c.Env = append(c.Env, "GODEBUG=asyncpreemptoff=1")
	}
	return c, nil
}

// startActor starts one and waits until it is ready. Argv is what it shows as its command line.
func startActor(ctx context.Context, label string, p part, argv ...string) (*actor, error) {
	c, err := command(ctx, p)
	if err != nil {
		return nil, err
	}
	a := &actor{name: label, process: c, stderr: &strings.Builder{}}
	if len(argv) > 0 {
		a.process.Args = argv
	}
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
