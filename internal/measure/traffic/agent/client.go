package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"reflect"
	"sync"
	"time"

	"mpps/internal/measure/traffic"
	"mpps/internal/outcome"
)

// DialOptions configure a Client.
type DialOptions struct {
	Version string        // of mpps, sent to the agent
	Secret  []byte        // nil: none; an agent that requires one then refuses
	Netns   string        // the client's network namespace
	Timeout time.Duration // for the connection, and for each request on top of its own duration; 0: 10 s
	// Silence is how long the agent waits for a sign of life before it stops the traffic; 0: 1.5 s. Slow guests whose
	// control connection shares a flooded link need more; at most 30 s.
	Silence time.Duration
}

// A Client is a session with an agent. Its methods may be called from several goroutines. Once the connection is lost
// they all fail with ErrLost.
type Client struct {
	Agent   Hello // the agent's hello
	wire    *wire
	timeout time.Duration
	silence time.Duration // without a sign of life of the agent that ends the session

	mu      sync.Mutex
	heard   time.Time // when the agent last gave a sign of life
	last    uint64
	waiting map[uint64]chan response
	err     error // why the session is over
	done    chan struct{}
}

// ErrLost means that the connection to the agent is gone.
var ErrLost = errors.New("lost the agent")

// errNoAnswer means that a request took longer than it may.
var errNoAnswer = errors.New("no answer")

// Dial opens a session with the agent at host:port, or at unix:/path.
func Dial(ctx context.Context, addr string, o DialOptions) (*Client, error) {
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	conn, err := dialSocket(ctx, o.Netns, addr)
	if err != nil {
		return nil, fmt.Errorf("agent %s: %w", addr, outcome.SocketCause(err))
	}
	hangUp := context.AfterFunc(ctx, func() { conn.Close() }) // which ends what waits for the hello
	c := &Client{wire: newWire(conn), timeout: o.Timeout, waiting: map[uint64]chan response{},
		done: make(chan struct{})}
	err = c.hello(o)
	if !hangUp() {
		err = context.Cause(ctx)
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("agent %s: %w", addr, err)
	}
	c.heard = time.Now()
	go c.read()
	go c.ping(c.silence / 8)
	return c, nil
}

func (c *Client) hello(o DialOptions) error {
	if err := c.wire.receive(&c.Agent, o.Timeout); err != nil {
		return err
	}
	if c.Agent.Challenge == "" {
		return ErrHello
	}
	if c.Agent.Protocol != Protocol {
		return fmt.Errorf("%w: found %d (mpps %.40s), expected %d", ErrVersion, c.Agent.Protocol, c.Agent.MPPS,
			Protocol)
	}
	if len(o.Secret) > 0 && !c.Agent.Secret {
		return fmt.Errorf("%w: the agent has none", ErrSecret)
	}
	ours, err := challenge()
	if err != nil {
		return err
	}
	r := helloReply{MPPS: o.Version, Protocol: Protocol, Challenge: ours, SilenceMS: o.Silence.Milliseconds()}
	if c.Agent.Secret {
		r.Proof = mac(o.Secret, "client", c.Agent.Challenge, ours)
	}
	if err := c.wire.send(r, o.Timeout); err != nil {
		return err
	}
	var d helloDone
	if err := c.wire.receive(&d, o.Timeout); err != nil {
		return err
	}
	switch {
	case d.Error == "protocol":
		return ErrVersion
	case d.Error == "busy":
		return ErrBusy
	case d.Error != "":
		return ErrSecret
	case c.Agent.Secret && !same(d.Proof, mac(o.Secret, "server", c.Agent.Challenge, ours)):
		return fmt.Errorf("%w: the agent could not prove that it has it", ErrSecret)
	case d.SilenceMS < leastSilence.Milliseconds() || d.SilenceMS > maxSilence.Milliseconds():
		return fmt.Errorf("%w: it waits for %d ms", ErrHello, d.SilenceMS)
	}
	c.silence = time.Duration(d.SilenceMS) * time.Millisecond
	c.wire.begin(o.Secret, c.Agent.Challenge, ours, "client", "server", maxAnswer)
	return nil
}

