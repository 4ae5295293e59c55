package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"mpps/internal/measure/traffic"
	"mpps/internal/thread"
)

// A link is the veth pair of all generators.
type link struct {
	near, far       traffic.Endpoint
	nearMAC, farMAC string
	cpu, other      int // of the generator, and of its far end
	names           []string
}

const (
	nearAddr = "198.18.0.1"
	farAddr  = "198.18.0.2"
)

func newLink() (_ *link, err error) {
	base := fmt.Sprintf("mpps-gb%d", os.Getpid())
	l := &link{
		near: traffic.Endpoint{Netns: base + "a", Iface: "gb0"},
		far:  traffic.Endpoint{Netns: base + "b", Iface: "gb0"},
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.remove())
		}
	}()
	cpus, err := traffic.AllowedCPUs()
	if err != nil {
		return nil, err
	}
	l.other, l.cpu = cpus[0], cpus[len(cpus)-1]
	for _, e := range []traffic.Endpoint{l.near, l.far} {
		if err := makeNetns(e.Netns); err != nil {
			return nil, err
		}
		l.names = append(l.names, e.Netns)
	}
	far, err := netns.GetFromName(l.far.Netns)
	if err != nil {
		return nil, err
	}
	defer far.Close()
	err = l.near.Do(func() error {
		a := netlink.NewLinkAttrs()
		a.Name = l.near.Iface
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: a, PeerName: l.far.Iface,
			PeerNamespace: netlink.NsFd(int(far))})
	})
	if err != nil {
		return nil, fmt.Errorf("make a veth pair: %w", err)
	}
	if l.nearMAC, err = setUp(l.near, nearAddr); err != nil {
		return nil, err
	}
	l.farMAC, err = setUp(l.far, farAddr)
	return l, err
}

func setUp(e traffic.Endpoint, addr string) (mac string, err error) {
	err = e.Do(func() error {
		k, err := netlink.LinkByName(e.Iface)
		if err != nil {
			return err
		}
		mac = k.Attrs().HardwareAddr.String()
		ip := &net.IPNet{IP: net.ParseIP(addr), Mask: net.CIDRMask(24, 32)}
		return errors.Join(netlink.AddrAdd(k, &netlink.Addr{IPNet: ip}), netlink.LinkSetUp(k))
	})
	return mac, err
}

func makeNetns(name string) error {
	err := thread.Do(func() error {
		h, err := netns.NewNamed(name)
		if err == nil {
			err = h.Close()
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("make network namespace %s: %w", name, err)
	}
	return nil
}

// remove removes the namespaces, and with them the pair.
func (l *link) remove() error {
	var errs []error
	for _, n := range l.names {
		errs = append(errs, netns.DeleteNamed(n))
	}
	l.names = nil
	return errors.Join(errs...)
}

// machine returns kernel and CPU model, for the heading.
func machine() (kernel, cpu string) {
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		kernel = unix.ByteSliceToString(u.Release[:])
	}
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return kernel, "unknown CPU"
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if k, v, ok := strings.Cut(s.Text(), ":"); ok && strings.TrimSpace(k) == "model name" {
			return kernel, strings.TrimSpace(v)
		}
	}
	return kernel, "unknown CPU"
}
