package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"mpps/internal/measure/traffic"
	"mpps/internal/measure/traffic/talk"
)

var (
	errNoHandle = errors.New("no such handle in this session")
	errRefused  = errors.New("request refused")
)

// A session holds everything that one client has started.
type session struct {
	opt  Options
	peer netip.Addr // zero: on this host
	key  []byte     // of data connections

	running chan struct{} // holds one element for each request that was received
	turns   chan struct{} // and for each that is worked on

	mu      sync.Mutex
	closed  bool
	last    int
	sinks   map[int]heldSink
	gens    map[int]*genRun
	servers map[int]*talk.Server
}

// heldSink gives back its memory when it is closed.
type heldSink struct {
	traffic.Sink
	release func()
}

func (s heldSink) Close() error {
	defer s.release()
	return s.Sink.Close()
}

// genRun is a generator that is running or has finished.
type genRun struct {
	gen    traffic.Generator
	cancel context.CancelFunc
	done   chan struct{}
	result traffic.Result
	err    error
}

func newSession(o Options, peer netip.Addr, key []byte) *session {
	return &session{opt: o, peer: peer, key: key, running: make(chan struct{}, maxRequests),
		turns: make(chan struct{}, maxTurns), sinks: map[int]heldSink{}, gens: map[int]*genRun{},
		servers: map[int]*talk.Server{}}
}

const maxRequests = 256

// enter takes a place for a request that was received, and the memory that it waits in.
func (p *session) enter(r request) (leave func(), err error) {
	release, err := holdMemory(uint64(len(r.Args)))
	if err != nil {
		return nil, err
	}
	select {
	case p.running <- struct{}{}:
		return func() { release(); <-p.running }, nil
	default:
		release()
		return nil, fmt.Errorf("%w: more than %d requests at a time", errRefused, maxRequests)
	}
}

// maxTurns is how many requests of a session are worked on at once. The others wait, and end with the session: what is
// made for a client that is gone is not more than these.
const maxTurns = 4

// turn waits for the turn of a request. Those that only wait for something that runs need none.
func (p *session) turn(ctx context.Context, verb string) (end func(), err error) {
	if verb == "gen.wait" || verb == "sink.settle" {
		return func() {}, nil
	}
	select {
	case p.turns <- struct{}{}:
		return func() { <-p.turns }, ctx.Err()
	case <-ctx.Done():
		return func() {}, ctx.Err()
	}
}

// maxHandles is how many sinks, generators and servers a session may have at once.
const maxHandles = 64

// close stops everything at once. Generators end their runs within one batch, but the kernel takes up to a second on a
// busy machine to tear a run down; detaching the sinks does not wait for that.
func (p *session) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, g := range p.gens {
		g.cancel()
	}
	var wait sync.WaitGroup
	for _, s := range p.sinks {
		wait.Go(func() { _ = s.Close() }) // the session is over: no one to report to
	}
	for _, s := range p.servers {
		wait.Go(func() { _ = s.Close() })
	}
	for _, g := range p.gens {
		<-g.done
	}
	wait.Wait()
}

// A handle identifies something that the session started.
type handle struct {
	Handle int `json:"handle"`
}

// Started is the answer to requests that start something.
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

// leastQuiet keeps a client from having a sink read without a pause.
const leastQuiet = 10 * time.Millisecond

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

// GenStatus is how far a generator has got.
type GenStatus struct {
	Sent   uint64          `json:"sent"`
	Done   bool            `json:"done"`
	Result *traffic.Result `json:"result,omitempty"` // once done
}

