package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Config configures a lab. The zero value of each field is a good default.
type Config struct {
	Name      string   // empty: "default"
	Mode      Mode     // empty: Shell
	Args      []string // kernel arguments of L1 in addition to those of its boot menu
	CPUs      int      // of L1, split between its two nodes: an even number from 4 to 64; 0: 4
	MemoryMiB int      // of L1, split between its two nodes; 0: 6144
	Accel     Accel    // empty: BestAccel. KVM without nesting boots, but runs no guests
	Persist   bool     // L1's file system survives Reset, Stop and the next Start of this name
	Disk      bool     // with Persist: that file system is ext4 on a disk, and Reset loses what was not fsynced
	Detached  bool     // the lab may outlive this process once Detach is called
	Bare      bool     // load no modules, neither NICs nor kvm: only the channel
	Realtime  Realtime // empty: L1 only has its usual kernel
	// Begin sets L1 up before the lab is handed out; nil: nothing.
	Begin *Beginning
	Held  bool // set by Reserve: the name stays this process's when the lab ends

	Tree *Tree        `json:"-"` // nil: Prepare's
	Log  func(string) `json:"-"` // progress, and every boot or guest start that was tried again
}

// Lab is a handle of a running lab. It is safe for concurrent use.
type Lab struct {
	dir, data   string
	accelChosen bool // the caller chose the accelerator
	tree        *Tree
	over        *layer // nil where Config has no Realtime
	log         func(string)
	noSaved     bool // a saved state did not come up: boot instead
	serial      atomic.Uint64
	paused      atomic.Bool // L1 stands still because its state is being written
	unwatch     context.CancelFunc

	mu       sync.Mutex
	st       *state
	idle     []*port
	closed   bool
	restored time.Duration // fair time of the last restore; 0: L1 was booted
	died     Proc          // the last QEMU whose death, or whose guest's, was recorded
	guards   []func()      // each lets a process of a lab outlive this one

	guestMu   sync.Mutex // one guest start at a time; libvirt's daemons
	virtReady bool
}

const (
	roleQEMU     = "qemu"
	roleVirtiofs = "virtiofsd "
)

// ErrRunning: a lab with this name is running.
var ErrRunning = errors.New("a lab of this name is running")

// Start starts a lab from its saved state, in about a second. The first of a configuration boots (5 to 30 s), is set up
// by Begin, and is saved (10 s); the very first also waits for Prepare. Persistent labs and labs with KVM always boot.
// ctx bounds the start only; its end kills what was started. A boot that does not reach its first command is ended and
// tried again.
func Start(ctx context.Context, c Config) (l *Lab, err error) {
	asked := c.Accel != ""
	unlock, err := reserve(ctx, &c)
	if err != nil {
		return nil, err
	}
	defer unlock()
	defer func() {
		if err != nil {
			err = errors.Join(err, release(c.Name, true))
		}
	}()
	if c.Tree == nil {
		if c.Tree, err = Prepare(ctx, c.Log); err != nil {
			return nil, err
		}
	}
	var over *layer
	if c.Realtime != "" {
		if over, err = c.Tree.prepareLayer(ctx, c.Log); err != nil {
			return nil, err
		}
	}
	if reaped, err := Reap(ctx); err != nil {
		return nil, err
	} else if len(reaped) > 0 {
		c.Log(fmt.Sprintf("cleaned labs whose owner is gone: %v", reaped))
	}
	if _, lack := BestAccel(); lack != nil && !asked {
		c.Log(fmt.Sprintf("emulated: only ratios count; no nested KVM: %v", lack))
	}
	l = newLab(c)
	l.accelChosen, l.over = asked, over
	end := l.KillAfter(ctx)
	err = l.start(ctx)
	end()
	if err != nil {
		l.Close()
		return nil, errors.Join(fmt.Errorf("lab %s: %w", c.Name, err), l.st.clean())
	}
	return l, nil
}

