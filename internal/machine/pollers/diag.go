package pollers

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// sockDiagByFamily is SOCK_DIAG_BY_FAMILY (include/uapi/linux/sock_diag.h).
const sockDiagByFamily = 20

// xdpSocket is a socket of AF_XDP that is bound to a queue of a device.
type xdpSocket struct {
	inode  uint32
	device int
}

// Sizes and attributes of struct xdp_diag_req and xdp_diag_msg (include/uapi/linux/xdp_diag.h).
const (
	xdpRequest, xdpMessage = 20, 16
	xdpShowInfo            = 1
	xdpInfo                = 1
)

// xdpSockets returns the bound sockets of AF_XDP in this network namespace.
func xdpSockets() ([]xdpSocket, error) {
	request := make([]byte, xdpRequest)
	request[0] = unix.AF_XDP
	binary.NativeEndian.PutUint32(request[8:], xdpShowInfo)
	var all []xdpSocket
	err := dump(request, func(message []byte) {
		if one, bound := parseXDP(message); bound {
			all = append(all, one)
		}
	})
	return all, err
}

func parseXDP(message []byte) (one xdpSocket, bound bool) {
	if len(message) < xdpMessage {
		return one, false
	}
	one.inode = binary.NativeEndian.Uint32(message[4:])
	ad, err := netlink.NewAttributeDecoder(message[xdpMessage:])
	if err != nil {
		return one, false
	}
	for ad.Next() {
		if b := ad.Bytes(); ad.Type() == xdpInfo && len(b) >= 8 {
			one.device = int(binary.NativeEndian.Uint32(b))
		}
	}
	return one, one.device != 0
}

// unixSocket is a socket of AF_UNIX.
type unixSocket struct {
	inode, peer uint32
	name        string // path that it is bound to, or of the listener that accepted it
}

// Sizes and attributes of struct unix_diag_req and unix_diag_msg (include/uapi/linux/unix_diag.h).
const (
	unixRequest, unixMessage = 24, 16
	unixShowName             = 1
	unixShowPeer             = 4
	unixName, unixPeer       = 0, 2
	established, listening   = 1, 10 // include/net/tcp_states.h
)

// unixSockets returns the named sockets of AF_UNIX in this network namespace.
func unixSockets() ([]unixSocket, error) {
	request := make([]byte, unixRequest)
	request[0] = unix.AF_UNIX
	binary.NativeEndian.PutUint32(request[4:], 1<<established|1<<listening)
	binary.NativeEndian.PutUint32(request[12:], unixShowName|unixShowPeer)
	var all []unixSocket
	err := dump(request, func(message []byte) {
		if one := parseUnix(message); one.name != "" {
			all = append(all, one)
		}
	})
	return all, err
}

func parseUnix(message []byte) (one unixSocket) {
	if len(message) < unixMessage {
		return one
	}
	one.inode = binary.NativeEndian.Uint32(message[4:])
	ad, err := netlink.NewAttributeDecoder(message[unixMessage:])
	if err != nil {
		return one
	}
	for ad.Next() {
		switch b := ad.Bytes(); {
		case ad.Type() == unixName:
			one.name = strings.TrimRight(string(b), "\x00")
		case ad.Type() == unixPeer && len(b) == 4:
			one.peer = binary.NativeEndian.Uint32(b)
		}
	}
	return one
}

// dump asks the kernel for the sockets of a family (sock_diag(7)).
func dump(request []byte, each func(message []byte)) error {
	conn, err := netlink.Dial(unix.NETLINK_SOCK_DIAG, nil)
	if err != nil {
		return fmt.Errorf("socket netlink: %w", err)
	}
	defer conn.Close()
	messages, err := conn.Execute(netlink.Message{
		Header: netlink.Header{Type: sockDiagByFamily, Flags: netlink.Request | netlink.Dump}, Data: request,
	})
	if err != nil {
		return fmt.Errorf("list of sockets: %w", err)
	}
	for _, m := range messages {
		each(m.Data)
	}
	return nil
}
