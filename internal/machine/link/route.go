package link

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"mpps/internal/machine/tree"
)

// route is one route of the kernel, of any table.
type route struct {
	to      netip.Prefix // the zero prefix of its family for a default route
	unicast bool         // not local, broadcast, unreachable …
	oifs    []int        // devices of all its next hops, by index
	gateway bool         // a next hop is a gateway
	nextHop uint32       // nexthop object, 0 if it has none
	refuses string       // type of a route that refuses packets: blackhole, unreachable or prohibit
}

// Attributes and flags that package unix does not have (include/uapi/linux/rtnetlink.h).
const (
	rtaNextHop    = 30     // RTA_NH_ID
	wholeRoute    = 0x2000 // RTM_F_FIB_MATCH: answer with the route itself, which has all its next hops
	sizeofNextHop = 8      // struct rtnexthop
)

// refusing are the types of routes that refuse packets.
var refusing = map[byte]string{unix.RTN_BLACKHOLE: "blackhole", unix.RTN_UNREACHABLE: "unreachable",
	unix.RTN_PROHIBIT: "prohibit"}

// parseRoute reads one RTM_NEWROUTE message.
func parseRoute(message []byte) (route, error) {
	if len(message) < unix.SizeofRtMsg {
		return route{}, fmt.Errorf("route message of %d bytes: expected %d or more", len(message), unix.SizeofRtMsg)
	}
	r := route{unicast: message[7] == unix.RTN_UNICAST, refuses: refusing[message[7]]}
	address := netip.IPv4Unspecified()
	if message[0] == unix.AF_INET6 {
		address = netip.IPv6Unspecified()
	}
	bits := int(message[1])
	ad, err := netlink.NewAttributeDecoder(message[unix.SizeofRtMsg:])
	if err != nil {
		return route{}, fmt.Errorf("route message: %w", err)
	}
	for ad.Next() {
		switch ad.Type() {
		case unix.RTA_DST:
			if to, ok := netip.AddrFromSlice(ad.Bytes()); ok {
				address = to
			}
		case unix.RTA_OIF:
			r.oifs = append(r.oifs, int(ad.Uint32()))
		case unix.RTA_GATEWAY, unix.RTA_VIA:
			r.gateway = true
		case unix.RTA_PRIORITY:
			if ad.Uint32() == math.MaxUint32 { // the kernel's own, of IPv6 (net/ipv6/route.c, ip6_null_entry)
				r.refuses = ""
			}
		case rtaNextHop:
			r.nextHop = ad.Uint32()
		case unix.RTA_MULTIPATH:
			r.parseHops(ad.Bytes())
		}
	}
	r.to = netip.PrefixFrom(address, bits)
	if err := ad.Err(); err != nil {
		return route{}, fmt.Errorf("route message: %w", err)
	}
	return r, nil
}

// parseHops reads RTA_MULTIPATH: a struct rtnexthop with attributes for each next hop.
func (r *route) parseHops(b []byte) {
	for len(b) >= sizeofNextHop {
		length := int(binary.NativeEndian.Uint16(b))
		if length < sizeofNextHop || length > len(b) {
			return
		}
		r.oifs = append(r.oifs, int(int32(binary.NativeEndian.Uint32(b[4:]))))
		if ad, err := netlink.NewAttributeDecoder(b[sizeofNextHop:length]); err == nil {
			for ad.Next() {
				r.gateway = r.gateway || ad.Type() == unix.RTA_GATEWAY || ad.Type() == unix.RTA_VIA
			}
		}
		b = b[min((length+3)&^3, len(b)):]
	}
}

// routeTo returns the index of the device that leads to an address.
func routeTo(address netip.Addr) (int, error) {
	conn, err := DialRoute()
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	r, err := lookUp(conn, address, netip.Addr{}, 0)
	if err != nil {
		return 0, err
	}
	if len(r.oifs) == 0 {
		return 0, fmt.Errorf("route to %s: no device in the answer", address)
	}
	return r.oifs[0], nil
}

// lookUp asks the kernel for the route to an address, for packets with a source address if that is valid.
func lookUp(conn *netlink.Conn, to, from netip.Addr, flags uint32) (route, error) {
	head := make([]byte, unix.SizeofRtMsg)
	head[0], head[1] = unix.AF_INET, byte(to.BitLen())
	if to.Is6() {
		head[0] = unix.AF_INET6
	}
	binary.NativeEndian.PutUint32(head[8:], flags)
	e := netlink.NewAttributeEncoder()
	e.Bytes(unix.RTA_DST, to.AsSlice())
	if from.IsValid() {
		head[2] = byte(from.BitLen())
		e.Bytes(unix.RTA_SRC, from.AsSlice())
	}
	attributes, err := e.Encode()
	if err != nil {
		return route{}, err
	}
	answers, err := conn.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.RTM_GETROUTE, Flags: netlink.Request}, Data: append(head, attributes...),
	})
	if err != nil {
		return route{}, fmt.Errorf("route to %s: %w", to, tree.Netlink(err))
	}
	for _, answer := range answers {
		return parseRoute(answer.Data)
	}
	return route{}, fmt.Errorf("route to %s: no answer", to)
}

