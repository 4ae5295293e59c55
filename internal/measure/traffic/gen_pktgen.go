package traffic

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// pktgenGenerator drives the kernel's packet generator (net/core/pktgen.c, Documentation/networking/pktgen.rst), with
// one device entry on the thread of each CPU. It does not load the module; that is up to the administrator.
//
// The frames carry pktgen's own header in their payload: the magic number be9be955, a 32-bit sequence number from 1 on,
// and the time of day, which is ignored. The UDP destination port identifies the worker.
type pktgenGenerator struct {
	conf     Config
	dir      *pktgenDir
	workers  []*pktgenWorker
	warnings []string
	running  atomic.Bool
	limited  bool // the count of the last run's workers was changed: see extendCount
}

// pktgenWorker is one device entry.
type pktgenWorker struct {
	cpu    int
	stream uint16
	name   string
	file   *os.File
}

const (
	pktgenMagic = 0xbe9be955
	pktgenPort  = 9 // UDP destination port of the first worker
	// pktgenMaxDelay is the longest delay between frames, in ns: pktgen takes this value for "never" (pktgen_if_write).
	pktgenMaxDelay = 0x7ffffffe
)

// ErrNoPktgen means that the kernel's packet generator is not loaded.
var ErrNoPktgen = errors.New("the kernel's packet generator is not loaded: found no /proc/net/pktgen")

func newPktgenGenerator(c Config, dev Device) (_ *pktgenGenerator, err error) {
	if err := c.checkPktgen(); err != nil {
		return nil, err
	}
	g := &pktgenGenerator{conf: c}
	if c.Stamp {
		g.warnings = append(g.warnings, "pktgen's frames carry no time that one-way delays could be told from")
	}
	if g.dir, err = openPktgen(dev.Endpoint); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.Close())
		}
	}()
	if err := g.dir.claim(); err != nil {
		return nil, err
	}
	queues := dev.TxQueues()
	for i, cpu := range c.CPUs {
		w := &pktgenWorker{cpu: cpu, stream: c.Stream + uint16(i), name: pktgenName(dev.Iface, os.Getpid(), i)}
		if err := g.dir.write(w.thread(), "add_device "+w.name); err != nil {
			return nil, fmt.Errorf("pktgen on CPU %d: %w", cpu, err)
		}
		g.workers = append(g.workers, w)
		for _, line := range append(c.pktgenSettings(i), queueMap(i, queues)...) {
			if err := g.dir.write(w.name, line); err != nil {
				return nil, fmt.Errorf("pktgen: %q: %w", line, err)
			}
		}
		// Since 6.6 pktgen can stop sharing frames; the peer of a veth then takes them without copying.
		if c.numbered() {
			_ = g.dir.write(w.name, "flag !SHARED")
		}
		if w.file, err = g.dir.root.Open(w.name); err != nil {
			return nil, fmt.Errorf("pktgen: %w", err)
		}
	}
	return g, nil
}

// queueMap returns the lines that have worker i send on its own transmit queue, as far as there are queues: unless
// told, every thread of pktgen uses queue 0 (set_cur_queue_map in net/core/pktgen.c).
func queueMap(i, queues int) []string {
	if queues < 2 {
		return nil
	}
	return []string{fmt.Sprintf("queue_map_max %d", i%queues), fmt.Sprintf("queue_map_min %d", i%queues)}
}

// checkPktgen rejects what pktgen cannot do.
func (c *Config) checkPktgen() error {
	f := c.Frame
	switch {
	case c.Discard:
		return fmt.Errorf("%w: pktgen cannot discard what it makes", ErrConfig)
	case f.VLAN != 0:
		return fmt.Errorf("%w: pktgen is used without VLAN tags", ErrConfig)
	case len(f.Sizes) > 0:
		return fmt.Errorf("%w: pktgen is used with frames of one size", ErrConfig)
	case f.DstPort != (PortRange{First: pktgenPort, Count: 1}):
		return fmt.Errorf("%w: pktgen's workers have UDP destination ports from %d on", ErrConfig, pktgenPort)
	case uint64(f.SrcPort.First)+uint64(f.SrcPort.Count) > 1<<16-1:
		return fmt.Errorf("%w: pktgen takes source ports up to 65534", ErrConfig)
	case c.Rate > 0 && c.Rate/float64(len(c.CPUs)) < 1e9/pktgenMaxDelay:
		return fmt.Errorf("%w: rate %g frames/s, pktgen does one in two seconds at the least", ErrConfig, c.Rate)
	case c.Clone < 0 || c.Clone > 1<<20:
		return fmt.Errorf("%w: clone_skb %d, want 0 to 1048576", ErrConfig, c.Clone)
	}
	return nil
}

