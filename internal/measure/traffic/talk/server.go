package talk

import (
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"mpps/internal/measure/traffic"
)

// A Server answers streams and transactions. Close ends all of them.
type Server struct {
	listener net.Listener
	netns    string
	key      []byte
	pace     Pace
	serves   func(client net.Addr) bool // nil: all
	lobby    Lobby
	received atomic.Uint64
	served   atomic.Uint64
	wait     sync.WaitGroup

	mu     sync.Mutex
	conns  map[*conn]bool
	closed bool
}

// Listen serves on addr (host:port, port 0 for any) in a network namespace, "" for this one, whoever has the key. A
// pace limits what it sends, and serves to which clients; nil is no limit.
func Listen(netns, addr string, key []byte, pace Pace, serves func(client net.Addr) bool) (*Server, error) {
	l, err := listenIn(netns, addr)
	if err != nil {
		return nil, fmt.Errorf("TCP endpoint: %w", err)
	}
	s := &Server{listener: l, netns: netns, key: key, pace: pace, serves: serves, conns: map[*conn]bool{}}
	s.wait.Go(s.accept)
	return s, nil
}

// Addr returns the address that the server listens on.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// ServerCounts is what a server has done since its start.
type ServerCounts struct {
	Received     uint64 `json:"received"`     // bytes of streams
	Transactions uint64 `json:"transactions"` // requests received
}

// Counts may be called at any time.
func (s *Server) Counts() ServerCounts {
	return ServerCounts{Received: s.received.Load(), Transactions: s.served.Load()}
}

// Close ends the listener and every connection and waits for them.
func (s *Server) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	for c := range s.conns {
		c.reset()
	}
	s.mu.Unlock()
	var err error
	if first {
		err = s.listener.Close()
		s.lobby.Close()
	}
	s.wait.Wait()
	return err
}

func (s *Server) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(10 * time.Millisecond) // out of descriptors, for example, which passes
			continue
		}
		if s.serves != nil && !s.serves(c.RemoteAddr()) {
			c.Close()
			continue
		}
		leave := s.lobby.Enter(c, helloWithin)
		s.wait.Go(func() { s.serve(c.(*net.TCPConn), leave) })
	}
}

// maxServed is how many connections the servers of a process serve at once, each on its own thread: the Go runtime ends
// a process that has 10,000.
const maxServed = 4096

var serving atomic.Int64

// serve reads the hello, then serves the connection on a separate thread. A client that disconnects, sends garbage or
// does not have the key only loses its connection.
func (s *Server) serve(t *net.TCPConn, leave func() bool) {
	h, token, err := receive(t, s.key)
	if open := leave(); err != nil || !open {
		t.Close()
		return
	}
	defer serving.Add(-1)
	if serving.Add(1) > maxServed {
		t.Close()
		return
	}
	release, err := traffic.HoldMemory(h.memory())
	if err != nil {
		t.Close()
		return
	}
	defer release()
	near, far := t.LocalAddr(), t.RemoteAddr()
	c, err := block(t)
	if err != nil {
		t.Close()
		return
	}
	c.token = token
	if !s.add(c) {
		c.close()
		return
	}
	done := make(chan struct{})
	onThread(func() {
		defer close(done)
		switch h.service {
		case serviceSink:
			s.sink(c, h)
		case serviceSource, serviceSourceFile:
			s.source(c, h)
		case serviceRR:
			s.answer(c, h)
		case serviceUDPRR:
			s.answerUDP(c, h, near, far)
		case serviceCRR:
			s.serveConnections(c, h, near, far)
		}
	})
	<-done
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	c.close()
}

func (s *Server) add(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.conns[c] = true
	reserveProcs(len(s.conns))
	return true
}

// sink counts what arrives and answers with the count.
func (s *Server) sink(c *conn, h hello) {
	buf := make([]byte, h.request)
	sent := sentCounter{c: c}
	g := gauge{ramp: time.Duration(h.response) * time.Millisecond}
	for {
		n, err := c.read(buf)
		if err == io.EOF {
			// If the client is gone, nobody reads this.
			_ = c.write(g.answer())
			return
		}
		if err != nil {
			return
		}
		g.record(n)
		s.received.Add(uint64(n))
		if !s.mayGo(sent.since(s)) {
			return
		}
	}
}

// source sends until the client closes.
func (s *Server) source(c *conn, h hello) {
	f, err := newPayload(int(h.request), h.service == serviceSourceFile)
	if err != nil {
		return // the client notices the end of its connection
	}
	defer f.close()
	sent := sentCounter{c: c}
	for f.sendTo(c, s.portion(c, len(f.buf))) == nil && s.mayGo(sent.since(s)) {
	}
}

// answer answers requests until the client closes.
func (s *Server) answer(c *conn, h hello) {
	request, response := make([]byte, h.request), make([]byte, h.response)
	if c.noDelay() != nil {
		return
	}
	start := time.Now()
	sent := sentCounter{c: c}
	var turn turn
	for c.readFull(request) == nil {
		s.served.Add(1)
		if !s.mayGo(sent.since(s)) || c.write(response) != nil {
			return
		}
		// After the response: nobody waits for this end while it is in flight.
		if turn.due(time.Since(start)) {
			runtime.Gosched()
		}
	}
}
