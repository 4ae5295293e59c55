package host

import (
	"fmt"
	"net/netip"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// managementPath works out which devices carry the operator's way in, and why: the devices of the default routes and
// of the route to the SSH client, and everything below them (bridge ports, bond ports, the device under a VLAN).
func (m *Machine) managementPath(devices []device) map[string]string {
	why := map[string]string{}
	note := func(name, reason string) {
		for _, below := range under(name, devices) {
			switch {
			case why[below] == "":
				why[below] = reason
			case !strings.Contains(why[below], reason):
				why[below] += ", " + reason
			}
		}
	}
	for _, name := range defaultRoutes(m.line("proc/net/route"), m.line("proc/net/ipv6_route")) {
		note(name, "default route")
	}
	if client, known := m.sshClient(); known {
		if index, err := routeTo(client); err == nil {
			for _, d := range devices {
				if d.index == index {
					note(d.name, fmt.Sprintf("route to %s (SSH client)", client))
				}
			}
		}
	}
	return why
}

// under is a device and all devices that its frames pass on their way out.
func under(name string, devices []device) []string {
	byName, byIndex := map[string]device{}, map[int]device{}
	for _, d := range devices {
		byName[d.name], byIndex[d.index] = d, d
	}
	seen := map[string]bool{}
	var names []string
	var walk func(string)
	walk = func(name string) {
		d, known := byName[name]
		if !known || seen[name] {
			return
		}
		seen[name] = true
		names = append(names, name)
		if lower, known := byIndex[d.lower]; known {
			walk(lower.name)
		}
		for _, port := range devices {
			if port.master == d.index && d.index != 0 {
				walk(port.name)
			}
		}
	}
	walk(name)
	return names
}

// defaultRoutes lists the devices of default routes in the main tables, as /proc/net/route (destination and mask in
// hexadecimal) and /proc/net/ipv6_route (destination, prefix length … device last) show them. Reject routes on lo are not
// ways in.
func defaultRoutes(ipv4, ipv6 string) []string {
	var names []string
	add := func(name string) {
		if name != "lo" {
			names = append(names, name)
		}
	}
	for line := range strings.Lines(ipv4) {
		if f := strings.Fields(line); len(f) >= 8 && f[1] == "00000000" && f[7] == "00000000" {
			add(f[0])
		}
	}
	for line := range strings.Lines(ipv6) {
		if f := strings.Fields(line); len(f) >= 10 && strings.Trim(f[0], "0") == "" && f[1] == "00" {
			add(f[9])
		}
	}
	return names
}

// sshClient is the address that the operator's SSH session comes from: SSH_CONNECTION of this process, or of the nearest
// ancestor that has it, since sudo clears the environment.
func (m *Machine) sshClient() (netip.Addr, bool) {
	if !m.live {
		return netip.Addr{}, false
	}
	if address, ok := parseSSHConnection(os.Getenv("SSH_CONNECTION")); ok {
		return address, true
	}
	for pid, hops := os.Getppid(), 0; pid > 1 && hops < 32; hops++ {
		dir := path.Join("proc", strconv.Itoa(pid))
		environment, err := m.read(path.Join(dir, "environ"))
		if err != nil {
			return netip.Addr{}, false
		}
		for _, variable := range strings.Split(environment, "\x00") {
			if value, found := strings.CutPrefix(variable, "SSH_CONNECTION="); found {
				return parseSSHConnection(value)
			}
		}
		pid = parentOf(m.line(path.Join(dir, "stat")))
	}
	return netip.Addr{}, false
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

// parseSSHConnection reads "client-address client-port server-address server-port" (sshd(8)).
func parseSSHConnection(value string) (netip.Addr, bool) {
	client, _, _ := strings.Cut(value, " ")
	address, err := netip.ParseAddr(client)
	if err != nil {
		return netip.Addr{}, false
	}
	return address.Unmap(), true
}

// routeTo asks the kernel which device leads to an address.
func routeTo(address netip.Addr) (int, error) {
	conn, err := dialRoute()
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	raw := address.AsSlice()
	head := make([]byte, unix.SizeofRtMsg)
	head[0], head[1] = unix.AF_INET, byte(len(raw)*8)
	if address.Is6() {
		head[0] = unix.AF_INET6
	}
	e := netlink.NewAttributeEncoder()
	e.Bytes(unix.RTA_DST, raw)
	attributes, err := e.Encode()
	if err != nil {
		return 0, err
	}
	answers, err := conn.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.RTM_GETROUTE, Flags: netlink.Request}, Data: append(head, attributes...),
	})
	if err != nil {
		return 0, fmt.Errorf("route to %s: %w", address, describe(err))
	}
	for _, answer := range answers {
		if len(answer.Data) < unix.SizeofRtMsg {
			continue
		}
		ad, err := netlink.NewAttributeDecoder(answer.Data[unix.SizeofRtMsg:])
		if err != nil {
			return 0, err
		}
		for ad.Next() {
			if ad.Type() == unix.RTA_OIF {
				return int(ad.Uint32()), nil
			}
		}
	}
	return 0, fmt.Errorf("route to %s: no device in the answer", address)
}
