package planted

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// guestPart is a process with the threads of a QEMU: for each queue of its tap one that is called vhost-PID, and vCPUs.
// Packets go from a tap's queue by its vhost thread through a ring of 256 to a vCPU, or the other way. A ring that is
// full stops who fills it, as a vring does.
type guestPart struct {
	Tap      string        `json:"tap"`
	Queues   int           `json:"queues"`
	VCPUs    int           `json:"vcpus"`
	Vhost    time.Duration `json:"vhost"` // CPU time for each packet
	VCPU     time.Duration `json:"vcpu"`
	VhostOn  []int         `json:"vhost_on"`
	VCPUOn   []int         `json:"vcpu_on"`
	Emulated bool          `json:"emulated"` // no vhost: the threads that read and write have QEMU's own name
	Node     *int          `json:"node"`     // NUMA node of its memory; nil: any
	SendPPS  int           `json:"send_pps"` // 0: it receives
	SendFlow flow          `json:"send_flow"`
	Tick     time.Duration `json:"tick"` // between bursts
}

const emulator = "qemu-system-x86" // 15 bytes of qemu-system-x86_64

type guest struct {
	sent, received, refused atomic.Uint64

	onMain func() error // QEMU's main loop, where it carries packets itself; nil: it has nothing to do
}

func (g *guest) main() error {
	if g.onMain != nil {
		return g.onMain()
	}
	select {}
}

func (g *guest) counts() counts {
	return counts{Sent: g.sent.Load(), Received: g.received.Load(), Refused: g.refused.Load()}
}

func (p *guestPart) start() (acting, error) {
	g := &guest{}
	if p.Node != nil {
		if err := remember(*p.Node); err != nil {
			return nil, err
		}
	}
	var rings []*ring
	for range min(p.Queues, p.VCPUs) {
		rings = append(rings, &ring{})
	}
	vhost := fmt.Sprintf("vhost-%d", os.Getpid())
	for queue := range p.Queues {
		fd, err := openTap(p.Tap, p.Queues > 1)
		if err != nil {
			return nil, err
		}
		ring := rings[queue%len(rings)]
		work := func() error { return g.toGuest(fd, ring, p.Vhost) }
		if p.SendPPS > 0 {
			work = func() error { return g.toTap(fd, ring, p.Vhost) }
		}
		if p.Emulated && queue == 0 {
			g.onMain = func() error {
				if err := pin(p.VhostOn); err != nil {
					return err
				}
				return work()
			}
			continue
		}
		thread(vhost, p.VhostOn, work)
	}
	frames := [][]byte{nil}
	if p.SendPPS > 0 {
		frames = p.SendFlow.frames()
	}
	for n := range p.VCPUs {
		work := func() error { return g.consume(rings[n], p.VCPU) }
		switch {
		case p.SendPPS > 0:
			work = func() error { return g.produce(rings[n%len(rings)], frames, n, p) }
		case n >= len(rings):
			work = func() error { return g.consume(&ring{}, 0) } // a vCPU without a queue halts
		}
		thread(fmt.Sprintf("CPU %d/KVM", n), p.VCPUOn, work)
	}
	return g, nil
}

// guestMemory is what a guest whose memory has a node has of it: much more than this program itself.
const guestMemory = 128 << 20

// remember takes memory on a NUMA node, for good (mbind(2), MPOL_BIND).
func remember(node int) error {
	const bind = 2
	memory, err := unix.Mmap(-1, 0, guestMemory, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return fmt.Errorf("memory of the guest: %w", err)
	}
	nodes := uint64(1) << node
	if _, _, err := unix.Syscall6(unix.SYS_MBIND, uintptr(unsafe.Pointer(&memory[0])), guestMemory, bind,
		uintptr(unsafe.Pointer(&nodes)), 64, 0); err != 0 {
		return fmt.Errorf("memory of the guest on node %d: %w", node, err)
	}
	for at := 0; at < len(memory); at += os.Getpagesize() {
		memory[at] = 1
	}
	return nil
}

// openTap opens one queue of a tap, which the first one makes.
func openTap(name string, many bool) (int, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	request, err := unix.NewIfreq(name)
	if err != nil {
		return 0, err
	}
	flags := uint16(unix.IFF_TAP | unix.IFF_NO_PI)
	if many {
		flags |= unix.IFF_MULTI_QUEUE
	}
	request.SetUint16(flags)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return 0, fmt.Errorf("tap %s: %w", name, err)
	}
	return fd, nil
}

func (g *guest) toGuest(fd int, to *ring, cost time.Duration) error {
	b := make([]byte, 2048)
	for {
		_, err := raw(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
		switch err {
		case 0:
		case unix.EINTR:
			continue
		case unix.EBADFD, unix.EIO: // the tap is not up yet, or down
			nap(10 * time.Millisecond)
			continue
		default:
			return fmt.Errorf("read the tap: %w", err)
		}
		burn(cost)
		to.put(nil, true)
	}
}

func (g *guest) consume(from *ring, cost time.Duration) error {
	for {
		from.take()
		burn(cost)
		g.received.Add(1)
	}
}

func (g *guest) toTap(fd int, from *ring, cost time.Duration) error {
	for {
		frame := from.take()
		burn(cost)
		_, err := raw(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&frame[0])), uintptr(len(frame)))
		switch err {
		case 0:
			g.sent.Add(1)
		case unix.EIO, unix.ENOBUFS, unix.EAGAIN:
			g.refused.Add(1)
		default:
			return fmt.Errorf("write to the tap: %w", err)
		}
	}
}

// produce is a vCPU's share of what the guest sends. What its ring does not take is refused, as by a queue that stays
// stopped.
func (g *guest) produce(to *ring, frames [][]byte, n int, p *guestPart) error {
	next := n
	return paced(p.SendPPS/p.VCPUs, p.Tick, func(due int) error {
		for range due {
			burn(p.VCPU)
			if !to.put(frames[next%len(frames)], false) {
				g.refused.Add(1)
			}
			next += p.VCPUs
		}
		return nil
	})
}
