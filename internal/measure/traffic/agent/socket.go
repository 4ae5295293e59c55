package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"mpps/internal/measure/traffic"
)

// unixPrefix starts the address of an agent on a unix socket: unix:/path.
const unixPrefix = "unix:"

// SocketPath returns the path in an address of the form unix:/path.
func SocketPath(addr string) (path string, ok bool) { return strings.CutPrefix(addr, unixPrefix) }

// listen listens on host:port in a network namespace, or on a unix socket that only root and this user may connect to.
func listen(netns, addr string) (l net.Listener, err error) {
	if path, ok := SocketPath(addr); ok {
		// bind gives the file the mode of the socket (net/unix/af_unix.c, unix_bind_bsd): at no time is it another's
		// that lies at the path.
		own := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (failed error) {
			err := c.Control(func(fd uintptr) { failed = unix.Fchmod(int(fd), 0o600) })
			return errors.Join(err, failed)
		}}
		return own.Listen(context.Background(), "unix", path)
	}
	err = traffic.Endpoint{Netns: netns}.Do(func() error {
		l, err = (&net.ListenConfig{Control: thin}).Listen(context.Background(), "tcp", addr)
		return err
	})
	return l, err
}

// thin has TCP repeat six times what was lost before it doubles its timeout (tcp_retransmit_timer in
// net/ipv4/tcp_timer.c): test frames may flood the link. Accepted sockets inherit it. A kernel without it waits longer.
func thin(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_THIN_LINEAR_TIMEOUTS, 1)
	})
}

// dialSocket connects to host:port from a network namespace, or to a unix socket that root or this user listens on.
func dialSocket(ctx context.Context, netns, addr string) (c net.Conn, err error) {
	if path, ok := SocketPath(addr); ok {
		if c, err = (&net.Dialer{}).DialContext(ctx, "unix", path); err != nil {
			return nil, err
		}
		if err := ownPeer(c); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		return c, nil
	}
	err = traffic.Endpoint{Netns: netns}.Do(func() error {
		c, err = (&net.Dialer{Control: thin}).DialContext(ctx, "tcp", addr)
		return err
	})
	return c, err
}

// ownPeer refuses a peer on a unix socket that is neither root's nor this user's process (SO_PEERCRED of unix(7)). It
// accepts every peer over TCP.
func ownPeer(c net.Conn) error {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	if failed := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); failed != nil || err != nil {
		return fmt.Errorf("who is at the other end of the socket: %w", errors.Join(failed, err))
	}
	if !trusted(cred.Uid, os.Geteuid()) {
		return fmt.Errorf("%w: %d", ErrUser, cred.Uid)
	}
	return nil
}

// trusted reports whether a peer's user is root or us.
func trusted(peer uint32, us int) bool { return peer == 0 || int(peer) == us }

// addressOf returns the address of a TCP peer, and the zero address for any other.
func addressOf(a net.Addr) netip.Addr {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}