func (c *Config) fill() {
	c.Name, c.Mode = cmp.Or(c.Name, "default"), cmp.Or(c.Mode, Shell)
	c.CPUs, c.MemoryMiB = cmp.Or(c.CPUs, 4), cmp.Or(c.MemoryMiB, 6144)
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
	if c.Disk && !c.Persist {
		return errors.New("lab with a disk: want Persist too, which is what the disk is for")
	}
	if c.Realtime != "" && c.Realtime.over() == nil {
		return fmt.Errorf("lab with the realtime kernel %q: want %q or %q", c.Realtime, RealtimeInstalled,
			RealtimeBooted)
	}
	if c.CPUs < 4 || c.CPUs > 64 || c.CPUs%2 != 0 {
		return fmt.Errorf("lab with %d CPUs: want an even number from 4 to 64", c.CPUs)
	}
	if c.MemoryMiB < 1024 {
		return fmt.Errorf("lab memory %d MiB: want at least 1024", c.MemoryMiB)
	}
	return nil
}

func newLab(c Config) *Lab {
	cache := filepath.Dir(c.Tree.Dir)
	owner, _ := readProc("owner", os.Getpid())
	return handle(c.Tree, c.Log,
		&state{Boot: bootID(), Owner: owner, Config: c, Cache: cache, Tree: c.Tree.Dir, Accel: c.Accel})
}

// handle returns the handle of the lab in a state; it watches the lab until Close.
func handle(t *Tree, log func(string), s *state) *Lab {
	ctx, cancel := context.WithCancel(context.Background())
	l := &Lab{dir: runDir(s.Config.Name), data: dataDir(s.Cache, s.Config.Name), tree: t, log: log, st: s,
		unwatch: cancel}
	go l.watch(ctx)
	return l
}

// Detach lets the lab outlive this process. Until then its processes end with this one, and Reap removes the rest.
// Config must have Detached set.
func (l *Lab) Detach() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.st.Config.Detached {
		return fmt.Errorf("lab %s: want Detached to detach it", l.st.Config.Name)
	}
	l.st.Detached = true
	if err := l.st.write(); err != nil {
		return err
	}
	for _, release := range l.guards {
		release()
	}
	l.guards = nil
	return nil
}

// Attach returns a handle of a lab that another process started.
func Attach(name string) (*Lab, error) {
	name = cmp.Or(name, "default")
	if err := checkName(name); err != nil {
		return nil, err
	}
	s, err := readState(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && s.Tree == "" {
		return nil, fmt.Errorf("lab %s: is not up: %w", name, fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	t, err := readTree(s.Tree)
	if err != nil {
		return nil, err
	}
	var over *layer
	if s.Config.Realtime != "" {
		if over, err = t.openLayer(); err != nil {
			return nil, err
		}
	}
	l := handle(t, func(string) {}, s)
	l.over = over
	return l, nil
}

// Close closes the handle; the lab keeps running.
func (l *Lab) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.unwatch()
	l.closeIdle()
}

// closeIdle closes the idle ports. l.mu is held.
func (l *Lab) closeIdle() {
	for _, p := range l.idle {
		p.close()
	}
	l.idle = nil
}

// Stop ends the lab and removes its files; a persistent one keeps its data.
func (l *Lab) Stop(ctx context.Context) error {
	l.Close()
	if err := Down(ctx, l.Name(), func(string) {}); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil // ended by another
}

// Down is Stop by name, whatever has become of the lab; it needs no root tree. It waits for a start that is under way.
func Down(ctx context.Context, name string, log func(string)) error {
	if err := checkName(name); err != nil {
		return err
	}
	unlock, err := lockName(ctx, name,
		func() { log("waiting: another process is starting or ending lab " + name) })
	if err != nil {
		return err
	}
	defer unlock()
	s, err := readState(name)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("lab %s: is not up: %w", name, err)
	}
	if err != nil {
		return err
	}
	if err := (&Lab{dir: runDir(name), st: s}).halt(); err != nil {
		return err
	}
	return s.clean()
}

// RemoveData removes the data of a persistent lab that is not running.
func RemoveData(name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	if _, err := readState(name); err == nil {
		return fmt.Errorf("lab %s: %w", name, ErrRunning)
	}
	return os.RemoveAll(dataDir(Dir(), name))
}

// Clean removes what is in the cache: trees, packages, kept data. No lab may be running, no tree being built.
func Clean(ctx context.Context, cache string) error {
	if _, err := Reap(ctx); err != nil {
		return err
	}
	labs, err := List()
	if err != nil {
		return err
	}
	for _, l := range labs {
		return advise(fmt.Errorf("lab %s: %w", l.Name, ErrRunning), "mpps-lab down --name "+l.Name)
	}
	unlock, err := tryLock(buildLock(cache))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // there is no cache
	case errors.Is(err, unix.EWOULDBLOCK):
		return advise(errors.New("lab: another process builds the root tree"), "wait for its end, or end it")
	case err != nil:
		return err
	}
	defer unlock()
	var errs []error
	for _, pattern := range []string{"tree-*", "build-*", "debs", "labs", "*lock", buildLog} {
		errs = append(errs, removeGlob(filepath.Join(cache, pattern)))
	}
	return errors.Join(errs...)
}

