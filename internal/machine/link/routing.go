package link

import (
	"fmt"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// routesPatience bounds the reading of the routes: a router of the Internet has a million, a second of work.
const routesPatience = 5 * time.Second

// routing reads what the host's network layer does with packets of others.
func routing(m *tree.Tree, h *facts.Host, devices []Device, names map[int]string) *facts.Routing {
	r := routes{links: map[string]Device{}, addressed: map[string]bool{}, uplinks: map[string]bool{}}
	for _, d := range devices {
		r.links[d.Name] = d
	}
	if m.Live() {
		if err := r.ask(names, routesPatience); err != nil {
			tree.AddUnseen(h, "addresses and routes", err)
			return nil
		}
	} else if !r.readRecorded(m) {
		if len(h.Bridges)+len(h.Taps) > 0 { // otherwise nothing can depend on them
			tree.AddUnseen(h, "addresses and routes", tree.ErrNotLive)
		}
		return nil
	}
	return &facts.Routing{Forward: forwards(m), Addressed: sorted(r.addressed), Uplinks: sorted(r.uplinks),
		Refusing: r.refusing}
}

func sorted(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }

// routes collects the devices of addresses and routes.
type routes struct {
	links              map[string]Device
	addressed, uplinks map[string]bool
	refusing           []string
}

// mostRefusing is how many routes that refuse packets are kept: a router has them by the thousand.
const mostRefusing = 8

// shortest is the length of the shortest prefix that a link's hosts may have. 0.0.0.0/1 and 128.0.0.0/1 stand for the
// default route (OpenVPN's redirect-gateway def1), and so does 2000::/3.
const shortest = 4

// add notes a route of a device. One without a gateway leads to the hosts behind the device; on a point-to-point device
// and for everything it leads on from there.
func (r *routes) add(device string, one route) {
	d, known := r.links[device]
	switch {
	case !known || !one.unicast || d.flags&unix.IFF_LOOPBACK != 0:
	case one.gateway || one.to.Bits() < shortest || d.flags&unix.IFF_POINTOPOINT != 0:
		r.uplinks[device] = true
	case !(one.to.Addr().Is6() && one.to.Addr().IsLinkLocalUnicast()):
		r.addressed[device] = true
	}
}

// hold notes an address of a device. Every device has a link-local one of IPv6.
func (r *routes) hold(device string, address netip.Addr) {
	d, known := r.links[device]
	if known && d.flags&unix.IFF_LOOPBACK == 0 && !(address.Is6() && address.IsLinkLocalUnicast()) {
		r.addressed[device] = true
	}
}

// ask reads the addresses, and the routes of all tables, from the kernel.
func (r *routes) ask(names map[int]string, patience time.Duration) error {
	conn, err := DialRoute()
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return fmt.Errorf("route netlink: %w", err)
	}
	holders, err := addresses(conn)
	if err != nil {
		return err
	}
	for _, h := range holders {
		r.hold(names[h.device], h.address)
	}
	objects := nextHops(conn)
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		if err := r.dump(conn, family, names, objects); err != nil {
			return err
		}
	}
	return nil
}

// dump reads the routes of a family. It keeps none of them: they may be a million.
func (r *routes) dump(conn *netlink.Conn, family byte, names map[int]string, objects map[uint32]nextHop) error {
	head := make([]byte, unix.SizeofRtMsg)
	head[0] = family
	_, err := conn.Send(netlink.Message{
		Header: netlink.Header{Type: unix.RTM_GETROUTE, Flags: netlink.Request | netlink.Dump}, Data: head,
	})
	if err != nil {
		return fmt.Errorf("list of routes: %w", tree.Netlink(err))
	}
	for message, err := range conn.ReceiveIter() {
		if err != nil {
			return fmt.Errorf("list of routes: %w", tree.Netlink(err))
		}
		one, err := parseRoute(message.Data)
		if err != nil {
			return err
		}
		if one.refuses != "" && len(r.refusing) < mostRefusing {
			r.refusing = append(r.refusing, one.refuses+" "+one.to.String())
		}
		if len(one.oifs) == 0 && one.nextHop != 0 {
			for _, hop := range members(objects, one.nextHop) {
				one.oifs, one.gateway = append(one.oifs, hop.oif), one.gateway || hop.gateway.IsValid()
			}
		}
		for _, index := range one.oifs {
			r.add(names[index], one)
		}
	}
	return nil
}

// readRecorded reads what /proc/net has: routes of the main table of IPv4, of all tables of IPv6, and addresses of
// IPv6. An address of IPv4 shows in its subnet's route. It returns false if the tree has no routes.
func (r *routes) readRecorded(m *tree.Tree) bool {
	ipv4, err := m.Read("proc/net/route")
	if err != nil {
		return false
	}
	for _, one := range recordedRoutes(ipv4, m.Line("proc/net/ipv6_route")) {
		r.add(one.device, one.route)
	}
	for line := range strings.Lines(m.Line("proc/net/if_inet6")) {
		f := strings.Fields(line) // address, index, prefix length, scope, flags, device
		if len(f) < 6 {
			continue
		}
		if address, ok := hexAddress(f[0]); ok {
			r.hold(f[5], address)
		}
	}
	return true
}

// forwards reports whether the host forwards packets. IPv4 is forwarded where the device that a packet arrived on has
// forwarding (net/ipv4/route.c, ip_route_input_slow); IPv6 where all have it, or that device forces it, which Linux
// 6.17 added (net/ipv6/ip6_output.c, ip6_forward).
func forwards(m *tree.Tree) facts.Answer {
	const ipv4, ipv6 = "proc/sys/net/ipv4/conf", "proc/sys/net/ipv6/conf"
	global := m.Line("proc/sys/net/ipv4/ip_forward")
	if global == "1" || isOn(m, ipv6, "all", "forwarding") {
		return facts.Yes
	}
	for _, device := range m.List(ipv4) {
		if device != "default" && isOn(m, ipv4, device, "forwarding") || isOn(m, ipv6, device, "force_forwarding") {
			return facts.Yes
		}
	}
	if global == "" {
		return ""
	}
	return facts.No
}

func isOn(m *tree.Tree, folder, device, name string) bool {
	n, err := strconv.Atoi(m.Line(path.Join(folder, device, name)))
	return err == nil && n > 0
}
