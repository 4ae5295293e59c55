package link

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/machine/tree"
	"mpps/internal/machine/trust"
)

// session is the TCP connection of an SSH session.
type session struct{ client, server netip.AddrPort }

// sshPort is sshd's default port.
const sshPort = 22

// sshSessions returns the operator's SSH connections: those of an sshd among the ancestors of this process, and the one
// in SSH_CONNECTION, here or in the nearest ancestor that has it, since sudo clears the environment. If neither is an
// established connection (a terminal from an earlier session, a cron job), it returns every connection to sshd's port.
func sshSessions(m *tree.Tree) []session {
	if !m.Live() {
		return nil
	}
	established := establishedSockets(m)
	var all []session
	add := func(one session) {
		if !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	named, known := parseSSHConnection(os.Getenv("SSH_CONNECTION"))
	for pid, hops := os.Getppid(), 0; pid > 1 && hops < 32; hops++ {
		dir := path.Join("proc", strconv.Itoa(pid))
		if environment, err := m.Read(path.Join(dir, "environ")); err == nil && !known {
			for _, variable := range strings.Split(environment, "\x00") {
				if value, found := strings.CutPrefix(variable, "SSH_CONNECTION="); found {
					named, known = parseSSHConnection(value)
				}
			}
		}
		if strings.HasPrefix(trust.Name(m, pid, pid), "sshd") { // the operator's own ancestors are believed
			for _, fd := range m.List(path.Join(dir, "fd")) {
				if one, found := established[m.Target(path.Join(dir, "fd", fd))]; found {
					add(one)
				}
			}
		}
		pid = parentOf(m.Line(path.Join(dir, "stat")))
	}
	port := uint16(sshPort)
	if known {
		port = named.server.Port()
	}
	found := len(all) > 0
	for _, one := range established {
		found = found || known && one == named
	}
	if known {
		add(named)
	}
	if !found {
		for _, one := range established {
			if one.server.Port() == port {
				add(one)
			}
		}
	}
	slices.SortFunc(all, func(a, b session) int { return a.client.Compare(b.client) })
	return all
}

// parentOf returns the parent's PID in a /proc/PID/stat line: the second field after the name, which may contain
// anything and ends with the last parenthesis. It is 0 if the line has none.
func parentOf(stat string) int {
	at := strings.LastIndexByte(stat, ')')
	if at < 0 {
		return 0
	}
	fields := strings.Fields(stat[at+1:])
	if len(fields) < 2 {
		return 0
	}
	pid, _ := strconv.Atoi(fields[1])
	return pid
}

// parseSSHConnection reads "client-address client-port server-address server-port" (ssh(1)).
func parseSSHConnection(value string) (session, bool) {
	fields := strings.Fields(value)
	if len(fields) != 4 {
		return session{}, false
	}
	end := func(address, port string) (netip.AddrPort, bool) {
		a, err := netip.ParseAddr(address)
		n, wrong := strconv.ParseUint(port, 10, 16)
		return netip.AddrPortFrom(a.Unmap(), uint16(n)), err == nil && wrong == nil
	}
	client, known := end(fields[0], fields[1])
	server, also := end(fields[2], fields[3])
	return session{client, server}, known && also
}

// establishedSockets returns the established TCP connections of this network namespace, by their names in /proc/PID/fd.
func establishedSockets(m *tree.Tree) map[string]session {
	all := map[string]session{}
	for _, name := range []string{"proc/net/tcp", "proc/net/tcp6"} {
		text, err := m.Read(name)
		if err != nil {
			continue
		}
		parseSockets(text, all)
	}
	return all
}

// parseSockets adds the established connections in /proc/net/tcp or tcp6 (net/ipv4/tcp_ipv4.c, get_tcp4_sock): local
// and remote address and port in hexadecimal, the state (01 is established), the inode in the tenth field.
func parseSockets(text string, into map[string]session) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 10 || f[3] != "01" {
			continue
		}
		server, ok := socketEnd(f[1])
		client, also := socketEnd(f[2])
		if ok && also {
			into["socket:["+f[9]+"]"] = session{client, server}
		}
	}
}

// socketEnd parses an address and a port. The address's 32-bit words are in this machine's byte order.
func socketEnd(text string) (netip.AddrPort, bool) {
	words, port, found := strings.Cut(text, ":")
	raw, err := hex.DecodeString(words)
	number, wrong := strconv.ParseUint(port, 16, 16)
	if !found || err != nil || wrong != nil || len(raw) != 4 && len(raw) != 16 {
		return netip.AddrPort{}, false
	}
	bytes := make([]byte, len(raw))
	for i := 0; i < len(raw); i += 4 {
		binary.NativeEndian.PutUint32(bytes[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	address, ok := netip.AddrFromSlice(bytes)
	return netip.AddrPortFrom(address.Unmap(), uint16(number)), ok
}
