package link

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"mpps/internal/model/facts"
)

// Device is one network device, from rtnetlink on the live machine or from /sys/class/net on a recorded one.
type Device struct {
	Name       string
	Index      int
	mac        string
	mtu        int
	Up         bool
	Carrier    string
	txQueueLen int
	txQueues   int    // allocated; the directories in queues/ are those in use
	Kind       string // rtnl_link_ops kind: bridge, vlan, vxlan, gretap … ; empty for hardware
	master     int    // index, 0 if none
	lower      int    // index of the device under it, 0 if none or in another namespace
	peer       int    // index of the other end of a veth or netkit pair, 0 if none or in another namespace
	elsewhere  bool   // the device under it, or its other end, is in another namespace
	Space      int    // that namespace, by its number in the device's own (IFLA_LINK_NETNSID); −1: none
	beyond     int    // the device's index there
	parent     string // of its hardware: a PCI address (Linux 5.14 and later)
	tunnelOnly bool   // of a tun device: it carries no Ethernet
	flags      uint32 // IFF_…
	mode       string // of a macvlan, macvtap or ipvlan
	tunnel     ends   // of a tunnel
	qdisc      string
	xdp        bool
	XDPProgram uint32 // number of its XDP program; 0: none
	Stats      map[string]uint64
	gre        greOptions // of a GRE device
	numVFs     int        // only in a reply with VFs
	vfs        []virtual
}

// ends are the addresses of a tunnel.
type ends struct {
	local, remote netip.Addr // not valid if it has none
	external      bool       // the sender chooses both for each packet (collect metadata)
	link          int        // index of the device that it is bound to, in the namespace of the underlay
}

// virtual is a virtual function as its PF's driver reports it (IFLA_VF_INFO).
type virtual struct {
	index             int
	mac               string
	vlan, qos         int
	minRate, maxRate  int
	spoofCheck, trust bool
	linkState         string
	hasRate           bool
	noSpoof, noTrust  bool // the driver does not report it
	traffic           facts.VFTraffic
}

// linkStats are the fields of struct rtnl_link_stats64 in order (include/uapi/linux/if_link.h), with their names in
// /sys/class/net/X/statistics.
var linkStats = []string{
	"rx_packets", "tx_packets", "rx_bytes", "tx_bytes", "rx_errors", "tx_errors", "rx_dropped", "tx_dropped",
	"multicast", "collisions", "rx_length_errors", "rx_over_errors", "rx_crc_errors", "rx_frame_errors",
	"rx_fifo_errors", "rx_missed_errors", "tx_aborted_errors", "tx_carrier_errors", "tx_fifo_errors",
	"tx_heartbeat_errors", "tx_window_errors", "rx_compressed", "tx_compressed", "rx_nohandler",
}

// DialRoute opens a route netlink socket. Extended acknowledgements carry the kernel's error messages; kernels before
// 4.12 have none.
func DialRoute() (*netlink.Conn, error) {
	conn, err := netlink.Dial(unix.NETLINK_ROUTE, nil)
	if err != nil {
		return nil, fmt.Errorf("route netlink: %w", err)
	}
	_ = conn.SetOption(netlink.ExtendedAcknowledge, true)
	return conn, nil
}

// DumpLinks reads the link table in one dump, without virtual functions: with many of them a device's attribute exceeds
// 64 KiB, and the whole dump fails with EMSGSIZE.
func DumpLinks(conn *netlink.Conn) ([]Device, error) {
	messages, err := conn.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.RTM_GETLINK, Flags: netlink.Request | netlink.Dump},
		Data:   make([]byte, unix.SizeofIfInfomsg),
	})
	if err != nil {
		return nil, fmt.Errorf("list of network devices: %w", err)
	}
	devices := make([]Device, 0, len(messages))
	for _, m := range messages {
		d, err := ParseLink(m.Data)
		if err != nil {
			return nil, err
		}
		devices = append(devices, d)
	}
	return devices, nil
}

// Bits of IFLA_EXT_MASK (include/uapi/linux/rtnetlink.h): include VFs; leave out counters, those of VFs too (Linux 4.5,
// for VFs 5.14).
const (
	rtextVFs       = 1 << 0
	rtextSkipStats = 1 << 3
)

// One attribute with a 16-bit length holds all VFs. A VF takes 296 bytes with its counters and 196 without
// (net/core/rtnetlink.c, rtnl_fill_vfinfo; Linux 5.1 and later, with the broadcast address), a few more with GUIDs.
// With more VFs the kernel silently wraps the length (nla_nest_end), and everything after it is garbage.
const (
	mostVFsCounted = 200 // with counters
	mostVFs        = 320
)

