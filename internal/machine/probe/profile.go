package probe

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// samplePeriod is the sampling period of a CPU: no multiple or fraction of a tick. At some 3 µs per sample it costs a
// thousandth of the CPU's time.
const samplePeriod = 2531 * time.Microsecond

// ringPages is the size of each CPU's sample ring in pages, a power of two: a sample with a stack of 30 functions takes
// 270 bytes, so the ring holds half a second.
const ringPages = 16

// profile samples CPUs with a timer on each (PERF_COUNT_SW_CPU_CLOCK), the only counter in virtual machines. A CPU with
// interrupts disabled is sampled in the function that enables them.
type profile struct {
	rings   []ring
	known   symbols
	cache   map[uint64]int // address to index in known
	samples map[spot]int   // samples
	total   map[int]int    // by CPU
	lost    uint64
	waits   map[int]int // samples that wait for a lock, by the function that wants it (index in known)
	all     int
}

// spot is the place of a sample.
type spot struct {
	cpu, symbol int
	stage       string
}

// ring is the sample ring of one CPU.
type ring struct {
	cpu, fd int
	memory  []byte
}

// startProfile starts sampling CPUs.
func startProfile(cpus setting.CPUSet, known symbols) (*profile, error) {
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Config: unix.PERF_COUNT_SW_CPU_CLOCK, Sample: uint64(samplePeriod),
		Sample_type: unix.PERF_SAMPLE_IP | unix.PERF_SAMPLE_CALLCHAIN,
		Bits:        unix.PerfBitDisabled | unix.PerfBitExcludeCallchainUser,
		Wakeup:      math.MaxUint32, Sample_max_stack: 32,
	}
	p := &profile{known: known, cache: map[uint64]int{}}
	p.reset()
	for _, cpu := range cpus {
		fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if errors.Is(err, unix.ENODEV) { // it went offline
			continue
		}
		if err != nil {
			return nil, errors.Join(refusal(err), p.close())
		}
		memory, err := unix.Mmap(fd, 0, (1+ringPages)*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			_ = unix.Close(fd)
			return nil, errors.Join(fmt.Errorf("room for samples of CPU %d: %w", cpu, err), p.close())
		}
		p.rings = append(p.rings, ring{cpu, fd, memory})
	}
	for _, r := range p.rings {
		if err := unix.IoctlSetInt(r.fd, unix.PERF_EVENT_IOC_ENABLE, 0); err != nil {
			return nil, errors.Join(fmt.Errorf("sample CPU %d: %w", r.cpu, err), p.close())
		}
	}
	return p, nil
}

// refusal wraps the error of perf_event_open.
func refusal(err error) error {
	switch {
	case os.Geteuid() != 0 && (errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)):
		return errors.New("needs root (perf_event_open)")
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOSYS):
		return errors.New("this kernel has no performance events (CONFIG_PERF_EVENTS)")
	}
	return fmt.Errorf("perf_event_open: %w", err)
}

func (p *profile) reset() {
	p.samples, p.total, p.waits, p.lost, p.all = map[spot]int{}, map[int]int{}, map[int]int{}, 0, 0
}

// drain reads all rings.
func (p *profile) drain() {
	for _, r := range p.rings {
		p.read(r)
	}
}

// read reads the samples of a CPU from its ring. The kernel advances head, we advance tail
// (include/uapi/linux/perf_event.h, perf_event_mmap_page).
func (p *profile) read(r ring) {
	page := (*unix.PerfEventMmapPage)(unsafe.Pointer(unsafe.SliceData(r.memory)))
	data := r.memory[os.Getpagesize():]
	head, tail := atomic.LoadUint64(&page.Data_head), page.Data_tail
	size := uint64(len(data))
	record := make([]byte, 0, 512)
	for tail < head {
		at := tail % size
		kind, misc, length := binary.NativeEndian.Uint32(data[at:]), binary.NativeEndian.Uint16(data[at+4:]),
			uint64(binary.NativeEndian.Uint16(data[at+6:]))
		if length < 8 || length > head-tail {
			break // not what the kernel writes
		}
		record = record[:0]
		if at+length <= size {
			record = append(record, data[at:at+length]...)
		} else {
			record = append(append(record, data[at:]...), data[:at+length-size]...)
		}
		switch kind {
		case unix.PERF_RECORD_SAMPLE:
			p.sample(r.cpu, misc, record[8:])
		case unix.PERF_RECORD_LOST:
			if len(record) >= 24 {
				p.lost += binary.NativeEndian.Uint64(record[16:])
			}
		}
		tail += length
	}
	atomic.StoreUint64(&page.Data_tail, tail)
}

