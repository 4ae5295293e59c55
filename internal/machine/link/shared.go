package link

import (
	"encoding/binary"
	"net"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Shared returns which of the devices, by index, take unicast frames for other MAC addresses than their own: those that
// a macvlan, of whatever namespace, has set at its lower device (drivers/net/macvlan.c, macvlan_open). Ports of a
// bridge or bond, tunnels and the like are left out. It asks in the calling thread's namespace.
func Shared(devices []Device) (map[int]bool, error) {
	conn, err := DialRoute()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	shared := map[int]bool{}
	for _, d := range devices {
		if d.master != 0 || d.Kind != "" && d.Kind != "veth" || d.flags&unix.IFF_LOOPBACK != 0 {
			continue
		}
		head := make([]byte, unix.SizeofIfInfomsg)
		head[0] = unix.AF_BRIDGE
		binary.NativeEndian.PutUint32(head[4:], uint32(d.Index))
		messages, err := conn.Execute(netlink.Message{Header: netlink.Header{Type: unix.RTM_GETNEIGH,
			Flags: netlink.Request | netlink.Dump}, Data: head})
		if err != nil {
			return shared, err
		}
		for _, m := range messages {
			if takesFor(m.Data, d) {
				shared[d.Index] = true
			}
		}
	}
	return shared, nil
}

// takesFor reports whether an RTM_NEWNEIGH message is of a unicast address that a device itself takes (NTF_SELF),
// beside its own.
func takesFor(message []byte, d Device) bool {
	if len(message) < unix.SizeofNdMsg || int(int32(binary.NativeEndian.Uint32(message[4:]))) != d.Index ||
		message[10]&unix.NTF_SELF == 0 {
		return false
	}
	ad, err := netlink.NewAttributeDecoder(message[unix.SizeofNdMsg:])
	if err != nil {
		return false
	}
	for ad.Next() {
		if mac := ad.Bytes(); ad.Type() == unix.NDA_LLADDR && len(mac) == 6 {
			return mac[0]&1 == 0 && net.HardwareAddr(mac).String() != d.mac
		}
	}
	return false
}
