package traffic

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"time"
)

// Method is a way of sending or receiving frames.
type Method string

const (
	Auto     Method = ""          // the fastest that works
	XDP      Method = "xdp"       // live frames; as a sink, in the driver (native)
	XDPSkb   Method = "xdp-skb"   // sink in generic mode, after the driver
	AFPacket Method = "af_packet" // packet sockets
	Pktgen   Method = "pktgen"    // the kernel's packet generator, if its module is loaded; not a sink

	maxStream = 1<<16 - 1
	maxBatch  = 64
)

// Config describes what a Generator sends.
type Config struct {
	Out      Endpoint      `json:"out"`
	Frame    Frame         `json:"frame"`
	Stream   uint16        `json:"stream"`             // worker i sends stream Stream+i, with sequence numbers from 0
	Rate     float64       `json:"rate,omitempty"`     // frames per second over all workers; 0: as fast as possible
	Count    uint64        `json:"count,omitempty"`    // frames over all workers; 0: no limit
	Duration time.Duration `json:"duration,omitempty"` // 0: no limit
	CPUs     []int         `json:"cpus,omitempty"`     // one worker on each; empty: one worker on the first allowed CPU
	Stamp    bool          `json:"stamp,omitempty"`    // timestamps; cost a clock read (20–30 ns) per frame
	Method   Method        `json:"method,omitempty"`

	// Batch is the number of frames that the kernel collects before it passes them to the device, 1–64; 0: 64, or 16 if
	// Rate is set. One-way delays are at least Result.BatchDelay because of it. The kernel accepts up to 256, but
	// beyond 64, the page pool's refill (net/core/page_pool.c), pages are no longer recycled: measured 14 Mpps with 64,
	// 0.5 with 128.
	Batch int `json:"batch,omitempty"`
	// Burst is the number of frames sent back to back when one is due; 0: one for each million frames per second and
	// worker.
	Burst int `json:"burst,omitempty"`
	// Clone is how often pktgen repeats a frame before it makes the next one; 0: not at all. Clones, and bursts of more
	// than one frame (pktgen bursts only if Burst is set), have no sequence numbers of their own: see
	// SinkConfig.Unnumbered.
	Clone int `json:"clone_skb,omitempty"`
	// CatchUp is how far a worker may fall behind its schedule and still catch up by sending faster; anything more is
	// dropped (Result.Slipped). 0: 250 µs.
	CatchUp time.Duration `json:"catch_up,omitempty"`

	// Discard makes the frames and drops them instead of sending: the generator alone. Only the namespace of Out is
	// then used.
	Discard bool `json:"discard,omitempty"`
}

// WorkerResult is the part of one worker in a Result.
type WorkerResult struct {
	CPU     int           `json:"cpu"`
	Stream  uint16        `json:"stream"`
	Sent    uint64        `json:"sent"`
	Elapsed time.Duration `json:"elapsed"` // first to last frame
}

// Result is what a generator did. Sent counts frames handed to the device, which may still drop them silently (a veth
// whose peer has no NAPI): only the receiver's count is proof.
type Result struct {
	Method Method `json:"method"`
	Sent   uint64 `json:"sent"`
	// Refused counts the frames of Sent that the device did not take because its ring was full: not lost on the path,
	// but never sent. AF_PACKET retries instead. 0 with a warning if the kernel does not report it.
	Refused uint64         `json:"refused,omitempty"`
	Bytes   uint64         `json:"bytes"` // with FCS
	Elapsed time.Duration  `json:"elapsed"`
	Workers []WorkerResult `json:"workers"`
	// Slipped is the dropped part of the schedule, over all workers: Rate × Slipped frames are missing.
	Slipped time.Duration `json:"slipped,omitempty"`
	// BatchDelay is the longest that a frame waits for its batch, estimated from this run: measured delays are not
	// shorter.
	BatchDelay time.Duration `json:"batch_delay,omitempty"`
	// Cancelled is set if the context ended the run before its limits.
	Cancelled bool     `json:"cancelled,omitempty"`
	Warnings  []string `json:"warnings,omitempty"`
}

// PPS returns the mean rate over Elapsed.
func (r Result) PPS() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Sent) / r.Elapsed.Seconds()
}

// A Generator sends test frames. Run may be called again after it has returned; sequence numbers then restart from 0.
type Generator interface {
	Method() Method
	// Run sends until a limit is reached or ctx is done, which is not an error. It stops within 100 ms of ctx.
	Run(ctx context.Context) (Result, error)
	// Sent returns the number of frames that the current run has sent. It may be called at any time, from any
	// goroutine.
	Sent() uint64
	// Streams returns the number of streams sent, starting at Config.Stream.
	Streams() int
	Close() error
}

// ErrConfig is wrapped by errors about a Config or SinkConfig.
var ErrConfig = errors.New("bad traffic configuration")

// errSourceMACs says why XDP is not taken.
var errSourceMACs = errors.New("XDP sends from one MAC address")

