package planted

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// scene is a scenario's path while it stands.
type scene struct {
	s    Scenario
	base string        // that names of namespaces begin with
	cpus []int         // real numbers of the scenario's CPUs
	mpps string        // the program that is judged
	tick time.Duration // between bursts
	ends []*placedEnd
	wire *place
	host *place

	wireMAC net.HardwareAddr
	senders []*actor
	undo    []func() error // in order; done from the last to the first
}

// place is one namespace.
type place struct {
	netns string
	on    *netlink.Handle
}

// placedEnd is an end with where it is.
type placedEnd struct {
	End
	place *place // of its own; nil for a guest
	port  string // the host's device towards it
	mac   net.HardwareAddr
	ip    net.IP
	actor *actor
}

const (
	nicName    = "nic0"
	bridgeName = "br0"
	tunnelName = "vx0"

	firstSourcePort = 50_000
)

// uplink is the device by which the host reaches whoever is beyond the wire.
func (s *scene) uplink() string {
	if s.s.Path.Tunnel != nil {
		return tunnelName
	}
	return nicName
}

// open builds the path. What was built when an error comes is taken down by close.
func (s *scene) open(ctx context.Context) error {
	steps := []func() error{
		func() (err error) { s.wire, err = s.place("w"); return err },
		func() (err error) { s.host, err = s.place("h"); return err },
		s.cable, s.bridge, s.tunnel, s.route,
		func() error {
			for i, e := range s.s.Path.Ends {
				if err := s.addEnd(ctx, i, e); err != nil {
					return fmt.Errorf("end %s: %w", e.Name, err)
				}
			}
			return nil
		},
		s.countBeyond,
		s.steer,
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	// A port forwards when its carrier has been noticed, and a veth with XDP has its queues again.
	time.Sleep(300 * time.Millisecond)
	return nil
}

// outer is the wire's device that senders use: in front of the tunnel, where there is one.
func (s *scene) outer() string {
	if s.s.Path.Tunnel != nil {
		return tunnelName
	}
	return "wire0"
}

// countBeyond takes what comes to the wire, where ends do not take their own measurements there.
func (s *scene) countBeyond() error {
	for _, e := range s.ends {
		if e.Kind == "bare" {
			return nil
		}
	}
	return s.count(s.wire, s.outer())
}

func (s *scene) later(f func() error) { s.undo = append(s.undo, f) }

// close takes everything down. It goes on past errors.
func (s *scene) close() error {
	var errs []error
	for i := len(s.undo) - 1; i >= 0; i-- {
		errs = append(errs, s.undo[i]())
	}
	s.undo = nil
	return errors.Join(errs...)
}

// place makes a namespace in which nothing but the scenario's own packets is sent.
func (s *scene) place(letter string) (*place, error) {
	p := &place{netns: s.base + letter}
	if err := netns_(p.netns); err != nil {
		return nil, err
	}
	s.later(func() error { return netns.DeleteNamed(p.netns) })
	h, err := netns.GetFromName(p.netns)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	if p.on, err = netlink.NewHandleAt(h); err != nil {
		return nil, err
	}
	s.later(func() error { p.on.Close(); return nil })
	lo, err := p.on.LinkByName("lo")
	if err != nil {
		return nil, err
	}
	return p, p.on.LinkSetUp(lo)
}

// netns_ makes a named namespace without IPv6.
func netns_(name string) error {
	return onThread(func() error {
		h, err := netns.NewNamed(name)
		if err != nil {
			return fmt.Errorf("namespace %s: %w", name, err)
		}
		h.Close()
		for _, which := range []string{"all", "default"} {
			err := os.WriteFile("/proc/sys/net/ipv6/conf/"+which+"/disable_ipv6", []byte("1"), 0)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
		return nil
	})
}

// pair makes a veth pair, both ends up.
func (s *scene) pair(a *place, nameA string, b *place, nameB string, queues int) (first, second netlink.Link,
	err error) {
	ns, err := netns.GetFromName(b.netns)
	if err != nil {
		return nil, nil, err
	}
	defer ns.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.NumTxQueues, attrs.NumRxQueues = nameA, queues, queues
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: nameB, PeerNamespace: netlink.NsFd(int(ns)),
		PeerNumTxQueues: uint32(queues), PeerNumRxQueues: uint32(queues)}
	if err := a.on.LinkAdd(veth); err != nil {
		return nil, nil, fmt.Errorf("veth %s – %s: %w", nameA, nameB, err)
	}
	if first, err = a.up(nameA); err != nil {
		return nil, nil, err
	}
	second, err = b.up(nameB)
	return first, second, err
}

func (p *place) up(name string) (netlink.Link, error) {
	l, err := p.on.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return l, p.on.LinkSetUp(l)
}

// cable joins the wire and the host's NIC. XDP at the wire's end takes what comes there.
func (s *scene) cable() error {
	_, peer, err := s.pair(s.host, nicName, s.wire, "wire0", s.s.Path.Queues)
	if err != nil {
		return err
	}
	s.wireMAC = peer.Attrs().HardwareAddr
	return nil
}

func (s *scene) bridge() error {
	if s.s.Path.Forward != "bridge" {
		return nil
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = bridgeName
	if err := s.host.on.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil {
		return fmt.Errorf("bridge: %w", err)
	}
	if _, err := s.host.up(bridgeName); err != nil {
		return err
	}
	// A namespace begins with the kernel's default: bridged frames run through the rules
	// (net/bridge/br_netfilter_hooks.c).
	if err := s.host.write("/proc/sys/net/bridge/bridge-nf-call-iptables", "0"); err != nil &&
		!errors.Is(err, os.ErrNotExist) {
		return err
	}
	if s.s.Path.Tunnel != nil {
		return nil
	}
	return s.port(nicName, s.wireMAC)
}

// port makes a device a port of the bridge and tells it who is behind.
func (s *scene) port(name string, behind net.HardwareAddr) error {
	bridge, err := s.host.on.LinkByName(bridgeName)
	if err != nil {
		return err
	}
	l, err := s.host.up(name)
	if err != nil {
		return err
	}
	if err := s.host.on.LinkSetMaster(l, bridge); err != nil {
		return fmt.Errorf("%s into the bridge: %w", name, err)
	}
	return s.host.on.NeighSet(&netlink.Neigh{Family: unix.AF_BRIDGE, LinkIndex: l.Attrs().Index, HardwareAddr: behind,
		State: netlink.NUD_NOARP, Flags: netlink.NTF_MASTER})
}

// tunnel puts a VXLAN device on both sides of the wire.
func (s *scene) tunnel() error {
	t := s.s.Path.Tunnel
	if t == nil {
		return nil
	}
	for _, side := range []struct {
		at       *place
		device   string
		own, far string
		queues   int
	}{{s.host, nicName, "192.0.2.1", "192.0.2.2", t.Queues}, {s.wire, "wire0", "192.0.2.2", "192.0.2.1", 1}} {
		under, err := side.at.on.LinkByName(side.device)
		if err != nil {
			return err
		}
		address, err := netlink.ParseAddr(side.own + "/24")
		if err != nil {
			return err
		}
		if err := side.at.on.AddrAdd(under, address); err != nil {
			return err
		}
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.NumTxQueues, attrs.NumRxQueues = tunnelName, side.queues, side.queues
		vx := &netlink.Vxlan{LinkAttrs: attrs, VxlanId: 7, Group: net.ParseIP(side.far),
			VtepDevIndex: under.Attrs().Index, Port: 4789, Learning: false}
		// the upper end of the range is not in it (include/net/udp.h, udp_flow_src_port)
		if t.SourcePorts > 0 && side.at == s.wire {
			vx.PortLow, vx.PortHigh = firstSourcePort, firstSourcePort+t.SourcePorts
		}
		if err := side.at.on.LinkAdd(vx); err != nil {
			return fmt.Errorf("tunnel: %w", err)
		}
		if _, err := side.at.up(tunnelName); err != nil {
			return err
		}
	}
	beyond, err := s.wire.on.LinkByName(tunnelName)
	if err != nil {
		return err
	}
	s.wireMAC = beyond.Attrs().HardwareAddr
	return s.port(tunnelName, s.wireMAC)
}

// route gives the NIC an address and lets the host forward, where there is no bridge.
func (s *scene) route() error {
	if s.s.Path.Forward != "route" {
		return nil
	}
	nic, err := s.host.on.LinkByName(nicName)
	if err != nil {
		return err
	}
	address, err := netlink.ParseAddr("198.18.0.1/16")
	if err != nil {
		return err
	}
	if err := s.host.on.AddrAdd(nic, address); err != nil {
		return err
	}
	return s.host.write("/proc/sys/net/ipv4/ip_forward", "1")
}
