package probe

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// Config says what to watch.
type Config struct {
	CPUs setting.CPUSet // CPUs to sample; none: no profile
	// network namespaces whose drops are counted, by inode; a drop without a device or socket is in none
	Spaces []uint32

	btf error // for tests: why the kernel's BTF is not available
}

// Seen are the results since the last Take.
type Seen struct {
	Seconds float64 // since it was taken before, or the probe began
	Profile []facts.ProfileEntry
	Locks   []facts.LockWait
	Drops   []Drop
	Delays  []facts.WakeDelay
	Traced  bool          // the programs on tracepoints ran too
	Cost    time.Duration // CPU time of the probe: in the kernel, as far as known, and of this process
	Unseen  []facts.Unseen
}

// Drop is a place where packets of a device were dropped.
type Drop struct {
	facts.DropSite
	Inode   uint32 // of the namespace
	Ifindex int    // 0 if unknown
}

// Probe watches until it is closed.
type Probe struct {
	lock       sync.Mutex
	profile    *profile
	programs   *programs
	windows    []*window              // of drops, and of waits
	followed   []int                  // threads whose waits are timed
	lastWaits  map[uint32]probeWaits  // at the last Take
	lastOthers map[probeBehind]uint64 // at the last Take
	since      time.Time              // the last Take
	unseen     []facts.Unseen         // from Start
	failed     error
	used       time.Duration // CPU time of run since the last Take
	stop       chan struct{}
	done       chan struct{}
}

// sampleCost is the CPU time of a sample with its stack.
const sampleCost = 3 * time.Microsecond

// Start starts watching. What cannot be watched is in Seen.Unseen.
func Start(c Config) *Probe {
	p := &Probe{lastWaits: map[uint32]probeWaits{}, lastOthers: map[probeBehind]uint64{},
		stop: make(chan struct{}), done: make(chan struct{})}
	missing := func(what string, err error) { p.unseen = append(p.unseen, facts.Unseen{What: what, Why: err.Error()}) }
	var err error
	p.programs, err = load(c.btf)
	if err != nil {
		missing("why packets are dropped, and how long threads wait for a CPU", err)
	} else if err := p.spaces(c); err != nil {
		missing("why packets are dropped", err)
	} else {
		p.windows = []*window{
			{names: p.programs.known(probeProgDropped, probeProgRefused, probeProgRefusedXmit),
				runs: func(r probeRan) uint64 { return r.Drops }, share: 0.01, thin: p.programs.thin},
			{names: []string{probeProgSwitched, probeProgWoken, probeProgMade},
				runs: func(r probeRan) uint64 { return r.Switches }, begin: p.programs.begin, share: 0.005},
		}
		if err := p.programs.begin(); err != nil {
			missing("why packets are dropped", err)
		}
	}
	if known, err := loadedSymbols(); err != nil {
		if os.Geteuid() != 0 && errors.Is(err, errHiddenAddresses) {
			err = errors.New("needs root (addresses of the kernel's functions)")
		}
		missing("where the kernel spends its time", err)
	} else if len(c.CPUs) > 0 {
		if p.profile, err = startProfile(c.CPUs, known); err != nil {
			missing("where the kernel spends its time", err)
			p.profile = nil
		}
	}
	p.since = time.Now()
	p.updateWindows()
	go p.run()
	return p
}

// spaces configures the namespaces to watch.
func (p *Probe) spaces(c Config) error {
	for _, inode := range c.Spaces {
		if err := p.programs.coll.Maps[probeMapSpaces].Update(inode, uint32(1), ebpf.UpdateAny); err != nil {
			return fmt.Errorf("namespaces that are watched: %w", err)
		}
	}
	return nil
}

// Follow sets the threads whose waits for a CPU are timed from now on.
func (p *Probe) Follow(threads []int) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.programs != nil {
		p.follow(threads)
	}
}

func (p *Probe) follow(threads []int) {
	m := p.programs.coll.Maps[probeMapThreads]
	for _, tid := range p.followed {
		if !slices.Contains(threads, tid) {
			_ = m.Delete(uint32(tid)) // cannot fail: we added it
			delete(p.lastWaits, uint32(tid))
		}
	}
	for _, tid := range threads {
		if err := m.Update(uint32(tid), probeWaits{}, ebpf.UpdateNoExist); err != nil &&
			!errors.Is(err, ebpf.ErrKeyExist) {
			p.failed = fmt.Errorf("threads that are followed: %w", err)
		}
	}
	p.followed = slices.Clone(threads)
}

