package link

import (
	"strings"
	"testing"

	"github.com/mdlayher/netlink"

	"mpps/internal/must"
)

// TestGREMade: the words that make a gretap again are those that it was made with (ip-link(8)).
func TestGREMade(t *testing.T) {
	attr := func(kind uint16, b ...byte) netlink.Attribute { return netlink.Attribute{Type: kind, Data: b} }
	for want, attrs := range map[string][]netlink.Attribute{
		"address 52:54:00:00:00:01 mtu 1462 type gretap remote 192.0.2.2 local 192.0.2.1 dev eth0 ttl 64 ikey 7 okey 8 " +
			"iseq oseq": {attr(1, 4, 0, 0, 0), attr(2, 0x30, 0), attr(3, 0x30, 0), attr(4, 0, 0, 0, 7), attr(5, 0, 0, 0, 8),
			attr(6, 192, 0, 2, 1), attr(7, 192, 0, 2, 2), attr(8, 64), attr(10, 1)},
		"address 52:54:00:00:00:01 mtu 1462 type gretap remote 192.0.2.2 tos inherit ocsum nopmtudisc ignore-df encap gue " +
			"encap-sport auto encap-dport 6080 encap-csum": {attr(1, 0, 0, 0, 0), attr(3, 0x80, 0), attr(7, 192, 0, 2, 2),
			attr(9, 1), attr(10, 0), attr(14, 2, 0), attr(15, 1, 0), attr(16, 0, 0), attr(17, 0x17, 0xc0), attr(19, 1)},
		"address 52:54:00:00:00:01 mtu 1462 type gretap external": {attr(18)},
	} {
		b := must.Get(netlink.MarshalAttributes(attrs))(t)
		ad, err := netlink.NewAttributeDecoder(b)
		must.Do(t, err)
		d := Device{Kind: "gretap", mac: "52:54:00:00:00:01", mtu: 1462}
		if err := d.parseTunnel(ad, gre); err != nil || ad.Err() != nil {
			t.Fatal(err, ad.Err())
		}
		must.Equal(t, strings.Join(d.made("eth0"), " "), want, "Join")
	}
	if d := (Device{Kind: "gretap", tunnel: ends{link: 4}}); d.made("") != nil {
		t.Error("made again over a device that has no name here")
	}
}
