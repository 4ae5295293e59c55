package traffic

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// xdpGenerator sends live frames with bpf/gen.bpf.c.
type xdpGenerator struct {
	conf     Config
	workers  []*xdpWorker
	undo     []func() error
	refused  *refusedCounter // nil if unavailable
	warnings []string
	running  atomic.Bool

	refusedBefore uint64 // at the start of the run
}

func newXDPGenerator(ctx context.Context, c Config, dev Device) (_ *xdpGenerator, err error) {
	spec, err := loadGen()
	if err != nil {
		return nil, fmt.Errorf("generator program: %w", err)
	}
	support := probeLive(spec)
	if support.Answer != Yes {
		return nil, &UnsupportedError{What: "XDP live frames", Answer: support.Answer, Err: support.Err}
	}
	g := &xdpGenerator{conf: c}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.Close())
		}
	}()
	if !c.Discard {
		undo, err := prepareTransmit(spec, dev)
		if err != nil {
			return nil, err
		}
		g.undo = append(g.undo, undo)
		if err = checkTransmit(dev); err != nil {
			return nil, err
		}
		if g.refused, err = newRefusedCounter(dev); err != nil {
			g.warnings = append(g.warnings, err.Error())
		} else {
			g.undo = append(g.undo, g.refused.close)
		}
	}
	for i, cpu := range c.CPUs {
		if err = ctx.Err(); err != nil {
			return nil, err
		}
		w, err := newXDPWorker(spec.Copy(), &g.conf, dev, i, cpu)
		if err != nil {
			return nil, err
		}
		g.workers = append(g.workers, w)
		if g.refused != nil {
			if err = g.refused.watch(w.prog); err != nil {
				return nil, fmt.Errorf("the generator's program: %w", err)
			}
		}
	}
	return g, nil
}

func newXDPWorker(spec *ebpf.CollectionSpec, c *Config, dev Device, i, cpu int) (*xdpWorker, error) {
	w := &xdpWorker{cpu: cpu, stream: c.Stream + uint16(i), count: c.share(i)}
	w.frame = c.Frame.template(w.stream)
	w.start = c.Frame.at(uint64(i) * (c.Frame.Flows() / uint64(len(c.CPUs))))
	maps.DeleteFunc(spec.Programs, func(name string, _ *ebpf.ProgramSpec) bool { return name != c.programName() })
	if err := spec.Variables[genVarCfg].Set(c.program(w.stream)); err != nil {
		return nil, fmt.Errorf("configure the generator: %w", err)
	}
	coll, err := loadCollection(spec)
	if err != nil {
		return nil, fmt.Errorf("load the generator: %w", err)
	}
	w.coll, w.prog = coll, coll.Programs[c.programName()]
	w.limit, w.state = coll.Variables[genVarLimit], coll.Variables[genVarState]
	if !c.Discard {
		// The kernel looks up the index in the caller's namespace.
		err = c.Out.Do(func() error {
			return coll.Maps[genMapOut].Put(uint32(0), uint32(dev.Index))
		})
		if err != nil {
			coll.Close()
			return nil, fmt.Errorf("direct the generator to %s: %w", c.Out, err)
		}
	}
	return w, nil
}

