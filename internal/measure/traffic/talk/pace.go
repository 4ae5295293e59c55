package talk

import (
	"time"

	"golang.org/x/sys/unix"
)

// A Pace counts packets that a server has sent or is about to send, and returns how long it must wait before it sends
// more; 0 is not at all. It may be called with 0 packets, and from several goroutines.
type Pace func(packets uint64) time.Duration

// mayGo counts packets and waits until the server may send more. It returns false if the server is closed.
func (s *Server) mayGo(packets uint64) bool {
	if s.pace == nil {
		return true
	}
	for wait := s.pace(packets); wait > 0; wait = s.pace(0) {
		time.Sleep(min(wait, pollInterval))
		if s.isClosed() {
			return false
		}
	}
	return true
}

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// A sentCounter counts the segments that the kernel sends on a TCP connection, whatever their size:
// acknowledgements, small ones for a client with a small window, and retransmissions too.
type sentCounter struct {
	c    *conn
	seen uint32
}

// since returns how many were sent since the last call, and 0 where nothing is limited.
func (n *sentCounter) since(s *Server) uint64 {
	if s.pace == nil {
		return 0
	}
	i, err := unix.GetsockoptTCPInfo(n.c.fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0 // the connection is over
	}
	sent := i.Segs_out - n.seen // modulo 2³²
	n.seen = i.Segs_out
	return uint64(sent)
}

// portionSegments is how many segments are sent between two looks at a limit.
const portionSegments = 16

// portion returns how many bytes of a stream's buffer to send at once.
func (s *Server) portion(c *conn, most int) int {
	if s.pace == nil {
		return most
	}
	i, err := unix.GetsockoptTCPInfo(c.fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return most // the connection is over
	}
	return min(most, portionSegments*max(1, int(i.Snd_mss)))
}

const (
	// packetsOfConnection is how many packets the server of CRR sends for a connection beside the response: SYN and
	// ACK, the acknowledgement of the request, FIN, and the acknowledgement of the client's FIN.
	packetsOfConnection = 4
	// leastMTU is the size of a packet in bytes that counts as one: that of Ethernet.
	leastMTU = 1500
)

// segments and fragments return the number of packets for so many bytes, over TCP and UDP.
func segments(bytes int) uint64  { return uint64(1 + bytes/(leastMTU-60)) }
func fragments(bytes int) uint64 { return uint64(1 + bytes/(leastMTU-48)) }