// numbered reports whether every frame of pktgen has its own sequence number: clones and the frames of a burst repeat
// the first one's.
func (c *Config) numbered() bool { return c.Clone == 0 && c.Burst <= 1 }

// pktgenSettings returns the lines that configure worker i's device.
func (c *Config) pktgenSettings(i int) []string {
	f := c.Frame
	delay := 0
	if c.Rate > 0 {
		delay = int(1e9*float64(len(c.CPUs))/c.Rate + 0.5)
	}
	lines := []string{
		fmt.Sprintf("count %d", c.share(i)), // 0: until stopped
		fmt.Sprintf("pkt_size %d", f.Size-fcsBytes),
		fmt.Sprintf("delay %d", delay),
		fmt.Sprintf("clone_skb %d", c.Clone),
		"dst_mac " + f.DstMAC.String(),
		"src_mac " + f.SrcMAC.String(),
		"dst_min " + f.Dst.First.String(),
		"dst_max " + addrFrom(addr(f.Dst.First)+f.Dst.Count-1).String(),
		"src_min " + f.Src.First.String(),
		"src_max " + addrFrom(addr(f.Src.First)+f.Src.Count-1).String(),
		fmt.Sprintf("udp_src_min %d", f.SrcPort.First),
		fmt.Sprintf("udp_src_max %d", uint32(f.SrcPort.First)+f.SrcPort.Count), // exclusive, unlike addresses
		fmt.Sprintf("udp_dst_min %d", pktgenPort+i),
		fmt.Sprintf("udp_dst_max %d", pktgenPort+i),
		"flag NO_TIMESTAMP",
	}
	if c.Burst > 1 {
		lines = append(lines, fmt.Sprintf("burst %d", c.Burst))
	}
	if f.SrcMACs > 1 { // net/core/pktgen.c, mod_cur_headers: each frame has the next
		lines = append(lines, fmt.Sprintf("src_mac_count %d", f.SrcMACs))
	}
	if f.TOS != 0 {
		lines = append(lines, fmt.Sprintf("tos %02x", f.TOS))
	}
	if f.UDPChecksum {
		lines = append(lines, "flag UDPCSUM")
	}
	// Every range advances with every frame. Two ranges with a common divisor would miss combinations.
	if f.Src.Count > 1 && f.SrcPort.Count > 1 {
		lines = append(lines, "flag IPSRC_RND")
	}
	if f.Dst.Count > 1 {
		lines = append(lines, "flag IPDST_RND")
	}
	return lines
}

func (g *pktgenGenerator) Method() Method { return Pktgen }
func (g *pktgenGenerator) Streams() int   { return len(g.workers) }

func (g *pktgenGenerator) Sent() uint64 {
	var n uint64
	for _, w := range g.workers {
		if s, err := w.read(); err == nil {
			n += s.sofar
		}
	}
	return n
}

// thread returns the file of the thread of its CPU.
func (w *pktgenWorker) thread() string { return fmt.Sprintf("kpktgend_%d", w.cpu) }

// read reads a device's counters. Concurrent readers are fine.
func (w *pktgenWorker) read() (pktgenState, error) {
	b := make([]byte, 8192)
	n, err := w.file.ReadAt(b, 0)
	if n == 0 && err != nil {
		return pktgenState{}, fmt.Errorf("pktgen: %w", err)
	}
	return parsePktgenState(string(b[:n]))
}

