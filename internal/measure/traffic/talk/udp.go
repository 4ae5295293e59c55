package talk

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/measure/traffic"
)

// NumberBytes is the length of a datagram's number, with which it begins, least significant byte first; shorter
// datagrams have its first bytes. The answer begins with the same bytes.
const NumberBytes = 8

// glance is how often a thread that waits for a datagram looks whether it is over.
const glance = 100 * time.Millisecond

// dialUDP opens the sockets of a run over UDP: for each of its connections, one that the hello goes over and that keeps
// the service going, and one for the datagrams.
func (t Target) dialUDP(ctx context.Context, h hello) (data, control []*conn, err error) {
	defer func() {
		if err != nil {
			closeAll(data)
			closeAll(control)
			data, control = nil, nil
		}
	}()
	if control, err = t.dial(ctx, h); err != nil {
		return nil, nil, fmt.Errorf("the connection that a UDP test is arranged over: %w", err)
	}
	for _, c := range control {
		port, err := c.port()
		if err != nil {
			return data, control, fmt.Errorf("UDP test with %s: %w", t.Addr, err)
		}
		d, err := t.dialPort(ctx, port)
		if err != nil {
			return data, control, fmt.Errorf("UDP test with %s: %w", t.Addr, err)
		}
		data = append(data, d)
	}
	return data, control, nil
}

// dialPort connects a UDP socket with another port of the server.
func (t Target) dialPort(ctx context.Context, port uint16) (c *conn, err error) {
	host, _, err := net.SplitHostPort(t.Addr)
	if err != nil {
		return nil, err
	}
	err = traffic.Endpoint{Netns: t.Netns}.Do(func() error {
		d, err := (&net.Dialer{Timeout: helloWithin}).DialContext(ctx, "udp", net.JoinHostPort(host, fmt.Sprint(port)))
		if err != nil {
			return err
		}
		c, err = block(d.(*net.UDPConn))
		return err
	})
	if err != nil {
		return nil, err
	}
	c.makeRoom()
	return c, nil
}

// udpBuffer is the room for datagrams that wait, in bytes of the kernel's account, which takes some 800 for a short
// one: an end that loses its CPU for a tenth of a second at 50k requests a second is not to look like a path that loses
// them.
const udpBuffer = 4 << 20

// makeRoom gives a socket that room, as far as the system allows: past its limit for root (SO_RCVBUFFORCE), up to it
// else.
func (c *conn) makeRoom() {
	if unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, udpBuffer) != nil {
		_ = unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, udpBuffer) // caps it instead of failing
	}
}

// port reads the port that the server answered the hello with.
func (c *conn) port() (uint16, error) {
	if err := c.giveUpAfter(helloWithin); err != nil {
		return 0, err
	}
	b := make([]byte, 2)
	if err := c.readFull(b); err != nil {
		return 0, fmt.Errorf("wait for the far end's port: %w", err)
	}
	return binary.BigEndian.Uint16(b), nil
}

// giveUpAfter bounds every later read, which then ends with EAGAIN (SO_RCVTIMEO of socket(7)).
func (c *conn) giveUpAfter(d time.Duration) error {
	t := unix.NsecToTimeval(int64(d))
	return unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &t)
}

func closeAll(conns []*conn) {
	for _, c := range conns {
		c.close()
	}
}

// number puts a datagram's number into its first bytes.
func number(b []byte, n uint64) {
	var all [NumberBytes]byte
	binary.LittleEndian.PutUint64(all[:], n)
	copy(b, all[:])
}

