package rig

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/measure/traffic"
)

// ARP over Ethernet for IPv4 (RFC 826), 28 bytes after the Ethernet header: too little for a library. The kernel's own
// neighbour table would need addresses on interfaces that are not ours.
const (
	arpBytes   = 14 + 28
	arpRequest = 1
	arpReply   = 2
)

// arp is the content of an ARP packet.
type arp struct {
	op         uint16
	from       net.HardwareAddr
	sender, of netip.Addr // sender protocol address and target protocol address
}

// arpFrame returns a frame from a device to a MAC address.
func arpFrame(to net.HardwareAddr, a arp) []byte {
	b := make([]byte, 60) // the shortest frame, without FCS
	copy(b, to)
	copy(b[6:], a.from)
	binary.BigEndian.PutUint16(b[12:], unix.ETH_P_ARP)
	copy(b[14:], []byte{0, 1, 8, 0, 6, 4}) // Ethernet, IPv4, and the sizes of their addresses
	binary.BigEndian.PutUint16(b[20:], a.op)
	copy(b[22:], a.from)
	sender, of := a.sender.As4(), a.of.As4()
	copy(b[28:], sender[:])
	if a.op == arpReply {
		copy(b[32:], to)
	}
	copy(b[38:], of[:])
	return b
}

// parseARP parses a frame.
func parseARP(b []byte) (arp, bool) {
	if len(b) < arpBytes || binary.BigEndian.Uint16(b[12:]) != unix.ETH_P_ARP ||
		!bytes.Equal(b[14:20], []byte{0, 1, 8, 0, 6, 4}) {
		return arp{}, false
	}
	return arp{
		op: binary.BigEndian.Uint16(b[20:]), from: bytes.Clone(b[22:28]),
		sender: netip.AddrFrom4([4]byte(b[28:32])), of: netip.AddrFrom4([4]byte(b[38:42])),
	}, true
}

// arpSocket opens a socket for ARP on a device.
func arpSocket(d traffic.Device) (f *os.File, err error) {
	err = d.Do(func() error {
		const protocol = unix.ETH_P_ARP>>8 | unix.ETH_P_ARP&0xff<<8 // in network order
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
		if err != nil {
			return err
		}
		if err := unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: d.Index, Protocol: protocol}); err != nil {
			return errors.Join(err, unix.Close(fd))
		}
		f = os.NewFile(uintptr(fd), "arp of "+d.Iface)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("ARP on %s: %w", d.Endpoint, err)
	}
	return f, nil
}

// answerARP answers ARP requests for an address on a device until stop is called: a router that is to send there asks.
// The device does not have the address, so nothing changes in this machine's own routing.
func answerARP(d traffic.Device, address netip.Addr) (stop func() error, err error) {
	f, err := arpSocket(d)
	if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 2048)
		for {
			n, err := f.Read(b)
			if errors.Is(err, os.ErrClosed) {
				return
			}
			if err != nil { // the device is down or gone: nobody asks any more
				time.Sleep(10 * time.Millisecond)
				continue
			}
			if a, ok := parseARP(b[:n]); ok && a.op == arpRequest && a.of == address {
				// A lost answer is asked for again.
				_, _ = f.Write(arpFrame(a.from, arp{op: arpReply, from: d.MAC, sender: address, of: a.sender}))
			}
		}
	}()
	return func() error {
		err := f.Close()
		<-done
		return err
	}, nil
}

// resolve asks on a device for the MAC address of an IP address. It sends an ARP probe, without an address of its own
// (RFC 5227): it gets an answer and nobody's table changes.
func resolve(ctx context.Context, d traffic.Device, address netip.Addr) (net.HardwareAddr, error) {
	f, err := arpSocket(d)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	broadcast := net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	b := make([]byte, 2048)
	for deadline := time.Now().Add(3 * time.Second); time.Now().Before(deadline); {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		question := arpFrame(broadcast, arp{op: arpRequest, from: d.MAC, sender: netip.IPv4Unspecified(), of: address})
		if _, err := f.Write(question); err != nil {
			return nil, fmt.Errorf("ARP on %s: %w", d.Endpoint, err)
		}
		if err := f.SetReadDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
			return nil, fmt.Errorf("ARP on %s: %w", d.Endpoint, err)
		}
		for {
			n, err := f.Read(b)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("ARP on %s: %w", d.Endpoint, err)
			}
			if a, ok := parseARP(b[:n]); ok && a.op == arpReply && a.sender == address {
				return a.from, nil
			}
		}
	}
	return nil, fault("is it an address of the router on that side, and up? 'bench --forward' takes --gateway-mac "+
		"instead", "nobody at %s answers for %s", d.Endpoint, address)
}
