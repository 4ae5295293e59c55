package trace

import (
	"encoding/binary"
	"fmt"

	"github.com/mdlayher/genetlink"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// inside is what packets to a UDP port contain (bpf/flow.h).
type inside uint8

const (
	inVXLAN inside = iota + 1
	inVXLANGPE
	inGeneve
	inFoUIP
	inFoUGRE
	inGUE
	inOpaque // many flows that cannot be distinguished
)

// standardTunnels are the default ports of tunnels, for those without a device on this host: a guest or another
// namespace may terminate them. They are IANA's, plus 8472, which Linux used for VXLAN before there was a standard
// (drivers/net/vxlan/vxlan_core.c, vxlan_port).
var standardTunnels = map[uint16]inside{
	4789: inVXLAN, 8472: inVXLAN, 4790: inVXLANGPE, 6081: inGeneve, 6080: inGUE, 4754: inFoUGRE,
	1194: inOpaque, // OpenVPN
	1701: inOpaque, // L2TP
	2152: inOpaque, // GTP-U
	3544: inOpaque, // Teredo
	4500: inOpaque, // ESP in UDP
	4755: inOpaque, // GRE in DTLS
	4791: inOpaque, // RoCEv2: many queue pairs, whose hash is the source port
	6635: inOpaque, // MPLS
	6636: inOpaque, // MPLS in DTLS
	9899: inOpaque, // SCTP in UDP, whose associations have this port at both ends (RFC 6951)
	// WireGuard has no registered port; its documentation uses this one.
	51820: inOpaque,
}

// tunnelPort is a UDP port and what packets to it contain; 0 is none.
type tunnelPort struct {
	port uint16
	in   inside
}

// Attributes of tunnels that can be encapsulated in UDP (include/uapi/linux/if_tunnel.h): of GRE, and of all others,
// which have them one number later. Encapsulation types are enum tunnel_encap_types.
const (
	greEncapType = 14
	ipEncapType  = 15
	encapDport   = 3 // relative to the type
	encapFoU     = 1
	encapGUE     = 2
	fouDirect    = 1 // include/uapi/linux/fou.h
	fouGUE       = 2
	fouGet       = 3
	fouAttrPort  = 1
	fouAttrProto = 3
	fouAttrType  = 4
	fouVersion   = 1
)

// parseTunnel parses an attribute of a device's own data for its UDP port.
func (l *netdev) parseTunnel(ad *netlink.AttributeDecoder) {
	bigEndian := func() uint16 {
		b := ad.Bytes()
		if len(b) != 2 {
			return 0
		}
		return binary.BigEndian.Uint16(b)
	}
	switch l.kind {
	case "vxlan":
		switch ad.Type() {
		case unix.IFLA_VXLAN_PORT:
			l.tunnel = tunnelPort{bigEndian(), max(l.tunnel.in, inVXLAN)}
		case unix.IFLA_VXLAN_GPE:
			l.tunnel.in = inVXLANGPE
		}
	case "geneve":
		if ad.Type() == unix.IFLA_GENEVE_PORT {
			l.tunnel = tunnelPort{bigEndian(), inGeneve}
		}
	case "bareudp":
		if ad.Type() == unix.IFLA_BAREUDP_PORT {
			l.tunnel = tunnelPort{bigEndian(), inOpaque}
		}
	case "gre", "gretap", "ip6gre", "ip6gretap":
		l.parseEncap(ad, greEncapType, inFoUGRE, bigEndian)
	case "ipip", "sit", "ip6tnl":
		l.parseEncap(ad, ipEncapType, inFoUIP, bigEndian)
	}
}

func (l *netdev) parseEncap(ad *netlink.AttributeDecoder, first uint16, direct inside, bigEndian func() uint16) {
	switch ad.Type() {
	case first:
		l.tunnel.in = map[uint16]inside{encapFoU: direct, encapGUE: inGUE}[ad.Uint16()]
	case first + encapDport:
		l.tunnel.port = bigEndian()
	}
}

// fouPorts returns the ports on which this namespace receives FoU and GUE; none if the kernel supports neither.
func fouPorts() ([]tunnelPort, error) {
	conn, err := genetlink.Dial(nil)
	if err != nil {
		return nil, nil // no generic netlink
	}
	defer conn.Close()
	family, err := conn.GetFamily("fou")
	if err != nil {
		return nil, nil
	}
	messages, err := conn.Execute(genetlink.Message{Header: genetlink.Header{Command: fouGet, Version: fouVersion}},
		family.ID, netlink.Request|netlink.Dump)
	if err != nil {
		return nil, fmt.Errorf("ports of FoU: %w", err)
	}
	var all []tunnelPort
	for _, m := range messages {
		p, err := parseFoU(m.Data)
		if err != nil {
			return nil, fmt.Errorf("ports of FoU: %w", err)
		}
		all = append(all, p)
	}
	return all, nil
}

func parseFoU(message []byte) (tunnelPort, error) {
	ad, err := netlink.NewAttributeDecoder(message)
	if err != nil {
		return tunnelPort{}, err
	}
	p := tunnelPort{in: inOpaque}
	var kind, protocol uint8
	for ad.Next() {
		switch ad.Type() {
		case fouAttrPort:
			if b := ad.Bytes(); len(b) == 2 {
				p.port = binary.BigEndian.Uint16(b)
			}
		case fouAttrProto:
			protocol = ad.Uint8()
		case fouAttrType:
			kind = ad.Uint8()
		}
	}
	switch {
	case kind == fouGUE:
		p.in = inGUE
	case kind == fouDirect && protocol == unix.IPPROTO_GRE:
		p.in = inFoUGRE
	case kind == fouDirect && (protocol == unix.IPPROTO_IPIP || protocol == unix.IPPROTO_IPV6):
		p.in = inFoUIP
	}
	return p, ad.Err()
}