// program returns the configuration for the BPF program.
func (c *Config) program(stream uint16) genConfig {
	f := &c.Frame
	p := genConfig{
		IpBase: f.ipBase(), UdpBase: f.udpBase(stream),
		SrcFirst: addr(f.Src.First), SrcCount: f.Src.Count,
		DstFirst: addr(f.Dst.First), DstCount: f.Dst.Count,
		SportFirst: uint32(f.SrcPort.First), SportCount: f.SrcPort.Count,
		DportFirst: uint32(f.DstPort.First), DportCount: f.DstPort.Count,
		Stream: swap16(stream), Flows: bit(f.Flows() > 1 || len(f.Sizes) > 0), Vlan: bit(f.VLAN != 0),
		Stamp:  bit(c.Stamp),
		UdpSum: bit(f.UDPChecksum), Drop: bit(c.Discard),
	}
	// The program writes the words unchanged.
	t := f.template(stream)
	f.put(t, sums{f.ipBase(), f.udpBase(stream)}, flow{}, 0, 0)
	for i := range p.Head {
		p.Head[i] = binary.NativeEndian.Uint64(t[8*i:])
	}
	p.HeadVlan = binary.NativeEndian.Uint32(t[24:])
	clear(t[f.l2Bytes()-2+atUDPSum:][:2])
	p.Udp = binary.NativeEndian.Uint64(t[f.l2Bytes()-2+atUDPLen:])
	if len(f.Sizes) > 0 {
		f.mix().program(&p, stream)
	}
	if c.Rate > 0 {
		p.Paced = 1
		p.Burst = uint32(c.Burst)
		p.CatchUpNs = uint64(c.CatchUp)
		step, frac := math.Modf(float64(c.Burst) * 1e9 * float64(len(c.CPUs)) / c.Rate)
		p.StepNs, p.StepFrac = uint64(step), uint64(frac*(1<<32))
	}
	return p
}

// program adds what the program needs for a mix of sizes.
func (m mix) program(p *genConfig, stream uint16) {
	p.OrderCount, p.ShiftEvery = uint32(len(m.order)), m.every
	for i, kind := range m.order {
		p.Order[i] = uint8(kind)
	}
	largest := 0
	for _, f := range m.kinds {
		largest = max(largest, f.Size)
	}
	for i, f := range m.kinds {
		t := f.template(stream)
		s := &p.Sizes[i]
		s.Head = binary.NativeEndian.Uint64(t[16:])
		s.Udp = binary.NativeEndian.Uint64(t[f.l2Bytes()-2+atUDPLen:])
		s.IpBase, s.UdpBase, s.Cut = f.ipBase(), f.udpBase(stream), uint32(largest-f.Size)
	}
}

// programName returns the program to use: the short one if it is enough.
func (c *Config) programName() string {
	f := &c.Frame
	if c.Rate == 0 && !c.Stamp && f.Flows() == 1 && len(f.Sizes) == 0 && f.VLAN == 0 && !f.UDPChecksum {
		return genProgPlain
	}
	return genProgGenerate
}

func swap16(v uint16) uint16 { return v<<8 | v>>8 }

func bit(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// loadCollection loads a collection after lifting the memory lock limit, which kernels before 5.11 charge BPF memory
// to; if that is not allowed, loading fails. Package rlimit of cilium/ebpf would read /proc at program start and
// remember the failure: the init of a guest starts before /proc exists.
func loadCollection(spec *ebpf.CollectionSpec) (*ebpf.Collection, error) {
	_ = unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY})
	return ebpf.NewCollection(spec)
}

func (g *xdpGenerator) Method() Method { return XDP }
func (g *xdpGenerator) Streams() int   { return len(g.workers) }

func (g *xdpGenerator) Sent() uint64 {
	var n uint64
	for _, w := range g.workers {
		if s, err := w.read(); err == nil {
			n += s.Seq
		}
	}
	return n
}

