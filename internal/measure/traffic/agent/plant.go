package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"mpps/internal/measure/traffic"
	"mpps/internal/measure/traffic/talk"
)

var (
	errNoHandle = errors.New("no such handle in this session")
	errRefused  = errors.New("request refused")
)

// A plant holds what one session has started.
type plant struct {
	opt Options

	mu      sync.Mutex
	closed  bool
	last    int
	sinks   map[int]traffic.Sink
	gens    map[int]*genRun
	servers map[int]*talk.Server
}

// genRun is a generator that is running or has run.
type genRun struct {
	gen    traffic.Generator
	cancel context.CancelFunc
	done   chan struct{}
	result traffic.Result
	err    error
}

func newPlant(o Options) *plant {
	return &plant{opt: o, sinks: map[int]traffic.Sink{}, gens: map[int]*genRun{}, servers: map[int]*talk.Server{}}
}

// close stops everything at once: generators end their runs within one batch,
// but the kernel takes its time (a second on a busy machine) to tear a run
// down, which detaching the sinks need not wait for.
func (p *plant) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, g := range p.gens {
		g.cancel()
	}
	var wait sync.WaitGroup
	for _, s := range p.sinks {
		wait.Go(func() { _ = s.Close() }) // the session is over: nobody is left to hear of it
	}
	for _, s := range p.servers {
		wait.Go(func() { _ = s.Close() })
	}
	for _, g := range p.gens {
		<-g.done
	}
	wait.Wait()
}

// A handle names what a session has started.
type handle struct {
	Handle int `json:"handle"`
}

// Started is the answer to what starts something.
type Started struct {
	Handle  int            `json:"handle"`
	Method  traffic.Method `json:"method,omitempty"`
	Streams int            `json:"streams,omitempty"`
	Addr    string         `json:"addr,omitempty"`
}

type interfaceArgs struct {
	On traffic.Endpoint `json:"on"`
}

type serveArgs struct {
	Netns string `json:"netns,omitempty"`
	Addr  string `json:"addr"`
}

type settleArgs struct {
	Handle int           `json:"handle"`
	Quiet  time.Duration `json:"quiet"`
	Limit  time.Duration `json:"limit"`
}

type aloneArgs struct {
	Config   traffic.Config     `json:"config"`
	Sink     traffic.SinkConfig `json:"sink"`
	Duration time.Duration      `json:"duration"`
}

// GenStatus tells how far a generator is.
type GenStatus struct {
	Sent   uint64          `json:"sent"`
	Done   bool            `json:"done"`
	Result *traffic.Result `json:"result,omitempty"` // when done
}