// run updates the windows and drains the sample rings: twice soon, as a flood must not be counted for long at full
// cost, then as seldom as will do. A tick that wakes threads of the runtime costs more than what it is for.
func (p *Probe) run() {
	defer close(p.done)
	tick := time.NewTicker(shortest)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-p.stop:
			return
		case <-tick.C:
		}
		if n == 2 {
			tick.Reset(3 * shortest)
		}
		p.update(n%4 == 0)
	}
}

func (p *Probe) update(drain bool) {
	p.lock.Lock()
	defer p.lock.Unlock()
	runtime.LockOSThread() // for ThreadTime
	defer runtime.UnlockOSThread()
	begun := ThreadTime()
	p.updateWindows()
	if drain && p.profile != nil {
		p.profile.drain()
	}
	p.used += ThreadTime() - begun
}

// ThreadTime returns the CPU time of the calling thread.
func ThreadTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

func (p *Probe) updateWindows() {
	for _, w := range p.windows {
		w.update(p.programs, time.Now())
	}
}

// Take returns the results since the last Take, or since Start.
func (p *Probe) Take() Seen {
	p.lock.Lock()
	defer p.lock.Unlock()
	now := time.Now()
	interval := now.Sub(p.since)
	p.since = now
	p.updateWindows()
	s := Seen{Seconds: interval.Seconds(), Traced: len(p.windows) > 0, Cost: p.used}
	p.used = 0
	missing := func(what string, err error) {
		if err != nil {
			s.Unseen = append(s.Unseen, facts.Unseen{What: what, Why: err.Error()})
		}
	}
	if p.profile != nil {
		p.profile.drain()
		s.Profile, s.Locks = p.profile.entries(), p.profile.locks(interval.Seconds())
		s.Cost += time.Duration(p.profile.all) * sampleCost
		if lost := p.profile.lost; lost > uint64(p.profile.all/20) {
			missing(fmt.Sprintf("%d samples of what CPUs did", lost), errors.New("there was no room for them"))
		}
		p.profile.reset()
	}
	if s.Traced {
		var err error
		s.Drops, err = p.drops(p.windows[0].scale(interval))
		missing("why packets are dropped", errors.Join(err, p.windows[0].err))
		s.Delays, err = p.delays(p.windows[1].scale(interval))
		missing("how long threads wait for a CPU", errors.Join(err, p.windows[1].err))
		for _, w := range p.windows {
			s.Cost += w.cost
			w.attachedFor, w.cost = 0, 0
		}
	}
	missing("what the probe watches", p.failed)
	s.Unseen = append(slices.Clone(p.unseen), s.Unseen...)
	return s
}

// drops returns the counted drops, scaled, most first, and resets them.
func (p *Probe) drops(scale float64) ([]Drop, error) {
	m := p.programs.coll.Maps[probeMapDrops]
	var key probeDrop
	var counts []uint64
	var all []Drop
	keys := []probeDrop{}
	rows := m.Iterate()
	for rows.Next(&key, &counts) {
		sum := uint64(0)
		for _, n := range counts {
			sum += n
		}
		keys = append(keys, key)
		d := Drop{DropSite: facts.DropSite{Reason: p.programs.reason(key.Reason),
			Packets: uint64(math.Round(float64(sum) * scale))}, Inode: key.Netns, Ifindex: int(key.Ifindex)}
		switch { // a backlog, say, drops them before they have a device that they came by
		case d.Reason != "NETFILTER_DROP" || key.Ifindex == 0:
		case key.Leaves != 0:
			d.Way = "out"
		default:
			d.Way = "in"
		}
		if key.Reason == refused {
			d.Symbol = facts.XDPRedirect
		} else if known, err := loadedSymbols(); err == nil {
			if at := known.find(key.Where); at >= 0 {
				d.Symbol = known[at].name
			}
		}
		all = append(all, d)
	}
	err := rows.Err()
	for _, k := range keys {
		_ = m.Delete(k) // drops between reading and deleting are not counted
	}
	slices.SortFunc(all, func(a, b Drop) int {
		return cmp.Or(cmp.Compare(b.Packets, a.Packets), cmp.Compare(a.Reason, b.Reason),
			cmp.Compare(a.Symbol, b.Symbol), cmp.Compare(a.Ifindex, b.Ifindex))
	})
	return all, err
}

