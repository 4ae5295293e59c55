package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/vishvananda/netlink"

	"mpps/internal/measure"
	"mpps/internal/measure/traffic"
)

// port is a temporary veth pair into a bridge: packets are sent and counted at Outer, Inner is the port of the bridge.
type port struct {
	Outer, Inner traffic.Device
}

// namePrefix starts the names of a pair; the process's number and a letter follow.
const namePrefix = "mpps-"

// letters end the names of a pair, the outer end's first. A path through a forwarding device needs two pairs.
var letters = []string{"ab", "cd"}

// forwardingDelay is how long a port may take to forward: with the spanning tree protocol, twice the forward delay of
// up to 30 s (IEEE 802.1D-1998 table 8-3); otherwise a moment.
const forwardingDelay = 65 * time.Second

// intoBridge makes a veth pair, adds it to the bridge and waits until it forwards. The outer end is in its own network
// namespace, with which the kernel removes both ends: when remove is called, which may be repeated, or however this
// process ends.
func (m *Machine) intoBridge(ctx context.Context, bridge string) (p port, remove func() error, err error) {
	master, err := findBridge(bridge)
	if err != nil {
		return p, nil, err
	}
	outer, inner, ends, err := portNames(bridge)
	if err != nil {
		return p, nil, err
	}
	netns, release, err := traffic.NewNetns()
	if err != nil {
		return p, nil, fault("bench pps --via needs root", "%w", err)
	}
	// Both ends go away with the namespace, but only a moment later.
	remove = sync.OnceValue(func() error {
		m.netns = slices.DeleteFunc(m.netns, func(ns string) bool { return ns == netns })
		return errors.Join(removeLink(inner), release())
	})
	defer func() {
		if err != nil {
			err = errors.Join(err, remove())
		}
	}()
	peer, err := os.Open(netns)
	if err != nil {
		return p, nil, err
	}
	defer peer.Close()
	// A port with a smaller MTU would lower the bridge's (br_mtu_auto_adjust in net/bridge/br_if.c). udev leaves
	// explicit MAC addresses alone.
	pid, attrs := os.Getpid(), netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = inner, master.Attrs().MTU
	attrs.HardwareAddr = highMAC(byte(pid>>8), byte(pid), 0x0a+ends[1]-'a')
	pair := &netlink.Veth{LinkAttrs: attrs, PeerName: outer, PeerMTU: uint32(attrs.MTU),
		PeerNamespace:    netlink.NsFd(peer.Fd()),
		PeerHardwareAddr: highMAC(byte(pid>>8), byte(pid), 0x0a+ends[0]-'a')}
	if err := netlink.LinkAdd(pair); err != nil {
		return p, nil, fault("bench pps --via needs root", "make a veth pair into %s: %w", bridge, err)
	}
	in, out := traffic.Endpoint{Iface: inner}, traffic.Endpoint{Netns: netns, Iface: outer}
	for _, end := range []traffic.Endpoint{in, out} {
		if err := end.Do(func() error { return raise(end.Iface, master, end == in) }); err != nil {
			return p, nil, fmt.Errorf("put %s into %s: %w", inner, bridge, err)
		}
	}
	if err := m.waitForwarding(ctx, inner, bridge); err != nil {
		return p, nil, err
	}
	if p.Outer, err = out.Device(); err != nil {
		return p, nil, err
	}
	m.count(netns)
	p.Inner, err = in.Device()
	return p, remove, err
}

// portNames returns unused interface names for a pair, and its letters.
func portNames(bridge string) (outer, inner, ends string, err error) {
	prefix := namePrefix + strconv.Itoa(os.Getpid())
	for _, ends := range letters {
		if _, err := netlink.LinkByName(prefix + ends[1:]); err != nil {
			return prefix + ends[:1], prefix + ends[1:], ends, nil
		}
	}
	return "", "", "", fmt.Errorf("bridge %s: there are pairs into %d bridges already", bridge, len(letters))
}

// raise sets one end of a pair up. The inner end becomes a port of the bridge first.
func raise(iface string, bridge netlink.Link, port bool) error {
	// No router solicitations in the guests' network; a kernel without IPv6 lacks this file.
	_ = os.WriteFile("/proc/sys/net/ipv6/conf/"+iface+"/disable_ipv6", []byte("1"), 0)
	link, err := netlink.LinkByName(iface)
	if err == nil && port {
		err = netlink.LinkSetMaster(link, bridge)
	}
	if err != nil {
		return err
	}
	if port {
		traffic.TakeXDP(iface)
	}
	return netlink.LinkSetUp(link)
}

// waitForwarding waits until a port forwards: state 3, BR_STATE_FORWARDING in include/uapi/linux/if_bridge.h.
func (m *Machine) waitForwarding(ctx context.Context, iface, bridge string) error {
	deadline := time.Now().Add(forwardingDelay)
	for {
		state, err := m.sysfs(iface, "brport/state")
		if err != nil {
			return fmt.Errorf("port %s of bridge %s: %w", iface, bridge, err)
		}
		if state == "3" {
			return nil
		}
		if time.Now().After(deadline) {
			return fault("is the bridge up? 'ip link set "+bridge+" up'", "port %s of bridge %s does not forward "+
				"after %v: state %s, expected 3", iface, bridge, forwardingDelay, state)
		}
		if err := measure.Pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// removeLink removes an interface. It may already be gone.
func removeLink(name string) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		var gone netlink.LinkNotFoundError
		if errors.As(err, &gone) {
			return nil
		}
		return fmt.Errorf("remove %s: %w", name, err)
	}
	if err := netlink.LinkDel(l); err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}

// highMAC returns a locally administered address that sorts high: a bridge takes the lowest address of its ports as its
// own (br_stp_recalculate_bridge_id in net/bridge/br_stp_if.c), which a temporary port must not change; libvirt's taps
// start with fe for the same reason.
func highMAC(last ...byte) net.HardwareAddr {
	return append(net.HardwareAddr{0xfe, 0x6d, 0x70}, last...)
}