func (g *pktgenGenerator) Run(ctx context.Context) (Result, error) {
	if !g.running.CompareAndSwap(false, true) {
		return Result{}, errors.New("generator: already running")
	}
	defer g.running.Store(false)
	before := make([]pktgenState, len(g.workers))
	for i, w := range g.workers {
		var err error
		if g.limited {
			if err := g.dir.write(w.name, "count 0"); err != nil {
				return Result{}, fmt.Errorf("pktgen: %w", err)
			}
		}
		if before[i], err = w.read(); err != nil {
			return Result{}, err
		}
	}
	g.limited = false
	if err := g.dir.checkExclusive(g.names()); err != nil {
		return Result{}, err
	}
	control, err := g.dir.root.OpenFile("pgctrl", os.O_WRONLY, 0)
	if err != nil {
		return Result{}, fmt.Errorf("pktgen: %w", err)
	}
	defer control.Close()
	// The write lasts as long as the run, and any signal ends it. The runtime sends many: they are blocked on this
	// thread. If this process is killed the kernel ends the run, provided that the write still lasts: see extendCount.
	done := onWorkerThread(g.conf.Out.Netns, g.workers[0].cpu, func(int) error {
		_, err := unix.Write(int(control.Fd()), []byte("start\n"))
		return err
	})
	cancelled, err := g.wait(ctx, before, done)
	if err != nil {
		return Result{}, fmt.Errorf("pktgen on %s: %w", g.conf.Out, err)
	}
	r, err := g.result(before)
	r.Cancelled = cancelled
	if err == nil && r.Sent == 0 && !cancelled {
		err = fmt.Errorf("pktgen on %s sent nothing: %s", g.conf.Out, g.workers[0].lastResult())
	}
	return r, err
}

// lastResult returns the Result line of a device.
func (w *pktgenWorker) lastResult() string {
	b := make([]byte, 8192)
	n, _ := w.file.ReadAt(b, 0)
	_, result, _ := strings.Cut(string(b[:n]), "Result: ")
	line, _, _ := strings.Cut(result, "\n")
	return line
}

// pktgenLate is how long a thread may take to start on a busy machine.
const pktgenLate = 5 * time.Second

// wait waits for the end of a run, and stops it in time. The return of the start command is not the end: it waits for
// the threads that it sees running 125 ms after waking them (pktgen_run_all_threads), and on a busy machine sees none.
// If this process were killed, nothing would stop such a run, so it gets a count that extendCount keeps ahead.
func (g *pktgenGenerator) wait(ctx context.Context, before []pktgenState, done <-chan error) (cancelled bool,
	err error) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	var end <-chan time.Time // after Duration, which starts with the first frame
	var stops, returned time.Time
	stop := ctx.Done()
	for {
		select {
		case err := <-done:
			if err != nil {
				return cancelled, err
			}
			done, returned = nil, time.Now()
		case <-end:
			end, stops = nil, time.Now()
		case <-stop:
			stop, cancelled, stops = nil, true, time.Now()
		case <-tick.C:
		}
		begun, over := g.progress(before)
		switch {
		case over && done == nil:
			return cancelled, nil
		case !begun && !returned.IsZero() && time.Since(returned) > pktgenLate:
			return cancelled, g.dir.write("pgctrl", "stop") // the result says what is wrong
		case begun && stops.IsZero() && end == nil && g.conf.Duration > 0:
			end = time.After(g.conf.Duration)
			tick.Reset(20 * time.Millisecond)
		}
		if begun && done == nil && stops.IsZero() && g.conf.Count == 0 {
			if err := g.extendCount(); err != nil {
				return cancelled, err
			}
		}
		// Repeatedly: a thread that sees a stop and a start together stops first (pktgen_thread_worker).
		if !stops.IsZero() && time.Now().After(stops) {
			if err := g.dir.write("pgctrl", "stop"); err != nil {
				return cancelled, err
			}
			stops = time.Now().Add(50 * time.Millisecond)
		}
	}
}

// extendCount keeps a worker's count ahead by the frames of pktgenHorizon at its rate so far, or by pktgenFirstFrames
// within its first second, which says little about its rate.
const (
	pktgenHorizon     = 4 * time.Second
	pktgenFirstFrames = 1_000_000
)

