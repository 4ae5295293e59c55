package trace

import (
	"slices"
	"testing"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"mpps/internal/must"
)

// TestTunnelOfLink: what a device's own data tell of its UDP port, in whatever order they come.
func TestTunnelOfLink(t *testing.T) {
	attr := func(kind uint16, data ...byte) netlink.Attribute { return netlink.Attribute{Type: kind, Data: data} }
	port := []byte{0x30, 0x39} // 12345
	for name, c := range map[string]struct {
		kind string
		data []netlink.Attribute
		want tunnelPort
	}{
		"vxlan": {"vxlan", []netlink.Attribute{attr(unix.IFLA_VXLAN_PORT, port...)},
			tunnelPort{12345, inVXLAN}},
		"vxlan gpe": {"vxlan", []netlink.Attribute{attr(unix.IFLA_VXLAN_PORT, port...),
			attr(unix.IFLA_VXLAN_GPE)}, tunnelPort{12345, inVXLANGPE}},
		"vxlan, gpe first": {"vxlan", []netlink.Attribute{attr(unix.IFLA_VXLAN_GPE),
			attr(unix.IFLA_VXLAN_PORT, port...)}, tunnelPort{12345, inVXLANGPE}},
		"geneve": {"geneve", []netlink.Attribute{attr(unix.IFLA_GENEVE_PORT, port...)},
			tunnelPort{12345, inGeneve}},
		"gretap in fou": {"gretap", []netlink.Attribute{attr(14, 1, 0), attr(17, port...)},
			tunnelPort{12345, inFoUGRE}},
		"gretap in gue": {"gretap", []netlink.Attribute{attr(14, 2, 0), attr(17, port...)},
			tunnelPort{12345, inGUE}},
		"ipip in fou": {"ipip", []netlink.Attribute{attr(15, 1, 0), attr(18, port...)},
			tunnelPort{12345, inFoUIP}},
		"sit in gue": {"sit", []netlink.Attribute{attr(15, 2, 0), attr(18, port...)},
			tunnelPort{12345, inGUE}},
		"gre without UDP":      {"gre", []netlink.Attribute{attr(14, 0, 0), attr(17, 0, 0)}, tunnelPort{}},
		"a bridge has no port": {"bridge", []netlink.Attribute{attr(unix.IFLA_VXLAN_PORT, port...)}, tunnelPort{}},
		"a port of one byte": {"geneve", []netlink.Attribute{attr(unix.IFLA_GENEVE_PORT, 1)},
			tunnelPort{0, inGeneve}},
		"bareudp, maybe of MPLS": {"bareudp", []netlink.Attribute{attr(unix.IFLA_BAREUDP_PORT, port...)},
			tunnelPort{12345, inOpaque}},
	} {
		data := must.Get(netlink.MarshalAttributes(c.data))(t)
		info := must.Get(netlink.MarshalAttributes(
			[]netlink.Attribute{attr(unix.IFLA_INFO_KIND, append([]byte(c.kind), 0)...),
				attr(unix.IFLA_INFO_DATA, data...)}))(t)
		link := must.Get(netlink.MarshalAttributes([]netlink.Attribute{attr(unix.IFLA_LINKINFO, info...)}))(t)
		l, err := parseLink(slices.Concat(make([]byte, unix.SizeofIfInfomsg), link))
		if err != nil || l.tunnel != c.want {
			t.Errorf("%s: %v, %v, expected %v", name, l.tunnel, err, c.want)
		}
	}
}

func TestParseFoU(t *testing.T) {
	for name, c := range map[string]struct {
		kind, protocol byte
		want           inside
	}{
		"gue": {2, 0, inGUE}, "gre": {1, unix.IPPROTO_GRE, inFoUGRE}, "ipip": {1, unix.IPPROTO_IPIP, inFoUIP},
		"sit":  {1, unix.IPPROTO_IPV6, inFoUIP},
		"MPLS": {1, unix.IPPROTO_MPLS, inOpaque}, "a type of tomorrow": {3, unix.IPPROTO_IPIP, inOpaque},
	} {
		message := must.Get(netlink.MarshalAttributes([]netlink.Attribute{
			{Type: fouAttrPort, Data: []byte{0x15, 0xb3}}, {Type: fouAttrProto, Data: []byte{c.protocol}},
			{Type: fouAttrType, Data: []byte{c.kind}},
		}))(t)
		if p, err := parseFoU(message); err != nil || p != (tunnelPort{5555, c.want}) {
			t.Errorf("%s: %v, %v, expected port 5555 with %d", name, p, err, c.want)
		}
	}
}
