package traffic

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"mpps/internal/thread"
)

// Alone is what a generator or a receiver can do without the device under test. A result close to either says more
// about the generator or receiver than about the device.
type Alone struct {
	Method  Method        `json:"method"`
	PPS     float64       `json:"pps"` // frames per second, sent or received
	Sent    uint64        `json:"sent"`
	Counted uint64        `json:"counted"` // distinct frames that the receiver counted
	Elapsed time.Duration `json:"elapsed"`
	// AtLeast: the receiver counted everything that the generator, which shares the machine here, could send. It may be
	// able to do more.
	AtLeast  bool     `json:"at_least,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// GeneratorAlone generates frames as fast as c allows, ignoring its Rate, for d and discards them.
func GeneratorAlone(ctx context.Context, c Config, d time.Duration) (Alone, error) {
	c.Discard, c.Rate, c.Count, c.Duration = true, 0, 0, d
	c.Batch, c.Burst = 0, 0
	g, err := NewGenerator(ctx, c)
	if err != nil {
		return Alone{}, fmt.Errorf("generator alone: %w", err)
	}
	r, err := g.Run(ctx)
	if err := errors.Join(err, g.Close()); err != nil {
		return Alone{}, fmt.Errorf("generator alone: %w", err)
	}
	return Alone{Method: r.Method, PPS: r.PPS(), Sent: r.Sent, Elapsed: r.Elapsed, Warnings: r.Warnings}, nil
}

// GeneratorToDevice sends through a temporary veth pair into a counting sink: what the generator can do with an ideal
// device.
func GeneratorToDevice(ctx context.Context, c Config, d time.Duration) (Alone, error) {
	clones := c.Clone > 0
	c.Clone = 0 // a veth cannot take clones (IFF_TX_SKB_SHARING), which makes pktgen slower than it can be
	a, err := overPair(ctx, SinkConfig{Method: XDP}, c, d)
	if err != nil {
		return a, fmt.Errorf("generator into a veth pair: %w", err)
	}
	a.Method = c.Method
	a.PPS = float64(a.Sent) / a.Elapsed.Seconds()
	a.AtLeast = clones
	return a, nil
}

// ReceiverAlone measures how fast a sink configured by s counts the frames that a generator configured by c sends at
// full speed, over a temporary veth pair.
func ReceiverAlone(ctx context.Context, s SinkConfig, c Config, d time.Duration) (Alone, error) {
	a, err := overPair(ctx, s, c, d)
	if err != nil {
		return a, fmt.Errorf("receiver alone: %w", err)
	}
	return a, nil
}

func overPair(ctx context.Context, s SinkConfig, c Config, d time.Duration) (a Alone, err error) {
	out, in, remove, err := scratchPair(c.Frame.withDefaults().Size)
	if err != nil {
		return Alone{}, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	c.Out, s.In, s.Stream = out, in, c.Stream
	c.Rate, c.Count, c.Duration, c.Discard = 0, 0, d, false
	peer, err := in.Device()
	if err != nil {
		return Alone{}, err
	}
	c.Frame.SrcMAC, c.Frame.DstMAC = nil, peer.MAC
	c.Batch, c.Burst = 0, 0
	s.Streams = max(1, len(c.CPUs))
	s.Pktgen = s.Pktgen || c.Method == Pktgen
	sink, err := NewSink(s)
	if err != nil {
		return Alone{}, err
	}
	defer func() { err = errors.Join(err, sink.Close()) }()
	if sink.Method() == AFPacket && c.Method != AFPacket && Probe().Answer == Yes {
		spec, err := loadGen()
		if err != nil {
			return Alone{}, err
		}
		undo, err := attachPass(spec, peer)
		if err != nil {
			return Alone{}, err
		}
		defer undo() // goes away with the pair at the latest
	}
	g, err := NewGenerator(ctx, c)
	if err != nil {
		return Alone{}, err
	}
	r, err := g.Run(ctx)
	if err := errors.Join(err, g.Close()); err != nil {
		return Alone{}, err
	}
	// Frames counted after the last one was sent were waiting in a ring and do not belong to the rate.
	k, err := sink.Counts()
	if err != nil {
		return Alone{}, err
	}
	end, err := Settle(ctx, sink, 50*time.Millisecond, 2*time.Second)
	if err != nil {
		return Alone{}, err
	}
	a = Alone{
		Method: sink.Method(), Sent: r.Sent, Counted: end.Unique(), Elapsed: r.Elapsed,
		Warnings: append(r.Warnings, end.Warnings...),
	}
	// A ring delivers its frames up to 10 ms late.
	a.AtLeast = a.Counted == r.Sent && float64(k.Unique()) > 0.85*float64(r.Sent)
	if r.Elapsed > 0 {
		a.PPS = float64(k.Unique()) / r.Elapsed.Seconds()
		if a.AtLeast {
			a.PPS = r.PPS()
		}
	}
	return a, nil
}

// scratchNumber numbers the veth pairs of this process.
var scratchNumber atomic.Uint32

// scratchPair makes a veth pair between two unnamed network namespaces. The namespaces end with the descriptors that
// hold them: on remove, or with the process.
func scratchPair(frame int) (a, b Endpoint, remove func() error, err error) {
	var releases []func() error
	remove = func() error {
		var errs []error
		for _, release := range releases {
			errs = append(errs, release())
		}
		return errors.Join(errs...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, remove())
		}
	}()
	name := fmt.Sprintf("mpps%d", scratchNumber.Add(1)%1e6)
	a.Iface, b.Iface = name, name
	for _, end := range []*Endpoint{&a, &b} {
		var release func() error
		if end.Netns, release, err = NewNetns(); err != nil {
			return a, b, remove, err
		}
		releases = append(releases, release)
	}
	peer, err := os.Open(b.Netns)
	if err != nil {
		return a, b, remove, err
	}
	defer peer.Close()
	err = a.Do(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU = name, max(1500, frame)
		return netlink.LinkAdd(&netlink.Veth{
			LinkAttrs: attrs, PeerName: name, PeerNamespace: netlink.NsFd(peer.Fd()), PeerMTU: uint32(attrs.MTU),
		})
	})
	if err != nil {
		return a, b, remove, fmt.Errorf("make a veth pair: %w", err)
	}
	for _, e := range []Endpoint{a, b} {
		err = e.Do(func() error {
			l, err := netlink.LinkByName(e.Iface)
			if err != nil {
				return err
			}
			return netlink.LinkSetUp(l)
		})
		if err != nil {
			return a, b, remove, fmt.Errorf("set up a veth pair: %w", err)
		}
	}
	return a, b, remove, nil
}

// NewNetns makes an unnamed network namespace. It ends on release or with this process, and so do the virtual devices
// in it. name is valid for Endpoint.Netns, in this process only.
func NewNetns() (name string, release func() error, err error) {
	fd := -1
	err = thread.Do(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make a network namespace: %w", err)
		}
		fd, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d", fd), sync.OnceValue(func() error { return unix.Close(fd) }), nil
}

// BareLoop sends the same frame at the full speed of the kernel's live frames, from one CPU, until ctx is done. Its
// program only redirects and writes nothing, so the difference is the cost of the generator's own work. Nothing is
// counted. The MAC addresses default to zero.
func BareLoop(ctx context.Context, out Endpoint, cpu int, f Frame) (err error) {
	dev, err := out.Device()
	if err != nil {
		return err
	}
	f = f.withDefaults()
	for _, mac := range []*[]byte{(*[]byte)(&f.SrcMAC), (*[]byte)(&f.DstMAC)} {
		if len(*mac) == 0 {
			*mac = make([]byte, 6)
		}
	}
	devmap, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.DevMap, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		return fmt.Errorf("bare loop: %w", err)
	}
	defer devmap.Close()
	// The kernel looks the index up in the namespace of the writing thread (dev_map_update_elem in
	// kernel/bpf/devmap.c).
	if err := dev.Do(func() error { return devmap.Put(uint32(0), uint32(dev.Index)) }); err != nil {
		return fmt.Errorf("bare loop: %w", err)
	}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{
			asm.LoadMapPtr(asm.R1, devmap.FD()),
			asm.Mov.Imm(asm.R2, 0),
			asm.Mov.Imm(asm.R3, 0),
			asm.FnRedirectMap.Call(),
			asm.Return(),
		}})
	if err != nil {
		return fmt.Errorf("bare loop: %w", err)
	}
	defer prog.Close()
	var tid atomic.Int64
	done := onWorkerThread(out.Netns, cpu, func(t int) error {
		tid.Store(int64(t))
		defer tid.Store(0)
		for ctx.Err() == nil {
			err := testRunLive(prog, f.template(0), longRun, maxBatch)
			if err != nil && !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
				return fmt.Errorf("bare loop: %w", err)
			}
		}
		return nil
	})
	for {
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
		}
		// Repeat the signal: a call may begin between the check of ctx and the signal.
		if t := tid.Load(); t != 0 {
			_ = unix.Tgkill(os.Getpid(), int(t), endRun) // already gone is fine
		}
		select {
		case err := <-done:
			return err
		case <-time.After(5 * time.Millisecond):
		}
	}
}
