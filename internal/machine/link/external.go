package link

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"mpps/internal/model/facts"
)

// Attributes and types of routes that encapsulate (include/uapi/linux/lwtunnel.h).
const (
	encapIP    = 2 // LWTUNNEL_ENCAP_IP
	encapIP6   = 4 // LWTUNNEL_ENCAP_IP6
	encapIPDst = 2 // LWTUNNEL_IP_DST, LWTUNNEL_IP6_DST
)

// encapsulated returns the remote ends that routes by an external tunnel give their packets: "ip route add 10.1.0.0/16
// encap ip id 7 dst 192.0.2.7 dev geneve0". Each is looked up without a source address: the kernel chooses it.
func (u *underlays) encapsulated(tunnel int) []ends {
	if u.encaps == nil {
		u.encaps = map[int][]ends{}
		u.readEncapsulations()
	}
	return u.encaps[tunnel]
}

// readEncapsulations reads the routes of all tables; those read until it fails count.
func (u *underlays) readEncapsulations() {
	if u.conn.SetDeadline(time.Now().Add(routesPatience)) != nil {
		return
	}
	defer func() { _ = u.conn.SetDeadline(time.Time{}) }()
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		head := make([]byte, unix.SizeofRtMsg)
		head[0] = family
		if _, err := u.conn.Send(netlink.Message{
			Header: netlink.Header{Type: unix.RTM_GETROUTE, Flags: netlink.Request | netlink.Dump}, Data: head,
		}); err != nil {
			return
		}
		for message, err := range u.conn.ReceiveIter() {
			if err != nil {
				return
			}
			by, to := encapsulation(message.Data)
			all, e := u.encaps[by], ends{remote: to}
			if to.IsValid() && len(all) <= mostRemotes && !slices.Contains(all, e) {
				u.encaps[by] = append(all, e)
			}
		}
	}
}

// encapsulation returns the device that a route's packets leave by, and the remote end that it gives them; not valid
// if it gives them none. That of several next hops is not read.
func encapsulation(message []byte) (device int, to netip.Addr) {
	if len(message) < unix.SizeofRtMsg {
		return 0, to
	}
	ad, err := netlink.NewAttributeDecoder(message[unix.SizeofRtMsg:])
	if err != nil {
		return 0, to
	}
	kind, encap := uint16(0), []byte(nil)
	for ad.Next() {
		switch ad.Type() {
		case unix.RTA_OIF:
			device = int(ad.Uint32())
		case unix.RTA_ENCAP_TYPE:
			kind = ad.Uint16()
		case unix.RTA_ENCAP:
			encap = ad.Bytes()
		}
	}
	if kind != encapIP && kind != encapIP6 {
		return device, to
	}
	if ad, err = netlink.NewAttributeDecoder(encap); err != nil {
		return device, to
	}
	ad.ByteOrder = binary.NativeEndian
	for ad.Next() {
		if ad.Type() == encapIPDst {
			to, _ = netip.AddrFromSlice(ad.Bytes())
		}
	}
	return device, to
}

// addOnlyWay gives the tunnels whose sender chooses the remote end of each packet, by BPF as Cilium's or by tc, their
// underlay where the host has one way out alone: whichever end is chosen, its route leads there.
func addOnlyWay(h *facts.Host) {
	way := onlyWayOut(h)
	for t := range facts.Each(h.Tunnels) {
		if t.External && t.Lower == "" && len(t.Underlay) == 0 && !t.Elsewhere {
			t.Underlay = slices.Clone(way)
		}
	}
	for l := range facts.Each(h.Links) {
		if l.External && l.Lower == "" && len(l.Underlay) == 0 && !l.Elsewhere {
			l.Underlay = slices.Clone(way)
		}
	}
}

// onlyWayOut returns the device that every route to another host leaves by; none if there are several.
func onlyWayOut(h *facts.Host) []string {
	if h.Routing == nil {
		return nil
	}
	var ways []string
	for _, name := range slices.Concat(h.Routing.Uplinks, h.Routing.Addressed) {
		if !slices.Contains(ways, name) && leadsOut(h, name, slices.Contains(h.Routing.Uplinks, name), 0) {
			ways = append(ways, name)
		}
	}
	if len(ways) != 1 {
		return nil
	}
	return ways
}

// mostBelow bounds the devices below each other.
const mostBelow = 8

// leadsOut reports whether a device may lead to another host's address: not a bridge without a way out, a pair within
// this namespace, or to a container that nothing is routed on through, or an external tunnel.
func leadsOut(h *facts.Host, name string, gateway bool, depth int) bool {
	if depth == mostBelow {
		return true
	}
	below := func(names []string) bool {
		return slices.ContainsFunc(names, func(port string) bool { return leadsOut(h, port, false, depth+1) })
	}
	if b := facts.Find(h.Bridges, func(b *facts.Bridge) bool { return b.Name == name }); b != nil {
		return below(b.Ports)
	}
	if t := facts.Find(h.Tunnels, func(t *facts.Tunnel) bool { return t.Name == name }); t != nil {
		return !t.External
	}
	if facts.Find(h.Taps, func(t *facts.Tap) bool { return t.Name == name && t.Type == "tap" }) != nil {
		return gateway
	}
	l := facts.Find(h.Links, func(l *facts.Link) bool { return l.Name == name })
	switch {
	case l == nil: // a NIC
		return true
	case l.Kind == "dummy", l.Kind == "ifb", l.External, l.Peer != "":
		return false
	case slices.Contains(pairs, l.Kind):
		return gateway
	case l.Lower != "":
		return below(strings.Split(l.Lower, ","))
	}
	return true
}
