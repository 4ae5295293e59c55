package traffic

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// ErrMemory means that the peers of this process hold as much memory as they may.
var ErrMemory = errors.New("no memory is left for peers")

// peersHold is how many bytes are held by what peers have asked for.
var peersHold atomic.Uint64

// HoldMemory takes bytes of memory for what a peer has asked for, and release gives them back. All peers of this
// process have a quarter of the machine's memory together.
func HoldMemory(bytes uint64) (release func(), err error) {
	var s unix.Sysinfo_t
	if err := unix.Sysinfo(&s); err != nil {
		return nil, fmt.Errorf("sysinfo: %w", err)
	}
	most := uint64(s.Totalram) * uint64(s.Unit) / 4
	if bytes > most {
		return nil, fmt.Errorf("%w: %d MiB of %d", ErrMemory, bytes>>20, most>>20)
	}
	if held := peersHold.Add(bytes); held > most {
		peersHold.Add(-bytes)
		return nil, fmt.Errorf("%w: %d MiB, and they hold %d of %d", ErrMemory, bytes>>20, (held-bytes)>>20, most>>20)
	}
	return sync.OnceFunc(func() { peersHold.Add(-bytes) }), nil
}

// Memory returns how many bytes a sink takes at most, whichever method it gets: a table for each stream, on each CPU
// that there can be with XDP (BPF_MAP_TYPE_PERCPU_ARRAY), and the ring of a packet socket.
func (c SinkConfig) Memory() uint64 {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		cpus = 1 // without /sys there is no XDP sink
	}
	stream := unsafe.Sizeof(sinkWindow{}) + unsafe.Sizeof(sinkStream{})
	perCPU := uint64(min(max(1, c.Streams), maxStreams)) * uint64(stream)
	if c.Latency {
		perCPU += histogramBuckets * 8
	}
	return ringBlock*ringBlocks + uint64(cpus)*perCPU
}