// extendCount makes each worker end by itself soon, unless it is called again: count may be changed while a device
// runs, and is compared after each frame (pktgen_if_write, pktgen_xmit).
func (g *pktgenGenerator) extendCount() error {
	g.limited = true
	for i, w := range g.workers {
		s, err := w.read()
		if err != nil {
			return err
		}
		runs, err := g.dir.runs(w.thread(), w.name)
		if err != nil {
			return fmt.Errorf("pktgen: limit worker %d: %w", i, err)
		}
		if !runs { // not started yet, or ended
			continue
		}
		ran := time.Duration(s.stopped-s.started) * time.Microsecond // stopped is now
		ahead := pktgenAhead(s.sofar, ran)
		if g.conf.Rate > 0 {
			ahead = uint64(g.conf.Rate / float64(len(g.workers)) * pktgenHorizon.Seconds())
		}
		if err := g.dir.write(w.name, fmt.Sprintf("count %d", s.sofar+ahead+1)); err != nil {
			return fmt.Errorf("pktgen: limit worker %d: %w", i, err)
		}
	}
	return nil
}

// pktgenAhead returns by how many frames the count of a worker is ahead that has sent some within ran.
func pktgenAhead(sent uint64, ran time.Duration) uint64 {
	if ran < time.Second {
		return pktgenFirstFrames
	}
	return uint64(float64(sent) * pktgenHorizon.Seconds() / ran.Seconds())
}

// progress reports whether any worker has started its run, and whether all have ended theirs.
func (g *pktgenGenerator) progress(before []pktgenState) (begun, over bool) {
	over = true
	for i, w := range g.workers {
		s, err := w.read()
		began := err == nil && s.started != before[i].started
		begun = begun || began
		// The device's file cannot tell whether its last run is over: each setting overwrites that.
		runs, err := g.dir.runs(w.thread(), w.name)
		over = over && began && err == nil && !runs
	}
	return begun, over
}

func (g *pktgenGenerator) result(before []pktgenState) (Result, error) {
	r := Result{Method: Pktgen, Warnings: g.warnings}
	var first, last, failed uint64
	for i, w := range g.workers {
		s, err := w.read()
		if err != nil {
			return r, err
		}
		if s.started == before[i].started {
			s = pktgenState{} // stopped before it started
		}
		if s.stopped < s.started { // the end is recorded a moment after it (pktgen_stop_device)
			time.Sleep(time.Millisecond)
			if s, err = w.read(); err != nil {
				return r, err
			}
		}
		r.Workers = append(r.Workers, WorkerResult{CPU: w.cpu, Stream: w.stream, Sent: s.sofar,
			Elapsed: time.Duration(s.stopped-s.started) * time.Microsecond})
		r.Sent += s.sofar
		failed += s.errors
		if s.started > 0 && (first == 0 || s.started < first) {
			first = s.started
		}
		last = max(last, s.stopped)
	}
	r.Elapsed = time.Duration(last-first) * time.Microsecond
	r.Bytes = r.Sent * uint64(g.conf.Frame.Size)
	if failed > 0 {
		r.Warnings = append(r.Warnings[:len(r.Warnings):len(r.Warnings)],
			fmt.Sprintf("the device refused %d frames of pktgen, which are not among those sent", failed))
	}
	return r, nil
}

func (g *pktgenGenerator) names() []string {
	var names []string
	for _, w := range g.workers {
		names = append(names, w.name)
	}
	return names
}

// Close removes the device entries.
func (g *pktgenGenerator) Close() error {
	var errs []error
	for _, w := range g.workers {
		if w.file != nil {
			errs = append(errs, w.file.Close())
		}
	}
	for _, w := range g.workers {
		if err := g.dir.clear(w.thread(), g.names()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	g.workers = nil
	if g.dir != nil {
		errs = append(errs, g.dir.close())
		g.dir = nil
	}
	return errors.Join(errs...)
}

// pktgenName returns the name of worker i's device entry: the interface before the @, anything after it
// (pktgen_dev_get_by_name).
func pktgenName(iface string, pid, i int) string { return fmt.Sprintf("%s@mpps.%d.%d", iface, pid, i) }

// pktgenOwner returns the process that owns an entry, 0 if it is not one of mpps.
func pktgenOwner(name string) int {
	_, rest, _ := strings.Cut(name, "@")
	var pid, i int
	if _, err := fmt.Sscanf(rest, "mpps.%d.%d", &pid, &i); err != nil {
		return 0
	}
	return pid
}
