package talk

import (
	"context"
	"crypto/hmac"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/measure/traffic"
)

// ErrPorts means that the client has run out of local ports.
var ErrPorts = errors.New("no local port is left for another connection")

// CRR makes transactions with a new TCP connection each: connect, request, response, close, as netperf's TCP_CRR.
// c.Conns run in parallel. It is a closed loop; UDP and Rate are rejected.
//
// The first TokenBytes of a request are the connection's token, so shorter requests are that long.
//
// The server closes first, so that the TIME_WAIT state of a connection, which lasts a minute, is at the server and
// takes no local port from the client. The server's kernel reuses such a port as soon as the client's next SYN comes
// with a newer timestamp (RFC 6191; net/ipv4/tcp_minisocks.c, tcp_timewait_state_process). Connections are closed fully
// and not reset (SO_LINGER of 0), because the cost of closing is part of the measurement.
func CRR(ctx context.Context, c RRConfig) (RRResult, error) {
	if c.UDP || c.Rate != 0 {
		return RRResult{}, fmt.Errorf("%w: connections as transactions are made over TCP in a closed loop", ErrConfig)
	}
	if err := c.check(); err != nil {
		return RRResult{}, err
	}
	c.Request = max(c.Request, TokenBytes)
	control, err := c.dial(ctx, hello{service: serviceCRR, request: uint32(c.Request), response: uint32(c.Response)})
	if err != nil {
		return RRResult{}, err
	}
	defer closeAll(control)
	conns := make([]*conn, len(control)) // the current connections
	far := make([]unix.Sockaddr, len(control))
	for i, k := range control {
		conns[i] = &conn{fd: -1, slot: slot{fd: -1}, token: k.token}
		if far[i], err = k.serviceAddress(); err != nil {
			return RRResult{}, fmt.Errorf("connections with %s: %w", c.Addr, err)
		}
	}
	tallies := make([]tally, len(control))
	var live atomic.Uint64
	reserveProcs(2 * len(control))
	run := newRun(ctx, c.Duration, conns, grace)
	sampled := run.sample(&live, c.Interval)
	err = run.each(func(i int, k *conn) error {
		return traffic.Endpoint{Netns: c.Netns}.Do(func() error {
			return run.connect(ctx, k, far[i], c, &tallies[i], &live)
		})
	})
	r := RRResult{Elapsed: time.Since(run.start), Cancelled: ctx.Err() != nil, Intervals: <-sampled}
	r.sum(tallies)
	if err != nil {
		return r, fmt.Errorf("connections with %s: %w", c.Addr, err)
	}
	return r, nil
}

// serviceAddress returns the server's address with the port from its answer to the hello.
func (c *conn) serviceAddress() (unix.Sockaddr, error) {
	port, err := c.port()
	if err != nil {
		return nil, err
	}
	far, err := unix.Getpeername(c.fd)
	switch a := far.(type) {
	case *unix.SockaddrInet4:
		a.Port = int(port)
	case *unix.SockaddrInet6:
		a.Port = int(port)
	}
	return far, err
}

// A slot holds the current socket, so that another thread can abort that one and never a later one with the same
// number.
type slot struct {
	mu      sync.Mutex
	fd      int // −1 for none
	aborted bool
}

// use stores a socket, unless the slot was aborted.
func (s *slot) use(fd int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.aborted {
		return false
	}
	s.fd = fd
	return true
}

// close closes the socket.
func (s *slot) close(fd int) {
	s.mu.Lock()
	s.fd = -1
	s.mu.Unlock()
	unix.Close(fd)
}

// abort ends every call on the socket and rejects further sockets.
func (s *slot) abort() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.aborted = true
	if s.fd >= 0 {
		_ = unix.Shutdown(s.fd, unix.SHUT_RDWR)
	}
}

// connect makes one transaction after the other.
func (r *run) connect(ctx context.Context, now *conn, far unix.Sockaddr, c RRConfig, n *tally,
	live *atomic.Uint64) error {
	request, response := make([]byte, c.Request), make([]byte, c.Response)
	copy(request, now.token)
	err := r.closedLoop(c.Count, n, live, func() error { return now.transaction(far, request, response) })
	if err != nil && r.aborted.Load() && ctx.Err() != nil { // cancelled, and the last one's outcome is unknown
		return nil
	}
	return err
}

