package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// Config of a lab. The zero value of each field is a good choice.
type Config struct {
	Name      string   // empty: "default"
	Mode      Mode     // empty: Shell
	Args      []string // kernel arguments of L1 besides the lab's own
	MemoryMiB int      // of L1, halved between its two nodes; 0: 6144
	Accel     Accel    // empty: what BestAccel says. KVM without nesting boots, but has no guests
	Persist   bool     // L1's file system survives Reset, Stop and the next Start of this name
	Detached  bool     // the lab may outlive this process
	Bare      bool     // load no modules: neither NICs nor kvm, only the channel

	Tree *Tree        `json:"-"` // nil: Prepare's
	Log  func(string) `json:"-"` // progress, and every boot or guest start that was tried again
}

// Lab is a handle of a running lab. Its methods may be used by several goroutines.
type Lab struct {
	dir, data string
	asked     bool // the accelerator was the caller's choice
	tree      *Tree
	log       func(string)
	serial    atomic.Uint64

	mu     sync.Mutex
	st     *state
	idle   []*port
	closed bool

	guestMu   sync.Mutex // one guest start at a time; libvirt's daemons
	virtReady bool
}

const (
	roleQEMU     = "qemu"
	roleVirtiofs = "virtiofsd "
)

// ErrRunning says that a lab of this name runs already.
var ErrRunning = errors.New("a lab of this name is running")

// Start boots a lab: 5 to 15 s, and the time of Prepare before the first. ctx bounds the start only.
// A boot that does not reach its first command is ended and tried once again.
func Start(ctx context.Context, c Config) (*Lab, error) {
	asked := c.Accel != ""
	c.fill()
	if err := c.check(); err != nil {
		return nil, err
	}
	if err := checkNeeds(); err != nil {
		return nil, err
	}
	if c.Tree == nil {
		t, err := Prepare(ctx, Options{}, c.Log)
		if err != nil {
			return nil, err
		}
		c.Tree = t
	}
	if reaped, err := Reap(ctx); err != nil {
		return nil, err
	} else if len(reaped) > 0 {
		c.Log(fmt.Sprintf("cleaned labs whose owner is gone: %v", reaped))
	}
	unlock, err := lockName(ctx, c.Name)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if _, err := readState(c.Name); err == nil {
		return nil, fmt.Errorf("lab %s: %w", c.Name, ErrRunning)
	}
	l := newLab(c)
	l.asked = asked
	if err := l.start(ctx); err != nil {
		err = fmt.Errorf("lab %s: %w", c.Name, err)
		return nil, errors.Join(err, l.st.clean())
	}
	return l, nil
}

func (c *Config) fill() {
	if c.Name == "" {
		c.Name = "default"
	}
	if c.Mode == "" {
		c.Mode = Shell
	}
	if c.MemoryMiB == 0 {
		c.MemoryMiB = 6144
	}
	if c.Accel == "" {
		c.Accel, _ = BestAccel()
	}
	if c.Log == nil {
		c.Log = func(string) {}
	}
}

func (c *Config) check() error {
	if err := checkName(c.Name); err != nil {
		return err
	}
	if c.Mode != Shell && c.Mode != Systemd {
		return fmt.Errorf("lab mode %q: want %q or %q", c.Mode, Shell, Systemd)
	}
	if c.Accel != TCG && c.Accel != KVM {
		return fmt.Errorf("lab accelerator %q: want %q or %q", c.Accel, TCG, KVM)
	}
	if c.MemoryMiB < 1024 {
		return fmt.Errorf("lab memory %d MiB: want at least 1024", c.MemoryMiB)
	}
	return nil
}

func newLab(c Config) *Lab {
	cache := filepath.Dir(c.Tree.Dir)
	owner, _ := readProc("owner", os.Getpid())
	return &Lab{
		dir: runDir(c.Name), data: dataDir(cache, c.Name), tree: c.Tree, log: c.Log,
		st: &state{Boot: bootID(), Owner: owner, Detached: c.Detached, Config: c, Cache: cache, Tree: c.Tree.Dir, Accel: c.Accel},
	}
}

