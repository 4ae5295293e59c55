package agent

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/measure/traffic"
)

// A packetSocket sends and receives frames on one device (packet(7)).
type packetSocket struct {
	fd     int
	device traffic.Device
}

// receivePause is how long packetSocket.receive waits for a frame.
const receivePause = 100 * time.Millisecond

// openPacket opens a socket that receives frames of an EtherType; 0: none.
func openPacket(d traffic.Device, etherType uint16) (s *packetSocket, err error) {
	s = &packetSocket{device: d}
	err = d.Do(func() (err error) {
		s.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("packet socket on %s: %w", d.Endpoint, err)
	}
	pause := unix.NsecToTimeval(int64(receivePause))
	err = unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &pause)
	if err == nil {
		err = unix.Bind(s.fd, &unix.SockaddrLinklayer{Ifindex: d.Index, Protocol: etherType<<8 | etherType>>8})
	}
	if err != nil {
		s.close()
		return nil, fmt.Errorf("packet socket on %s: %w", d.Endpoint, err)
	}
	return s, nil
}

func (s *packetSocket) close() { unix.Close(s.fd) }

// send sends a frame. A full queue takes none, which is no error.
func (s *packetSocket) send(frame []byte) error {
	err := unix.Sendto(s.fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: s.device.Index})
	if err != nil && err != unix.ENOBUFS && err != unix.EAGAIN {
		return fmt.Errorf("send on %s: %w", s.device.Endpoint, err)
	}
	return nil
}

// receive waits for a frame for receivePause and returns its size, 0 for none.
func (s *packetSocket) receive(b []byte) (int, error) {
	n, _, err := unix.Recvfrom(s.fd, b, 0)
	switch err {
	case nil:
		return n, nil
	case unix.EAGAIN, unix.EINTR:
		return 0, nil
	}
	return 0, fmt.Errorf("receive on %s: %w", s.device.Endpoint, err)
}