// oneSegment is the size of a request, in bytes, that fits one segment on any path: Nagle's algorithm cannot delay a
// part.
const oneSegment = 512

// transaction connects, sends, receives until the far end closes, and closes.
func (c *conn) transaction(far unix.Sockaddr, request, response []byte) error {
	family := unix.AF_INET
	if _, six := far.(*unix.SockaddrInet6); six {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	if !c.slot.use(fd) {
		unix.Close(fd)
		return net.ErrClosed
	}
	defer c.slot.close(fd)
	one := conn{fd: fd}
	if len(request) > oneSegment {
		if err := one.noDelay(); err != nil {
			return err
		}
	}
	switch err := unix.Connect(fd, far); err {
	case nil:
	case unix.EADDRNOTAVAIL:
		return ErrPorts
	default:
		return fmt.Errorf("connect: %w", err)
	}
	if err := one.write(request); err != nil {
		return fmt.Errorf("request: %w", err)
	}
	if err := one.readFull(response); err != nil {
		return fmt.Errorf("response: %w", err)
	}
	var more [1]byte
	if _, err := one.read(more[:]); err != io.EOF {
		if err == nil {
			err = errors.New("more than the response")
		}
		return fmt.Errorf("wait for the far end to close: %w", err)
	}
	return nil
}

// requestWithin is how long the server of CRR waits for the request of a connection: the next is accepted after it.
const requestWithin = 3 * time.Second

// serveConnections accepts one connection after the other on its own port, until the client's control connection ends.
// One that does not begin with the token is closed without an answer.
func (s *Server) serveConnections(control *conn, h hello, near, far net.Addr) {
	l, port, err := s.listenSameAddress(near)
	if err != nil {
		return // the client notices the end of its connection
	}
	defer l.close()
	// Accepted sockets inherit this (sk_clone_lock of net/core/sock.c), and accept(2) obeys it too.
	if l.setReadTimeout(requestWithin) != nil {
		return
	}
	if control.write(binary.BigEndian.AppendUint16(nil, port)) != nil {
		return
	}
	var now slot
	now.fd = -1
	over, finish := watchClient(control, func() {
		l.abort()
		now.abort()
	})
	defer finish()
	request, response := make([]byte, h.request), make([]byte, h.response)
	start := time.Now()
	var turn turn
	for !over.Load() {
		fd, from, err := unix.Accept4(l.fd, unix.SOCK_CLOEXEC)
		if err != nil {
			if err == unix.EINTR || err == unix.ECONNABORTED || err == unix.EAGAIN {
				continue
			}
			break
		}
		if !now.use(fd) {
			unix.Close(fd)
			break
		}
		if addressOf(from).Equal(far.(*net.TCPAddr).IP) {
			one := conn{fd: fd}
			if one.readFull(request) == nil && hmac.Equal(request[:TokenBytes], control.token) {
				s.served.Add(1)
				_ = one.write(response) // the client is gone, or sees less than a response
			}
		}
		now.close(fd)
		if !s.mayGo(packetsOfConnection + segments(len(response))) {
			break
		}
		if turn.due(time.Since(start)) {
			runtime.Gosched()
		}
	}
}

// watchClient sets over and calls abort when the client ends its control connection. finish ends the connection and
// waits for that.
func watchClient(control *conn, abort func()) (over *atomic.Bool, finish func()) {
	over = new(atomic.Bool)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = control.read(make([]byte, 1)) // nothing but the end
		over.Store(true)
		abort()
	}()
	return over, func() {
		control.abort()
		<-ended
	}
}

// listenSameAddress listens at the address that the client connected to, on another port.
func (s *Server) listenSameAddress(near net.Addr) (c *conn, port uint16, err error) {
	host, _, err := net.SplitHostPort(near.String())
	if err != nil {
		return nil, 0, err
	}
	l, err := listenIn(s.netns, net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, 0, err
	}
	port = uint16(l.Addr().(*net.TCPAddr).Port)
	c, err = block(l.(*net.TCPListener))
	return c, port, err
}