// start makes what outlasts a boot: folders, state file, namespace; then boots.
func (l *Lab) start(ctx context.Context) error {
	for _, d := range []string{l.dir, l.ShareDir(), filepath.Join(l.data, "upper")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	if err := l.st.write(); err != nil {
		return err
	}
	ns := l.Netns()
	if _, err := output(ctx, nil, "ip", "netns", "add", ns); err != nil {
		return err
	}
	if _, err := output(ctx, nil, "ip", "netns", "exec", ns, "sh", "-c", netScript); err != nil {
		return err
	}
	return l.bootTwice(ctx)
}

// bootTwice boots, and once more if L1 did not get to its first command.
func (l *Lab) bootTwice(ctx context.Context) error {
	err := l.boot(ctx)
	if err == nil || ctx.Err() != nil {
		return err
	}
	l.retry("boot of the lab host failed, trying again: " + err.Error())
	if err := l.halt(); err != nil {
		return err
	}
	if l.st.Accel == KVM && !l.asked {
		l.log("lab: KVM did not get the lab host up, falling back to emulation")
		l.st.Accel = TCG
	}
	return l.boot(ctx)
}

// bootLimit is many times what a boot takes, for machines whose processors are busy elsewhere.
func (l *Lab) bootLimit() time.Duration {
	if l.st.Config.Mode == Systemd {
		return 150 * time.Second
	}
	return 60 * time.Second
}

func (l *Lab) boot(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.bootLimit())
	defer cancel()
	c := l.st.Config
	m := machine{Tree: l.tree, Run: l.dir, Accel: l.st.Accel, MemoryMiB: c.MemoryMiB, Mode: c.Mode, Args: c.Args, Persist: c.Persist}
	if err := l.pipes(); err != nil {
		return err
	}
	shares := []struct {
		tag, dir string
		more     []string
	}{
		{"labroot", l.tree.Root(), []string{"--cache=always", "--readonly", "--inode-file-handles=never"}},
		{"share", l.ShareDir(), []string{"--cache=auto"}},
		// overlayfs wants trusted xattrs of its upper layer.
		{"upper", filepath.Join(l.data, "upper"), []string{"--xattr", "--modcaps=+sys_admin", "--cache=auto"}},
	}
	for _, s := range shares {
		if s.tag == "upper" && !c.Persist {
			continue
		}
		sock := filepath.Join(l.dir, s.tag+".sock")
		if err := l.launch(roleVirtiofs+s.tag, nil, l.tree.virtiofsd(sock, s.dir, s.more...)); err != nil {
			return err
		}
		if err := waitFor(ctx, sock); err != nil {
			return fmt.Errorf("virtiofsd %s: %w: %s", s.tag, err, logTail(filepath.Join(l.dir, roleVirtiofs+s.tag+".log"), 3))
		}
	}
	_, env := l.tree.qemu()
	if err := l.launch(roleQEMU, env, m.argv()); err != nil {
		return err
	}
	if err := l.firstCommand(ctx); err != nil {
		return fmt.Errorf("no command of the lab host's ran (limit %v): %w\nqemu: %s\nconsole: %s", l.bootLimit(), err,
			logTail(filepath.Join(l.dir, roleQEMU+".log"), 3), logTail(filepath.Join(l.dir, "serial.log"), 5))
	}
	if !c.Bare {
		return l.loadModules(ctx)
	}
	return nil
}

// pipes makes the files of a boot afresh; sockets and pipes of an earlier one are gone with it.
func (l *Lab) pipes() error {
	for _, pat := range []string{"*.sock", "port*", "events.*"} {
		if err := removeGlob(filepath.Join(l.dir, pat)); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(l.dir, "events.in"), []byte(qmpHello), 0o644); err != nil {
		return err
	}
	for _, p := range portNames() {
		for _, end := range []string{".in", ".out"} {
			if err := mkfifo(filepath.Join(l.dir, p+end)); err != nil {
				return err
			}
		}
	}
	return nil
}

// launch starts a process of the lab and notes it in the state file.
func (l *Lab) launch(role string, env, argv []string) error {
	p, err := spawn(role, l.Netns(), filepath.Join(l.dir, role+".log"), env, argv)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.st.Procs = append(l.st.Procs, p)
	return l.st.write()
}