// transactUDP makes one transaction after the other; one that is not answered in time is lost.
func (r *run) transactUDP(c *conn, request, response []byte, limit uint64, timeout time.Duration, n *tally,
	live *atomic.Uint64) error {
	if err := c.giveUpAfter(min(glance, timeout)); err != nil {
		return err
	}
	mark := request[:min(NumberBytes, len(request), len(response))]
	start := time.Now()
	var turn turn
	for r.going() && (limit == 0 || n.sent < limit) {
		number(mark, n.sent)
		begin := time.Since(start)
		if turn.due(begin) {
			runtime.Gosched()
			begin = time.Since(start)
		}
		if err := c.write(request); err != nil {
			return fmt.Errorf("request: %w", err)
		}
		n.sent++
		for {
			got, err := c.read(response)
			end := time.Since(start)
			switch {
			case err == unix.EAGAIN:
			case err == io.EOF && r.aborted.Load(): // nobody knows what became of it
				n.sent--
				return nil
			case err != nil && err != io.EOF:
				return fmt.Errorf("response: %w", err)
			case got == len(response) && bytes.Equal(response[:len(mark)], mark):
				n.delays.Record(end - begin)
				n.done++
				live.Add(1)
			default:
				n.late++
				got = 0
			}
			if got == len(response) {
				break
			}
			if end-begin >= timeout {
				n.lost++
				break
			}
		}
	}
	return nil
}

// answerUDP answers datagrams of one client on a port of their own until its connection ends.
func (s *Server) answerUDP(control *conn, h hello, near, far net.Addr) {
	data, port, err := s.listenUDP(near)
	if err != nil {
		return // the client is told by the end of its connection
	}
	defer data.close()
	if control.write(binary.BigEndian.AppendUint16(nil, port)) != nil {
		return
	}
	var over atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = control.read(make([]byte, 1)) // nothing comes but the end
		over.Store(true)
		data.abort()
	}()
	s.answerDatagrams(data, h, far, &over)
	control.abort()
	<-ended
}

// listenUDP makes a socket at the address that the client came to.
func (s *Server) listenUDP(near net.Addr) (c *conn, port uint16, err error) {
	at := *near.(*net.TCPAddr)
	err = traffic.Endpoint{Netns: s.netns}.Do(func() error {
		l, err := net.ListenUDP("udp", &net.UDPAddr{IP: at.IP, Zone: at.Zone})
		if err != nil {
			return err
		}
		port = uint16(l.LocalAddr().(*net.UDPAddr).Port)
		c, err = block(l)
		return err
	})
	if err == nil {
		c.makeRoom()
		if err = c.giveUpAfter(glance); err != nil {
			c.close()
		}
	}
	return c, port, err
}

// answerDatagrams answers the first sender with the client's address, and only that: the socket is connected with it,
// so that nobody else is answered and the kernel finds the way only once.
func (s *Server) answerDatagrams(data *conn, h hello, far net.Addr, over *atomic.Bool) {
	buf, response := make([]byte, MaxDatagram), make([]byte, h.response)
	mark := min(NumberBytes, len(response), int(h.request))
	connected := false
	start := time.Now()
	var turn turn
	for !over.Load() {
		var n int
		var err error
		if connected {
			n, err = data.read(buf)
		} else {
			var from unix.Sockaddr
			n, from, err = unix.Recvfrom(data.fd, buf, 0)
			if err == nil && from != nil && addressOf(from).Equal(far.(*net.TCPAddr).IP) {
				err = unix.Connect(data.fd, from)
				connected = err == nil
			} else if err == nil {
				continue
			}
		}
		switch {
		case err == unix.EAGAIN, err == unix.EINTR, err == unix.ECONNREFUSED, err == io.EOF:
			continue // nothing yet; the client is gone, which its connection tells too; woken by abort
		case err != nil:
			return
		case n != int(h.request):
			continue
		}
		s.served.Add(1)
		copy(response, buf[:mark])
		if err := data.write(response); err != nil && err != unix.ECONNREFUSED {
			return
		}
		if turn.due(time.Since(start)) {
			runtime.Gosched()
		}
	}
}

func addressOf(a unix.Sockaddr) net.IP {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return a.Addr[:]
	case *unix.SockaddrInet6:
		return a.Addr[:]
	}
	return nil
}
