package link

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/mdlayher/netlink"
)

// greOptions are the options of a GRE device, besides its ends (include/uapi/linux/if_tunnel.h, IFLA_GRE_…).
type greOptions struct {
	in, out            uint16 // GRE_CSUM, GRE_KEY, GRE_SEQ
	inKey, outKey      uint32
	ttl, tos           uint8
	fixedMTU, ignoreDF bool
	encap, encapFlags  uint16
	source, target     uint16 // UDP ports
	mark               uint32
}

const (
	greChecksum = 0x8000
	greKey      = 0x2000
	greSequence = 0x1000
)

// encapsulations are enum tunnel_encap_types, encapChecks the flags TUNNEL_ENCAP_FLAG_… by bit.
var (
	encapsulations = []string{"none", "fou", "gue", "mpls"}
	encapChecks    = []string{"encap-csum", "encap-csum6", "encap-remcsum"}
)

func (o *greOptions) parse(ad *netlink.AttributeDecoder) {
	number := func() (n uint32) {
		for _, b := range ad.Bytes() {
			n = n<<8 | uint32(b)
		}
		return n
	}
	switch b := ad.Bytes(); ad.Type() {
	case 2:
		o.in = uint16(number())
	case 3:
		o.out = uint16(number())
	case 4:
		o.inKey = number()
	case 5:
		o.outKey = number()
	case 8:
		o.ttl = uint8(number())
	case 9:
		o.tos = uint8(number())
	case 10:
		o.fixedMTU = number() == 0
	case 14, 15: // these are in the machine's byte order
		if n := &o.encap; len(b) == 2 {
			if ad.Type() == 15 {
				n = &o.encapFlags
			}
			*n = binary.NativeEndian.Uint16(b)
		}
	case 16:
		o.source = uint16(number())
	case 17:
		o.target = uint16(number())
	case 19:
		o.ignoreDF = number() != 0
	case 20:
		if len(b) == 4 {
			o.mark = binary.NativeEndian.Uint32(b)
		}
	}
}

// lockedBy returns the option of ip-link(8) for which a device takes a lock as it transmits, "" if there is none. Since
// Linux 6.12 it is a sequence number, or a checksum in UDP: lltx is set where neither returned early (commit
// 00d066a4d4ed; net/ipv4/ip_gre.c, __gre_tunnel_init; net/ipv6/ip6_gre.c, ip6gre_tnl_init_features).
func (o *greOptions) lockedBy() string {
	switch {
	case o.out&greSequence != 0:
		return "oseq"
	case o.out&greChecksum != 0 && o.encap != 0:
		return "ocsum"
	}
	return ""
}

// made returns the words of ip-link(8) that make a gretap device again, after the name; none for another kind, or one
// that is in another namespace than the device below.
func (d *Device) made(lower string) []string {
	o := &d.gre
	if d.Kind != "gretap" || d.elsewhere || d.tunnel.link != 0 && lower == "" || int(o.encap) >= len(encapsulations) {
		return nil
	}
	words := []string{"address", d.mac, "mtu", strconv.Itoa(d.mtu), "type", d.Kind}
	add := func(given bool, more ...any) {
		for _, word := range more {
			if given {
				words = append(words, fmt.Sprint(word))
			}
		}
	}
	add(d.tunnel.external, "external")
	add(d.tunnel.remote.IsValid(), "remote", d.tunnel.remote)
	add(d.tunnel.local.IsValid(), "local", d.tunnel.local)
	add(d.tunnel.link != 0, "dev", lower)
	add(o.ttl != 0, "ttl", o.ttl)
	add(o.tos == 1, "tos", "inherit")
	add(o.tos > 1, "tos", fmt.Sprintf("%#x", o.tos))
	add(o.in&greKey != 0, "ikey", o.inKey)
	add(o.out&greKey != 0, "okey", o.outKey)
	add(o.in&greSequence != 0, "iseq")
	add(o.out&greSequence != 0, "oseq")
	add(o.in&greChecksum != 0, "icsum")
	add(o.out&greChecksum != 0, "ocsum")
	add(o.fixedMTU, "nopmtudisc")
	add(o.ignoreDF, "ignore-df")
	add(o.mark != 0, "fwmark", o.mark)
	if o.encap != 0 {
		add(true, "encap", encapsulations[o.encap], "encap-sport")
		add(o.source == 0, "auto")
		add(o.source != 0, o.source)
		add(true, "encap-dport", o.target)
		for bit, word := range encapChecks {
			add(o.encapFlags>>bit&1 != 0, word)
		}
	}
	return words
}
