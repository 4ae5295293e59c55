package trust

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/tree"
)

// ErrPeer is the error of a connection to somebody else's socket.
var ErrPeer = errors.New("the process that listens there belongs to a person")

// Peer returns an error unless a process of the system, or this user's, listens at the other end of a connection over a
// Unix socket (SO_PEERCRED of unix(7): who called listen).
func Peer(conn net.Conn) error {
	u, is := conn.(*net.UnixConn)
	if !is {
		return errors.New("expected a connection over a Unix socket")
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	failed := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := errors.Join(failed, err); err != nil {
		return fmt.Errorf("the peer of the socket: %w", err)
	}
	if uid := int(cred.Uid); !systemAccount(uid) && uid != os.Geteuid() {
		return fmt.Errorf("%w: user %d", ErrPeer, uid)
	}
	return nil
}

// FromPIDFile returns the process that a daemon's PID file names; false if there is none, or the process is not the
// system's with a program of that name, or of that name and a variant (Debian's ovs-vswitchd-dpdk).
func FromPIDFile(m *tree.Tree, file, name string) (int, bool) {
	pid := m.Number(file, 0)
	if pid <= 0 || Name(m, pid, pid) != cut(name) {
		return 0, false
	}
	named := func(program string) bool { return program == name || strings.HasPrefix(program, name+"-") }
	return pid, doubt(m, pid, named) == ""
}