// read passes answers to their callers. If the agent does not even answer pings for as long as it would wait itself,
// the session is over.
func (c *Client) read() {
	for {
		var r response
		if err := c.wire.receive(&r, c.silence); err != nil {
			c.end(err)
			return
		}
		c.mu.Lock()
		c.heard = time.Now()
		ch := c.waiting[r.ID]
		delete(c.waiting, r.ID)
		c.mu.Unlock()
		if ch != nil {
			ch <- r
		}
	}
}

func (c *Client) ping(every time.Duration) {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			if err := c.wire.send(request{Verb: "ping"}, 10*time.Second); err != nil {
				c.end(err)
				return
			}
		case <-c.done:
			return
		}
	}
}

// Starved reports whether the agent gave no sign of life for a quarter of the time that ends the session. TCP doubles
// its timeout with every loss: the session outlives that if nothing floods the link any more.
func (c *Client) Starved() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err == nil && time.Since(c.heard) > c.silence/4
}

func (c *Client) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
		close(c.done)
		c.wire.conn.Close()
	}
}

// Close ends the session; the agent then stops everything the session started.
func (c *Client) Close() error {
	c.end(net.ErrClosed)
	return nil
}

// stop stops what the session started on the agent. That the agent is lost or does not answer is no error: what it
// counted was read before, and it stops everything when the session is over.
func (c *Client) stop(verb string, started Started) error {
	err := c.call(context.Background(), verb, handle{started.Handle}, nil, 0)
	if errors.Is(err, ErrLost) || errors.Is(err, errNoAnswer) {
		return nil
	}
	return err
}

// call makes one request and waits for the answer, for as long as the request takes plus the client's timeout.
func (c *Client) call(ctx context.Context, verb string, args, result any, takes time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, takes+c.timeout, fmt.Errorf("agent: %w to %s within %v", errNoAnswer,
		verb, takes+c.timeout))
	defer cancel()
	raw, err := json.Marshal(args)
	if err != nil {
		return err
	}
	ch := make(chan response, 1)
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return fmt.Errorf("%w: %w", ErrLost, c.err)
	}
	c.last++
	id := c.last
	c.waiting[id] = ch
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.waiting, id)
		c.mu.Unlock()
	}()
	if err := c.wire.send(request{ID: id, Verb: verb, Args: raw}, c.timeout); err != nil {
		c.end(err)
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	select {
	case r := <-ch:
		if r.Error != nil {
			return r.Error
		}
		if result == nil {
			return nil
		}
		if err := json.Unmarshal(r.Result, result); err != nil {
			return fmt.Errorf("agent: answer to %s: %w", verb, err)
		}
		if err := plausible(result); err != nil {
			reflect.ValueOf(result).Elem().SetZero() // nothing of it is used
			return fmt.Errorf("answer to %s: %w", verb, err)
		}
		return nil
	case <-c.done:
		return fmt.Errorf("%w: %w", ErrLost, c.err)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Info describes the machine that the agent runs on.
func (c *Client) Info(ctx context.Context) (Info, error) {
	var i Info
	return i, c.call(ctx, "info", struct{}{}, &i, 0)
}

// Stat returns the cpu lines of the agent's /proc/stat.
func (c *Client) Stat(ctx context.Context) (string, error) {
	var s string
	return s, c.call(ctx, "cpu", struct{}{}, &s, 0)
}

// Counters reads the counters of an interface.
func (c *Client) Counters(ctx context.Context, e traffic.Endpoint) (Counters, error) {
	var k Counters
	return k, c.call(ctx, "counters", interfaceArgs{e}, &k, 0)
}

// PowerOff powers off the agent's machine.
func (c *Client) PowerOff(ctx context.Context) error {
	return c.call(ctx, "poweroff", struct{}{}, nil, 0)
}

// GeneratorAlone and ReceiverAlone run the functions of the same names on the agent.
func (c *Client) GeneratorAlone(ctx context.Context, g traffic.Config, d time.Duration) (traffic.Alone, error) {
	var a traffic.Alone
	return a, c.call(ctx, "alone.generator", aloneArgs{Config: g, Duration: d}, &a, d)
}

func (c *Client) ReceiverAlone(ctx context.Context, s traffic.SinkConfig, g traffic.Config,
	d time.Duration) (traffic.Alone, error) {
	var a traffic.Alone
	return a, c.call(ctx, "alone.receiver", aloneArgs{Config: g, Sink: s, Duration: d}, &a, d)
}
