package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"mpps/internal/measure/traffic"
)

// A Server is the far end of an engine, started on this machine.
type Server struct {
	Addr string // host:port
	stop context.CancelFunc
	done chan error
}

// Serve starts the far end at a local address, in a network namespace, on a free port. It waits until the server
// answers from the client's namespace: the loopback of its own may be down.
func (p Program) Serve(ctx context.Context, netns, address, client string) (*Server, error) {
	if p.server == "" {
		return nil, fmt.Errorf("%s: %w", p.Name.Server(), ErrMissing)
	}
	port, err := freePort(netns, address)
	if err != nil {
		return nil, err
	}
	argv := []string{p.server, "-s", "-B", address, "-p", port}
	if p.Name == Netperf {
		argv = []string{p.server, "-D", "-L", address, "-p", port}
	}
	s := &Server{Addr: net.JoinHostPort(address, port), done: make(chan error, 1)}
	var out bounded
	// The caller's context does not end the server: results so far are still to be fetched. Close ends it.
	lives, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	wait, err := start(lives, command{netns: netns, argv: argv}, &out, &out)
	if err != nil {
		s.stop()
		return nil, err
	}
	go func() { s.done <- wait() }()
	for deadline := time.Now().Add(5 * time.Second); ; {
		err := Reach(ctx, client, s.Addr)
		if err == nil {
			return s, nil
		}
		select {
		case ended := <-s.done:
			s.stop()
			s.done <- ended
			return nil, fmt.Errorf("%s ended at once: %w: %s", p.Name.Server(), errors.Join(ended, err),
				firstLine(out.Bytes()))
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), s.Close())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return nil, errors.Join(fmt.Errorf("%s: %w", p.Name.Server(), err), s.Close())
		}
	}
}

// Close ends the server and waits for it.
func (s *Server) Close() error {
	s.stop()
	<-s.done // it was killed, which is not an error
	return nil
}

// freePort returns an unused port. If something takes it before the server does, the server ends at once with an error.
func freePort(netns, address string) (port string, err error) {
	err = traffic.Endpoint{Netns: netns}.Do(func() error {
		l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
		if err != nil {
			return err
		}
		port = strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
		return l.Close()
	})
	if err != nil {
		return "", fmt.Errorf("find a port at %s: %w", address, err)
	}
	return port, nil
}