// NewGenerator makes a generator of c.Method. Auto selects XDP live frames if kernel and device support them, otherwise
// AF_PACKET; every Result then carries the reason as a warning. ctx ends the making, not the generator: an eBPF program
// is loaded for each worker.
func NewGenerator(ctx context.Context, c Config) (Generator, error) {
	dev, err := c.prepare()
	if err != nil {
		return nil, err
	}
	switch c.Method {
	case XDP:
		if c.Frame.SrcMACs > 1 {
			return nil, fmt.Errorf("%w: %w", ErrConfig, errSourceMACs)
		}
		return newXDPGenerator(ctx, c, dev)
	case AFPacket:
		return newPacketGenerator(c, dev, "")
	case Pktgen:
		return newPktgenGenerator(c, dev)
	case Auto:
		if c.Frame.SrcMACs > 1 {
			return newPacketGenerator(c, dev, errSourceMACs.Error())
		}
		g, err := newXDPGenerator(ctx, c, dev)
		if err == nil {
			return g, nil
		}
		var why *UnsupportedError
		if !errors.As(err, &why) {
			return nil, err
		}
		return newPacketGenerator(c, dev, why.Error())
	}
	return nil, fmt.Errorf("%w: generator method %q, want %q, %q or %q", ErrConfig, c.Method, XDP, AFPacket, Pktgen)
}

// prepare fills in defaults and validates.
func (c *Config) prepare() (Device, error) {
	dev, err := c.Out.Device()
	if err != nil {
		return dev, err
	}
	c.Frame = c.Frame.withDefaults()
	if len(c.Frame.SrcMAC) == 0 {
		c.Frame.SrcMAC = dev.MAC
	}
	if len(c.Frame.SrcMAC) == 0 { // tunnels have no address
		c.Frame.SrcMAC = make([]byte, 6)
	}
	if len(c.Frame.DstMAC) == 0 {
		if c.Frame.DstMAC, err = c.defaultDst(dev); err != nil {
			return dev, err
		}
	}
	if len(c.CPUs) == 0 {
		cpu, err := firstCPU()
		if err != nil {
			return dev, err
		}
		c.CPUs = []int{cpu}
	}
	workers := len(c.CPUs)
	switch {
	case !dev.Up && !c.Discard:
		return dev, fmt.Errorf("%w: interface %s is down", ErrConfig, c.Out)
	case c.Rate < 0 || math.IsNaN(c.Rate) || math.IsInf(c.Rate, 0):
		return dev, fmt.Errorf("%w: rate %g frames/s", ErrConfig, c.Rate)
	case len(slices.Compact(slices.Sorted(slices.Values(c.CPUs)))) < workers:
		return dev, fmt.Errorf("%w: CPUs %v, want each once", ErrConfig, c.CPUs)
	case c.Duration < 0 || c.CatchUp < 0:
		return dev, fmt.Errorf("%w: negative time", ErrConfig)
	case c.Batch < 0 || c.Batch > maxBatch:
		return dev, fmt.Errorf("%w: batch %d, want 1 to %d", ErrConfig, c.Batch, maxBatch)
	case c.Burst < 0 || c.Burst > 4096:
		return dev, fmt.Errorf("%w: burst %d, want 1 to 4096", ErrConfig, c.Burst)
	case int(c.Stream)+workers-1 > maxStream:
		return dev, fmt.Errorf("%w: %d workers from stream %d on pass stream %d", ErrConfig, workers, c.Stream,
			maxStream)
	}
	if c.Batch == 0 {
		c.Batch = maxBatch
		if c.Rate > 0 {
			c.Batch = 16
		}
	}
	if c.Clone != 0 && c.Method != Pktgen {
		return dev, fmt.Errorf("%w: clone_skb belongs to pktgen", ErrConfig)
	}
	if c.Burst == 0 && c.Method == Pktgen {
		c.Burst = 1
	}
	if c.Burst == 0 {
		c.Burst = max(1, min(64, int(c.Rate/float64(workers)/1e6)))
	}
	if c.CatchUp == 0 {
		c.CatchUp = 250 * time.Microsecond
	}
	return dev, c.Frame.check(dev.MTU)
}

// defaultDst returns the MAC address of the far end of a veth pair. For other links only the caller knows the
// destination, and flooding broadcasts is no sensible default.
func (c *Config) defaultDst(dev Device) (net.HardwareAddr, error) {
	if c.Discard {
		return make(net.HardwareAddr, 6), nil
	}
	if dev.PeerIndex != 0 {
		peer, err := dev.Peer()
		if err == nil {
			return peer.MAC, nil
		}
		return nil, fmt.Errorf("%w: destination MAC address is not set, and %w", ErrConfig, err)
	}
	return nil, fmt.Errorf("%w: destination MAC address is not set", ErrConfig)
}

// share returns worker i's part of Count.
func (c *Config) share(i int) uint64 {
	n := uint64(len(c.CPUs))
	s := c.Count / n
	if uint64(i) < c.Count%n {
		s++
	}
	return s
}
