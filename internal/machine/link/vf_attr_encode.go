package link

import (
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"mpps/internal/model/facts"
)

// setVF sets one attribute of a VF; index is that of the PF.
func setVF(index int, attrType uint16, data []byte) error {
	conn, err := DialRoute()
	if err != nil {
		return err
	}
	defer conn.Close()
	head := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(head[4:], uint32(index))
	e := netlink.NewAttributeEncoder()
	e.Nested(unix.IFLA_VFINFO_LIST, func(list *netlink.AttributeEncoder) error {
		list.Nested(unix.IFLA_VF_INFO, func(info *netlink.AttributeEncoder) error {
			info.Bytes(attrType, data)
			return nil
		})
		return nil
	})
	attributes, err := e.Encode()
	if err != nil {
		return err
	}
	_, err = conn.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.RTM_SETLINK, Flags: netlink.Request | netlink.Acknowledge},
		Data:   append(head, attributes...),
	})
	return err
}

// encode returns the netlink attribute that sets one setting of a VF (include/uapi/linux/if_link.h, struct ifla_vf_mac
// and following), and an error if the driver is known to refuse it. VLAN and its priority are set together, and so are
// the two rates: the other one keeps its value.
func (v virtual) encode(attribute, value string, port facts.VFPort) (uint16, []byte, error) {
	if err := port.Check(v.settings(), attribute, value); err != nil {
		return 0, nil, err
	}
	fields := func(words ...uint32) []byte {
		b := make([]byte, 0, 4*len(words)+4)
		for _, word := range append([]uint32{uint32(v.index)}, words...) {
			b = binary.NativeEndian.AppendUint32(b, word)
		}
		return b
	}
	var word uint32
	switch attribute {
	case "mac":
		mac, err := net.ParseMAC(value)
		return unix.IFLA_VF_MAC, append(fields(), append(mac, make([]byte, 32-len(mac))...)...), err
	case "spoofchk", "trust":
		word = map[string]uint32{"on": 1}[value]
	case "link_state": // IFLA_VF_LINK_STATE_AUTO and following
		word = uint32(slices.Index([]string{"auto", "enable", "disable"}, value))
	default:
		n, err := strconv.ParseUint(value, 10, 24+1)
		if err != nil {
			return 0, nil, err
		}
		word = uint32(n)
	}
	switch attribute { // IFLA_VF_…
	case "vlan":
		return unix.IFLA_VF_VLAN, fields(word, uint32(v.qos)), nil
	case "qos":
		return unix.IFLA_VF_VLAN, fields(uint32(v.vlan), word), nil
	case "max_tx_rate":
		return unix.IFLA_VF_RATE, fields(uint32(v.minRate), word), nil
	case "min_tx_rate":
		return unix.IFLA_VF_RATE, fields(word, uint32(v.maxRate)), nil
	case "spoofchk":
		return unix.IFLA_VF_SPOOFCHK, fields(word), nil
	case "trust":
		return unix.IFLA_VF_TRUST, fields(word), nil
	case "link_state":
		return unix.IFLA_VF_LINK_STATE, fields(word), nil
	}
	return 0, nil, fmt.Errorf("virtual functions have no attribute %s", attribute)
}
