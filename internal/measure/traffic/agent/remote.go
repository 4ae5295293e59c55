package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"mpps/internal/measure/traffic"
	"mpps/internal/measure/traffic/talk"
)

// A Sink is a traffic.Sink on the agent.
type Sink struct {
	c       *Client
	started Started
}

var _ traffic.Sink = (*Sink)(nil)

// NewSink starts a sink on the agent.
func (c *Client) NewSink(ctx context.Context, conf traffic.SinkConfig) (*Sink, error) {
	s := &Sink{c: c}
	if err := c.call(ctx, "sink.start", conf, &s.started, 0); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Sink) handle() handle         { return handle{s.started.Handle} }
func (s *Sink) Method() traffic.Method { return s.started.Method }

func (s *Sink) Counts() (traffic.Counts, error) {
	var c traffic.Counts
	return c, s.c.call(context.Background(), "sink.counts", s.handle(), &c, 0)
}

// Settle runs traffic.Settle on the agent.
func (s *Sink) Settle(ctx context.Context, quiet, limit time.Duration) (traffic.Counts, error) {
	var c traffic.Counts
	return c, s.c.call(ctx, "sink.settle", settleArgs{s.started.Handle, quiet, limit}, &c, limit)
}

func (s *Sink) Histogram() (*traffic.Histogram, error) {
	var b []traffic.Bin
	if err := s.c.call(context.Background(), "sink.histogram", s.handle(), &b, 0); err != nil {
		return nil, err
	}
	return traffic.FromBins(b), nil
}

func (s *Sink) Reset() error {
	return s.c.call(context.Background(), "sink.reset", s.handle(), nil, 0)
}

func (s *Sink) Close() error {
	return s.c.stop("sink.stop", s.started)
}

// A Generator is a traffic.Generator on the agent. The agent makes a new one for each run.
type Generator struct {
	c       *Client
	conf    traffic.Config
	mu      sync.Mutex
	started Started
	sent    uint64 // by the previous run
}

var _ traffic.Generator = (*Generator)(nil)

// NewGenerator prepares a generator on the agent. Run returns configuration errors.
func (c *Client) NewGenerator(conf traffic.Config) *Generator {
	return &Generator{c: c, conf: conf}
}

// Method and Streams follow the configuration until Run has started.
func (g *Generator) Method() traffic.Method {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.started.Method != "" {
		return g.started.Method
	}
	return g.conf.Method
}

func (g *Generator) Streams() int { return max(1, len(g.conf.CPUs)) }

func (g *Generator) Sent() uint64 {
	g.mu.Lock()
	h, sent := g.started.Handle, g.sent
	g.mu.Unlock()
	if h == 0 {
		return sent
	}
	var s GenStatus
	if err := g.c.call(context.Background(), "gen.status", handle{h}, &s, 0); err != nil {
		return sent
	}
	return s.Sent
}

func (g *Generator) Run(ctx context.Context) (traffic.Result, error) {
	var started Started
	if err := g.c.call(ctx, "gen.start", g.conf, &started, 0); err != nil {
		return traffic.Result{}, err
	}
	g.mu.Lock()
	g.started = started
	g.mu.Unlock()
	var s GenStatus
	err := g.c.call(ctx, "gen.wait", handle{started.Handle}, &s, cmp.Or(g.conf.Duration, 24*time.Hour))
	// Even if waiting failed, stop the generator, drop its handle, and get the result so far.
	var stopped GenStatus
	stopErr := g.c.call(context.WithoutCancel(ctx), "gen.stop", handle{started.Handle}, &stopped, 0)
	if ctx.Err() != nil {
		err = stopErr
		s = stopped
	}
	g.mu.Lock()
	g.started.Handle, g.sent = 0, s.Sent
	g.mu.Unlock()
	if err != nil {
		return traffic.Result{}, err
	}
	if s.Result == nil {
		return traffic.Result{}, errors.New("agent: generator ended without a result")
	}
	return *s.Result, nil
}

// Close does nothing: each Run cleans up after itself.
func (g *Generator) Close() error { return nil }

// A TCPServer is a talk.Server on the agent.
type TCPServer struct {
	c       *Client
	started Started
}

// ServeTCP starts a server for streams and transactions on the agent, at addr (host:port, port 0 for any) in the
// agent's namespace netns ("" for its own). The host stays the one asked for: only the port is the agent's to choose.
func (c *Client) ServeTCP(ctx context.Context, netns, addr string) (*TCPServer, error) {
	s := &TCPServer{c: c}
	if err := c.call(ctx, "tcp.serve", serveArgs{netns, addr}, &s.started, 0); err != nil {
		return nil, err
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(s.started.Addr)
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 {
		return nil, fmt.Errorf("agent: found %.60q, expected HOST:PORT of its server", s.started.Addr)
	}
	s.started.Addr = net.JoinHostPort(host, port)
	return s, nil
}

// Target returns the server as seen from a network namespace of this machine.
func (s *TCPServer) Target(netns string) talk.Target {
	return talk.Target{Netns: netns, Addr: s.started.Addr, Key: s.c.wire.dataKey()}
}

func (s *TCPServer) Counts(ctx context.Context) (talk.ServerCounts, error) {
	var c talk.ServerCounts
	return c, s.c.call(ctx, "tcp.counts", handle{s.started.Handle}, &c, 0)
}

func (s *TCPServer) Close() error {
	return s.c.stop("tcp.stop", s.started)
}
