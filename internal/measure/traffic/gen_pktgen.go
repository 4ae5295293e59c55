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

// pktgenGenerator drives the kernel's packet generator (net/core/pktgen.c,
// Documentation/networking/pktgen.rst), one device entry on the thread of each
// CPU. Its module is not loaded here: that is for the administrator to do.
//
// Its frames carry its own header in the payload: the magic number be9be955, a
// sequence number of 32 bits from 1 on, and the time of day, which is left out.
// The UDP destination port tells the workers apart.
type pktgenGenerator struct {
	conf     Config
	dev      Device
	dir      *pktgenDir
	workers  []*pktgenWorker
	warnings []string
	running  atomic.Bool
	leashed  bool // the last run's workers have a count that is not theirs
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
	// pktgenMaxDelay is the longest delay between frames, in ns: pktgen takes
	// this value for "never" (pktgen_if_write).
	pktgenMaxDelay = 0x7ffffffe
)

// ErrNoPktgen says that the kernel's packet generator is not loaded.
var ErrNoPktgen = errors.New("the kernel's packet generator is not loaded: found no /proc/net/pktgen")

func newPktgenGenerator(c Config, dev Device) (_ *pktgenGenerator, err error) {
	if err := c.fitsPktgen(); err != nil {
		return nil, err
	}
	g := &pktgenGenerator{conf: c, dev: dev}
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
	if err := g.dir.free(); err != nil {
		return nil, err
	}
	for i, cpu := range c.CPUs {
		w := &pktgenWorker{cpu: cpu, stream: c.Stream + uint16(i), name: pktgenName(dev.Iface, os.Getpid(), i)}
		if err := g.dir.write(w.thread(), "add_device "+w.name); err != nil {
			return nil, fmt.Errorf("pktgen on CPU %d: %w", cpu, err)
		}
		g.workers = append(g.workers, w)
		for _, line := range c.pktgenSettings(i) {
			if err := g.dir.write(w.name, line); err != nil {
				return nil, fmt.Errorf("pktgen: %q: %w", line, err)
			}
		}
		// Since 6.6 frames need not be shared with pktgen; a veth's peer then takes them without copying.
		if c.numbered() {
			_ = g.dir.write(w.name, "flag !SHARED")
		}
		if w.file, err = g.dir.root.Open(w.name); err != nil {
			return nil, fmt.Errorf("pktgen: %w", err)
		}
	}
	return g, nil
}

// fitsPktgen refuses what pktgen has no word for.
func (c *Config) fitsPktgen() error {
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

// numbered reports whether each frame of pktgen has a sequence number of its own:
// clones and the frames of a burst have the first one's.
func (c *Config) numbered() bool { return c.Clone == 0 && c.Burst <= 1 }

// pktgenSettings are the lines that configure worker i's device.
func (c *Config) pktgenSettings(i int) []string {
	f := c.Frame
	delay := 0
	if c.Rate > 0 {
		delay = int(1e9*float64(len(c.CPUs))/c.Rate + 0.5)
	}
	lines := []string{
		fmt.Sprintf("count %d", c.share(i)), // 0: until it is stopped
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
	if f.TOS != 0 {
		lines = append(lines, fmt.Sprintf("tos %02x", f.TOS))
	}
	if f.UDPChecksum {
		lines = append(lines, "flag UDPCSUM")
	}
	// Every range steps with every frame. Where two have a common divisor they would miss combinations.
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

// thread is the file of its CPU's thread.
func (w *pktgenWorker) thread() string { return fmt.Sprintf("kpktgend_%d", w.cpu) }

// read reads a device's counters; any number of readers may.
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
		if g.leashed {
			if err := g.dir.write(w.name, "count 0"); err != nil {
				return Result{}, fmt.Errorf("pktgen: %w", err)
			}
		}
		if before[i], err = w.read(); err != nil {
			return Result{}, err
		}
	}
	g.leashed = false
	if err := g.dir.alone(g.names()); err != nil {
		return Result{}, err
	}
	control, err := g.dir.root.OpenFile("pgctrl", os.O_WRONLY, 0)
	if err != nil {
		return Result{}, fmt.Errorf("pktgen: %w", err)
	}
	defer control.Close()
	// The write lasts as long as the run and is ended by any signal, of which
	// the runtime has many: they are blocked on this thread. When this process
	// is killed the kernel ends the run, if the write still lasts: see leash.
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
		err = fmt.Errorf("pktgen on %s sent nothing: %s", g.conf.Out, g.workers[0].said())
	}
	return r, err
}