// handle carries one request out. The verbs are the protocol: see Client.
func (p *plant) handle(ctx context.Context, r request) (json.RawMessage, error) {
	switch r.Verb {
	case "info":
		return answer(info(p.opt.Version))
	case "cpu":
		return answer(stat())
	case "counters":
		return with(r, func(a interfaceArgs) (Counters, error) { return readCounters(a.On) })
	case "sink.start":
		return with(r, p.startSink)
	case "sink.counts":
		return with(r, func(a handle) (c traffic.Counts, err error) {
			return onSink(p, a.Handle, func(s traffic.Sink) (traffic.Counts, error) { return s.Counts() })
		})
	case "sink.settle":
		return with(r, func(a settleArgs) (traffic.Counts, error) {
			return onSink(p, a.Handle, func(s traffic.Sink) (traffic.Counts, error) {
				return traffic.Settle(ctx, s, a.Quiet, min(a.Limit, time.Minute))
			})
		})
	case "sink.histogram":
		return with(r, func(a handle) ([]traffic.Bin, error) {
			return onSink(p, a.Handle, func(s traffic.Sink) ([]traffic.Bin, error) {
				h, err := s.Histogram()
				if err != nil {
					return nil, err
				}
				return h.Bins(), nil
			})
		})
	case "sink.reset":
		return with(r, func(a handle) (struct{}, error) {
			return onSink(p, a.Handle, func(s traffic.Sink) (struct{}, error) { return struct{}{}, s.Reset() })
		})
	case "sink.stop":
		return with(r, p.stopSink)
	case "gen.start":
		return with(r, p.startGen)
	case "gen.status":
		return with(r, func(a handle) (GenStatus, error) { return p.statusGen(ctx, a.Handle, false) })
	case "gen.wait":
		return with(r, func(a handle) (GenStatus, error) { return p.statusGen(ctx, a.Handle, true) })
	case "gen.stop":
		return with(r, func(a handle) (GenStatus, error) { return p.stopGen(ctx, a.Handle) })
	case "alone.generator":
		return with(r, func(a aloneArgs) (traffic.Alone, error) {
			if err := checked(a.Config.Out); err != nil {
				return traffic.Alone{}, err
			}
			return traffic.GeneratorAlone(ctx, a.Config, a.Duration)
		})
	case "alone.receiver":
		return with(r, func(a aloneArgs) (traffic.Alone, error) {
			return traffic.ReceiverAlone(ctx, a.Sink, a.Config, a.Duration)
		})
	case "tcp.serve":
		return with(r, p.serveTCP)
	case "tcp.counts":
		return with(r, func(a handle) (talk.ServerCounts, error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if s := p.servers[a.Handle]; s != nil {
				return s.Counts(), nil
			}
			return talk.ServerCounts{}, fmt.Errorf("TCP server %d: %w", a.Handle, errNoHandle)
		})
	case "tcp.stop":
		return with(r, p.stopTCP)
	case "stream":
		return with(r, func(a talk.StreamConfig) (talk.StreamResult, error) {
			if err := checked(traffic.Endpoint{Netns: a.Netns, Iface: "lo"}); err != nil {
				return talk.StreamResult{}, err
			}
			return talk.Stream(ctx, a)
		})
	case "rr":
		return with(r, func(a talk.RRConfig) (talk.RRResult, error) {
			if err := checked(traffic.Endpoint{Netns: a.Netns, Iface: "lo"}); err != nil {
				return talk.RRResult{}, err
			}
			return talk.RR(ctx, a)
		})
	case "poweroff":
		if p.opt.PowerOff == nil {
			return nil, fmt.Errorf("%w: this agent is not the first process of its machine", errRefused)
		}
		// After the answer has left.
		time.AfterFunc(200*time.Millisecond, func() { _ = p.opt.PowerOff() })
		return answer(struct{}{}, nil)
	}
	return nil, fmt.Errorf("%w: unknown verb %q", errRefused, r.Verb)
}

// with decodes the arguments of a request and encodes its answer.
func with[A, R any](r request, f func(A) (R, error)) (json.RawMessage, error) {
	var a A
	if err := json.Unmarshal(r.Args, &a); err != nil {
		return nil, fmt.Errorf("%w: arguments of %s: %w", errRefused, r.Verb, err)
	}
	return answer(f(a))
}

func answer[R any](r R, err error) (json.RawMessage, error) {
	if err != nil {
		return nil, err
	}
	return json.Marshal(r)
}

func onSink[R any](p *plant, h int, f func(traffic.Sink) (R, error)) (R, error) {
	p.mu.Lock()
	s := p.sinks[h]
	p.mu.Unlock()
	if s == nil {
		var zero R
		return zero, fmt.Errorf("sink %d: %w", h, errNoHandle)
	}
	return f(s)
}

// start registers what was made, unless the session has ended meanwhile.
func (p *plant) start(register func(h int)) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return 0, errors.New("the session is over")
	}
	p.last++
	register(p.last)
	return p.last, nil
}

