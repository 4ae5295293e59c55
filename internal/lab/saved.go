package lab

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Beginning sets up a host once, after its first boot: bridges, rules, a running guest. Later labs of the same
// configuration start from that state in about a second (see saved).
type Beginning struct {
	// Name, of letters only: only the newest state of a name is kept. Empty: each is kept while there is room.
	Name string
	Key  string // identifies everything that Make depends on: programs, scripts, the guest's definition
	// Make is called on a booted host, and again on another one if the host dies (ErrGone) or is broken (ErrFreshLab).
	// Later labs also get what it puts into the share. It must not use Reset or Reboot.
	Make func(ctx context.Context, l *Lab) error `json:"-"`
}

// saved is the state of a host after its first boot: memory and devices as QEMU's migration stream, and its share.
// virtiofsd reopens the host's open files by their paths. It is in the folder of the tree that it needs, and is removed
// with it.
type saved struct{ dir string }

func (s saved) lock() string { return s.dir + ".lock" }

const (
	savedMemory = "memory" // a sparse file of the size of L1's memory, some 300 to 600 MB on the disk
	savedShare  = "share"
	unfinished  = "unfinished-" // prefix of the folder of a state that is being written
)

// savedRoom is the disk space for the saved states of a tree; the least recently used ones are removed first.
const savedRoom = 10 << 30

// savedNeeds is the free disk space that another state requires.
const savedNeeds = 3 << 30

// savedLimit bounds both writing and reading a state: 10 s and 1 s on a quiet machine.
const savedLimit = 2 * time.Minute

// errNotSaved: the host is up, but its state could not be saved.
var errNotSaved = errors.New("the state of the lab host is not kept")

// savable reports whether this lab starts from a saved state. A persistent lab has its own files on L0. KVM boots in
// seconds, and not every CPU can save nested guests.
func (l *Lab) savable() bool {
	return !l.st.Config.Persist && l.st.Accel == TCG && !l.noSaved
}

// saved returns the saved state for a machine and its Beginning, keyed by the QEMU command line and the tree.
func (l *Lab) saved(m machine) saved {
	m.Run = "/" // where sockets and logs are does not matter
	h := sha256.New()
	fmt.Fprintln(h, "2", l.tree.QEMU, l.tree.Release, l.overDir())
	fmt.Fprintf(h, "%q\n", m.argv())
	name := ""
	if b := l.st.Config.Begin; b != nil {
		fmt.Fprintf(h, "%q\n", b.Key)
		if b.Name != "" {
			name = b.Name + "-"
		}
	}
	return saved{filepath.Join(l.tree.Dir, "saved", name+hex.EncodeToString(h.Sum(nil))[:16])}
}

func (s saved) exists() bool {
	_, err := os.Stat(s.dir)
	return err == nil
}

// Expect estimates the duration of Start on two quiet CPUs from what exists already.
func Expect(ctx context.Context, c Config) time.Duration {
	const (
		restored = 5 * time.Second
		booted   = 45 * time.Second // guest included, and written
		built    = 90 * time.Second
	)
	c.fill()
	var err error
	if c.Tree == nil {
		c.Tree, err = OpenTree(Dir())
	}
	if err != nil {
		return built + booted
	}
	l := newLab(c)
	defer l.Close()
	if c.Realtime != "" {
		if l.over, err = c.Tree.openLayer(); err != nil {
			return built + booted
		}
	}
	if m, err := l.machine(ctx); err == nil && l.savable() && l.saved(m).exists() {
		return restored
	}
	return booted
}

// remove removes the state with its lock, which the caller holds.
func (s saved) remove() error { return errors.Join(os.RemoveAll(s.dir), os.RemoveAll(s.lock())) }

// removeUnlocked is remove, unless a process holds the lock.
func (s saved) removeUnlocked() error {
	unlock, err := tryLock(s.lock())
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	return s.remove()
}

// begin restores L1 from the saved state of its configuration, or boots it and sets it up.
func (l *Lab) begin(ctx context.Context) error {
	if !l.savable() {
		return l.bootAndSetUp(ctx)
	}
	m, err := l.machine(ctx)
	if err != nil {
		return err
	}
	return l.saved(m).begin(ctx, l)
}

// beginner is a host that can begin from a saved state: a Lab.
type beginner interface {
	restore(context.Context, saved) error
	failed(error) error                // after a restore that failed
	make(context.Context, saved) error // boots and saves; called under the state's lock
	waits()                            // for another process that has the lock
}