// Reset ends L1 like a power cut and boots it again. Without Persist it starts afresh, from its saved state if there is
// one. args, if given, replace the kernel arguments of Config.
func (l *Lab) Reset(ctx context.Context, args ...string) error {
	unlock, err := lockName(ctx, l.Name(), func() {})
	if err != nil {
		return err
	}
	defer unlock()
	l.mu.Lock()
	if args != nil {
		l.st.Config.Args = args
	}
	l.mu.Unlock()
	return l.restart(ctx)
}

// restart ends what is left of the last boot and calls begin.
func (l *Lab) restart(ctx context.Context) error {
	if err := l.Kill(); err != nil {
		return err
	}
	return l.begin(ctx)
}

// Kill ends the lab's processes like a power cut: pending commands return ErrGone. Logs stay.
func (l *Lab) Kill() error {
	l.mu.Lock()
	l.closeIdle()
	l.virtReady = false
	procs := l.st.Procs
	l.st.Procs = nil
	l.mu.Unlock()
	return killAll(procs)
}

// KillAfter kills the lab when ctx ends, even if L1 or QEMU answers nothing any more, until stop is called.
func (l *Lab) KillAfter(ctx context.Context) (stop func()) {
	killed := make(chan struct{})
	stopped := context.AfterFunc(ctx, func() {
		defer close(killed)
		_ = l.Kill() // Stop tries again, and returns the error
	})
	return func() {
		if !stopped() {
			<-killed
		}
	}
}

// Wait waits until L1 has ended by itself and returns why (Reason).
func (l *Lab) Wait(ctx context.Context) (string, error) {
	for l.running() {
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return "", err
		}
	}
	return l.Reason(), nil
}

func (l *Lab) running() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.st.running()
}

// Name returns the lab's name.
func (l *Lab) Name() string { return l.st.Config.Name }

// Netns returns the path of the network namespace on L0 that holds br0 (10.99.0.1/24) and the far ends of L1's NICs,
// for nsenter --net=. It exists as long as L1's QEMU; each boot gets a new one.
func (l *Lab) Netns() string { return fmt.Sprintf("/proc/%d/ns/net", l.qemuPID()) }

// Accel returns how L1's CPUs run.
func (l *Lab) Accel() Accel { return l.st.Accel }

// Emulated reports whether figures measured in this lab are an emulator's.
func (l *Lab) Emulated() bool { return l.st.Accel == TCG }

// Release returns the kernel release that L1 last booted.
func (l *Lab) Release() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.st.Release
}

// Releases returns the releases of L1's kernels: the usual one and, with Realtime, the other.
func (l *Lab) Releases() (usual, realtime string) {
	if l.over != nil {
		realtime = l.over.Release
	}
	return l.tree.Release, realtime
}

// LogFile returns the path on L0 of one of the lab's logs: serial, qemu.
func (l *Lab) LogFile(name string) string { return filepath.Join(l.dir, name+".log") }

// Restored returns the fair time in which L1 began from its saved state, first command included; 0: it was booted.
func (l *Lab) Restored() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.restored
}

// Retries returns the number of boots and guest starts that hung and were tried again.
func (l *Lab) Retries() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.st.Hung
}

// retry counts and logs a retry; it never decides a test.
func (l *Lab) retry(what string) {
	l.mu.Lock()
	l.st.Hung++
	_ = l.st.write() // a count that is not on disk is still in this handle
	log := l.log
	l.mu.Unlock()
	Record(StatRetry, what, 0)
	log("lab retry: " + what)
}

// SetLog changes where progress and retries are logged.
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