var errManyVFs = errors.New("more virtual functions than one netlink message can tell of")

// linkWithVFs returns the settings of a PF's VFs and, if count is set and there is room, their counters; has is the
// number of VFs. The message itself can be any length: the kernel allocates what the reply needs (rtnl_getlink), and
// the socket asks for the length before it reads (mdlayher/netlink, getBuffer: MSG_PEEK and MSG_TRUNC).
func linkWithVFs(conn *netlink.Conn, index, has int, count bool) (vfs []virtual, counted bool, err error) {
	if has > mostVFs {
		return nil, false, fmt.Errorf("%w: %d, at most %d", errManyVFs, has, mostVFs)
	}
	counted = count && has <= mostVFsCounted
	mask := uint32(rtextVFs)
	if !counted {
		mask |= rtextSkipStats
	}
	head := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(head[4:], uint32(index))
	e := netlink.NewAttributeEncoder()
	e.Uint32(unix.IFLA_EXT_MASK, mask)
	attributes, err := e.Encode()
	if err != nil {
		return nil, false, err
	}
	messages, err := conn.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.RTM_GETLINK, Flags: netlink.Request},
		Data:   append(head, attributes...),
	})
	if errors.Is(err, unix.EMSGSIZE) {
		return nil, false, fmt.Errorf("%w: %w", errManyVFs, err)
	}
	if err != nil {
		return nil, false, err
	}
	for _, m := range messages {
		d, err := ParseLink(m.Data)
		if err != nil {
			return nil, false, err
		}
		if d.Index != index {
			continue
		}
		if len(d.vfs) < d.numVFs {
			return nil, false, fmt.Errorf("%w: %d of %d arrived", errManyVFs, len(d.vfs), d.numVFs)
		}
		return d.vfs, counted, nil
	}
	return nil, false, fmt.Errorf("no answer about device %d", index)
}

// ParseLink reads one RTM_NEWLINK message. It skips unknown attributes.
func ParseLink(message []byte) (Device, error) {
	if len(message) < unix.SizeofIfInfomsg {
		return Device{}, fmt.Errorf("link message of %d bytes: expected %d or more", len(message), unix.SizeofIfInfomsg)
	}
	d := Device{
		Index:   int(int32(binary.NativeEndian.Uint32(message[4:]))),
		flags:   binary.NativeEndian.Uint32(message[8:]),
		Carrier: "unknown", Space: -1,
	}
	d.Up = d.flags&unix.IFF_UP != 0
	ad, err := netlink.NewAttributeDecoder(message[unix.SizeofIfInfomsg:])
	if err != nil {
		return Device{}, fmt.Errorf("link message: %w", err)
	}
	for ad.Next() {
		switch ad.Type() {
		case unix.IFLA_IFNAME:
			d.Name = ad.String()
		case unix.IFLA_ADDRESS:
			d.mac = net.HardwareAddr(ad.Bytes()).String()
		case unix.IFLA_MTU:
			d.mtu = int(ad.Uint32())
		case unix.IFLA_TXQLEN:
			d.txQueueLen = int(ad.Uint32())
		case unix.IFLA_NUM_TX_QUEUES:
			d.txQueues = int(ad.Uint32())
		case unix.IFLA_MASTER:
			d.master = int(ad.Uint32())
		case unix.IFLA_LINK:
			d.lower = int(ad.Uint32())
		case unix.IFLA_LINK_NETNSID:
			d.elsewhere, d.Space = true, int(ad.Int32())
		case unix.IFLA_PARENT_DEV_NAME:
			d.parent = ad.String()
		case unix.IFLA_QDISC:
			d.qdisc = ad.String()
		case unix.IFLA_CARRIER:
			if d.Up { // the carrier of a device that is down means nothing
				d.Carrier = [...]string{"down", "up"}[min(ad.Uint8(), 1)]
			}
		case unix.IFLA_STATS64:
			d.Stats = parseStats64(ad.Bytes())
		case unix.IFLA_XDP:
			ad.Nested(func(x *netlink.AttributeDecoder) error {
				for x.Next() {
					switch x.Type() {
					case unix.IFLA_XDP_ATTACHED:
						d.xdp = x.Uint8() != 0
					case unix.IFLA_XDP_PROG_ID:
						d.XDPProgram = x.Uint32()
					}
				}
				return nil
			})
		case unix.IFLA_LINKINFO:
			ad.Nested(d.parseInfo)
		case unix.IFLA_NUM_VF: // comes before the list
			d.numVFs = int(ad.Uint32())
		case unix.IFLA_VFINFO_LIST:
			ad.Nested(func(list *netlink.AttributeDecoder) error {
				for list.Next() {
					if list.Type() == unix.IFLA_VF_INFO {
						var v virtual
						list.Nested(v.parse)
						d.vfs = append(d.vfs, v)
					}
				}
				return nil
			})
		}
	}
	d.settleLower()
	if err := ad.Err(); err != nil {
		return Device{}, fmt.Errorf("link message of device %d: %w", d.Index, err)
	}
	return d, nil
}

