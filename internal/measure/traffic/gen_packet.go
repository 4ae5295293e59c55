package traffic

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// packetGenerator sends with sendmmsg(2) on packet sockets, bypassing the qdisc if the kernel can (PACKET_QDISC_BYPASS,
// since 3.14).
type packetGenerator struct {
	conf     Config
	workers  []*packetWorker
	warnings []string
	running  atomic.Bool
}

// packetWorker is one thread with one socket.
type packetWorker struct {
	conf   *Config
	cpu    int
	stream uint16
	count  uint64 // 0: no limit
	fd     int
	frames [][]byte
	msgs   []unix.Mmsghdr
	iovs   []unix.Iovec

	sent    atomic.Uint64
	started time.Time
	ended   time.Time
	slipped time.Duration
}

// packetKind holds what depends on the size of a frame.
type packetKind struct {
	sums
	header []byte
	bytes  int // of the whole frame, without FCS
}

// packetBatch is how many frames one system call sends at most.
const packetBatch = 64

func newPacketGenerator(c Config, dev Device, why string) (_ *packetGenerator, err error) {
	g := &packetGenerator{conf: c}
	if why != "" {
		g.warnings = append(g.warnings, why)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.Close())
		}
	}()
	bypass := true
	for i, cpu := range c.CPUs {
		w := &packetWorker{conf: &g.conf, cpu: cpu, stream: c.Stream + uint16(i), count: c.share(i), fd: -1}
		g.workers = append(g.workers, w)
		var ok bool
		if ok, err = w.open(dev); err != nil {
			return nil, err
		}
		bypass = bypass && ok
	}
	if !bypass {
		g.warnings = append(g.warnings, "this kernel cannot bypass the queueing discipline (PACKET_QDISC_BYPASS, "+
			"since 3.14): it is part of what is measured")
	}
	return g, nil
}

