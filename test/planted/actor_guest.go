package planted

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// guestPart is a process with the threads of a QEMU: for each queue of its tap one that is called vhost-PID, and vCPUs. Packets go
// from a tap's queue by its vhost thread through a ring of 256 to a vCPU, or the other way. A ring that is full stops who fills
// it, as a vring does.
type guestPart struct {
	Tap      string        `json:"tap"`
	Queues   int           `json:"queues"`
	VCPUs    int           `json:"vcpus"`
	Vhost    time.Duration `json:"vhost"` // CPU time for each packet
	VCPU     time.Duration `json:"vcpu"`
	VhostOn  []int         `json:"vhost_on"`
	VCPUOn   []int         `json:"vcpu_on"`
	Emulated bool          `json:"emulated"` // no vhost: the threads that read and write have QEMU's own name
	SendPPS  int           `json:"send_pps"` // 0: it receives
	SendFlow flow          `json:"send_flow"`
	Tick     time.Duration `json:"tick"` // between bursts
}

const (
	vring    = 256
	emulator = "qemu-system-x86" // 15 bytes of qemu-system-x86_64
)

type guest struct{ sent, received, refused atomic.Uint64 }

func (g *guest) counts() counts {
	return counts{Sent: g.sent.Load(), Received: g.received.Load(), Refused: g.refused.Load()}
}

func (p *guestPart) start() (acting, error) {
	g := &guest{}
	var rings []chan []byte
	for range min(p.Queues, p.VCPUs) {
		rings = append(rings, make(chan []byte, vring))
	}
	vhost := fmt.Sprintf("vhost-%d", os.Getpid())
	if p.Emulated {
		vhost = emulator
	}
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
			work = func() error { select {} } // a vCPU without a queue halts
		}
		thread(fmt.Sprintf("CPU %d/KVM", n), p.VCPUOn, work)
	}
	return g, nil
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

func (g *guest) toGuest(fd int, ring chan<- []byte, cost time.Duration) error {
	b := make([]byte, 2048)
	for {
		_, err := unix.Read(fd, b)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EBADFD), errors.Is(err, unix.EIO): // the tap is not up yet, or down
			time.Sleep(10 * time.Millisecond)
			continue
		case err != nil:
			return fmt.Errorf("read the tap: %w", err)
		}
		burn(cost)
		ring <- nil
	}
}

func (g *guest) consume(ring <-chan []byte, cost time.Duration) error {
	for range ring {
		burn(cost)
		g.received.Add(1)
	}
	return nil
}

func (g *guest) toTap(fd int, ring <-chan []byte, cost time.Duration) error {
	for frame := range ring {
		burn(cost)
		_, err := unix.Write(fd, frame)
		switch {
		case err == nil:
			g.sent.Add(1)
		case errors.Is(err, unix.EIO), errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.EAGAIN):
			g.refused.Add(1)
		default:
			return fmt.Errorf("write to the tap: %w", err)
		}
	}
	return nil
}

// produce is a vCPU's share of what the guest sends. What its ring does not take is refused, as by a queue that stays stopped.
func (g *guest) produce(ring chan<- []byte, frames [][]byte, n int, p *guestPart) error {
	next := n
	return paced(p.SendPPS/p.VCPUs, p.Tick, func(due int) error {
		for range due {
			burn(p.VCPU)
			select {
			case ring <- frames[next%len(frames)]:
			default:
				g.refused.Add(1)
			}
			next += p.VCPUs
		}
		return nil
	})
}