func parseStats64(b []byte) map[string]uint64 {
	stats := make(map[string]uint64, len(linkStats))
	for i, name := range linkStats {
		if len(b) < (i+1)*8 {
			break
		}
		stats[name] = binary.NativeEndian.Uint64(b[i*8:])
	}
	return stats
}

// pairs are the kinds of devices that come in pairs: what one end sends the other receives, and IFLA_LINK is the other.
var pairs = []string{"veth", "netkit"}

// settleLower decides what the device that IFLA_LINK names is.
func (d *Device) settleLower() {
	// IFLA_LINK of a tunnel whose underlay is elsewhere is its own number there (net/core/rtnetlink.c, nla_put_iflink).
	if _, tunnel := tunnels[d.Kind]; tunnel {
		d.lower = d.tunnel.link
	}
	switch {
	case d.elsewhere: // its number counts in the other namespace
		d.lower, d.beyond = 0, d.lower
	case slices.Contains(pairs, d.Kind):
		d.peer, d.lower = d.lower, 0
	case d.lower == d.Index:
		d.lower = 0
	}
}

// parseInfo reads IFLA_LINKINFO. The kernel puts the kind before the data.
func (d *Device) parseInfo(ad *netlink.AttributeDecoder) error {
	for ad.Next() {
		switch ad.Type() {
		case unix.IFLA_INFO_KIND:
			d.Kind = ad.String()
		case unix.IFLA_INFO_DATA:
			switch attributes, tunnel := tunnels[d.Kind]; {
			case tunnel:
				ad.Nested(func(ad *netlink.AttributeDecoder) error { return d.parseTunnel(ad, attributes) })
			case modes[d.Kind] != nil:
				ad.Nested(d.parseMode)
			case d.Kind == "tun":
				ad.Nested(d.parseTun)
			}
		}
	}
	return nil
}

// tunnelAttributes are the numbers of a tunnel's attributes; 0 if it has no such attribute.
type tunnelAttributes struct{ link, local, local6, remote, remote6, external uint16 }

// gre and inIP are those of GRE and of IP in IP (include/uapi/linux/if_tunnel.h, IFLA_GRE_… and IFLA_IPTUN_…).
var (
	gre  = tunnelAttributes{link: 1, local: 6, remote: 7, external: 18}
	inIP = tunnelAttributes{link: 1, local: 2, remote: 3, external: 19}
	vti  = tunnelAttributes{link: 1, local: 4, remote: 5} // IFLA_VTI_…
)

// tunnels are the attributes of tunnels by kind: besides the above IFLA_VXLAN_…, IFLA_GENEVE_… and IFLA_XFRM_…
// (include/uapi/linux/if_link.h).
var tunnels = map[string]tunnelAttributes{
	"vxlan":  {link: 3, local: 4, local6: 17, remote: 2, remote6: 16, external: 25},
	"geneve": {remote: 2, remote6: 7, external: 6},
	"gretap": gre, "ip6gretap": gre, "gre": gre, "ip6gre": gre, "erspan": gre, "ip6erspan": gre,
	"ipip": inIP, "sit": inIP, "ip6tnl": inIP, "vti": vti, "vti6": vti,
	"xfrm": {link: 1, external: 3},
}

// parseTunnel reads the ends of a tunnel, the device that it is bound to, and the options of GRE.
func (d *Device) parseTunnel(ad *netlink.AttributeDecoder, is tunnelAttributes) error {
	address := func() netip.Addr {
		a, ok := netip.AddrFromSlice(ad.Bytes())
		if !ok || a.IsUnspecified() {
			return netip.Addr{}
		}
		return a.Unmap()
	}
	for ad.Next() {
		if is == gre {
			d.gre.parse(ad)
		}
		switch ad.Type() {
		case is.link:
			d.tunnel.link = int(ad.Uint32())
		case is.local, is.local6:
			d.tunnel.local = address()
		case is.remote, is.remote6:
			d.tunnel.remote = address()
		case is.external: // a flag; of VXLAN a byte
			b := ad.Bytes()
			d.tunnel.external = len(b) == 0 || b[0] != 0
		}
	}
	return nil
}

