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

// mostRemotes is how many remote ends of one tunnel are looked up. Their routes differ little: a fabric with thousands
// of ends is reached by a few uplinks.
const mostRemotes = 64

// underlays finds the devices that tunnels' packets leave by. What the kernel lists as a whole is listed once, at the
// first call that needs it: a host can have thousands of tunnels.
type underlays struct {
	host    *facts.Host
	conn    *netlink.Conn // nil in a recorded tree
	names   map[int]string
	devices []Device
	found   map[uint32]nextHop
	held    map[netip.Addr][]string // see holders
	learned map[int][]forwarding    // see forwarded
	encaps  map[int][]ends          // see encapsulated
}

// newUnderlays opens a connection for the lookups; the caller closes it.
func newUnderlays(m *tree.Tree, h *facts.Host, devices []Device, names map[int]string) *underlays {
	u := &underlays{host: h, names: names, devices: devices}
	if m.Live() {
		u.conn, _ = DialRoute() // the link table has been read: failing now leaves the underlays unknown
	}
	return u
}

func (u *underlays) close() {
	if u.conn != nil {
		u.conn.Close()
	}
}

// of returns the devices that a tunnel's packets leave by if it is bound to none; none if that is not known.
func (u *underlays) of(d Device) []string {
	if _, tunnel := tunnels[d.Kind]; !tunnel || u.conn == nil || d.lower != 0 || d.elsewhere {
		return nil
	}
	var to []ends
	switch {
	case d.tunnel.remote.IsValid() && !d.tunnel.remote.IsMulticast():
		to = []ends{d.tunnel}
	case d.tunnel.external && u.names[d.master] == facts.OVSDatapath:
		to = u.ofOpenVSwitch(d.Kind)
	case d.Kind == "vxlan": // also an external one below a bridge with VLAN tunnels (drivers/net/vxlan, vxlan_xmit)
		to = u.forwarded(d)
	}
	if len(to) == 0 && d.tunnel.external {
		to = u.encapsulated(d.Index)
	}
	if len(to) == 0 && d.tunnel.local.IsValid() {
		return u.holders(d.tunnel.local)
	}
	return u.leave(d.Name, to)
}

// ofOpenVSwitch returns the ends of Open vSwitch's tunnels that a kind of device serves; none if they are not known, or
// if flows choose some of them (ovs-vswitchd.conf.db(5), options:remote_ip).
func (u *underlays) ofOpenVSwitch(kind string) (all []ends) {
	if u.host.OpenVSwitch == nil {
		return nil
	}
	for b := range facts.Each(u.host.OpenVSwitch.Bridges) {
		for p := range facts.Each(b.Ports) {
			for _, i := range p.Interfaces {
				if !slices.Contains(facts.OVSTunnels[i.Type], kind) {
					continue
				}
				remote, err := netip.ParseAddr(i.Options["remote_ip"])
				if err != nil {
					return nil
				}
				local, _ := netip.ParseAddr(i.Options["local_ip"])
				all = append(all, ends{remote: remote, local: local})
			}
		}
	}
	return all
}