// begin restores a host, or makes its state if there is none. One process makes it; others wait and restore it too.
func (s saved) begin(ctx context.Context, b beginner) error {
	if err := os.MkdirAll(filepath.Dir(s.dir), 0o755); err != nil {
		return err
	}
	var last error
	for range bootTries {
		unlock, err := lockFile(ctx, s.lock(), b.waits)
		if err != nil {
			return err
		}
		state, err := os.Open(s.dir)
		if errors.Is(err, fs.ErrNotExist) {
			defer unlock()
			return b.make(ctx, s)
		}
		unlock()
		if err != nil {
			return err
		}
		again, err := s.restore(ctx, b, state)
		if !again {
			return err
		}
		last = err
	}
	return last
}

// restore restores a host from the open state. If that fails, it removes the state, unless another process has replaced
// it, and again is true: begin finds the new state or makes one.
func (s saved) restore(ctx context.Context, b beginner, state *os.File) (again bool, err error) {
	defer state.Close() // until then no other folder gets its inode number
	err = b.restore(ctx, s)
	if err == nil || ctx.Err() != nil || hopeless(err) {
		return false, err
	}
	if err := b.failed(err); err != nil {
		return false, err
	}
	unlock, lockErr := lockFile(ctx, s.lock(), b.waits)
	if lockErr != nil {
		return false, lockErr
	}
	defer unlock()
	if isNamed(state, s.dir) {
		if err := s.remove(); err != nil {
			return false, err
		}
	}
	return true, err
}

func (l *Lab) waits() { l.log("lab: another process makes the state that this lab begins from") }

func (l *Lab) failed(err error) error {
	l.retry(fmt.Sprintf("the saved state of the lab host did not come up: %v", err))
	return l.halt()
}

// make boots L1, saves its state and continues from it. If that is not possible, L1 runs without.
func (l *Lab) make(ctx context.Context, s saved) error {
	if err := l.bootAndSetUp(ctx); err != nil {
		return err
	}
	err := l.save(ctx, s)
	if errors.Is(err, errNotSaved) {
		l.log("lab: " + err.Error())
		return nil
	}
	if err == nil {
		err = l.halt()
	}
	if err == nil {
		err = l.restore(ctx, s)
	}
	if err == nil || ctx.Err() != nil || hopeless(err) {
		return err
	}
	l.retry(fmt.Sprintf("the lab host does without a saved state: %v", err))
	l.noSaved = true
	if err := errors.Join(l.halt(), s.remove()); err != nil {
		return err
	}
	return l.bootAndSetUp(ctx)
}

// bootAndSetUp boots L1 and sets it up with Config.Begin.
func (l *Lab) bootAndSetUp(ctx context.Context) error {
	for try := 1; ; try++ {
		if err := l.bootUntilUp(ctx); err != nil {
			return err
		}
		b := l.st.Config.Begin
		if b == nil {
			return nil
		}
		if b.Make == nil {
			return errors.New("the lab's beginning is known to the process that started it only")
		}
		err := b.Make(ctx, l)
		if err == nil || ctx.Err() != nil || try == bootTries ||
			!errors.Is(err, ErrFreshLab) && !errors.Is(err, ErrGone) {
			return err
		}
		l.retry(fmt.Sprintf("the beginning of the lab host failed, try %d of %d: %v", try, bootTries, err))
		if err := l.halt(); err != nil {
			return err
		}
	}
}

// L1's guests stand still while its state is written: QEMU refuses a state in which an emulated CPU runs a guest
// (cpu_post_load in target/i386/machine.c demands KVM's nested state for that, which TCG does not have).
const (
	stopGuests = `for p in $(pgrep -x qemu-system-x86); do
	kill -STOP $p
	while grep -h ^State: /proc/$p/task/*/status | grep -qv T; do sleep 0.05; done
done`
	continueGuests = "pkill -CONT -x qemu-system-x86 || true"
)

