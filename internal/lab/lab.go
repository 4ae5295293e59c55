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
	Args      []string // kernel arguments of L1 besides those of its boot menu
	CPUs      int      // of L1, halved between its two nodes: an even number from 4 to 64; 0: 4
	MemoryMiB int      // of L1, halved between its two nodes; 0: 6144
	Accel     Accel    // empty: what BestAccel says. KVM without nesting boots, but has no guests
	Persist   bool     // L1's file system survives Reset, Stop and the next Start of this name
	Disk      bool     // with Persist: that file system is ext4 on a disk, and Reset loses what was not fsynced
	Detached  bool     // the lab may outlive this process
	Bare      bool     // load no modules: neither NICs nor kvm, only the channel
	Realtime  Realtime // empty: L1 has its usual kernel only
	// Begin is what is made of L1 before the lab is handed out; nil: nothing.
	Begin *Beginning

	Tree *Tree        `json:"-"` // nil: Prepare's
	Log  func(string) `json:"-"` // progress, and every boot or guest start that was tried again
}

// Lab is a handle of a running lab. Its methods may be used by several goroutines.
type Lab struct {
	dir, data string
	asked     bool // the accelerator was the caller's choice
	tree      *Tree
	over      *layer // nil where Config has no Realtime
	log       func(string)
	plainly   bool // a saved state of this lab did not come up: do without
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

// Start begins a lab from its saved state, in about a second. The first of a configuration is booted (5 to 30 s), made
// ready as Begin wants, and saved (10 s); the very first waits for Prepare too. A persistent lab and one with KVM are
// booted each time. ctx bounds the start only. A boot that does not reach its first command is ended and tried again.
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
	var over *layer
	if c.Realtime != "" {
		y, err := c.Tree.prepareLayer(ctx, c.Log)
		if err != nil {
			return nil, err
		}
		over = y
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
	if err := checkMemory(c.MemoryMiB); err != nil {
		return nil, err
	}
	l := newLab(c)
	l.asked, l.over = asked, over
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
	if c.CPUs == 0 {
		c.CPUs = 4
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
	return &Lab{
		dir: runDir(c.Name), data: dataDir(cache, c.Name), tree: c.Tree, log: c.Log,
		st: &state{Boot: bootID(), Owner: owner, Detached: c.Detached, Config: c, Cache: cache, Tree: c.Tree.Dir,
			Accel: c.Accel},
	}
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
	l := &Lab{dir: runDir(name), data: dataDir(s.Cache, name), tree: t, log: func(string) {}, st: s}
	if s.Config.Realtime != "" {
		if l.over, err = t.openLayer(); err != nil {
			return nil, err
		}
	}
	return l, nil
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

// Clean removes the cache: trees, packages, kept data. No lab may run.
func Clean(ctx context.Context, cache string) error {
	if cache == "" {
		cache = Dir()
	}
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
	return errors.Join(removeGlob(filepath.Join(cache, "tree-*")), removeGlob(filepath.Join(cache, "build-*")),
		removeGlob(filepath.Join(cache, "debs")), removeGlob(filepath.Join(cache, "labs")),
		removeGlob(filepath.Join(cache, "*lock")))
}

// Reset ends L1 like a power cut and boots it again. Without Persist it begins afresh, from its saved state where it
// has one. args, when given, replace the kernel arguments of Config.
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
	l.mu.Unlock()
	return l.again(ctx)
}

// again ends what is left of the last boot and calls begin.
func (l *Lab) again(ctx context.Context) error {
	if err := l.Kill(); err != nil {
		return err
	}
	return l.begin(ctx)
}

// Kill ends what runs of the lab, as a loss of power does: commands that wait for L1 answer ErrGone. Its logs stay.
func (l *Lab) Kill() error {
	l.mu.Lock()
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
	return errors.Join(errs...)
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

// Netns is the file of the network namespace on L0 that holds br0 (10.99.0.1/24) and the far ends of L1's NICs, as
// nsenter --net= takes it. The namespace exists while L1's QEMU does; a boot gets a new one.
func (l *Lab) Netns() string { return fmt.Sprintf("/proc/%d/ns/net", l.qemuPID()) }

// Accel is how L1's processors run.
func (l *Lab) Accel() Accel { return l.st.Accel }

// Emulated tells that figures measured in this lab are an emulator's.
func (l *Lab) Emulated() bool { return l.st.Accel == TCG }

// Release is the release of the kernel that L1 was last booted with.
func (l *Lab) Release() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.st.Release
}

// Releases are those of the kernels that L1 has: the usual one, and with Realtime that of the other.
func (l *Lab) Releases() (usual, realtime string) {
	if l.over != nil {
		realtime = l.over.Release
	}
	return l.tree.Release, realtime
}

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
	Record(StatRetry, what, 0)
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