// firstCommand waits for the answer of the first port, as long as QEMU lives.
func (l *Lab) firstCommand(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go l.watchStop(ctx, cancel)
	for ctx.Err() == nil {
		if !l.running() {
			return ErrGone
		}
		p, err := openPort(l.dir, "port0")
		if errors.Is(err, ErrGone) { // QEMU has not opened its pipes yet
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if err != nil {
			return err
		}
		if err := p.ping(ctx, l.newID()); err != nil {
			p.close()
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return err
		}
		l.release(p)
		return nil
	}
	return context.Cause(ctx)
}

// errStopped says that QEMU itself has stopped L1's processors, as it does when KVM cannot run them.
var errStopped = errors.New("QEMU has stopped the machine")

// watchStop ends the wait for a boot that cannot succeed any more.
func (l *Lab) watchStop(ctx context.Context, cancel context.CancelCauseFunc) {
	for ctx.Err() == nil {
		if b, err := os.ReadFile(filepath.Join(l.dir, "events.log")); err == nil && hasEvent(b, "STOP") {
			cancel(errStopped)
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// halt ends L1 and its helpers, and leaves namespace, share and upper layer.
func (l *Lab) halt() error {
	l.mu.Lock()
	for _, p := range l.idle {
		p.close()
	}
	procs := l.st.Procs
	l.idle, l.virtReady = nil, false
	l.mu.Unlock()
	if _, err := qmp(context.Background(), filepath.Join(l.dir, "qmp.sock"), "quit"); err == nil {
		for range 100 { // QEMU writes its disks back
			if !l.running() {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	var errs []error
	for _, p := range procs {
		errs = append(errs, p.kill())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.st.Procs = nil
	return errors.Join(append(errs, l.st.write())...)
}

// Attach gives a handle of a lab that another process has started.
func Attach(name string) (*Lab, error) {
	if name == "" {
		name = "default"
	}
	if err := checkName(name); err != nil {
		return nil, err
	}
	s, err := readState(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("lab %s: is not up: %w", name, fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	t, err := readTree(s.Tree)
	if err != nil {
		return nil, err
	}
	return &Lab{dir: runDir(name), data: dataDir(s.Cache, name), tree: t, log: func(string) {}, st: s}, nil
}

// Close gives the handle up; the lab runs on.
func (l *Lab) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, p := range l.idle {
		p.close()
	}
	l.idle = nil
}

// Stop ends the lab and removes everything of it but, if it is persistent, its data.
func (l *Lab) Stop(ctx context.Context) error {
	unlock, err := lockName(ctx, l.Name())
	if err != nil {
		return err
	}
	defer unlock()
	l.Close()
	if _, err := readState(l.Name()); errors.Is(err, fs.ErrNotExist) {
		return nil // ended by another
	}
	if err := l.halt(); err != nil {
		return err
	}
	return l.st.clean()
}

// RemoveData removes what a persistent lab that is not running has kept.
func RemoveData(name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	if _, err := readState(name); err == nil {
		return fmt.Errorf("lab %s: %w", name, ErrRunning)
	}
	return os.RemoveAll(dataDir(Dir(), name))
}

// Reset ends L1 like a power cut and boots it again. Without Persist its file system starts afresh.
// args, when given, replace the kernel arguments of Config.
func (l *Lab) Reset(ctx context.Context, args ...string) error {
	unlock, err := lockName(ctx, l.Name())
	if err != nil {
		return err
	}
	defer unlock()
	l.mu.Lock()
	if args != nil {
		l.st.Config.Args = args
	}
	for _, p := range l.idle {
		p.close()
	}
	l.idle, l.virtReady = nil, false
	procs := l.st.Procs
	l.st.Procs = nil
	l.mu.Unlock()
	var errs []error
	for _, p := range procs {
		errs = append(errs, p.kill())
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return l.bootTwice(ctx)
}

// Wait waits until L1 has ended by itself and says why (Reason).
func (l *Lab) Wait(ctx context.Context) (string, error) {
	for l.running() {
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return l.Reason(), nil
}

func (l *Lab) running() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.st.running()
}

// Name of the lab.
func (l *Lab) Name() string { return l.st.Config.Name }

// Netns is the network namespace on L0 that holds br0 (10.99.0.1/24) and the far ends of L1's NICs.
func (l *Lab) Netns() string { return netnsName(l.st.Config.Name) }

// Accel is how L1's processors run.
func (l *Lab) Accel() Accel { return l.st.Accel }

// Emulated tells that figures measured in this lab are an emulator's.
func (l *Lab) Emulated() bool { return l.st.Accel == TCG }

// Release is L1's kernel release.
func (l *Lab) Release() string { return l.tree.Release }

// LogFile is the path on L0 of one of the lab's logs: serial, qemu.
func (l *Lab) LogFile(name string) string { return filepath.Join(l.dir, name+".log") }

// Retries counts the boots and guest starts that hung and were tried again.
func (l *Lab) Retries() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.st.Hung
}

// retry counts and logs one; it never decides a test.
func (l *Lab) retry(what string) {
	l.mu.Lock()
	l.st.Hung++
	_ = l.st.write() // a count that is not on disk is still in this handle
	log := l.log
	l.mu.Unlock()
	log("lab retry: " + what)
}

// SetLog changes where progress and retries are told.
func (l *Lab) SetLog(log func(string)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.log = log
}

// wrap adds to an error of the channel why L1 ended.
func (l *Lab) wrap(err error) error {
	if errors.Is(err, ErrGone) {
		return fmt.Errorf("lab %s: %w (%s): %s", l.Name(), ErrGone, l.Reason(), logTail(l.LogFile("serial"), 3))
	}
	return fmt.Errorf("lab %s: %w", l.Name(), err)
}
