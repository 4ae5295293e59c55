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

	"mpps/internal/model/facts"
)

// Stages of the program (bpf/watch.bpf.c).
const (
	stageOff    = uint32(iota)
	stageJoins  // remember where packets come from, count nothing
	stageCounts // and count rows
)

// program is the loaded watcher. File descriptors of this process hold all of it.
type program struct {
	coll     *ebpf.Collection // on the packets' tracepoints, while attached
	links    []link.Link      // on the locks' tracepoints
	waits    []link.Link      // of the locks' tracepoints
	sparing  bool             // waits are attached only during windows
	noWaits  error            // why waits for locks cannot be seen
	attached time.Time
	patching time.Duration // time to attach and detach waits for the last window
}

// errNoBTF means that the kernel does not describe its structures, which is how the programs find their fields.
var errNoBTF = errors.New("this kernel does not describe its structures (BTF, CONFIG_DEBUG_INFO_BTF)")

// load loads the programs for a namespace. It fails if packets cannot be watched; if only waits for locks cannot,
// noWaits says why.
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
	// Kernels before 5.11 charge BPF memory to this limit.
	_ = unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY})
	if p.coll, err = ebpf.NewCollection(spec); err != nil {
		return nil, loadError(err)
	}
	if p.noWaits == nil {
		if err := p.attachWaits(); err != nil {
			return nil, errors.Join(err, p.close())
		}
	}
	return p, nil
}

// loadError explains why the programs could not be loaded. Without privilege it says just that: which map was refused
// first, and the library's advice on memory limits, do not help. Tracing programs may read the kernel's ticks
// (bpf_jiffies64) since Linux 5.9 (commit 72e2b2b66f9c); their tracepoints are in BTF since 5.7, and programs can
// attach to them since 5.5.
func loadError(err error) error {
	if os.Geteuid() != 0 {
		for _, refusal := range []error{unix.EPERM, unix.EACCES} {
			if errors.Is(err, refusal) {
				return fmt.Errorf("load the watching program: %w", refusal)
			}
		}
	}
	return fmt.Errorf("load the watching program, which needs Linux 5.9 or later: %w", err)
}

// jiffies converts a time to ticks of the kernel's timer, whose length is the resolution of the coarse clock
// (kernel/time/posix-timers.c, posix_get_coarse_res).
func jiffies(d time.Duration) (uint32, error) {
	var tick unix.Timespec
	if err := unix.ClockGetres(unix.CLOCK_MONOTONIC_COARSE, &tick); err != nil {
		return 0, fmt.Errorf("length of the kernel's tick: %w", err)
	}
	return uint32(max(d.Nanoseconds()/max(tick.Nano(), 1), 1)), nil
}

// locklessBit returns the bit of net_device.features that marks devices which transmit without the queue's lock. Its
// number differs between kernels. 0 if the flag is a separate field, or unknown.
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

// hasMember reports whether a type has a member, including those of anonymous members, as in C.
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

// attach starts watching packets without counting any. It can take long if the tracepoints were in use a moment ago:
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

// detach stops watching packets, and returns how long that was attached.
func (p *program) detach() (time.Duration, error) {
	err := errors.Join(p.stage(stageOff), closeAll(p.links))
	p.links = nil
	held := time.Since(p.attached)
	if p.sparing {
		err = errors.Join(err, p.detachWaits())
	}
	return held, err
}

// attachWaits starts watching waits for locks. Those tracepoints are at many places in the kernel, and each is patched
// while all CPUs are interrupted: attaching takes some 3 ms and so does detaching, compared with 0.4 ms for the
// packets' tracepoints. A wait that is still going on when they are detached is forgotten.
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

// detachBetweenWindows detaches what watches waits for locks, now and in every later pause between windows.
func (p *program) detachBetweenWindows() error {
	p.sparing = true
	return p.detachWaits()
}

func (p *program) stage(s uint32) error {
	if err := p.coll.Variables[watchVarStage].Set(s); err != nil {
		return fmt.Errorf("switch the watching program: %w", err)
	}
	return nil
}

// setDevices tells the program which devices and tunnels there are.
func (p *program) setDevices(v *inventory) error {
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

// runs is how often programs ran since the last reading, on the CPU where they ran most.
type runs struct {
	all   uint64
	waits uint64 // of the programs for waits alone
}

// tally returns the program's counters other than rows: summed over the CPUs, the busiest CPU's runs since before, and
// the readings themselves.
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
	errs := facts.Map(links, func(l link.Link) error { return l.Close() })
	return errors.Join(errs...)
}