// delays returns the waits of the followed threads that waited, longest first.
func (p *Probe) delays(scale float64) ([]facts.WakeDelay, error) {
	pairs, ahead, err := readAll[probeBehind, probeAhead](p.programs.coll.Maps[probeMapOthers])
	if err != nil {
		return nil, fmt.Errorf("whom threads waited for: %w", err)
	}
	behind, most := map[uint32]string{}, map[uint32]uint64{}
	for i, pair := range pairs {
		was := p.lastOthers[pair]
		p.lastOthers[pair] = ahead[i].Ns
		if n := facts.Increase(was, ahead[i].Ns); n > most[pair.Tid] {
			most[pair.Tid], behind[pair.Tid] = n, fmt.Sprintf("%s (%d)", name(ahead[i].Comm[:]), pair.Other)
		}
	}
	tids, waits, err := readAll[uint32, probeWaits](p.programs.coll.Maps[probeMapThreads])
	if err != nil {
		return nil, fmt.Errorf("waits of threads: %w", err)
	}
	var all []facts.WakeDelay
	for i, tid := range tids {
		w := waitsSince(p.lastWaits[tid], waits[i])
		p.lastWaits[tid] = waits[i]
		if w.Waits == 0 {
			continue
		}
		all = append(all, facts.WakeDelay{
			TID: int(tid), Waits: uint64(math.Round(float64(w.Waits) * scale)), P50: quantile(w, 0.5),
			P99: quantile(w, 0.99), Max: quantile(w, 1), Over: behind[tid],
		})
	}
	slices.SortFunc(all, func(a, b facts.WakeDelay) int {
		return cmp.Or(cmp.Compare(b.P99, a.P99), cmp.Compare(a.TID, b.TID))
	})
	return all, nil
}

// waitsSince returns a thread's counts between two readings. Longest stays the longest wait ever.
func waitsSince(before, after probeWaits) probeWaits {
	after.Waits -= before.Waits
	for i := range after.Steps {
		after.Steps[i] -= before.Steps[i]
	}
	return after
}

// readAll reads a whole map: in batches or, on kernels before 5.6, entry by entry.
func readAll[K, V any](m *ebpf.Map) (keys []K, values []V, err error) {
	most := int(m.MaxEntries())
	keys, values = make([]K, most), make([]V, most)
	var cursor ebpf.MapBatchCursor
	n := 0
	for n < most {
		got, err := m.BatchLookup(&cursor, keys[n:], values[n:], nil)
		n += got
		if errors.Is(err, ebpf.ErrKeyNotExist) { // the end
			return keys[:n], values[:n], nil
		}
		if err != nil {
			return eachEntry[K, V](m)
		}
	}
	return keys, values, nil
}

func eachEntry[K, V any](m *ebpf.Map) (keys []K, values []V, err error) {
	var k K
	var v V
	rows := m.Iterate()
	for rows.Next(&k, &v) {
		keys, values = append(keys, k), append(values, v)
	}
	return keys, values, rows.Err()
}

func name(comm []int8) string {
	var b strings.Builder
	for _, c := range comm {
		if c == 0 {
			break
		}
		b.WriteByte(byte(c))
	}
	return b.String()
}

// quantile returns the wait in microseconds that a part of the waits did not exceed: the upper end of its step, at most
// the longest wait.
func quantile(w probeWaits, part float64) float64 {
	total := uint64(0)
	for _, n := range w.Steps {
		total += uint64(n)
	}
	left := uint64(math.Ceil(part * float64(total)))
	for s, n := range w.Steps {
		if uint64(n) >= left {
			return math.Min(float64(upper(s)), float64(w.Longest)) / 1e3
		}
		left -= uint64(n)
	}
	return float64(w.Longest) / 1e3
}

// upper returns the end of a step in nanoseconds (step in bpf/probe.bpf.c); the last one has none.
func upper(s int) uint64 {
	switch {
	case s == len(probeWaits{}.Steps)-1:
		return math.MaxUint64
	case s < 4:
		return uint64(s)
	}
	log := s/4 + 1
	return uint64(4+s%4+1)<<(log-2) - 1
}

// Close stops watching.
func (p *Probe) Close() error {
	close(p.stop)
	<-p.done
	p.lock.Lock()
	defer p.lock.Unlock()
	errs := facts.Map(p.windows, func(w *window) error { return closeAll(w.links) })
	if p.programs != nil {
		p.programs.coll.Close()
	}
	if p.profile != nil {
		errs = append(errs, p.profile.close())
	}
	return errors.Join(errs...)
}
