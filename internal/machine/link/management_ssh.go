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
)

// session is the socket of an SSH session, by its two ends.
type session struct{ client, server netip.AddrPort }

// sshPort is where sshd listens unless it is told otherwise.
const sshPort = 22

// sshSessions are the sockets that the operator's way in goes through: those of the sshd among the ancestors of this
// process, and what SSH_CONNECTION says, here or in the nearest ancestor that has it, since sudo clears the
// environment. Where neither leads to a connection that stands (a terminal that was opened in an earlier session, a job
// of cron), every connection to sshd's port counts.
func sshSessions(m *tree.Tree) []session {
	if !m.Live() {
		return nil
	}
	standing := establishedSockets(m)
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
		if strings.HasPrefix(m.Line(path.Join(dir, "comm")), "sshd") {
			for _, fd := range m.List(path.Join(dir, "fd")) {
				if one, found := standing[m.Target(path.Join(dir, "fd", fd))]; found {
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
	stands := len(all) > 0
	for _, one := range standing {
		stands = stands || known && one == named
	}
	if known {
		add(named)
	}
	if !stands {
		for _, one := range standing {
			if one.server.Port() == port {
				add(one)
			}
		}
	}
	slices.SortFunc(all, func(a, b session) int { return a.client.Compare(b.client) })
	return all
}

// parentOf is the parent in a /proc/PID/stat line: the second field behind the name, which may hold anything and ends
// with the last parenthesis.
func parentOf(stat string) int {
	at := strings.LastIndexByte(stat, ')')
	if at < 0 {
		return 0
	}
	fields := strings.Fields(stat[at+1:])
	if len(fields) < 2 {
		return 0
	}
	pid, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0
	}
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

// establishedSockets are the TCP connections of this network namespace, by the names that links in /proc/PID/fd have.
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

// parseSockets reads /proc/net/tcp or tcp6 (net/ipv4/tcp_ipv4.c, get_tcp4_sock): local and remote address and port in
// hexadecimal, the state (01 is established), the inode in the tenth field.
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

// socketEnd reads an address, whose 32-bit words are in the byte order of this machine, and a port.
func socketEnd(text string) (netip.AddrPort, bool) {
	words, port, found := strings.Cut(text, ":")
	raw, err := hex.DecodeString(words)
	number, wrong := strconv.ParseUint(port, 16, 16)
	if !found || err != nil || wrong != nil || len(raw) != 4 && len(raw) != 16 {
		return netip.AddrPort{}, false
	}
	bytes := make([]byte, len(raw))
	for i := 0; i < len(raw); i += 4 {
		value := uint32(raw[i])<<24 | uint32(raw[i+1])<<16 | uint32(raw[i+2])<<8 | uint32(raw[i+3])
		binary.NativeEndian.PutUint32(bytes[i:], value)
	}
	address, ok := netip.AddrFromSlice(bytes)
	return netip.AddrPortFrom(address.Unmap(), uint16(number)), ok
}
