package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"mpps/internal/measure/traffic/talk"
	"mpps/internal/outcome"
)

// Port is the default port of an agent.
const Port = "7878"

// Options of a Server.
type Options struct {
	Version string // of mpps, sent to clients
	Secret  []byte // nil: none
	// Open serves whoever can connect, without a secret. A unix socket needs neither of them.
	Open   bool
	Limits *Limits // nil: none
	// PowerOff powers off the machine, which is only for an agent that is PID 1. nil: the request is refused.
	PowerOff func() error
}

// ErrOpen means that the agent was to serve a network without a secret.
var ErrOpen = errors.New("refusing to serve a network without a secret")

// A Server is an agent.
type Server struct {
	listener net.Listener
	opt      Options
	lobby    talk.Lobby
	sessions chan struct{} // holds one element for each
}

// maxSessions is how many clients an agent serves at once.
const maxSessions = 64

// Listen returns an agent that listens on addr (host:port, port 0 for any) in a network namespace, "" for this one, or
// on unix:/path.
func Listen(netns, addr string, o Options) (*Server, error) {
	if _, local := SocketPath(addr); !local && len(o.Secret) == 0 && !o.Open {
		return nil, fmt.Errorf("agent on %s: %w", addr, ErrOpen)
	}
	if o.Limits == nil {
		o.Limits = &Limits{}
	}
	l, err := listen(netns, addr)
	if err != nil {
		return nil, fmt.Errorf("agent on %s: %w", addr, outcome.SocketCause(err))
	}
	return &Server{listener: l, opt: o, sessions: make(chan struct{}, maxSessions)}, nil
}

// Addr returns the address that the agent listens on.
func (s *Server) Addr() string {
	if a, ok := s.listener.Addr().(*net.UnixAddr); ok {
		return unixPrefix + a.Name
	}
	return s.listener.Addr().String()
}

// Serve answers clients until ctx is done, which is not an error. It returns when every session has ended and nothing
// is attached any more.
func (s *Server) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		s.listener.Close()
		s.lobby.Close()
	})
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
		leave := s.lobby.Enter(c, helloWithin)
		wait.Go(func() { s.serveClient(ctx, c, leave) })
	}
}

// Close stops listening: Serve then ends all sessions and returns an error.
func (s *Server) Close() error { return s.listener.Close() }

// serveClient serves one connection from hello to end. An error ends it, and cannot be reported to anyone: it concerns
// the connection itself.
func (s *Server) serveClient(ctx context.Context, c net.Conn, leave func() bool) {
	defer c.Close()
	w := newWire(c)
	silence, err := s.hello(w)
	open := leave()
	if err != nil {
		return
	}
	defer func() { <-s.sessions }()
	if !open {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	p := newSession(s.opt, addressOf(c.RemoteAddr()), w.dataKey())
	var wait sync.WaitGroup
	defer func() {
		// Stop the traffic first, then wait for the requests.
		cancel()
		p.close()
		wait.Wait()
	}()
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
		end, err := p.enter(r)
		if err != nil {
			if w.send(response{ID: r.ID, Error: remoteError(err)}, silence) != nil {
				return
			}
			continue
		}
		wait.Go(func() {
			defer end()
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

// hello agrees on version, secret and silence, and takes a place among the sessions unless it fails.
func (s *Server) hello(w *wire) (time.Duration, error) {
	if err := ownPeer(w.conn); err != nil {
		return 0, err
	}
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
		silence = max(time.Duration(min(r.SilenceMS, maxSilence.Milliseconds()))*time.Millisecond, leastSilence)
	}
	done, err := s.admit(ours, r)
	done.SilenceMS = silence.Milliseconds()
	if failed := w.send(done, helloWithin); err == nil && failed != nil {
		<-s.sessions
		err = failed
	}
	if err != nil {
		return 0, err
	}
	w.begin(s.opt.Secret, ours, r.Challenge, "server", "client", maxRequest)
	return silence, nil
}

// admit takes a place among the sessions for a client that has the version and the secret.
func (s *Server) admit(ours string, r helloReply) (helloDone, error) {
	if r.Protocol != Protocol {
		return helloDone{Error: "protocol"}, ErrVersion
	}
	if len(s.opt.Secret) > 0 && !same(r.Proof, mac(s.opt.Secret, "client", ours, r.Challenge)) {
		return helloDone{Error: "secret"}, ErrSecret
	}
	select {
	case s.sessions <- struct{}{}:
	default:
		return helloDone{Error: "busy"}, ErrBusy
	}
	if len(s.opt.Secret) == 0 {
		return helloDone{}, nil
	}
	return helloDone{Proof: mac(s.opt.Secret, "server", ours, r.Challenge)}, nil
}