// modes are the modes of devices that share another device, by kind and number (include/uapi/linux/if_link.h, enum
// macvlan_mode and IPVLAN_MODE_…).
var modes = map[string]map[uint32]string{
	"macvlan": macvlanModes, "macvtap": macvlanModes,
	"ipvlan": ipvlanModes, "ipvtap": ipvlanModes,
}

var (
	macvlanModes = map[uint32]string{1: "private", 2: "vepa", 4: "bridge", 8: "passthru", 16: "source"}
	ipvlanModes  = map[uint32]string{0: "l2", 1: "l3", 2: "l3s"}
)

// parseMode reads IFLA_MACVLAN_MODE or IFLA_IPVLAN_MODE, which have the same number.
func (d *Device) parseMode(ad *netlink.AttributeDecoder) error {
	for ad.Next() {
		if b := ad.Bytes(); ad.Type() == unix.IFLA_MACVLAN_MODE && len(b) >= 2 {
			number := uint32(binary.NativeEndian.Uint16(b)) // of an ipvlan it has two bytes
			if len(b) == 4 {
				number = binary.NativeEndian.Uint32(b)
			}
			d.mode = modes[d.Kind][number]
		}
	}
	return nil
}

// parse reads one IFLA_VF_INFO: attributes that are structures and begin with the VF's number, and nested ones: the
// counters, and IFLA_VF_VLAN_LIST, which is skipped.
func (v *virtual) parse(ad *netlink.AttributeDecoder) error {
	for ad.Next() {
		b := ad.Bytes()
		if len(b) < 8 {
			continue
		}
		switch ad.Type() { // the others are nested
		case unix.IFLA_VF_MAC, unix.IFLA_VF_VLAN, unix.IFLA_VF_TX_RATE, unix.IFLA_VF_RATE, unix.IFLA_VF_SPOOFCHK,
			unix.IFLA_VF_TRUST,
			unix.IFLA_VF_LINK_STATE:
			v.index = int(binary.NativeEndian.Uint32(b))
		}
		word := func(i int) uint32 {
			if len(b) < 4*(i+1) {
				return 0
			}
			return binary.NativeEndian.Uint32(b[4*i:])
		}
		switch ad.Type() {
		case unix.IFLA_VF_MAC: // 32 bytes; Ethernet uses 6
			if len(b) >= 10 {
				v.mac = net.HardwareAddr(b[4:10]).String()
			}
		case unix.IFLA_VF_VLAN:
			v.vlan, v.qos = int(word(1)), int(word(2))
		case unix.IFLA_VF_TX_RATE:
			if !v.hasRate {
				v.maxRate = int(word(1))
			}
		case unix.IFLA_VF_RATE:
			v.minRate, v.maxRate, v.hasRate = int(word(1)), int(word(2)), true
		case unix.IFLA_VF_SPOOFCHK: // −1 if the driver does not report it
			v.spoofCheck, v.noSpoof = word(1) == 1, word(1) > 1
		case unix.IFLA_VF_TRUST:
			v.trust, v.noTrust = word(1) == 1, word(1) > 1
		case unix.IFLA_VF_LINK_STATE:
			v.linkState = [...]string{"auto", "enable", "disable"}[min(word(1), 2)]
		case unix.IFLA_VF_STATS:
			ad.Nested(v.parseTraffic)
		}
	}
	return nil
}

// parseTraffic reads IFLA_VF_STATS. A driver without these counters has them all 0 (net/core/rtnetlink.c,
// rtnl_fill_vfinfo).
func (v *virtual) parseTraffic(ad *netlink.AttributeDecoder) error {
	t := &v.traffic
	into := map[uint16]*uint64{ // include/uapi/linux/if_link.h, IFLA_VF_STATS_RX_PACKETS and following
		0: &t.RxPackets, 1: &t.TxPackets, 2: &t.RxBytes, 3: &t.TxBytes, 4: &t.Broadcast, 5: &t.Multicast,
		7: &t.RxDropped, 8: &t.TxDropped,
	}
	for ad.Next() {
		if count := into[ad.Type()]; count != nil && len(ad.Bytes()) == 8 {
			*count = ad.Uint64()
		}
	}
	return nil
}
