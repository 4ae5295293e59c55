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

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"mpps/internal/measure/traffic"
	"mpps/internal/measure/traffic/agent"
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

// parseARP parses a frame. What it says of an address that is not one interface's is nothing: frames sent there would
// reach everyone on the segment, and each guest there can answer for the gateway.
func parseARP(b []byte) (arp, bool) {
	if len(b) < arpBytes || binary.BigEndian.Uint16(b[12:]) != unix.ETH_P_ARP ||
		!bytes.Equal(b[14:20], []byte{0, 1, 8, 0, 6, 4}) || !ofInterface(b[22:28]) {
		return arp{}, false
	}
	return arp{
		op: binary.BigEndian.Uint16(b[20:]), from: bytes.Clone(b[22:28]),
		sender: netip.AddrFrom4([4]byte(b[28:32])), of: netip.AddrFrom4([4]byte(b[38:42])),
	}, true
}

// ofInterface reports whether a MAC address can be that of one interface: not a group's and not zero.
func ofInterface(mac net.HardwareAddr) bool {
	return len(mac) == 6 && mac[0]&1 == 0 && !bytes.Equal(mac, make([]byte, 6))
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

// announce sends one broadcast frame from an interface, so that bridges on the path learn where its address is. The
// EtherType is reserved for local experiments (IEEE 802-2014, 9.2.3); every stack drops it.
func announce(e traffic.Endpoint) error {
	device, err := e.Device()
	if err != nil || len(device.MAC) != 6 || !device.Up {
		return err
	}
	frame := bytes.Repeat([]byte{0xff}, 6)
	frame = append(frame, device.MAC...)
	frame = append(frame, 0x88, 0xb5)
	frame = append(frame, make([]byte, 46)...)
	return e.Do(func() error {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("announce %s: %w", e, err)
		}
		defer unix.Close(fd)
		// On a full queue or a link that is down for a moment the bridges flood, which is no error.
		_ = unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: device.Index})
		return nil
	})
}

// checkMAC refuses the MAC address that an agent named unless the agent shows that frames for it arrive there. What the
// kernel's table of neighbours says is no proof: its entries are what the guest answers to ARP. A bridge of this host
// must know at which port the address is: otherwise it sends the frames to all guests, and any of them can show that.
func checkMAC(ctx context.Context, f *far, w With, near traffic.Device, mac net.HardwareAddr) error {
	if w.Bridge == "" {
		return proveMAC(ctx, f, near, mac)
	}
	bridge, err := netlink.LinkByName(w.Bridge)
	if err != nil {
		return fmt.Errorf("bridge %s: %w", w.Bridge, err)
	}
	refuse := func(what string) error {
		return fault("'bridge fdb show br "+w.Bridge+"' shows what the bridge knows", "agent %s names the MAC address "+
			"%s, and bridge %s %s", f.addr, mac, w.Bridge, what)
	}
	ports, err := fdb(bridge)
	if err != nil {
		return err
	}
	if ports[string(mac)] < 0 {
		return refuse("or one of its ports has it itself")
	}
	if err := proveMAC(ctx, f, near, mac); err != nil {
		return err
	}
	if ports, err = fdb(bridge); err == nil && ports[string(mac)] <= 0 {
		err = refuse("does not know where that is, and would send packets to all its ports")
	}
	return err
}

func proveMAC(ctx context.Context, f *far, near traffic.Device, mac net.HardwareAddr) error {
	err := f.client.ProveArrival(ctx, near, mac, f.nic.Name)
	if errors.Is(err, agent.ErrElsewhere) {
		return fault("is interface "+f.nic.Name+" of the agent on this path, and does nothing drop packets to "+
			"198.19.0.1 on the way? --guest-nic names another", "agent %s: %s: %w", f.addr, mac, err)
	}
	return explain(err)
}

// fdb returns the index of the port at which a bridge knows each MAC address; −1 for those of the host itself, which
// the kernel marks as permanent (fdb_to_nud in net/bridge/br_fdb.c).
func fdb(bridge netlink.Link) (map[string]int, error) {
	all, err := netlink.NeighList(0, unix.AF_BRIDGE)
	if err != nil {
		return nil, fmt.Errorf("addresses known to bridge %s: %w", bridge.Attrs().Name, err)
	}
	ports := map[string]int{}
	for _, entry := range all {
		if entry.MasterIndex != bridge.Attrs().Index || len(entry.HardwareAddr) != 6 {
			continue
		}
		mac := string(entry.HardwareAddr)
		switch {
		case entry.State&netlink.NUD_PERMANENT != 0:
			ports[mac] = -1
		case ports[mac] == 0:
			ports[mac] = entry.LinkIndex
		}
	}
	return ports, nil
}
