package trace

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Stages of the program (bpf/watch.bpf.c).
const (
	stageOff    = uint32(iota)
	stageJoins  // packets' ways are remembered, nothing is counted
	stageCounts // and their rows are counted
)

// program is the loaded watcher. All of it hangs on file descriptors of this process.
type program struct {
	coll     *ebpf.Collection
	links    []link.Link // of the packets' tracepoints, while attached
	waits    []link.Link // of the locks' tracepoints
	sparing  bool        // these are attached for windows only
	noWaits  error       // why waits for locks are not seen
	attached time.Time
	patching time.Duration // that attaching and detaching them took for the last window
}

// errNoBTF says that the kernel does not describe its structures, without which their fields are not found.
var errNoBTF = errors.New("this kernel does not describe its structures (BTF, CONFIG_DEBUG_INFO_BTF)")

// load loads the programs for a namespace, as c wants them. What cannot be is in the error, waits for locks alone in
// noWaits.
func load(ns namespace, c Config) (*program, error) {
	kernel, err := btf.LoadKernelSpec()
	if err = cmp.Or(c.btf, err); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoBTF, err)
	}
	spec, err := loadWatch()
	if err != nil {
		return nil, fmt.Errorf("watching program: %w", err)
	}
	if c.rows > 0 {
		spec.Maps[watchMapRows].MaxEntries = c.rows
	}
	p := &program{}
	var tracepoint *btf.Typedef
	if err := kernel.TypeByName("btf_trace_contention_begin", &tracepoint); err != nil {
		p.noWaits = errors.New("this kernel has no tracepoints of waits for locks (lock:contention_begin, Linux 5.19)")
		delete(spec.Programs, watchProgWaiting)
		delete(spec.Programs, watchProgWaited)
	}
	stale, err := jiffies(100 * time.Millisecond)
	if err != nil {
		return nil, err
	}
	if err := spec.Variables[watchVarCfg].Set(watchConfig{Netns: ns.inode, Stale: stale,
		Lltx: locklessBit(kernel)}); err != nil {
		return nil, fmt.Errorf("configure the watching program: %w", err)
	}
	// Kernels before 5.11 count a program's memory against this limit.
	_ = unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY})
	if p.coll, err = ebpf.NewCollection(spec); err != nil {
		return nil, notLoaded(err)
	}
	if p.noWaits == nil {
		if err := p.attachWaits(); err != nil {
			return nil, errors.Join(err, p.close())
		}
	}
	return p, nil
}

// notLoaded says why the programs were not loaded. For want of privilege that is all there is to say: which map was
// refused first, and the library's advice on memory limits, are beside the point. Tracing programs may read the
// kernel's ticks (bpf_jiffies64) since Linux 5.9 (commit 72e2b2b66f9c); their tracepoints are in BTF since 5.7, and
// programs on them since 5.5.
func notLoaded(err error) error {
	if os.Geteuid() != 0 {
		for _, refusal := range []error{unix.EPERM, unix.EACCES} {
			if errors.Is(err, refusal) {
				return fmt.Errorf("load the watching program: %w", refusal)
			}
		}
	}
	return fmt.Errorf("load the watching program, which needs Linux 5.9 or later: %w", err)
}

// jiffies is a time in ticks of the kernel's timer, which the resolution of its coarse clock tells
// (kernel/time/posix-timers.c, posix_get_coarse_res).
func jiffies(d time.Duration) (uint32, error) {
	var tick unix.Timespec
	if err := unix.ClockGetres(unix.CLOCK_MONOTONIC_COARSE, &tick); err != nil {
		return 0, fmt.Errorf("length of the kernel's tick: %w", err)
	}
	return uint32(max(d.Nanoseconds()/max(tick.Nano(), 1), 1)), nil
}

// locklessBit is the bit of net_device.features that says that a device is sent to without its queue's lock, where it
// is not a field of its own: its number differs between kernels. 0 where there is none.
func locklessBit(kernel *btf.Spec) uint64 {
	var dev *btf.Struct
	if err := kernel.TypeByName("net_device", &dev); err == nil && hasMember(dev, "lltx") {
		return 0
	}
	for t := range kernel.All() {
		e, ok := t.(*btf.Enum)
		if !ok {
			continue
		}
		for _, v := range e.Values {
			if v.Name == "NETIF_F_LLTX_BIT" {
				return 1 << v.Value
			}
		}
	}
	return 0
}

// hasMember looks into members without a name too, as C does.
func hasMember(t btf.Type, name string) bool {
	var members []btf.Member
	switch t := btf.UnderlyingType(t).(type) {
	case *btf.Struct:
		members = t.Members
	case *btf.Union:
		members = t.Members
	}
	return slices.ContainsFunc(members, func(m btf.Member) bool {
		return m.Name == name || m.Name == "" && hasMember(m.Type, name)
	})
}

