package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"mpps/internal/measure/traffic"
)

// Port is the default port of an agent.
const Port = "7878"

// Options of a Server.
type Options struct {
	Version string // of mpps, sent to clients
	Secret  []byte // nil: none
	// InsecureLab allows listening without a secret on addresses that are neither loopback, private nor link-local.
	InsecureLab bool
	// PowerOff powers off the machine, which is only for an agent that is PID 1. nil: the request is refused.
	PowerOff func() error
}

// ErrOpen means that the agent was to listen on a public address without a secret.
var ErrOpen = errors.New("refusing to serve an open network without a secret")

// A Server is an agent.
type Server struct {
	listener net.Listener
	opt      Options
}

// Listen returns an agent that listens on addr (host:port, port 0 for any) in a network namespace, "" for this one.
func Listen(netns, addr string, o Options) (*Server, error) {
	if len(o.Secret) == 0 && !o.InsecureLab {
		if err := checkPrivate(addr); err != nil {
			return nil, err
		}
	}
	s := &Server{opt: o}
	err := traffic.Endpoint{Netns: netns}.Do(func() (err error) {
		s.listener, err = net.Listen("tcp", addr)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	return s, nil
}

// checkPrivate accepts loopback, private (RFC 1918, RFC 4193) and link-local addresses. It rejects the unspecified
// address (0.0.0.0) and all names except localhost.
func checkPrivate(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("agent: address %q: %w", addr, err)
	}
	ip := net.ParseIP(host)
	if host == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast()) {
		return nil
	}
	return fmt.Errorf("agent on %s: %w", addr, ErrOpen)
}

// Addr returns the address that the agent listens on.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Serve answers clients until ctx is done, which is not an error. It returns when every session has ended and nothing
// is attached any more.
func (s *Server) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { s.listener.Close() })
	defer stop()
	var wait sync.WaitGroup
	defer wait.Wait()
	for {
		c, err := s.listener.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			if errors.Is(err, net.ErrClosed) {
				cancel()
				return fmt.Errorf("agent: %w", err)
			}
			select { // out of descriptors, for example, which passes
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
			}
			continue
		}
		wait.Go(func() { s.serveClient(ctx, c) })
	}
}

// Close stops listening: Serve then ends all sessions and returns an error.
func (s *Server) Close() error { return s.listener.Close() }

// serveClient serves one connection from hello to end. An error ends it, and cannot be reported to anyone: it concerns
// the connection itself.
func (s *Server) serveClient(ctx context.Context, c net.Conn) {
	defer c.Close()
	w := newWire(c)
	silence, err := s.hello(w)
	if err != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	p := newSession(s.opt)
	var wait sync.WaitGroup
	defer func() {
		// Stop the traffic first, then wait for the requests.
		cancel()
		p.close()
		wait.Wait()
	}()
	running := make(chan struct{}, maxRequests)
	for {
		var r request
		if err := w.receive(&r, silence); err != nil {
			return
		}
		if r.Verb == "ping" && r.ID == 0 {
			// The answer is this side's sign of life.
			if w.send(response{}, silence) != nil {
				return
			}
			continue
		}
		select {
		case running <- struct{}{}:
		default:
			if w.send(response{ID: r.ID, Error: remoteError(fmt.Errorf("%w: more than %d requests at a time",
				errRefused, maxRequests))}, silence) != nil {
				return
			}
			continue
		}
		wait.Go(func() {
			defer func() { <-running }()
			a := response{ID: r.ID}
			result, err := p.handle(ctx, r)
			if err != nil {
				a.Error = remoteError(err)
			} else {
				a.Result = result
			}
			if w.send(a, silence) != nil {
				cancel()
			}
		})
	}
}

const maxRequests = 256

// hello agrees on version, secret and silence.
func (s *Server) hello(w *wire) (time.Duration, error) {
	ours, err := challenge()
	if err != nil {
		return 0, err
	}
	h := Hello{MPPS: s.opt.Version, Protocol: Protocol, Challenge: ours, Secret: len(s.opt.Secret) > 0}
	if err := w.send(h, helloWithin); err != nil {
		return 0, err
	}
	var r helloReply
	if err := w.receive(&r, helloWithin); err != nil {
		return 0, err
	}
	silence := defaultSilence
	if r.SilenceMS > 0 {
		silence = min(time.Duration(min(r.SilenceMS, maxSilence.Milliseconds()))*time.Millisecond, maxSilence)
	}
	done := helloDone{SilenceMS: silence.Milliseconds()}
	switch {
	case r.Protocol != Protocol:
		err = ErrVersion
		done = helloDone{Error: "protocol"}
	case len(s.opt.Secret) > 0 && !same(r.Proof, mac(s.opt.Secret, "client", ours, r.Challenge)):
		err = ErrSecret
		done = helloDone{Error: "secret"}
	case len(s.opt.Secret) > 0:
		done.Proof = mac(s.opt.Secret, "server", ours, r.Challenge)
	}
	if err := errors.Join(err, w.send(done, helloWithin)); err != nil {
		return 0, err
	}
	if len(s.opt.Secret) > 0 {
		w.secure(s.opt.Secret, ours, r.Challenge, "server", "client")
	}
	return silence, nil
}