// checked refuses names that no interface or namespace can have: they become
// part of a path.
func checked(e traffic.Endpoint) error {
	if _, err := traffic.ParseEndpoint(e.String()); err != nil {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	return nil
}

func (p *plant) startSink(c traffic.SinkConfig) (Started, error) {
	if err := checked(c.In); err != nil {
		return Started{}, err
	}
	s, err := traffic.NewSink(c)
	if err != nil {
		return Started{}, err
	}
	h, err := p.start(func(h int) { p.sinks[h] = s })
	if err != nil {
		return Started{}, errors.Join(err, s.Close())
	}
	return Started{Handle: h, Method: s.Method()}, nil
}

// stopSink detaches and returns the last counts.
func (p *plant) stopSink(a handle) (traffic.Counts, error) {
	p.mu.Lock()
	s := p.sinks[a.Handle]
	delete(p.sinks, a.Handle)
	p.mu.Unlock()
	if s == nil {
		return traffic.Counts{}, fmt.Errorf("sink %d: %w", a.Handle, errNoHandle)
	}
	c, err := s.Counts()
	return c, errors.Join(err, s.Close())
}

// startGen runs a generator under a context of its own, which the session's
// end cancels through close.
func (p *plant) startGen(c traffic.Config) (Started, error) {
	if err := checked(c.Out); err != nil {
		return Started{}, err
	}
	g, err := traffic.NewGenerator(c)
	if err != nil {
		return Started{}, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	run := &genRun{gen: g, cancel: cancel, done: make(chan struct{})}
	h, err := p.start(func(h int) { p.gens[h] = run })
	if err != nil {
		cancel()
		return Started{}, errors.Join(err, g.Close())
	}
	go func() {
		defer close(run.done)
		run.result, run.err = g.Run(ctx)
		run.err = errors.Join(run.err, g.Close())
	}()
	return Started{Handle: h, Method: g.Method(), Streams: g.Streams()}, nil
}

func (p *plant) statusGen(ctx context.Context, h int, wait bool) (GenStatus, error) {
	p.mu.Lock()
	run := p.gens[h]
	p.mu.Unlock()
	if run == nil {
		return GenStatus{}, fmt.Errorf("generator %d: %w", h, errNoHandle)
	}
	if wait {
		select {
		case <-run.done:
		case <-ctx.Done():
			return GenStatus{}, ctx.Err()
		}
	}
	select {
	case <-run.done:
		r := run.result
		return GenStatus{Sent: r.Sent, Done: true, Result: &r}, run.err
	default:
		return GenStatus{Sent: run.gen.Sent()}, nil
	}
}

// stopGen ends a generator and forgets it.
func (p *plant) stopGen(ctx context.Context, h int) (GenStatus, error) {
	p.mu.Lock()
	run := p.gens[h]
	p.mu.Unlock()
	if run == nil {
		return GenStatus{}, fmt.Errorf("generator %d: %w", h, errNoHandle)
	}
	run.cancel()
	s, err := p.statusGen(ctx, h, true)
	p.mu.Lock()
	delete(p.gens, h)
	p.mu.Unlock()
	return s, err
}

func (p *plant) serveTCP(a serveArgs) (Started, error) {
	if len(p.opt.Secret) == 0 && !p.opt.InsecureLab {
		if err := closedAddress(a.Addr); err != nil {
			return Started{}, err
		}
	}
	if err := checked(traffic.Endpoint{Netns: a.Netns, Iface: "lo"}); err != nil {
		return Started{}, err
	}
	s, err := talk.Listen(a.Netns, a.Addr)
	if err != nil {
		return Started{}, err
	}
	h, err := p.start(func(h int) { p.servers[h] = s })
	if err != nil {
		return Started{}, errors.Join(err, s.Close())
	}
	return Started{Handle: h, Addr: s.Addr()}, nil
}

func (p *plant) stopTCP(a handle) (talk.ServerCounts, error) {
	p.mu.Lock()
	s := p.servers[a.Handle]
	delete(p.servers, a.Handle)
	p.mu.Unlock()
	if s == nil {
		return talk.ServerCounts{}, fmt.Errorf("TCP server %d: %w", a.Handle, errNoHandle)
	}
	err := s.Close()
	return s.Counts(), err
}
