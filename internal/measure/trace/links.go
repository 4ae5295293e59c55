package trace

import (
	"encoding/binary"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// netdev is a device as rtnetlink describes it.
type netdev struct {
	name   string
	index  int
	kind   string // of rtnl_link_ops: bridge, vxlan, veth, tun …; empty for hardware and the loopback
	mode   string // of a tun device: tun or tap
	qdisc  string
	master int // index, 0 for none
	lower  int // index of the device below; 0 if there is none or it is in another namespace
	lo     bool
	xdp    bool // a program is attached
	tunnel tunnelPort
	tx, rx int // queues allocated; fewer may be in use
}

// vxlanLink and greLink are the attributes with the device that a tunnel is bound to (include/uapi/linux/if_link.h,
// if_tunnel.h). tunType has the type of a tun device, 1 for TUN and 2 for TAP.
const (
	vxlanLink = unix.IFLA_VXLAN_LINK
	greLink   = 1
	tunType   = 3
)

// links reads the link table of the calling thread's namespace in one dump, without details of virtual functions: with
// them, one device's message can exceed the size of an attribute, and the whole dump fails.
func links() ([]netdev, error) {
	messages, err := dump(unix.RTM_GETLINK, make([]byte, unix.SizeofIfInfomsg))
	if err != nil {
		return nil, fmt.Errorf("list of network devices: %w", err)
	}
	all := make([]netdev, 0, len(messages))
	for _, m := range messages {
		l, err := parseLink(m.Data)
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

func dump(kind netlink.HeaderType, data []byte) ([]netlink.Message, error) {
	conn, err := netlink.Dial(unix.NETLINK_ROUTE, nil)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.Execute(netlink.Message{Header: netlink.Header{Type: kind, Flags: netlink.Request | netlink.Dump},
		Data: data})
}

func parseLink(message []byte) (netdev, error) {
	if len(message) < unix.SizeofIfInfomsg {
		return netdev{}, fmt.Errorf("link message of %d bytes: expected %d or more", len(message), unix.SizeofIfInfomsg)
	}
	l := netdev{index: int(int32(binary.NativeEndian.Uint32(message[4:]))),
		lo: binary.NativeEndian.Uint32(message[8:])&unix.IFF_LOOPBACK != 0}
	ad, err := netlink.NewAttributeDecoder(message[unix.SizeofIfInfomsg:])
	if err != nil {
		return netdev{}, fmt.Errorf("link message: %w", err)
	}
	elsewhere := false
	for ad.Next() {
		switch ad.Type() {
		case unix.IFLA_IFNAME:
			l.name = ad.String()
		case unix.IFLA_NUM_TX_QUEUES:
			l.tx = int(ad.Uint32())
		case unix.IFLA_NUM_RX_QUEUES:
			l.rx = int(ad.Uint32())
		case unix.IFLA_MASTER:
			l.master = int(ad.Uint32())
		case unix.IFLA_LINK:
			l.lower = int(ad.Uint32())
		case unix.IFLA_LINK_NETNSID:
			elsewhere = true
		case unix.IFLA_QDISC:
			l.qdisc = ad.String()
		case unix.IFLA_XDP:
			ad.Nested(func(x *netlink.AttributeDecoder) error {
				for x.Next() {
					if x.Type() == unix.IFLA_XDP_ATTACHED {
						l.xdp = x.Uint8() != 0
					}
				}
				return nil
			})
		case unix.IFLA_LINKINFO:
			ad.Nested(l.parseInfo)
		}
	}
	if elsewhere || l.lower == l.index || l.kind == "veth" { // of a veth, IFLA_LINK is the other end
		l.lower = 0
	}
	if err := ad.Err(); err != nil {
		return netdev{}, fmt.Errorf("link message of device %d: %w", l.index, err)
	}
	return l, nil
}

// parseInfo parses IFLA_LINKINFO. The kernel puts the kind before the data.
func (l *netdev) parseInfo(ad *netlink.AttributeDecoder) error {
	for ad.Next() {
		switch ad.Type() {
		case unix.IFLA_INFO_KIND:
			l.kind = ad.String()
		case unix.IFLA_INFO_DATA:
			ad.Nested(func(data *netlink.AttributeDecoder) error {
				for data.Next() {
					switch {
					case l.kind == "vxlan" && data.Type() == vxlanLink,
						(l.kind == "gretap" || l.kind == "ip6gretap") && data.Type() == greLink:
						l.lower = int(data.Uint32())
					case l.kind == "tun" && data.Type() == tunType:
						l.mode = [...]string{"tun", "tap"}[min(max(data.Uint8(), 1)-1, 1)]
					default:
						l.parseTunnel(data)
					}
				}
				return nil
			})
		}
	}
	return nil
}
