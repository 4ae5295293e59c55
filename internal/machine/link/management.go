package link

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// managementPath returns the devices that the operator's connection depends on, with the reason: the devices of the
// default routes, those that the SSH session's packets leave by (the route to its client) and arrive on (its local
// address), and everything below them (bridge ports, bond ports, the device under a VLAN).
func managementPath(m *tree.Tree, devices []Device) map[string]string {
	why, noted := map[string]string{}, map[[2]string]bool{}
	note := func(name, reason string) {
		for _, below := range withLower(name, devices) {
			switch {
			case noted[[2]string{below, reason}]:
			case why[below] == "":
				why[below] = reason
			default:
				why[below] += ", " + reason
			}
			noted[[2]string{below, reason}] = true
		}
	}
	for _, name := range defaultRoutes(m.Line("proc/net/route"), m.Line("proc/net/ipv6_route")) {
		note(name, "default route")
	}
	sessions := sshSessions(m)
	if len(sessions) == 0 {
		return why
	}
	holders := addressHolders()
	for _, one := range sessions {
		client := one.client.Addr()
		index, err := routeTo(client)
		for _, d := range devices {
			// The zone of a link-local address is the device that leads to it.
			if err == nil && d.Index == index && client.Zone() == "" || d.Name == client.Zone() {
				note(d.Name, fmt.Sprintf("route to %s (SSH client)", client))
			}
			if d.Index == holders[one.server.Addr()] && d.Index != 0 {
				note(d.Name, fmt.Sprintf("SSH session from %s port %d", client, one.client.Port()))
			}
		}
	}
	return why
}

// withLower returns a device and all devices that its frames pass on their way out. An internal port of Open vSwitch
// has no master (net/openvswitch/vport-internal_dev.c): its frames may leave by any port of the datapath.
func withLower(name string, devices []Device) []string {
	byName, byIndex := map[string]Device{}, map[int]Device{}
	for _, d := range devices {
		byName[d.Name], byIndex[d.Index] = d, d
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
			walk(lower.Name)
		}
		if d.Kind == "openvswitch" {
			walk(facts.OVSDatapath)
		}
		for _, port := range devices {
			if port.master == d.Index && d.Index != 0 {
				walk(port.Name)
			}
		}
	}
	walk(name)
	return names
}

// holder is a device, by its index, and one of its addresses.
type holder struct {
	device  int
	address netip.Addr
}

// addressHolders returns the index of the device that has each address; empty if they cannot be read.
func addressHolders() map[netip.Addr]int {
	all := map[netip.Addr]int{}
	conn, err := DialRoute()
	if err != nil {
		return all
	}
	defer conn.Close()
	holders, _ := addresses(conn)
	for _, h := range holders {
		all[h.address] = h.device
	}
	return all
}

// Addressed reports whether the calling thread's network namespace has an address other than loopback's and those of
// IPv6 that every device has.
func Addressed() (bool, error) {
	conn, err := DialRoute()
	if err != nil {
		return false, err
	}
	defer conn.Close()
	all, err := addresses(conn)
	return slices.ContainsFunc(all, func(h holder) bool {
		return !h.address.IsLoopback() && !h.address.IsLinkLocalUnicast()
	}), err
}

// addresses returns the addresses of all devices.
func addresses(conn *netlink.Conn) ([]holder, error) {
	answers, err := conn.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.RTM_GETADDR, Flags: netlink.Request | netlink.Dump},
		Data:   make([]byte, unix.SizeofIfAddrmsg),
	})
	if err != nil {
		return nil, fmt.Errorf("list of addresses: %w", tree.Netlink(err))
	}
	var all []holder
	for _, answer := range answers {
		if len(answer.Data) < unix.SizeofIfAddrmsg {
			continue
		}
		index := int(binary.NativeEndian.Uint32(answer.Data[4:]))
		ad, err := netlink.NewAttributeDecoder(answer.Data[unix.SizeofIfAddrmsg:])
		if err != nil {
			continue
		}
		for ad.Next() {
			// On a device with a peer IFA_ADDRESS is the peer's address, and IFA_LOCAL follows.
			if ad.Type() == unix.IFA_LOCAL || ad.Type() == unix.IFA_ADDRESS {
				if address, ok := netip.AddrFromSlice(ad.Bytes()); ok {
					all = append(all, holder{index, address.Unmap()})
				}
			}
		}
	}
	return all, nil
}
