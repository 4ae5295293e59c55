package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"

	"mpps/internal/traffic"
)

// port is a veth pair that leads into a bridge for the time of a measurement: packets are sent and counted at Outer,
// Inner is the bridge's port.
type port struct {
	Outer, Inner traffic.Device
}

// privatePrefix begins the names of everything that this package makes; the number of the process follows.
const privatePrefix = "mpps-"

// pairs are the last letters of the names of both ends of a pair, the outer one first: a way through a device that
// forwards has two.
var pairs = []string{"ab", "cd"}

// nextPair is a pair of letters that no interface of this process has.
func (m *Machine) nextPair() (ends string, ok bool) {
	for _, ends := range pairs {
		if _, err := netlink.LinkByName(privatePrefix + strconv.Itoa(os.Getpid()) + ends[:1]); err != nil {
			return ends, true
		}
	}
	return "", false
}

// aliasFormat marks what belongs to a run, with the process's start time: a number alone is given away again.
const aliasFormat = "mpps bench, process %d started %d"

// forwardingDelay is how long a port may take to forward: twice the forward delay of at most 30 s where the bridge runs
// the spanning tree protocol (IEEE 802.1D-1998 table 8-3), a moment otherwise.
const forwardingDelay = 65 * time.Second

// intoBridge makes the pair, puts it into the bridge and waits until it forwards. The returned function removes it and
// may be called again.
func (m *Machine) intoBridge(ctx context.Context, bridge string) (p port, remove func() error, err error) {
	master, err := netlink.LinkByName(bridge)
	if err != nil {
		return p, nil, wrong("'mpps inspect' shows the bridges", "bridge %s: %w", bridge, err)
	}
	if master.Type() != "bridge" {
		return p, nil, wrong("'mpps inspect' shows the bridges", "%s is a %s, not a bridge", bridge, master.Type())
	}
	if _, err := m.RemoveStale(); err != nil {
		return p, nil, err
	}
	pid := os.Getpid()
	ends, ok := m.nextPair()
	if !ok {
		return p, nil, fmt.Errorf("bridge %s: there are pairs into %d bridges already", bridge, len(pairs))
	}
	outer, inner := privatePrefix+strconv.Itoa(pid)+ends[:1], privatePrefix+strconv.Itoa(pid)+ends[1:]
	attrs := netlink.NewLinkAttrs()
	attrs.Name = outer
	// A port of a smaller MTU would pull the bridge's down (br_mtu_auto_adjust in net/bridge/br_if.c); addresses that
	// are given are left alone by udev.
	attrs.MTU = master.Attrs().MTU
	attrs.HardwareAddr = highMAC(byte(pid>>8), byte(pid), 0x0a+ends[0]-'a')
	pair := &netlink.Veth{LinkAttrs: attrs, PeerName: inner, PeerMTU: uint32(attrs.MTU),
		PeerHardwareAddr: highMAC(byte(pid>>8), byte(pid), 0x0a+ends[1]-'a')}
	if err := netlink.LinkAdd(pair); err != nil {
		return p, nil, fault("bench pps --via needs root", "make a veth pair into %s: %w", bridge, err)
	}
	remove = func() error { return removeLink(outer) }
	defer func() {
		if err != nil {
			err = errors.Join(err, remove())
		}
	}()
	a, err := netlink.LinkByName(outer)
	if err != nil {
		return p, nil, err
	}
	b, err := netlink.LinkByName(inner)
	if err != nil {
		return p, nil, err
	}
	// First of all the mark by which a later run knows it for a dead one's.
	if err := netlink.LinkSetAlias(a, fmt.Sprintf(aliasFormat, pid, m.startTime(pid))); err != nil {
		return p, nil, fmt.Errorf("mark %s: %w", outer, err)
	}
	for _, name := range []string{outer, inner} { // no router solicitations into the guests' network
		_ = m.write("proc/sys/net/ipv6/conf/"+name+"/disable_ipv6", "1")
	}
	for _, step := range []func() error{
		func() error { return netlink.LinkSetMaster(b, master) },
		func() error { return netlink.LinkSetUp(b) },
		func() error { return netlink.LinkSetUp(a) },
	} {
		if err := step(); err != nil {
			return p, nil, fmt.Errorf("put %s into %s: %w", inner, bridge, err)
		}
	}
	if err := m.waitForwarding(ctx, inner, bridge); err != nil {
		return p, nil, err
	}
	if p.Outer, err = (traffic.Endpoint{Iface: outer}).Device(); err != nil {
		return p, nil, err
	}
	p.Inner, err = traffic.Endpoint{Iface: inner}.Device()
	return p, remove, err
}

func (m *Machine) write(name, text string) error {
	f, err := m.root.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
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
			return fault("is the bridge up? 'ip link set "+bridge+" up'", "port %s of bridge %s does not forward after %v: state %s, expected 3",
				iface, bridge, forwardingDelay, state)
		}
		timer := time.NewTimer(20 * time.Millisecond)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		}
	}
}

// removeLink removes an interface; one that is gone is as good.
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

// RemoveStale removes what runs that were killed left behind: veth pairs that carry the mark of a process which is no more. It returns their names.
func (m *Machine) RemoveStale() (removed []string, err error) {
	links, err := netlink.LinkList()
	if err != nil {
		return removed, fmt.Errorf("interfaces: %w", err)
	}
	for _, l := range links {
		a := l.Attrs()
		if l.Type() != "veth" || !m.stale(a.Name, a.Alias) {
			continue
		}
		if err := removeLink(a.Name); err != nil {
			return removed, err
		}
		removed = append(removed, a.Name)
	}
	return removed, nil
}

// stale tells whether an interface is a dead run's. One without the mark was left between two steps of making it.
func (m *Machine) stale(name, alias string) bool {
	rest, ours := strings.CutPrefix(name, privatePrefix)
	var number string
	outer := false
	for _, ends := range pairs {
		if before, ok := strings.CutSuffix(rest, ends[:1]); ok {
			number, outer = before, true
		}
	}
	pid, err := strconv.Atoi(number)
	if !ours || !outer || err != nil {
		return false
	}
	var marked int
	var started uint64
	if _, err := fmt.Sscanf(alias, aliasFormat, &marked, &started); err != nil || marked != pid {
		return alias == "" && m.startTime(pid) == 0
	}
	return m.startTime(pid) != started
}

// highMAC is a locally administered address that sorts high: a bridge takes the lowest address of its ports as its own
// (br_stp_recalculate_bridge_id in net/bridge/br_stp_if.c) and must not change it for our sake; libvirt's taps begin
// with fe for the same reason.
func highMAC(last ...byte) net.HardwareAddr {
	return append(net.HardwareAddr{0xfe, 0x6d, 0x70}, last...)
}
