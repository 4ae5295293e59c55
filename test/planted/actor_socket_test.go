package planted

import (
	"fmt"
	"net"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// socketPart reads UDP packets, each at some cost.
type socketPart struct {
	Port   int           `json:"port"`
	Read   time.Duration `json:"read"`  // CPU time for each
	Pause  time.Duration `json:"pause"` // slept after each
	Buffer int           `json:"buffer"`
}

type socket struct{ received atomic.Uint64 }

func (s *socket) counts() counts { return counts{Received: s.received.Load()} }

func (p *socketPart) start(cpus []int) (acting, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	if p.Buffer > 0 {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, p.Buffer); err != nil {
			return nil, fmt.Errorf("receive buffer of %d bytes: %w", p.Buffer, err)
		}
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: p.Port}); err != nil {
		return nil, fmt.Errorf("port %d: %w", p.Port, err)
	}
	s := &socket{}
	thread("reader", cpus, func() error {
		b := make([]byte, 2048)
		for {
			_, err := raw(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
			if err == unix.EINTR {
				continue
			}
			if err != 0 {
				return fmt.Errorf("read: %w", err)
			}
			s.received.Add(1)
			burn(p.Read)
			if p.Pause > 0 {
				nap(p.Pause)
			}
		}
	})
	return s, nil
}

// capturePart takes a copy of every packet of a device by so many packet sockets.
type capturePart struct {
	Device  string `json:"device"`
	Sockets int    `json:"sockets"`
}

func (p *capturePart) start(cpus []int) (acting, error) {
	link, err := net.InterfaceByName(p.Device)
	if err != nil {
		return nil, err
	}
	all := unix.ETH_P_ALL>>8 | unix.ETH_P_ALL<<8&0xff00 // in network order
	s := &socket{}
	for range p.Sockets {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all)
		if err != nil {
			return nil, fmt.Errorf("packet socket: %w", err)
		}
		if err := unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: link.Index, Protocol: uint16(all)}); err != nil {
			return nil, fmt.Errorf("packet socket on %s: %w", p.Device, err)
		}
		thread("tcpdump", cpus, func() error {
			b := make([]byte, 2048)
			for {
				if _, err := raw(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&b[0])),
					uintptr(len(b))); err != 0 && err != unix.EINTR {
					return fmt.Errorf("read: %w", err)
				}
			}
		})
	}
	return s, nil
}
