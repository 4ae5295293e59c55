package link

import (
	"context"
	"encoding/binary"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// recordedLinks are the files of devices in /sys/class/net: name → file → text.
func recordedLinks(devices map[string]map[string]string) map[string]string {
	files := map[string]string{
		"proc/net/route": "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n" +
			"ens1\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n" +
			"virbr0\t007AA8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n",
		"proc/net/ipv6_route": "20010db8000000010000000000000000 40 00000000000000000000000000000000 00 " +
			"fe800000000000000000000000000001 00000400 00000001 00000000 00000003 br7\n" +
			"20010db8000000020000000000000001 80 00000000000000000000000000000000 00 " +
			"00000000000000000000000000000000 00000000 00000001 00000000 80200001 lo\n",
		"proc/net/if_inet6": "fe80000000000000505400fffe000001 02 40 20 80     ens1\n" +
			"20010db8000000020000000000000001 03 40 00 80   br9\n",
		"proc/sys/net/ipv4/ip_forward": "1\n",
	}
	for name, more := range devices {
		at := "sys/class/net/" + name + "/"
		files[at+"flags"], files[at+"iflink"] = "0x1003\n", more["ifindex"]
		for file, text := range more {
			files[at+file] = text
		}
	}
	return files
}

func TestLinksOfRecordedTree(t *testing.T) {
	h := &facts.Host{}
	Inventory(context.Background(), treetest.Recorded(t, recordedLinks(map[string]map[string]string{
		"lo":     {"ifindex": "1\n", "flags": "0x9\n"},
		"ens1":   {"ifindex": "2\n", "device/vendor": "0x8086\n", "master": "-> ../team0", "upper_team0": "-> ../team0"},
		"team0":  {"ifindex": "3\n", "uevent": "DEVTYPE=team\nINTERFACE=team0\n", "lower_ens1": "-> ../ens1"},
		"v0":     {"ifindex": "4\n", "iflink": "5\n"},
		"v1":     {"ifindex": "5\n", "iflink": "4\n"},
		"pod":    {"ifindex": "6\n", "iflink": "2\n"}, // another namespace's device 2
		"pod2":   {"ifindex": "7\n", "iflink": "99\n"},
		"mv0":    {"ifindex": "8\n", "iflink": "2\n", "uevent": "DEVTYPE=macvlan\n", "lower_ens1": "-> ../ens1"},
		"vlan":   {"ifindex": "9\n", "iflink": "99\n", "uevent": "DEVTYPE=vlan\n"},
		"vx0":    {"ifindex": "10\n", "uevent": "DEVTYPE=vxlan\n", "lower_ens1": "-> ../ens1"},
		"virbr0": {"ifindex": "11\n", "uevent": "DEVTYPE=bridge\n", "lower_v0": "-> ../v0"},
		"br7":    {"ifindex": "12\n", "uevent": "DEVTYPE=bridge\n"},
		"br9":    {"ifindex": "13\n", "uevent": "DEVTYPE=bridge\n"},
	})), h)
	if want := []facts.Link{
		{Name: "team0", Kind: "team", Up: true},
		{Name: "v0", Kind: "veth", Peer: "v1", Up: true}, {Name: "v1", Kind: "veth", Peer: "v0", Up: true},
		{Name: "pod", Up: true, Elsewhere: true}, {Name: "pod2", Up: true, Elsewhere: true},
		{Name: "mv0", Kind: "macvlan", Lower: "ens1", Up: true},
	}; !reflect.DeepEqual(h.Links, want) {
		t.Errorf("got %+v\nwant %+v", h.Links, want)
	}
	must.Hold(t, h.NICs[0].Master == "team0", "%+v", h.NICs[0])
	for _, want := range []facts.Tunnel{{Name: "vlan", Elsewhere: true}, {Name: "vx0", Lower: "ens1"}} {
		got := facts.Find(h.Tunnels, func(x *facts.Tunnel) bool { return x.Name == want.Name })
		must.Hold(t, got != nil && got.Lower == want.Lower && got.Elsewhere == want.Elsewhere,
			"got %+v, want %+v", got, want)
	}
	if want := (facts.Routing{Forward: facts.Yes, Addressed: []string{"br9", "virbr0"},
		Uplinks: []string{"br7", "ens1"}}); !reflect.DeepEqual(*h.Routing, want) {
		t.Errorf("got %+v, want %+v", *h.Routing, want)
	}
}

func TestRoutingIsNotKnownWithoutRoutes(t *testing.T) {
	h := &facts.Host{}
	Inventory(context.Background(), treetest.Recorded(t, map[string]string{
		"sys/class/net/br0/ifindex": "2\n", "sys/class/net/br0/uevent": "DEVTYPE=bridge\n"}), h)
	if h.Routing != nil || !slices.ContainsFunc(h.Unseen, func(u facts.Unseen) bool {
		return u.What == "addresses and routes"
	}) {
		t.Errorf("%+v, unseen %v", h.Routing, h.Unseen)
	}
}

func TestRepresentor(t *testing.T) {
	for name, c := range map[string]struct {
		port, id    string
		representor bool
	}{
		"function's": {"pf0vf3", "a1b2", true}, "subfunction's of another host": {"c1pf0sf88", "a1b2", true},
		"uplink": {"p0", "a1b2", false}, "PF in legacy mode": {"p0", "", false}, "none": {"", "", false},
	} {
		h := &facts.Host{}
		Inventory(context.Background(), treetest.Recorded(t, recordedLinks(map[string]map[string]string{
			"ens1": {"ifindex": "2\n", "device/sriov_totalvfs": "8\n", "device/sriov_numvfs": "0\n",
				"phys_port_name": c.port + "\n", "phys_switch_id": c.id + "\n"},
		})), h)
		n := h.NICs[0]
		if n.Representor() != c.representor || (n.SRIOV == nil) != c.representor || n.PortName != c.port {
			t.Errorf("%s: %+v, representor %v", name, n, n.Representor())
		}
	}
}

func attributes(t testing.TB, head []byte, write func(*netlink.AttributeEncoder)) []byte {
	t.Helper()
	e := netlink.NewAttributeEncoder()
	write(e)
	data := must.Get(e.Encode())(t)
	return append(head, data...)
}

// TestRouteWithSeveralHops reads a route whose next hops have their own attributes.
func TestRouteWithSeveralHops(t *testing.T) {
	hop := func(index uint32, with func(*netlink.AttributeEncoder)) []byte {
		b := attributes(t, make([]byte, sizeofNextHop), with)
		binary.NativeEndian.PutUint16(b, uint16(len(b)))
		binary.NativeEndian.PutUint32(b[4:], index)
		return b
	}
	head := make([]byte, unix.SizeofRtMsg)
	head[0], head[1], head[7] = unix.AF_INET, 24, unix.RTN_UNICAST
	r, err := parseRoute(attributes(t, head, func(e *netlink.AttributeEncoder) {
		e.Bytes(unix.RTA_DST, []byte{10, 0, 1, 0})
		e.Bytes(unix.RTA_MULTIPATH, slices.Concat(
			hop(3, func(e *netlink.AttributeEncoder) { e.Bytes(unix.RTA_GATEWAY, []byte{192, 0, 2, 1}) }),
			hop(4, func(e *netlink.AttributeEncoder) { e.Bytes(unix.RTA_VIA, make([]byte, 18)) })))
	}))
	if want := (route{to: netip.MustParsePrefix("10.0.1.0/24"), unicast: true, gateway: true,
		oifs: []int{3, 4}}); err != nil || !reflect.DeepEqual(r, want) {
		t.Errorf("got %+v (%v), want %+v", r, err, want)
	}
}

func FuzzRoute(f *testing.F) {
	f.Add(make([]byte, unix.SizeofRtMsg))
	f.Fuzz(func(_ *testing.T, message []byte) {
		_, _ = parseRoute(message)
		_, _ = parseForwarding(message)
	})
}

// TestTunnelEnds reads the ends of tunnels of every kind that has them.
func TestTunnelEnds(t *testing.T) {
	v4, v6 := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("2001:db8::7")
	for kind, is := range tunnels {
		for _, remote := range []netip.Addr{v4, v6} {
			at := is.remote
			if remote.Is6() && is.remote6 != 0 {
				at = is.remote6
			}
			d, err := ParseLink(linkMessage(t, 8, true, func(e *netlink.AttributeEncoder) {
				e.Nested(unix.IFLA_LINKINFO, func(info *netlink.AttributeEncoder) error {
					info.String(unix.IFLA_INFO_KIND, kind)
					info.Nested(unix.IFLA_INFO_DATA, func(data *netlink.AttributeEncoder) error {
						if at != 0 {
							data.Bytes(at, remote.AsSlice())
						}
						if is.local != 0 {
							data.Bytes(is.local, make([]byte, 4)) // 0.0.0.0
						}
						if is.external != 0 {
							data.Bytes(is.external, nil)
						}
						return nil
					})
					return nil
				})
			}))
			want := ends{external: is.external != 0}
			if at != 0 {
				want.remote = remote
			}
			must.Hold(t, err == nil && d.tunnel == want, "%s: got %+v (%v), want %+v", kind, d.tunnel, err, want)
		}
	}
}