// save writes L1's state; L1 is stopped afterwards. After errNotSaved it still runs.
func (l *Lab) save(ctx context.Context, s saved) error {
	var disk unix.Statfs_t
	if err := unix.Statfs(l.tree.Dir, &disk); err != nil {
		return err
	}
	if free := disk.Bavail * uint64(disk.Bsize); free < savedNeeds {
		return fmt.Errorf("%w: %d MiB are free below %s, expected %d", errNotSaved, free>>20, l.tree.Dir,
			savedNeeds>>20)
	}
	if err := s.makeRoom(savedRoom); err != nil {
		return err
	}
	from := time.Now()
	ctx, cancel := context.WithTimeout(ctx, savedLimit)
	defer cancel()
	dir, err := os.MkdirTemp(filepath.Dir(s.dir), unfinished)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	m, err := dialMonitor(ctx, filepath.Join(l.dir, "qmp.sock"))
	if err != nil {
		return err
	}
	defer m.close()
	if err := m.setMigration(); err != nil {
		return err
	}
	if _, err := l.Must(ctx, stopGuests); err != nil {
		return err
	}
	l.paused.Store(true)
	defer l.paused.Store(false)
	if _, err := m.do("stop", nil); err != nil {
		return err
	}
	memory := filepath.Join(dir, savedMemory)
	if _, err := m.do("migrate", map[string]string{"uri": "file:" + memory}); err != nil {
		return err
	}
	if err := m.waitMigration(ctx); err != nil {
		return err
	}
	if err := syncFile(ctx, memory); err != nil {
		return err
	}
	if _, err := output(ctx, nil, "cp", "-a", l.ShareDir(), filepath.Join(dir, savedShare)); err != nil {
		return err
	}
	// Their folder stays: L1's kernel remembers it for a second, and virtiofsd looks for what it remembers.
	if err := removeGlob(filepath.Join(dir, savedShare, ".cmd", "*")); err != nil {
		return err
	}
	if err := os.Rename(dir, s.dir); err != nil {
		return err
	}
	l.log(fmt.Sprintf("lab: its state is saved, in %.0f s", time.Since(from).Seconds()))
	return nil
}

// abandoned reports whether the folder of an unfinished state is older than any that is still being written.
func abandoned(dir string) bool {
	info, err := os.Stat(dir)
	return err == nil && time.Since(info.ModTime()) > 2*savedLimit
}

// makeRoom removes unfinished states of killed processes, locks without a state, older states of this one's name, and
// then the least recently used until the remaining ones take no more than room.
func (s saved) makeRoom(room int64) error {
	entries, err := os.ReadDir(filepath.Dir(s.dir))
	if err != nil {
		return err
	}
	type state struct {
		saved
		used time.Time
		size int64
	}
	var states []state
	var errs []error
	name, _, named := strings.Cut(filepath.Base(s.dir), "-")
	for _, e := range entries {
		dir := filepath.Join(filepath.Dir(s.dir), e.Name())
		if of, lock := strings.CutSuffix(dir, ".lock"); lock && !(saved{of}).exists() {
			errs = append(errs, saved{of}.removeUnlocked())
		}
		info, err := e.Info()
		if err != nil || !info.IsDir() {
			continue
		}
		if strings.HasPrefix(e.Name(), unfinished) {
			if abandoned(dir) {
				errs = append(errs, os.RemoveAll(dir))
			}
			continue
		}
		if named && strings.HasPrefix(e.Name(), name+"-") {
			errs = append(errs, saved{dir}.removeUnlocked())
			continue
		}
		var st unix.Stat_t
		if err := unix.Stat(filepath.Join(dir, savedMemory), &st); err == nil {
			states = append(states, state{saved{dir}, info.ModTime(), st.Blocks * 512})
		}
	}
	slices.SortFunc(states, func(a, b state) int { return cmp.Or(b.used.Compare(a.used), cmp.Compare(a.dir, b.dir)) })
	for _, st := range states {
		if room -= st.size; room < 0 {
			errs = append(errs, st.removeUnlocked())
		}
	}
	return errors.Join(errs...)
}

// restore starts a QEMU from a saved state and sets L1's clock.
func (l *Lab) restore(ctx context.Context, s saved) error {
	from := time.Now()
	ctx, cancel := context.WithTimeout(ctx, savedLimit)
	defer cancel()
	now := time.Now()
	if err := os.Chtimes(s.dir, now, now); err != nil {
		return err
	}
	m, err := l.machine(ctx)
	if err != nil {
		return err
	}
	if _, err := output(ctx, nil, "cp", "-aT", filepath.Join(s.dir, savedShare), l.ShareDir()); err != nil {
		return err
	}
	m.Restored = true
	if err := l.power(ctx, m); err != nil {
		return err
	}
	if err := l.load(ctx, filepath.Join(s.dir, savedMemory)); err != nil {
		return fmt.Errorf("%w: %s", err, logTail(filepath.Join(l.dir, roleQEMU+".log"), 3))
	}
	if err := l.firstCommand(ctx); err != nil {
		return err
	}
	if _, err := l.Must(ctx, fmt.Sprintf("date -s @%d.%09d; %s", time.Now().Unix(), time.Now().Nanosecond(),
		continueGuests)); err != nil {
		return err
	}
	took := time.Since(from)
	run, wait := schedstat(l.qemuPID())
	l.mu.Lock()
	l.restored = fairShare(took, run, wait)
	l.mu.Unlock()
	Record(StatRestore, "", took.Seconds())
	l.log(fmt.Sprintf("lab: started from its saved state in %.1f s", took.Seconds()))
	return nil
}