// said is the Result line of a device.
func (w *pktgenWorker) said() string {
	b := make([]byte, 8192)
	n, _ := w.file.ReadAt(b, 0)
	_, result, _ := strings.Cut(string(b[:n]), "Result: ")
	line, _, _ := strings.Cut(result, "\n")
	return line
}

// pktgenLate is how long a thread may take to begin on a busy machine.
const pktgenLate = 5 * time.Second

// wait waits for the end of a run, and ends it when it is time. That the start
// has returned is not the end: it waits for threads that it sees running 125 ms
// after it woke them (pktgen_run_all_threads), and on a busy machine sees none.
// Nobody would end such a run if this process were killed: it goes on a leash.
func (g *pktgenGenerator) wait(ctx context.Context, before []pktgenState, done <-chan error) (cancelled bool,
	err error) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	var end <-chan time.Time // of Duration, which begins with the first frame
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
			if err := g.leash(); err != nil {
				return cancelled, err
			}
		}
		// Again and again: a thread that sees a stop and a start together stops first (pktgen_thread_worker).
		if !stops.IsZero() && time.Now().After(stops) {
			if err := g.dir.write("pgctrl", "stop"); err != nil {
				return cancelled, err
			}
			stops = time.Now().Add(50 * time.Millisecond)
		}
	}
}

// On a leash a worker's end is as far ahead as pktgenLeash takes it at its rate so far; within its first second, which
// says little of its rate, as pktgenLeashAtFirst frames take.
const (
	pktgenLeash        = 4 * time.Second
	pktgenLeashAtFirst = 1_000_000
)

// leash makes each worker end by itself soon, unless it is called again: count
// may be changed while a device runs and is compared after each frame
// (pktgen_if_write, pktgen_xmit).
func (g *pktgenGenerator) leash() error {
	g.leashed = true
	for i, w := range g.workers {
		s, err := w.read()
		if err != nil {
			return err
		}
		runs, err := g.dir.runs(w.thread(), w.name)
		if err != nil {
			return fmt.Errorf("pktgen: leash of worker %d: %w", i, err)
		}
		if !runs { // it has not begun, or ended
			continue
		}
		ran := time.Duration(s.stopped-s.started) * time.Microsecond // stopped is now
		ahead := pktgenAhead(s.sofar, ran)
		if g.conf.Rate > 0 {
			ahead = uint64(g.conf.Rate / float64(len(g.workers)) * pktgenLeash.Seconds())
		}
		if err := g.dir.write(w.name, fmt.Sprintf("count %d", s.sofar+ahead+1)); err != nil {
			return fmt.Errorf("pktgen: leash of worker %d: %w", i, err)
		}
	}
	return nil
}

// pktgenAhead is how many frames are on the leash of a worker that has sent some in a time.
func pktgenAhead(sent uint64, ran time.Duration) uint64 {
	if ran < time.Second {
		return pktgenLeashAtFirst
	}
	return uint64(float64(sent) * pktgenLeash.Seconds() / ran.Seconds())
}

// progress reports whether a worker has begun a run, and whether all have ended theirs.
func (g *pktgenGenerator) progress(before []pktgenState) (begun, over bool) {
	over = true
	for i, w := range g.workers {
		s, err := w.read()
		began := err == nil && s.started != before[i].started
		begun = begun || began
		// What the device's file says of its last run cannot tell: each setting overwrites it.
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
			s = pktgenState{} // stopped before it began
		}
		if s.stopped < s.started { // its end is written a moment after it is over (pktgen_stop_device)
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

// Close removes what was added.
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

// pktgenName is the name of worker i's device entry: before the @ the
// interface, behind it anything (pktgen_dev_get_by_name).
func pktgenName(iface string, pid, i int) string { return fmt.Sprintf("%s@mpps.%d.%d", iface, pid, i) }

// pktgenOwner is the process whose entry a name is, 0 for somebody else's.
func pktgenOwner(name string) int {
	_, rest, _ := strings.Cut(name, "@")
	var pid, i int
	if _, err := fmt.Sscanf(rest, "mpps.%d.%d", &pid, &i); err != nil {
		return 0
	}
	return pid
}