func (g *xdpGenerator) Run(ctx context.Context) (Result, error) {
	if !g.running.CompareAndSwap(false, true) {
		return Result{}, errors.New("generator: already running")
	}
	defer g.running.Store(false)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for _, w := range g.workers {
		if err := w.reset(); err != nil {
			return Result{}, err
		}
	}
	if g.refused != nil {
		var err error
		if g.refusedBefore, _, err = g.refused.read(); err != nil {
			return Result{}, err
		}
	}
	waits := make([]<-chan error, len(g.workers))
	for i, w := range g.workers {
		waits[i] = onWorkerThread(g.conf.Out.Netns, w.cpu, func(tid int) error {
			w.tid.Store(int64(tid))
			defer w.tid.Store(0)
			return errors.Join(w.run(g.conf.Rate > 0, g.conf.Batch), w.finish())
		})
	}
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		g.watch(ctx, cancel)
	}()
	var errs []error
	for i := range waits {
		if err := <-waits[i]; err != nil {
			errs = append(errs, fmt.Errorf("generator on CPU %d, %s: %w", g.workers[i].cpu, g.conf.Out, err))
			for _, w := range g.workers { // one failed: stop the others
				w.halt()
			}
		}
	}
	cancelled := ctx.Err() != nil && !errors.Is(context.Cause(ctx), errDone)
	cancel(errDone)
	<-watched // otherwise it would halt the next run
	r, err := g.result()
	r.Cancelled = cancelled
	return r, errors.Join(append(errs, err)...)
}

// watch ends the run. It stops the programs when ctx is done or the duration is over, counted from the first frame
// because a call takes tens of milliseconds to start sending. It interrupts the calls of stopped programs, repeatedly,
// because a signal just before the call is lost.
func (g *xdpGenerator) watch(ctx context.Context, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	var begun time.Time
	for {
		select {
		case <-ctx.Done():
			for _, w := range g.workers {
				w.halt()
			}
		case <-tick.C:
		}
		running := false
		for _, w := range g.workers {
			running = w.interrupt() || running
		}
		if !running && ctx.Err() != nil {
			return
		}
		if ctx.Err() != nil {
			<-tick.C
		}
		if g.conf.Duration > 0 && ctx.Err() == nil {
			switch {
			case begun.IsZero() && g.Sent() > 0:
				begun = time.Now()
			case !begun.IsZero() && time.Since(begun) >= g.conf.Duration:
				cancel(errDone)
			}
		}
	}
}

// errDone is the cause when a run ends because its duration is over.
var errDone = errors.New("duration is over")

func (g *xdpGenerator) result() (Result, error) {
	r := Result{Method: XDP, Warnings: slices.Clone(g.warnings)}
	var first, last, polls uint64
	for _, w := range g.workers {
		s, err := w.read()
		if err != nil {
			return r, err
		}
		wr := WorkerResult{CPU: w.cpu, Stream: w.stream, Sent: s.Seq}
		if s.Started > 0 && s.Ended > s.Started {
			wr.Elapsed = time.Duration(s.Ended - s.Started)
			if first == 0 || s.Started < first {
				first = s.Started
			}
			last = max(last, s.Ended)
		}
		r.Workers = append(r.Workers, wr)
		r.Sent += s.Seq
		r.Bytes += g.conf.Frame.bytes(s.Seq)
		r.Slipped += time.Duration(s.SlippedNs)
		polls += s.Polls
	}
	r.Elapsed = time.Duration(last - first)
	if g.refused != nil {
		n, why, err := g.refused.read()
		if err != nil {
			return r, err
		}
		if r.Refused = n - g.refusedBefore; r.Refused > 0 && r.Refused >= r.Sent {
			return r, fmt.Errorf("%s took none of %d frames: %w", g.conf.Out, r.Sent, why)
		} else if r.Refused > 0 {
			r.Warnings = append(r.Warnings, fmt.Sprintf("%s did not take %d of %d frames, of the last: %v",
				g.conf.Out, r.Refused, r.Sent, why))
		}
	}
	if n := r.Sent + polls; n > 0 {
		r.BatchDelay = time.Duration(uint64(r.Elapsed) * uint64(len(g.workers)) / n * uint64(g.conf.Batch))
	}
	return r, nil
}

func (g *xdpGenerator) Close() error {
	var errs []error
	for _, w := range g.workers {
		w.halt()
		w.coll.Close()
	}
	for _, f := range g.undo {
		errs = append(errs, f())
	}
	g.workers, g.undo = nil, nil
	return errors.Join(errs...)
}