// leave returns the devices of the routes to remote ends.
func (u *underlays) leave(tunnel string, to []ends) []string {
	if len(to) > mostRemotes {
		tree.Note(u.host, facts.Unseen{What: "routes to some remote ends of " + tunnel,
			Why: fmt.Sprintf("it has %d, of which %d are looked up", len(to), mostRemotes)})
		to = to[:mostRemotes]
	}
	var all []string
	for _, e := range to {
		r, err := lookUp(u.conn, e.remote, e.local, wholeRoute)
		if err != nil && e.local.IsValid() { // the address is on no device now
			r, err = lookUp(u.conn, e.remote, netip.Addr{}, wholeRoute)
		}
		if err != nil || !r.unicast {
			continue
		}
		for _, index := range u.devicesOf(r) {
			if name := u.names[index]; name != "" && name != tunnel {
				all = append(all, name)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// devicesOf returns the devices of a route. One with a nexthop object has none of its own if
// net.ipv4.nexthop_compat_mode is off.
func (u *underlays) devicesOf(r route) []int {
	if len(r.oifs) > 0 || r.nextHop == 0 {
		return r.oifs
	}
	return facts.Map(members(u.objects(), r.nextHop), func(hop nextHop) int { return hop.oif })
}

func (u *underlays) objects() map[uint32]nextHop {
	if u.found == nil {
		u.found = nextHops(u.conn)
	}
	return u.found
}

// holders returns the devices with an address, unless only devices without a wire have it: then any uplink may be the
// way out.
func (u *underlays) holders(address netip.Addr) []string {
	if u.held == nil {
		u.held = map[netip.Addr][]string{}
		wired := make(map[int]string, len(u.devices))
		for _, d := range u.devices {
			if d.flags&unix.IFF_LOOPBACK == 0 && d.Kind != "dummy" {
				wired[d.Index] = d.Name
			}
		}
		all, _ := addresses(u.conn) // none if they cannot be read
		for _, h := range all {
			if name := wired[h.device]; name != "" {
				u.held[h.address] = append(u.held[h.address], name)
			}
		}
	}
	names := slices.Clone(u.held[address])
	slices.Sort(names)
	return slices.Compact(names)
}

// forwarded returns the remote ends in a VXLAN's forwarding database, sorted: what a control plane (EVPN) put there, or
// what it learned.
func (u *underlays) forwarded(d Device) []ends {
	if u.learned == nil {
		u.learned = map[int][]forwarding{}
		u.learn()
	}
	distinct := map[netip.Addr]bool{}
	for _, e := range u.learned[d.Index] {
		if e.remote.IsValid() {
			distinct[e.remote] = true
		}
		if e.nextHop != 0 {
			for _, hop := range members(u.objects(), e.nextHop) {
				if hop.fdb && hop.gateway.IsValid() {
					distinct[hop.gateway] = true
				}
			}
		}
	}
	var all []ends
	for remote := range distinct {
		all = append(all, ends{local: d.tunnel.local, remote: remote})
	}
	slices.SortFunc(all, func(a, b ends) int { return a.remote.Compare(b.remote) })
	return all
}

// learn reads the forwarding databases of all devices, those of bridges too: it keeps entries with a remote end alone.
func (u *underlays) learn() {
	head := make([]byte, unix.SizeofIfInfomsg)
	head[0] = unix.AF_BRIDGE
	if _, err := u.conn.Send(netlink.Message{
		Header: netlink.Header{Type: unix.RTM_GETNEIGH, Flags: netlink.Request | netlink.Dump}, Data: head,
	}); err != nil {
		return
	}
	for m, err := range u.conn.ReceiveIter() {
		if err != nil {
			return
		}
		if e, err := parseForwarding(m.Data); err == nil && (e.remote.IsValid() || e.nextHop != 0) {
			u.learned[e.device] = append(u.learned[e.device], e)
		}
	}
}

// forwarding is an entry of a VXLAN's forwarding database.
type forwarding struct {
	device  int
	remote  netip.Addr // not valid without one, and for a multicast group
	nextHop uint32     // nexthop object instead
}

// ndaNextHop is NDA_NH_ID, which package unix does not have (include/uapi/linux/neighbour.h).
const ndaNextHop = 13

// parseForwarding reads one RTM_NEWNEIGH message of a forwarding database.
func parseForwarding(message []byte) (forwarding, error) {
	if len(message) < unix.SizeofNdMsg {
		return forwarding{}, fmt.Errorf("neighbour message of %d bytes: expected %d or more", len(message),
			unix.SizeofNdMsg)
	}
	e := forwarding{device: int(int32(binary.NativeEndian.Uint32(message[4:])))}
	ad, err := netlink.NewAttributeDecoder(message[unix.SizeofNdMsg:])
	if err != nil {
		return forwarding{}, fmt.Errorf("neighbour message: %w", err)
	}
	for ad.Next() {
		switch ad.Type() {
		case unix.NDA_DST:
			if a, ok := netip.AddrFromSlice(ad.Bytes()); ok && !a.IsUnspecified() && !a.IsMulticast() {
				e.remote = a.Unmap()
			}
		case ndaNextHop:
			e.nextHop = ad.Uint32()
		}
	}
	if err := ad.Err(); err != nil {
		return forwarding{}, fmt.Errorf("neighbour message: %w", err)
	}
	return e, nil
}
