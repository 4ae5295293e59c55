package link

import (
	"encoding/binary"
	"reflect"
	"testing"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"mpps/internal/must"
)

// linkMessage returns an RTM_NEWLINK message.
func linkMessage(t testing.TB, index int, up bool, attributes func(*netlink.AttributeEncoder)) []byte {
	t.Helper()
	head := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(head[4:], uint32(index))
	if up {
		binary.NativeEndian.PutUint32(head[8:], unix.IFF_UP)
	}
	e := netlink.NewAttributeEncoder()
	attributes(e)
	data := must.Get(e.Encode())(t)
	return append(head, data...)
}

func words(numbers ...uint32) []byte {
	b := make([]byte, 4*len(numbers))
	for i, n := range numbers {
		binary.NativeEndian.PutUint32(b[4*i:], n)
	}
	return b
}

func TestLinkWithVFs(t *testing.T) {
	message := linkMessage(t, 7, true, func(e *netlink.AttributeEncoder) {
		e.String(unix.IFLA_IFNAME, "ens1")
		e.Bytes(unix.IFLA_ADDRESS, []byte{0x52, 0x54, 0, 0, 1, 0})
		e.Uint32(unix.IFLA_MTU, 1500)
		e.Uint8(unix.IFLA_CARRIER, 1)
		e.String(unix.IFLA_QDISC, "mq")
		e.Uint32(unix.IFLA_MASTER, 9)
		stats := make([]byte, 16)
		binary.NativeEndian.PutUint64(stats, 5)
		binary.NativeEndian.PutUint64(stats[8:], 6)
		e.Bytes(unix.IFLA_STATS64, stats)
		e.Nested(unix.IFLA_XDP, func(x *netlink.AttributeEncoder) error {
			x.Uint8(unix.IFLA_XDP_ATTACHED, 2)
			return nil
		})
		e.Nested(unix.IFLA_VFINFO_LIST, func(list *netlink.AttributeEncoder) error {
			list.Nested(unix.IFLA_VF_INFO, func(v *netlink.AttributeEncoder) error {
				v.Bytes(unix.IFLA_VF_MAC, append(words(3),
					append([]byte{0x52, 0x54, 0, 0, 2, 3}, make([]byte, 26)...)...))
				v.Bytes(unix.IFLA_VF_VLAN, words(3, 100, 5))
				v.Bytes(unix.IFLA_VF_RATE, words(3, 10, 1000))
				v.Bytes(unix.IFLA_VF_TX_RATE, words(3, 999)) // older form of the same; the newer one counts
				v.Bytes(unix.IFLA_VF_SPOOFCHK, words(3, 1))
				v.Bytes(unix.IFLA_VF_TRUST, words(3, 0xffffffff)) // the driver does not tell
				v.Bytes(unix.IFLA_VF_LINK_STATE, words(3, 2))
				// does not begin with a VF number
				v.Nested(unix.IFLA_VF_VLAN_LIST, func(list *netlink.AttributeEncoder) error {
					list.Bytes(unix.IFLA_VF_VLAN_INFO, words(3, 100, 5, 0))
					return nil
				})
				return nil
			})
			return nil
		})
	})
	got := must.Get(ParseLink(message))(t)
	want := Device{
		Name: "ens1", Index: 7, mac: "52:54:00:00:01:00", mtu: 1500, Up: true, Carrier: "up", qdisc: "mq", master: 9,
		xdp: true, flags: unix.IFF_UP, Space: -1,
		Stats: map[string]uint64{"rx_packets": 5, "tx_packets": 6},
		vfs: []virtual{{
			index: 3, mac: "52:54:00:00:02:03", vlan: 100, qos: 5, minRate: 10, maxRate: 1000, spoofCheck: true,
			linkState: "disable", noTrust: true,
			hasRate: true,
		}},
	}
	must.Hold(t, reflect.DeepEqual(got, want), "got  %+v\nwant %+v", got, want)
}

func TestLinkOfTunnels(t *testing.T) {
	for _, c := range []struct {
		kind   string
		link   uint16
		flags  []byte
		encap  uint16
		lower  int
		locked string
	}{
		{"vxlan", unix.IFLA_VXLAN_LINK, nil, 0, 4, ""},
		{"gretap", gre.link, []byte{0x10, 0}, 0, 4, "oseq"},
		{"gretap", gre.link, []byte{0x20, 0}, 0, 4, ""},
		{"gretap", gre.link, []byte{0x80, 0}, 0, 4, ""},
		{"ip6gretap", gre.link, []byte{0xa0, 0}, 2, 4, "ocsum"},
		{"geneve", 99, nil, 0, 0, ""},
	} {
		d, err := ParseLink(linkMessage(t, 8, false, func(e *netlink.AttributeEncoder) {
			e.Uint8(unix.IFLA_CARRIER, 1)
			e.Nested(unix.IFLA_LINKINFO, func(info *netlink.AttributeEncoder) error {
				info.String(unix.IFLA_INFO_KIND, c.kind)
				info.Nested(unix.IFLA_INFO_DATA, func(data *netlink.AttributeEncoder) error {
					data.Uint32(c.link, 4)
					if c.flags != nil {
						data.Bytes(3, c.flags)
						data.Uint16(14, c.encap)
					}
					return nil
				})
				return nil
			})
		}))
		must.Hold(t, err == nil && d.Kind == c.kind && d.lower == c.lower && d.gre.lockedBy() == c.locked &&
			d.Carrier == "unknown",
			"%s: %+v (%v), want lower %d, locked by %q, carrier unknown", c.kind, d, err, c.lower, c.locked)
	}
	// The peer of a veth in another namespace has an index that means nothing here.
	d, err := ParseLink(linkMessage(t, 8, true, func(e *netlink.AttributeEncoder) {
		e.Uint32(unix.IFLA_LINK, 4)
		e.Int32(unix.IFLA_LINK_NETNSID, 0)
	}))
	must.Hold(t, err == nil && d.lower == 0, "link in another namespace: lower %d (%v), want 0", d.lower, err)
}

func FuzzLink(f *testing.F) {
	f.Add(linkMessage(f, 7, true, func(e *netlink.AttributeEncoder) {
		e.String(unix.IFLA_IFNAME, "ens1")
		e.Nested(unix.IFLA_LINKINFO, func(info *netlink.AttributeEncoder) error {
			info.String(unix.IFLA_INFO_KIND, "vxlan")
			info.Bytes(unix.IFLA_INFO_DATA, words(1, 2, 3))
			return nil
		})
		e.Bytes(unix.IFLA_VFINFO_LIST, words(0x00010008, 1))
	}))
	f.Add([]byte{})
	f.Fuzz(func(_ *testing.T, message []byte) { _, _ = ParseLink(message) })
}
