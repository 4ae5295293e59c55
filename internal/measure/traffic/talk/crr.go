package talk

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/measure/traffic"
)

// ErrPorts says that the client's ports are used up.
var ErrPorts = errors.New("no local port is left for another connection")

// CRR makes transactions, each with a TCP connection of its own: connect, request, response, close; as netperf's
// TCP_CRR. c.Conns are made at a time. A closed loop; UDP and Rate are refused.
//
// The server closes first, so that the state that a connection leaves behind for a minute (TIME_WAIT) is the server's
// and takes no local port away from the client. The kernel takes a port there again as soon as the client comes with
// it, by the newer time stamp of its SYN (RFC 6191; net/ipv4/tcp_minisocks.c, tcp_timewait_state_process). A connection
// is closed in full and not reset (SO_LINGER of 0), because what closing costs is a part of what is measured.
func CRR(ctx context.Context, c RRConfig) (RRResult, error) {
	if c.UDP || c.Rate != 0 {
		return RRResult{}, fmt.Errorf("%w: connections as transactions are made over TCP in a closed loop", ErrConfig)
	}
	if err := c.check(); err != nil {
		return RRResult{}, err
	}
	control, err := c.dial(ctx, hello{service: serviceCRR, request: uint32(c.Request), response: uint32(c.Response)})
	if err != nil {
		return RRResult{}, err
	}
	defer closeAll(control)
	conns := make([]*conn, len(control)) // the connection of the moment
	far := make([]unix.Sockaddr, len(control))
	for i, k := range control {
		conns[i] = &conn{fd: -1, slot: slot{fd: -1}}
		if far[i], err = k.beside(); err != nil {
			return RRResult{}, fmt.Errorf("connections with %s: %w", c.Addr, err)
		}
	}
	tallies := make([]tally, len(control))
	var live atomic.Uint64
	spare(2 * len(control))
	run := newRun(ctx, c.Duration, conns, grace)
	sampled := run.sample(&live, c.Interval)
	err = run.each(func(i int, k *conn) error {
		return traffic.Endpoint{Netns: c.Netns}.Do(func() error {
			return run.connect(ctx, k, far[i], c, &tallies[i],
				&live)
		})
	})
	r := RRResult{Elapsed: time.Since(run.start), Cancelled: ctx.Err() != nil, Intervals: <-sampled}
	r.sum(tallies)
	if err != nil {
		return r, fmt.Errorf("connections with %s: %w", c.Addr, err)
	}
	return r, nil
}

// beside is the address of the port that the server answered the hello with.
func (c *conn) beside() (unix.Sockaddr, error) {
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

// A slot holds the socket of the moment, so that another thread can end it and never one that has its number
// afterwards.
type slot struct {
	mu      sync.Mutex
	fd      int // −1 for none
	aborted bool
}

// use puts a socket in, unless it is over.
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

// abort ends every call on the socket and lets no other in.
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
	start := time.Now()
	var begin time.Duration
	var turn turn
	for r.going() && (c.Count == 0 || n.done < c.Count) {
		if turn.due(begin) {
			runtime.Gosched()
			begin = time.Since(start)
		}
		if err := now.transaction(far, request, response); err != nil {
			if r.aborted.Load() && ctx.Err() != nil { // the user had enough, and nobody knows what became of it
				return nil
			}
			return err
		}
		end := time.Since(start)
		n.delays.Record(end - begin)
		begin = end
		n.sent++
		n.done++
		live.Add(1)
	}
	return nil
}

// small is a request in bytes that fits one segment of any path: Nagle's algorithm cannot hold a part of it back.
const small = 512

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
	if len(request) > small {
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

// serveConnections takes one connection after the other on a port of its own, until the client's first one ends.
func (s *Server) serveConnections(control *conn, h hello, near, far net.Addr) {
	l, port, err := s.listenBeside(near)
	if err != nil {
		return // the client is told by the end of its connection
	}
	defer l.close()
	if control.write(binary.BigEndian.AppendUint16(nil, port)) != nil {
		return
	}
	var now slot
	now.fd = -1
	var over atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = control.read(make([]byte, 1)) // nothing comes but the end
		over.Store(true)
		l.abort()
		now.abort()
	}()
	request, response := make([]byte, h.request), make([]byte, h.response)
	start := time.Now()
	var turn turn
	for !over.Load() {
		fd, from, err := unix.Accept4(l.fd, unix.SOCK_CLOEXEC)
		if err != nil {
			if err == unix.EINTR || err == unix.ECONNABORTED {
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
			if one.readFull(request) == nil && one.write(response) == nil {
				s.served.Add(1)
			}
		}
		now.close(fd)
		if turn.due(time.Since(start)) {
			runtime.Gosched()
		}
	}
	control.abort()
	<-ended
}

// listenBeside listens at the address that the client came to, on another port.
func (s *Server) listenBeside(near net.Addr) (c *conn, port uint16, err error) {
	host, _, err := net.SplitHostPort(near.String())
	if err != nil {
		return nil, 0, err
	}
	l, err := listenIn(s.netns, net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, 0, err
	}
	_, text, err := net.SplitHostPort(l.Addr().String())
	if err == nil {
		var n uint64
		n, err = strconv.ParseUint(text, 10, 16)
		port = uint16(n)
	}
	if err != nil {
		return nil, 0, errors.Join(err, l.Close())
	}
	c, err = block(l.(*net.TCPListener))
	return c, port, err
}