// sample counts one sample: the address, and the stack from the innermost function on, with marks (PERF_CONTEXT_…) in
// between.
func (p *profile) sample(cpu int, misc uint16, body []byte) {
	p.total[cpu]++
	p.all++
	if misc&unix.PERF_RECORD_MISC_CPUMODE_MASK != unix.PERF_RECORD_MISC_KERNEL || len(body) < 16 {
		return // in user space or a guest
	}
	address, n := binary.NativeEndian.Uint64(body), binary.NativeEndian.Uint64(body[8:])
	chain := body[16:]
	if n*8 > uint64(len(chain)) {
		return
	}
	leaf := p.symbol(address)
	stage, symbol, wanted := "", leaf, -1
	for i := -1; i < int(n); i++ {
		at := leaf
		if i >= 0 {
			a := binary.NativeEndian.Uint64(chain[8*i:])
			if a >= ^uint64(4095-1) { // a mark
				continue
			}
			at = p.symbol(a)
		}
		if at < 0 {
			continue
		}
		s := &p.known[at]
		if stage == stageLock {
			if !s.slow && !lockWrapper(s.name) {
				wanted = at
				break
			}
			continue
		}
		if s.stage != "" {
			stage, symbol = s.stage, at
			if stage != stageLock {
				break
			}
		}
	}
	switch {
	case stage == stageIdle || leaf < 0:
		return
	case stage == stageLock && wanted >= 0:
		symbol = wanted
		p.waits[wanted]++
	case stage == "":
		stage, symbol = stageOther, leaf
	default:
		symbol = leaf
	}
	p.samples[spot{cpu, symbol, stage}]++
}

func (p *profile) symbol(address uint64) int {
	at, known := p.cache[address]
	if !known {
		at = p.known.find(address)
		if len(p.cache) < 1<<16 {
			p.cache[address] = at
		}
	}
	return at
}

// entries returns the shares of each CPU's time by stage, most first, without those under a thousandth.
func (p *profile) entries() []facts.ProfileEntry {
	type key struct {
		cpu   int
		stage string
	}
	sums, most := map[key]int{}, map[key]spot{}
	for s, n := range p.samples {
		k := key{s.cpu, s.stage}
		sums[k] += n
		old, there := most[k]
		if !there || n > p.samples[old] || n == p.samples[old] && p.known[s.symbol].name < p.known[old.symbol].name {
			most[k] = s
		}
	}
	all := []facts.ProfileEntry{}
	for k, n := range sums {
		share := float64(n) / float64(p.total[k.cpu])
		if share >= 0.001 {
			all = append(all, facts.ProfileEntry{CPU: k.cpu, Stage: k.stage, Symbol: p.known[most[k].symbol].name,
				Share: share, Samples: n})
		}
	}
	slices.SortFunc(all, func(a, b facts.ProfileEntry) int {
		return cmp.Or(cmp.Compare(a.CPU, b.CPU), cmp.Compare(b.Share, a.Share), cmp.Compare(a.Stage, b.Stage))
	})
	return all
}

// locks returns the functions that waited for locks, longest first. Waits is a number of samples: a profile does not
// show how often a function waited.
func (p *profile) locks(seconds float64) []facts.LockWait {
	all := []facts.LockWait{}
	for at, n := range p.waits {
		if share := float64(n) * samplePeriod.Seconds() / seconds; share >= 0.001 {
			all = append(all, facts.LockWait{Lock: p.known[at].name, Waits: uint64(n), Share: share})
		}
	}
	slices.SortFunc(all, func(a, b facts.LockWait) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Lock, b.Lock))
	})
	return all
}

func (p *profile) close() error {
	var errs []error
	for _, r := range p.rings {
		errs = append(errs, unix.Munmap(r.memory), unix.Close(r.fd))
	}
	p.rings = nil
	return errors.Join(errs...)
}
