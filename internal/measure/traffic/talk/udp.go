package talk

import (
	"bytes"
	"context"
	"crypto/hmac"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/measure/traffic"
)

// NumberBytes is the size of the number at the start of a datagram, least significant byte first; shorter datagrams
// carry its first bytes. The answer starts with the same bytes.
const NumberBytes = 8

// pollInterval is how often a thread that waits for a datagram checks whether the run is over.
const pollInterval = 100 * time.Millisecond

// dialUDP opens the sockets of a run over UDP. Each of its connections has a control connection, which carries the
// hello and keeps the service alive, and a socket for datagrams.
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
		if err := d.introduceDatagrams(c); err != nil {
			return data, control, fmt.Errorf("UDP test with %s: %w", t.Addr, err)
		}
	}
	return data, control, nil
}

// A first datagram is a number, which differs in each that a client sends, and the token.
const firstBytes = 1 + TokenBytes

func (c *conn) isFirst(b []byte) bool { return len(b) == firstBytes && hmac.Equal(b[1:], c.token) }

// introduceDatagrams sends the token of the control connection from the socket that requests will come from, until the
// server says there that it has arrived. Datagrams can be lost.
func (c *conn) introduceDatagrams(control *conn) error {
	if err := control.setReadTimeout(pollInterval); err != nil {
		return err
	}
	var arrived [1]byte
	first := append([]byte{0}, control.token...)
	for begin := time.Now(); time.Since(begin) < helloWithin; first[0]++ {
		if err := c.write(first); err != nil && err != unix.ECONNREFUSED {
			return fmt.Errorf("the first datagram: %w", err)
		}
		switch err := control.readFull(arrived[:]); err {
		case nil:
			return nil
		case unix.EAGAIN:
		default:
			return fmt.Errorf("wait for the far end to see a datagram: %w", err)
		}
	}
	return fmt.Errorf("the far end has seen no datagram for %v: is UDP filtered on the way?", helloWithin)
}

// dialPort connects a UDP socket to another port of the server.
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
	c.enlargeBuffer()
	return c, nil
}

// udpBuffer is the receive buffer for datagrams in bytes as the kernel accounts them, some 800 for a short one: an end
// that loses its CPU for a tenth of a second at 50k requests a second must not look like a lossy path.
const udpBuffer = 4 << 20

// enlargeBuffer sets the receive buffer: beyond the system's limit if permitted (SO_RCVBUFFORCE), otherwise up to it.
func (c *conn) enlargeBuffer() {
	if unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, udpBuffer) != nil {
		_ = unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, udpBuffer) // clamps instead of failing
	}
}

// port reads the port that the server sent in answer to the hello.
func (c *conn) port() (uint16, error) {
	if err := c.setReadTimeout(helloWithin); err != nil {
		return 0, err
	}
	b := make([]byte, 2)
	if err := c.readFull(b); err != nil {
		return 0, fmt.Errorf("wait for the far end's port: %w", err)
	}
	return binary.BigEndian.Uint16(b), nil
}

// setReadTimeout limits every later read, which then ends with EAGAIN (SO_RCVTIMEO of socket(7)).
func (c *conn) setReadTimeout(d time.Duration) error {
	t := unix.NsecToTimeval(int64(d))
	return unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &t)
}

func closeAll(conns []*conn) {
	for _, c := range conns {
		c.close()
	}
}

// putNumber writes a datagram's number into its first bytes.
func putNumber(b []byte, n uint64) {
	var all [NumberBytes]byte
	binary.LittleEndian.PutUint64(all[:], n)
	copy(b, all[:])
}

// transactUDP makes one transaction after the other. One that is not answered in time is lost.
func (r *run) transactUDP(c *conn, request, response []byte, limit uint64, timeout time.Duration, n *tally,
	live *atomic.Uint64) error {
	if err := c.setReadTimeout(min(pollInterval, timeout)); err != nil {
		return err
	}
	mark := request[:min(NumberBytes, len(request), len(response))]
	start := time.Now()
	var turn turn
	for r.going() && (limit == 0 || n.sent < limit) {
		putNumber(mark, n.sent)
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
			case err == io.EOF && r.aborted.Load(): // outcome unknown
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

// answerUDP answers the datagrams of one client on their own port, until the client's connection ends.
func (s *Server) answerUDP(control *conn, h hello, near, far net.Addr) {
	data, port, err := s.listenUDP(near)
	if err != nil {
		return // the client notices the end of its connection
	}
	defer data.close()
	if control.write(binary.BigEndian.AppendUint16(nil, port)) != nil {
		return
	}
	over, finish := watchClient(control, data.abort)
	defer finish()
	data.token = control.token
	if data.awaitToken(over, far.(*net.TCPAddr).IP) == nil && control.write([]byte{1}) == nil {
		s.answerDatagrams(data, h, over)
	}
}

// awaitToken connects the socket to the sender of the first datagram with the token. The kernel then takes datagrams
// from nobody else, and looks up the route only once. What has come from others is dropped: the client sends no request
// before it knows that its token has arrived. The address must be that of the control connection: a datagram can carry
// anyone's, and all answers would go there.
func (c *conn) awaitToken(over *atomic.Bool, client net.IP) error {
	b := make([]byte, firstBytes+1)
	for !over.Load() {
		n, from, err := unix.Recvfrom(c.fd, b, 0)
		switch {
		case err == unix.EAGAIN, err == unix.EINTR, err == unix.ECONNREFUSED:
			continue
		case err != nil:
			return err
		case !addressOf(from).Equal(client), !c.isFirst(b[:n]):
			continue
		}
		if err := unix.Connect(c.fd, from); err != nil {
			return err
		}
		for errno := syscall.Errno(0); errno == 0; {
			_, errno = c.receiveNow(b)
		}
		return nil
	}
	return net.ErrClosed
}

// listenUDP opens a socket at the address that the client connected to.
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
		c.enlargeBuffer()
		if err = c.setReadTimeout(pollInterval); err != nil {
			c.close()
		}
	}
	return c, port, err
}

// answerDatagrams answers the datagrams of a connected socket that have the size of a request.
func (s *Server) answerDatagrams(data *conn, h hello, over *atomic.Bool) {
	buf, response := make([]byte, MaxDatagram), make([]byte, h.response)
	mark := min(NumberBytes, len(response), int(h.request))
	start := time.Now()
	var turn turn
	for !over.Load() {
		n, err := data.read(buf)
		switch {
		case err == unix.EAGAIN, err == unix.EINTR, err == unix.ECONNREFUSED, err == io.EOF:
			continue // nothing yet; the client is gone, as its connection will show; or woken by abort
		case err != nil:
			return
		case n != int(h.request), data.isFirst(buf[:n]): // a client repeats it until it is answered
			continue
		}
		s.served.Add(1)
		copy(response, buf[:mark])
		if !s.mayGo(fragments(len(response))) {
			return
		}
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