// open makes the socket and the messages. bypass reports whether the socket bypasses the qdisc.
func (w *packetWorker) open(dev Device) (bypass bool, err error) {
	err = dev.Do(func() error {
		// Protocol 0: this socket receives nothing (packet(7)).
		if w.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return fmt.Errorf("packet socket: %w", err)
		}
		if err := unix.Bind(w.fd, &unix.SockaddrLinklayer{Ifindex: dev.Index}); err != nil {
			return fmt.Errorf("packet socket on %s: %w", dev.Endpoint, err)
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	bypass = unix.SetsockoptInt(w.fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1) == nil
	// Room for several batches in flight; the system's limit caps it.
	if err := unix.SetsockoptInt(w.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 4<<20); err != nil {
		return bypass, fmt.Errorf("packet socket buffer: %w", err)
	}
	w.frames = make([][]byte, packetBatch)
	w.iovs = make([]unix.Iovec, packetBatch)
	w.msgs = make([]unix.Mmsghdr, packetBatch)
	for i := range w.frames {
		w.frames[i] = w.conf.Frame.template(w.stream)
		w.iovs[i].Base = &w.frames[i][0]
		w.iovs[i].SetLen(len(w.frames[i]))
		w.msgs[i].Hdr.Iov = &w.iovs[i]
		w.msgs[i].Hdr.SetIovlen(1)
	}
	return bypass, nil
}

func (g *packetGenerator) Method() Method { return AFPacket }
func (g *packetGenerator) Streams() int   { return len(g.workers) }

func (g *packetGenerator) Sent() uint64 {
	var n uint64
	for _, w := range g.workers {
		n += w.sent.Load()
	}
	return n
}

func (g *packetGenerator) Run(ctx context.Context) (Result, error) {
	if !g.running.CompareAndSwap(false, true) {
		return Result{}, errors.New("generator: already running")
	}
	defer g.running.Store(false)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if g.conf.Duration > 0 {
		ctx, cancel = context.WithTimeoutCause(ctx, g.conf.Duration, errDone)
		defer cancel()
	}
	waits := make([]<-chan error, len(g.workers))
	for i, w := range g.workers {
		w.sent.Store(0)
		waits[i] = onWorkerThread("", w.cpu, func(int) error { return w.run(ctx) })
	}
	var errs []error
	for i := range waits {
		if err := <-waits[i]; err != nil {
			errs = append(errs, fmt.Errorf("generator on CPU %d, %s: %w", g.workers[i].cpu, g.conf.Out, err))
			cancel()
		}
	}
	r := Result{Method: AFPacket, Warnings: g.warnings}
	r.Cancelled = len(errs) == 0 && ctx.Err() != nil && !errors.Is(context.Cause(ctx), errDone)
	var first, last time.Time
	for _, w := range g.workers {
		r.Workers = append(r.Workers, WorkerResult{CPU: w.cpu, Stream: w.stream, Sent: w.sent.Load(),
			Elapsed: w.ended.Sub(w.started)})
		r.Sent += w.sent.Load()
		r.Bytes += g.conf.Frame.bytes(w.sent.Load())
		r.Slipped += w.slipped
		if first.IsZero() || w.started.Before(first) {
			first = w.started
		}
		if w.ended.After(last) {
			last = w.ended
		}
	}
	r.Elapsed = last.Sub(first)
	return r, errors.Join(errs...)
}

func (g *packetGenerator) Close() error {
	var errs []error
	for _, w := range g.workers {
		if w.fd >= 0 {
			errs = append(errs, unix.Close(w.fd))
		}
	}
	g.workers = nil
	return errors.Join(errs...)
}

// monotonic reads CLOCK_MONOTONIC, with which the sinks compare timestamps, through the runtime's own clock readings,
// which cost no system call.
type monotonic struct {
	at time.Time
	ns uint64
}

// newMonotonic pairs the two readings, of several, that were taken closest together.
func newMonotonic() (monotonic, error) {
	var best monotonic
	gap := time.Hour
	for range 16 {
		var ts unix.Timespec
		before := time.Now()
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
			return monotonic{}, fmt.Errorf("read the monotonic clock: %w", err)
		}
		if d := time.Since(before); d < gap {
			gap, best = d, monotonic{before.Add(d / 2), uint64(ts.Nano())}
		}
	}
	return best, nil
}

// stamp returns the timestamp of a frame sent at t.
func (m monotonic) stamp(t time.Time) uint32 {
	return max(1, uint32(m.ns+uint64(t.Sub(m.at))))
}

// run sends until a limit is reached or ctx is done.
func (w *packetWorker) run(ctx context.Context) error {
	clock, err := newMonotonic()
	if err != nil {
		return err
	}
	c, f := w.conf, &w.conf.Frame
	mix := f.mix()
	kinds := make([]packetKind, len(mix.kinds))
	for i, kind := range mix.kinds {
		header := kind.template(w.stream)
		kinds[i] = packetKind{sums{kind.ipBase(), kind.udpBase(w.stream)}, header[:kind.l2Bytes()-2+l3Bytes],
			len(header)}
	}
	pos := f.at(uint64(w.stream-c.Stream) * (f.Flows() / uint64(len(c.CPUs))))
	limit := w.count
	if limit == 0 {
		limit = math.MaxUint64
	}
	p := newPacer(c.Rate/float64(len(c.CPUs)), c.CatchUp)
	var seq uint64 // next to be built
	w.started = time.Now()
	w.slipped = 0
	defer func() {
		w.ended = time.Now()
		w.slipped = p.total(w.ended.Sub(w.started))
	}()
	for seq < limit && ctx.Err() == nil {
		n := min(packetBatch, limit-seq)
		now := time.Now()
		if c.Rate > 0 {
			var wait time.Duration
			if n, wait = p.due(now.Sub(w.started), n); n == 0 {
				sleepFor(wait)
				continue
			}
		}
		var stamp uint32
		if c.Stamp {
			stamp = clock.stamp(now)
		}
		for i := range n {
			kind := &kinds[mix.next()]
			if len(kinds) > 1 {
				copy(w.frames[i], kind.header)
				w.iovs[i].SetLen(kind.bytes)
			}
			f.put(w.frames[i], kind.sums, pos, seq+i, stamp)
			f.next(&pos)
		}
		if !c.Discard {
			if err := w.send(ctx, int(n)); err != nil {
				return err
			}
		} else {
			w.sent.Add(n)
		}
		seq += n
	}
	return nil
}

// send passes the first n frames to the kernel, all of them unless ctx is done.
func (w *packetWorker) send(ctx context.Context, n int) error {
	for done := 0; done < n; {
		r, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(w.fd),
			uintptr(unsafe.Pointer(&w.msgs[done])), uintptr(n-done), 0, 0, 0)
		switch errno {
		case 0:
			done += int(r)
			w.sent.Add(uint64(r))
		case unix.EINTR:
		case unix.ENOBUFS, unix.EAGAIN:
			// The device's queue is full and the frame was not sent: try again.
			if ctx.Err() != nil {
				return nil
			}
			runtime.Gosched()
		default:
			return fmt.Errorf("send: %w", errno)
		}
	}
	return nil
}

// sleepFor sleeps on this thread until 100 µs before d is over, about the time that a wake-up takes. The caller polls
// for the rest.
func sleepFor(d time.Duration) {
	const slack = 100 * time.Microsecond
	if d = min(d, 50*time.Millisecond) - slack; d > 0 {
		ts := unix.NsecToTimespec(int64(d))
		// Waking early is fine: the caller looks at the clock.
		_ = unix.Nanosleep(&ts, nil)
	}
}

// A pacer decides how many frames are due.
type pacer struct {
	interval float64 // ns per frame
	catchUp  float64 // ns
	next     float64 // when the next frame is due, ns since the start
	slipped  time.Duration
}

func newPacer(rate float64, catchUp time.Duration) pacer {
	p := pacer{catchUp: float64(catchUp)}
	if rate > 0 {
		p.interval = 1e9 / rate
	}
	return p
}

// due takes up to limit frames that are due at t, or returns how long to wait for the next one.
func (p *pacer) due(t time.Duration, limit uint64) (n uint64, wait time.Duration) {
	late := float64(t) - p.next
	if late < 0 {
		return 0, time.Duration(-late)
	}
	if late > p.catchUp+p.interval {
		p.slipped += time.Duration(late)
		p.next, late = float64(t), 0
	}
	n = min(uint64(late/p.interval)+1, limit)
	p.next += float64(n) * p.interval
	return n, 0
}

// total returns the time slipped in a run that ends at t.
func (p *pacer) total(t time.Duration) time.Duration {
	if late := float64(t) - p.next; p.interval > 0 && late > p.catchUp+p.interval {
		return p.slipped + time.Duration(late)
	}
	return p.slipped
}
