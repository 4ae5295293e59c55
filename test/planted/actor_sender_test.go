package planted

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// flow says what packets look like.
type flow struct {
	Src, Dst net.HardwareAddr
	To       net.IP
	Bytes    int // with FCS
	Flows    int
	Port     int
	Source   string // first two bytes of the source address, "198.18"
	TTL      int
	BadSum   string // ip or udp: that checksum is wrong; empty: neither
	Whole    bool   // no router may fragment it (DF)
	Targets  int    // destinations: To and those that follow it
}

// frames are all the packets of a flow set: they differ in source address, source port and, of several destinations,
// in that.
func (f flow) frames() [][]byte {
	all := make([][]byte, f.Flows)
	for i := range all {
		b := make([]byte, f.Bytes-4)
		copy(b, f.Dst)
		copy(b[6:], f.Src)
		b[12] = 8
		ip, size := b[14:], len(b)-14
		ip[0], ip[8], ip[9] = 0x45, byte(f.TTL), unix.IPPROTO_UDP
		binary.BigEndian.PutUint16(ip[2:], uint16(size))
		copy(ip[12:], net.ParseIP(f.Source + ".0.0").To4()[:2])
		ip[14], ip[15] = byte(1+i>>8&0x7f), byte(1+i&0x7f)
		binary.BigEndian.PutUint32(ip[16:], binary.BigEndian.Uint32(f.To.To4())+uint32(i%max(1, f.Targets)))
		if f.Whole {
			ip[6] = 0x40
		}
		var sum uint32
		for j := 0; j < 20; j += 2 {
			sum += uint32(binary.BigEndian.Uint16(ip[j:]))
		}
		sum = sum>>16 + sum&0xffff
		binary.BigEndian.PutUint16(ip[10:], ^uint16(sum+sum>>16))
		binary.BigEndian.PutUint16(ip[20:], uint16(1024+i))
		binary.BigEndian.PutUint16(ip[22:], uint16(f.Port))
		binary.BigEndian.PutUint16(ip[24:], uint16(size-20))
		switch f.BadSum {
		case "ip":
			ip[10]++
		case "udp": // 0, in all others, is no checksum at all
			ip[26], ip[27] = 0x12, byte(1+i)
		}
		all[i] = b
	}
	return all
}

// senderPart sends on a device by a packet socket, in a burst each tick.
type senderPart struct {
	Device string        `json:"device"`
	PPS    int           `json:"pps"`
	Flow   flow          `json:"flow"`
	Tick   time.Duration `json:"tick"`
}

type sender struct{ sent, refused atomic.Uint64 }

func (s *sender) counts() counts { return counts{Sent: s.sent.Load(), Refused: s.refused.Load()} }

func (p *senderPart) start(cpus []int) (acting, error) {
	link, err := net.InterfaceByName(p.Device)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0) // protocol 0: it receives nothing
	if err != nil {
		return nil, fmt.Errorf("packet socket: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: link.Index}); err != nil {
		return nil, fmt.Errorf("packet socket on %s: %w", p.Device, err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1); err != nil {
		return nil, fmt.Errorf("bypass the queue discipline: %w", err)
	}
	// Packets count against the buffer until the last queue on their way lets go of them: the path must not slow its
	// sender.
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 64<<20); err != nil {
		return nil, fmt.Errorf("send buffer: %w", err)
	}
	s := &sender{}
	thread("wire", cpus, func() error { return s.run(fd, p.Flow.frames(), p.PPS, p.Tick) })
	return s, nil
}

func (s *sender) run(fd int, frames [][]byte, pps int, tick time.Duration) error {
	const batch = 64
	iovs, msgs := make([]unix.Iovec, batch), make([]unix.Mmsghdr, batch)
	for i := range msgs {
		msgs[i].Hdr.Iov = &iovs[i]
		msgs[i].Hdr.SetIovlen(1)
	}
	next := 0
	return paced(pps, tick, func(due int) error {
		for due > 0 {
			n := min(due, batch)
			for i := range n {
				f := frames[(next+i)%len(frames)]
				iovs[i].Base = &f[0]
				iovs[i].SetLen(len(f))
			}
			done, _, errno := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&msgs[0])),
				uintptr(n), unix.MSG_DONTWAIT, 0, 0)
			switch {
			case errno == 0:
				s.sent.Add(uint64(done))
				due, next = due-int(done), next+int(done)
			case errors.Is(errno, unix.ENOBUFS), errors.Is(errno, unix.EAGAIN):
				s.refused.Add(1)
				due, next = due-1, next+1
			case errors.Is(errno, unix.EINTR):
			default:
				return fmt.Errorf("send: %w", errno)
			}
		}
		return nil
	})
}

// paced calls f every tick with how many packets are due. What is more than ten ticks late is left out.
func paced(pps int, tick time.Duration, f func(due int) error) error {
	begun, given := time.Now(), 0.0
	most := 10 * tick.Seconds() * float64(pps)
	for {
		nap(tick)
		due := time.Since(begun).Seconds()*float64(pps) - given
		if late := due - most; late > 0 {
			given, due = given+late, due-late
		}
		if due >= 1 {
			given += float64(int(due))
			if err := f(int(due)); err != nil {
				return err
			}
		}
	}
}

// hogPart computes for ever.
type hogPart struct {
	Threads  int  `json:"threads"`
	Nice     int  `json:"nice"`
	Realtime bool `json:"realtime"`
}

type hog struct{}

func (hog) counts() counts { return counts{} }

func (p *hogPart) start(cpus []int) (acting, error) {
	for range p.Threads {
		thread("hog", cpus, func() error {
			if err := unix.Setpriority(unix.PRIO_PROCESS, 0, p.Nice); err != nil {
				return fmt.Errorf("nice %d: %w", p.Nice, err)
			}
			if p.Realtime {
				fifo := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 10}
				if err := unix.SchedSetAttr(0, &fifo, 0); err != nil {
					return fmt.Errorf("SCHED_FIFO: %w", err)
				}
			}
			for {
				burn(time.Second)
			}
		})
	}
	return hog{}, nil
}