// Flags of routes in /proc/net (include/uapi/linux/route.h, ipv6_route.h).
const (
	rtfUp, rtfGateway, rtfReject = 0x1, 0x2, 0x200
	rtfAnycast, rtfLocal         = 0x100000, 0x80000000
)

// namedRoute is a route with the name of its device.
type namedRoute struct {
	route
	device string
}

// recordedRoutes reads /proc/net/route (main table; addresses in hexadecimal, in this machine's byte order) and
// /proc/net/ipv6_route (destination, prefix length … gateway, flags, device).
func recordedRoutes(ipv4, ipv6 string) []namedRoute {
	var all []namedRoute
	add := func(device string, to netip.Prefix, flags uint64) {
		all = append(all, namedRoute{device: device, route: route{to: to, gateway: flags&rtfGateway != 0,
			unicast: flags&rtfUp != 0 && flags&(rtfReject|rtfAnycast|rtfLocal) == 0 && !to.Addr().IsMulticast()}})
	}
	for line := range strings.Lines(ipv4) {
		f := strings.Fields(line)
		if len(f) < 8 {
			continue
		}
		to, ok := socketEnd(f[1] + ":0")
		mask, also := socketEnd(f[7] + ":0")
		flags, err := strconv.ParseUint(f[3], 16, 32)
		if ok && also && err == nil {
			add(f[0], netip.PrefixFrom(to.Addr(), ones(mask.Addr())), flags)
		}
	}
	for line := range strings.Lines(ipv6) {
		f := strings.Fields(line)
		if len(f) < 10 {
			continue
		}
		to, ok := hexAddress(f[0])
		bits, err := strconv.ParseUint(f[1], 16, 8)
		flags, wrong := strconv.ParseUint(f[8], 16, 32)
		if ok && err == nil && wrong == nil {
			add(f[9], netip.PrefixFrom(to, int(bits)), flags)
		}
	}
	return all
}

// hexAddress reads an address of IPv6 as /proc/net has it: 32 hexadecimal digits.
func hexAddress(text string) (netip.Addr, bool) {
	raw, err := hex.DecodeString(text)
	if err != nil {
		return netip.Addr{}, false
	}
	return netip.AddrFromSlice(raw)
}

// ones returns the length of a network mask.
func ones(mask netip.Addr) int {
	bits := 0
	for _, b := range mask.AsSlice() {
		for ; b&0x80 != 0; b <<= 1 {
			bits++
		}
	}
	return bits
}

// defaultRoutes returns the devices of default routes in the main tables. It skips those on lo, which reject.
func defaultRoutes(ipv4, ipv6 string) []string {
	var names []string
	for _, r := range recordedRoutes(ipv4, ipv6) {
		if r.to.Bits() == 0 && r.device != "lo" {
			names = append(names, r.device)
		}
	}
	return names
}

// nextHop is a nexthop object (include/uapi/linux/nexthop.h).
type nextHop struct {
	oif     int
	gateway netip.Addr
	fdb     bool // its gateway is the far end of a VXLAN
	group   []uint32
}

// Messages and attributes of nexthop objects (include/uapi/linux/nexthop.h).
const (
	rtmGetNextHop   = 106
	nhaFDB          = 11
	sizeofNHMessage = 8 // struct nhmsg
	sizeofNHGroup   = 8 // struct nexthop_grp
)

// nextHops returns the nexthop objects by ID; none before Linux 5.3.
func nextHops(conn *netlink.Conn) map[uint32]nextHop {
	messages, err := conn.Execute(netlink.Message{
		Header: netlink.Header{Type: rtmGetNextHop, Flags: netlink.Request | netlink.Dump},
		Data:   make([]byte, sizeofNHMessage),
	})
	if err != nil {
		return nil
	}
	all := map[uint32]nextHop{}
	for _, m := range messages {
		if len(m.Data) < sizeofNHMessage {
			continue
		}
		ad, err := netlink.NewAttributeDecoder(m.Data[sizeofNHMessage:])
		if err != nil {
			continue
		}
		id, hop := parseNextHop(ad)
		all[id] = hop
	}
	return all
}

func parseNextHop(ad *netlink.AttributeDecoder) (id uint32, hop nextHop) {
	for ad.Next() {
		switch ad.Type() {
		case unix.NHA_ID:
			id = ad.Uint32()
		case unix.NHA_OIF:
			hop.oif = int(ad.Uint32())
		case unix.NHA_GATEWAY:
			hop.gateway, _ = netip.AddrFromSlice(ad.Bytes())
		case nhaFDB:
			hop.fdb = true
		case unix.NHA_GROUP:
			for members := range slices.Chunk(ad.Bytes(), sizeofNHGroup) {
				if len(members) == sizeofNHGroup {
					hop.group = append(hop.group, binary.NativeEndian.Uint32(members))
				}
			}
		}
	}
	return id, hop
}

// members returns the objects that one stands for: itself, or those of its group.
func members(all map[uint32]nextHop, id uint32) []nextHop {
	hop := all[id]
	if len(hop.group) == 0 {
		return []nextHop{hop}
	}
	var list []nextHop
	for _, member := range hop.group {
		list = append(list, all[member])
	}
	return list
}
