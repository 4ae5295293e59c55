package traffic

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Peer returns the other end of a veth pair; ErrNoDevice if it is in a namespace without a name here.
func (d Device) Peer() (Device, error) {
	if d.PeerIndex == 0 {
		return Device{}, fmt.Errorf("%s is not one end of a veth pair", d.Endpoint)
	}
	if d.PeerNSID < 0 {
		return byIndex(d.Netns, d.PeerIndex)
	}
	names, err := os.ReadDir(netnsDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return Device{}, fmt.Errorf("peer of %s: %w", d.Endpoint, err)
	}
	var peer Device
	err = d.Do(func() error {
		for _, n := range names {
			fd, err := unix.Open(filepath.Join(netnsDir, n.Name()), unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				continue // removed in the meantime, or not permitted
			}
			id, err := netlink.GetNetNsIdByFd(fd)
			unix.Close(fd)
			if err == nil && id == d.PeerNSID {
				peer, err = byIndex(n.Name(), d.PeerIndex)
				return err
			}
		}
		// The initial namespace has no name, but this process may be in it.
		fd, err := unix.Open("/proc/self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			id, err := netlink.GetNetNsIdByFd(fd)
			unix.Close(fd)
			if err == nil && id == d.PeerNSID {
				peer, err = byIndex("", d.PeerIndex)
				return err
			}
		}
		return fmt.Errorf("peer of %s, in network namespace id %d: %w", d.Endpoint, d.PeerNSID, ErrNoDevice)
	})
	return peer, err
}

// byIndex looks up an interface by number in a namespace.
func byIndex(netns string, index int) (Device, error) {
	e := Endpoint{Netns: netns}
	err := e.Do(func() error {
		i, err := net.InterfaceByIndex(index)
		if err != nil {
			return fmt.Errorf("interface %d of network namespace %q: %w", index, netns, err)
		}
		e.Iface = i.Name
		return nil
	})
	if err != nil {
		return Device{}, err
	}
	return e.Device()
}

// prepareTransmit makes a device accept redirected frames, by attaching a program if needed, and returns an undo
// function. Everything is held by links.
//
// A veth drops redirected frames unless its peer runs NAPI (veth_xdp_xmit in drivers/net/veth.c); most NIC drivers have
// XDP transmit queues only while a program is attached (igb_xdp_xmit, ixgbe_xdp_xmit, …).
func prepareTransmit(spec *ebpf.CollectionSpec, dev Device) (func() error, error) {
	nothing := func() error { return nil }
	target := dev
	if dev.PeerIndex != 0 {
		var err error
		if target, err = dev.Peer(); err != nil {
			// The owner of the peer, perhaps in another container, must do it.
			return nothing, nil
		}
	} else if dev.Kind != "device" {
		return nothing, nil // tun, bridge, macvlan, …: nothing to do
	}
	undo, err := attachPass(spec, target)
	if err != nil && dev.PeerIndex == 0 {
		return nothing, nil // a driver without XDP; transmitting will show
	}
	if err != nil {
		return nothing, fmt.Errorf("make %s, the peer of %s, take XDP frames: %w", target.Endpoint, dev.Endpoint, err)
	}
	return undo, nil
}

// attachPass attaches a program that passes everything, unless there already is a program, and returns a function to
// remove it.
func attachPass(spec *ebpf.CollectionSpec, dev Device) (func() error, error) {
	nothing := func() error { return nil }
	attached, err := hasXDP(dev)
	if err != nil || attached {
		return nothing, err
	}
	coll, err := loadCollection(onlyProgram(spec, genProgPass))
	if err != nil {
		return nothing, fmt.Errorf("load the pass program: %w", err)
	}
	defer coll.Close()
	l, err := attachXDP(dev, coll.Programs[genProgPass], link.XDPDriverMode)
	if errors.Is(err, unix.EBUSY) { // someone else's came first: just as good
		return nothing, nil
	}
	if err != nil {
		return nothing, err
	}
	return l.Close, nil
}

// onlyProgram returns a copy of spec with one program and no maps.
func onlyProgram(spec *ebpf.CollectionSpec, name string) *ebpf.CollectionSpec {
	spec = spec.Copy()
	return &ebpf.CollectionSpec{
		Programs:  map[string]*ebpf.ProgramSpec{name: spec.Programs[name]},
		ByteOrder: spec.ByteOrder, Types: spec.Types,
	}
}

// attachXDP attaches a program in the device's namespace. With flags 0 the kernel would choose the mode; callers set
// it, to know what they measured.
func attachXDP(dev Device, prog *ebpf.Program, flags link.XDPAttachFlags) (l link.Link, err error) {
	err = dev.Do(func() error {
		l, err = link.AttachXDP(link.XDPOptions{Program: prog, Interface: dev.Index, Flags: flags})
		return err
	})
	return l, err
}

// hasXDP reports whether any XDP program is attached.
func hasXDP(dev Device) (attached bool, err error) {
	err = dev.Do(func() error {
		l, err := netlink.LinkByIndex(dev.Index)
		if err != nil {
			return fmt.Errorf("%s: %w", dev.Endpoint, err)
		}
		x := l.Attrs().Xdp
		attached = x != nil && x.Attached
		return nil
	})
	return attached, err
}
