package agent

import (
	"context"
	"errors"
	"sync"
	"time"

	"mpps/internal/measure/traffic"
	"mpps/internal/measure/traffic/talk"
)

// A Sink is a traffic.Sink on the agent's side.
type Sink struct {
	c       *Client
	started Started
}

var _ traffic.Sink = (*Sink)(nil)

// NewSink starts a sink there.
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

// Settle is traffic.Settle carried out on the agent's side.
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
	return s.c.call(context.Background(), "sink.stop", s.handle(), nil, 0)
}

// A Generator is a traffic.Generator on the agent's side. It is made there again
// for each run.
type Generator struct {
	c       *Client
	conf    traffic.Config
	mu      sync.Mutex
	started Started
	sent    uint64 // of the run before
}

var _ traffic.Generator = (*Generator)(nil)

// NewGenerator makes a generator there. Errors of the configuration come from
// Run.
func (c *Client) NewGenerator(conf traffic.Config) *Generator {
	return &Generator{c: c, conf: conf}
}

// Method and Streams are what the configuration says until Run has begun.
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
	takes := g.conf.Duration
	if takes == 0 {
		takes = 24 * time.Hour
	}
	err := g.c.call(ctx, "gen.wait", handle{started.Handle}, &s, takes)
	// Also when waiting failed the generator has to be stopped and forgotten,
	// and the result is wanted of what was sent until then.
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

// A TCPServer is a talk.Server on the agent's side.
type TCPServer struct {
	c       *Client
	started Started
}

// ServeTCP starts streams' and transactions' server there, at addr (host:port,
// port 0 for any) in the agent's namespace netns ("" for its own).
func (c *Client) ServeTCP(ctx context.Context, netns, addr string) (*TCPServer, error) {
	s := &TCPServer{c: c}
	return s, c.call(ctx, "tcp.serve", serveArgs{netns, addr}, &s.started, 0)
}

// Addr is where it listens.
func (s *TCPServer) Addr() string { return s.started.Addr }

func (s *TCPServer) Counts(ctx context.Context) (talk.ServerCounts, error) {
	var c talk.ServerCounts
	return c, s.c.call(ctx, "tcp.counts", handle{s.started.Handle}, &c, 0)
}

func (s *TCPServer) Close() error {
	return s.c.call(context.Background(), "tcp.stop", handle{s.started.Handle}, nil, 0)
}