func (p *program) attachTo(names ...string) ([]link.Link, error) {
	var all []link.Link
	for _, name := range names {
		l, err := link.AttachTracing(link.TracingOptions{Program: p.coll.Programs[name]})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("attach the watching program: %w", err), closeAll(all))
		}
		all = append(all, l)
	}
	return all, nil
}

// attach begins to see packets, and counts none yet. It can take long where the tracepoints were in use a moment ago:
// the kernel waits for a grace period (kernel/tracepoint.c, tp_rcu_cond_sync).
func (p *program) attach() error {
	p.patching = 0
	if p.sparing {
		if err := p.attachWaits(); err != nil {
			return err
		}
	}
	p.attached = time.Now()
	links, err := p.attachTo(watchProgReceived, watchProgTransmitted)
	if err != nil {
		return err
	}
	p.links = links
	return p.stage(stageJoins)
}

// detach ends that, and tells how long it was.
func (p *program) detach() (time.Duration, error) {
	err := errors.Join(p.stage(stageOff), closeAll(p.links))
	p.links = nil
	held := time.Since(p.attached)
	if p.sparing {
		err = errors.Join(err, p.detachWaits())
	}
	return held, err
}

// attachWaits begins to see waits for locks. The tracepoints stand at many places of the kernel, each of which is
// changed while all CPUs are interrupted: some 3 ms, and as much to detach, where those of packets take 0.4 ms. A wait
// that was not over when they were detached is forgotten.
func (p *program) attachWaits() (err error) {
	began := time.Now()
	none := make([]watchWait, ebpf.MustPossibleCPU())
	if err := p.coll.Maps[watchMapWaits].Update(uint32(0), none, ebpf.UpdateAny); err != nil {
		return fmt.Errorf("table of waits: %w", err)
	}
	p.waits, err = p.attachTo(watchProgWaiting, watchProgWaited)
	p.patching += time.Since(began)
	return err
}

func (p *program) detachWaits() error {
	began := time.Now()
	err := closeAll(p.waits)
	p.waits = nil
	p.patching += time.Since(began)
	return err
}

// spare detaches what sees waits for locks, from now on in the pauses between windows too.
func (p *program) spare() error {
	p.sparing = true
	return p.detachWaits()
}

func (p *program) stage(s uint32) error {
	if err := p.coll.Variables[watchVarStage].Set(s); err != nil {
		return fmt.Errorf("switch the watching program: %w", err)
	}
	return nil
}

// know tells the program which devices and tunnels there are.
func (p *program) know(v *inventory) error {
	m := p.coll.Maps[watchMapDevices]
	put := func(index int, f uint32) error {
		if err := m.Update(uint32(index), f, ebpf.UpdateAny); err != nil {
			return fmt.Errorf("table of devices: %w", err)
		}
		return nil
	}
	for index, d := range v.devices {
		if err := put(index, flags(&d)); err != nil {
			return err
		}
	}
	for index := range v.loops {
		if err := put(index, flagSkip); err != nil {
			return err
		}
	}
	var ports [1 << 16]inside
	for port, in := range v.tunnels {
		ports[port] = in
	}
	if err := p.coll.Variables[watchVarTunnels].Set(ports); err != nil {
		return fmt.Errorf("table of tunnels: %w", err)
	}
	return nil
}

// runs is how often programs ran since the reading before, on the CPU where they ran most.
type runs struct {
	all   uint64
	waits uint64 // of those that see waits alone
}

// tally is what the program counted beside rows, added up over the CPUs.
func (p *program) tally(before []watchTally) (sum watchTally, busiest runs, now []watchTally, err error) {
	if err := p.coll.Maps[watchMapTallies].Lookup(uint32(0), &now); err != nil {
		return sum, busiest, nil, fmt.Errorf("read the watching program's counters: %w", err)
	}
	for i, t := range now {
		sum.Seen += t.Seen
		sum.Rows += t.Rows
		sum.Joins += t.Joins
		sum.Unknown += t.Unknown
		sum.Locks += t.Locks
		if i < len(before) {
			t.Seen -= before[i].Seen
			t.Waits -= before[i].Waits
		}
		busiest.all, busiest.waits = max(busiest.all, t.Seen+t.Waits), max(busiest.waits, t.Waits)
	}
	return sum, busiest, now, nil
}

func (p *program) close() error {
	err := errors.Join(closeAll(p.links), closeAll(p.waits))
	p.coll.Close()
	return err
}

func closeAll(links []link.Link) error {
	var errs []error
	for _, l := range links {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}