// handle executes one request. The verbs are the protocol: see Client.
func (p *session) handle(ctx context.Context, r request) (json.RawMessage, error) {
	end, err := p.turn(ctx, r.Verb)
	defer end()
	if err != nil {
		return nil, err
	}
	switch r.Verb {
	case "info":
		return answer(info(ctx, p.opt.Version))
	case "cpu":
		return answer(stat())
	case "counters":
		return with(r, func(a interfaceArgs) (Counters, error) { return p.counters(a.On) })
	case "arrival":
		return with(r, func(a arrivalArgs) (string, error) { return p.arrival(ctx, a) })
	case "sink.start":
		return with(r, p.startSink)
	case "sink.counts":
		return with(r, func(a handle) (c traffic.Counts, err error) {
			return onSink(p, a.Handle, func(s traffic.Sink) (traffic.Counts, error) { return s.Counts() })
		})
	case "sink.settle":
		return with(r, func(a settleArgs) (traffic.Counts, error) {
			return onSink(p, a.Handle, func(s traffic.Sink) (traffic.Counts, error) {
				return traffic.Settle(ctx, s, max(a.Quiet, leastQuiet), min(a.Limit, time.Minute))
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
		return with(r, func(c traffic.Config) (Started, error) { return p.startGen(ctx, c) })
	case "gen.status":
		return with(r, func(a handle) (GenStatus, error) { return p.statusGen(ctx, a.Handle, false) })
	case "gen.wait":
		return with(r, func(a handle) (GenStatus, error) { return p.statusGen(ctx, a.Handle, true) })
	case "gen.stop":
		return with(r, func(a handle) (GenStatus, error) { return p.stopGen(ctx, a.Handle) })
	case "alone.generator":
		return with(r, func(a aloneArgs) (traffic.Alone, error) {
			if err := p.opt.Limits.device(a.Config.Out); err != nil {
				return traffic.Alone{}, err
			}
			return p.alone(a, func() (traffic.Alone, error) {
				return traffic.GeneratorAlone(ctx, a.Config, a.Duration)
			})
		})
	case "alone.receiver":
		return with(r, func(a aloneArgs) (traffic.Alone, error) {
			return p.alone(a, func() (traffic.Alone, error) {
				return traffic.ReceiverAlone(ctx, a.Sink, a.Config, a.Duration)
			})
		})
	case "tcp.serve":
		return with(r, p.serveTCP)
	case "tcp.counts":
		return with(r, func(a handle) (talk.ServerCounts, error) {
			s, err := find(p, p.servers, "TCP server", a.Handle, false)
			if err != nil {
				return talk.ServerCounts{}, err
			}
			return s.Counts(), nil
		})
	case "tcp.stop":
		return with(r, p.stopTCP)
	case "poweroff":
		if p.opt.PowerOff == nil {
			return nil, fmt.Errorf("%w: this agent is not the first process of its machine", errRefused)
		}
		// After the answer was sent.
		time.AfterFunc(200*time.Millisecond, func() { _ = p.opt.PowerOff() })
		return answer(struct{}{}, nil)
	}
	return nil, fmt.Errorf("%w: unknown verb %q", errRefused, r.Verb)
}

// with decodes the arguments of a request and encodes the answer.
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

// find returns the object of a handle, and forgets the handle if remove is set.
func find[T any](p *session, all map[int]T, what string, h int, remove bool) (T, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	object, known := all[h]
	if !known {
		return object, fmt.Errorf("%s %d: %w", what, h, errNoHandle)
	}
	if remove {
		delete(all, h)
	}
	return object, nil
}

func onSink[R any](p *session, h int, f func(traffic.Sink) (R, error)) (r R, err error) {
	s, err := find(p, p.sinks, "sink", h, false)
	if err != nil {
		return r, err
	}
	return f(s)
}

// start registers an object, unless the session has ended in the meantime, and returns its handle.
func (p *session) start(register func(h int)) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return 0, errors.New("the session is over")
	}
	if len(p.sinks)+len(p.gens)+len(p.servers) >= maxHandles {
		return 0, fmt.Errorf("%w: more than %d sinks, generators and servers at a time", errRefused, maxHandles)
	}
	p.last++
	register(p.last)
	return p.last, nil
}

func (p *session) startSink(c traffic.SinkConfig) (Started, error) {
	if err := p.opt.Limits.device(c.In); err != nil {
		return Started{}, err
	}
	release, err := holdMemory(c.Memory())
	if err != nil {
		return Started{}, err
	}
	made, err := traffic.NewSink(c)
	if err != nil {
		release()
		return Started{}, err
	}
	s := heldSink{made, release}
	h, err := p.start(func(h int) { p.sinks[h] = s })
	if err != nil {
		return Started{}, errors.Join(err, s.Close())
	}
	return Started{Handle: h, Method: s.Method()}, nil
}

// stopSink detaches a sink and returns its last counts.
func (p *session) stopSink(a handle) (traffic.Counts, error) {
	s, err := find(p, p.sinks, "sink", a.Handle, true)
	if err != nil {
		return traffic.Counts{}, err
	}
	c, err := s.Counts()
	return c, errors.Join(err, s.Close())
}

// alone measures one end while its workers are taken.
func (p *session) alone(a aloneArgs, measure func() (traffic.Alone, error)) (traffic.Alone, error) {
	release, err := p.opt.Limits.take(max(1, len(a.Config.CPUs)), 0)
	if err != nil {
		return traffic.Alone{}, err
	}
	defer release()
	a.Sink.Streams = max(1, len(a.Config.CPUs))
	free, err := holdMemory(a.Sink.Memory())
	if err != nil {
		return traffic.Alone{}, err
	}
	defer free()
	return measure()
}

// holdMemory takes bytes of the memory that all clients share.
func holdMemory(bytes uint64) (release func(), err error) {
	if release, err = traffic.HoldMemory(bytes); errors.Is(err, traffic.ErrMemory) {
		err = denied("%w", err)
	}
	return release, err
}

// startGen runs a generator under its own context, which close cancels when the session ends; ctx is the request's.
func (p *session) startGen(ctx context.Context, c traffic.Config) (Started, error) {
	release, err := p.opt.Limits.generator(c)
	if err != nil {
		return Started{}, err
	}
	g, err := traffic.NewGenerator(ctx, c)
	if err != nil {
		release()
		return Started{}, err
	}
	running, cancel := context.WithCancel(context.Background())
	run := &genRun{gen: g, cancel: cancel, done: make(chan struct{})}
	h, err := p.start(func(h int) { p.gens[h] = run })
	if err != nil {
		cancel()
		release()
		return Started{}, errors.Join(err, g.Close())
	}
	go func() {
		defer close(run.done)
		defer release()
		run.result, run.err = g.Run(running)
		run.err = errors.Join(run.err, g.Close())
	}()
	return Started{Handle: h, Method: g.Method(), Streams: g.Streams()}, nil
}

func (p *session) statusGen(ctx context.Context, h int, wait bool) (GenStatus, error) {
	run, err := find(p, p.gens, "generator", h, false)
	if err != nil {
		return GenStatus{}, err
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

// stopGen ends a generator and drops its handle.
func (p *session) stopGen(ctx context.Context, h int) (GenStatus, error) {
	run, err := find(p, p.gens, "generator", h, false)
	if err != nil {
		return GenStatus{}, err
	}
	run.cancel()
	s, err := p.statusGen(ctx, h, true)
	p.mu.Lock()
	delete(p.gens, h)
	p.mu.Unlock()
	return s, err
}

func (p *session) serveTCP(a serveArgs) (Started, error) {
	if err := cmp.Or(p.opt.Limits.address(a.Netns, a.Addr), p.opt.Limits.client(p.peer)); err != nil {
		return Started{}, err
	}
	serves := func(client net.Addr) bool { return p.opt.Limits.client(addressOf(client)) == nil }
	s, err := talk.Listen(a.Netns, a.Addr, p.key, p.opt.Limits.pace(), serves)
	if err != nil {
		return Started{}, err
	}
	h, err := p.start(func(h int) { p.servers[h] = s })
	if err != nil {
		return Started{}, errors.Join(err, s.Close())
	}
	return Started{Handle: h, Addr: s.Addr()}, nil
}

func (p *session) stopTCP(a handle) (talk.ServerCounts, error) {
	s, err := find(p, p.servers, "TCP server", a.Handle, true)
	if err != nil {
		return talk.ServerCounts{}, err
	}
	err = s.Close()
	return s.Counts(), err
}
