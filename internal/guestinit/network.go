package guestinit

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/vishvananda/netlink"
)

// nicLimit is the time for a NIC to appear after its module was loaded.
const nicLimit = 15 * time.Second

// configure sets the NICs' addresses, then the routes.
func (c Config) configure() error {
	var errs []error
	if !c.IPv6 {
		for _, s := range []string{"all", "default"} {
			// A kernel without IPv6 has nothing to turn off.
			_ = os.WriteFile("/proc/sys/net/ipv6/conf/"+s+"/disable_ipv6", []byte("1"), 0)
		}
	}
	if c.Forward {
		errs = append(errs, os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0))
	}
	if lo, err := netlink.LinkByName("lo"); err == nil {
		errs = append(errs, netlink.LinkSetUp(lo))
	}
	for _, a := range c.Addrs {
		errs = append(errs, a.set())
	}
	for _, r := range c.Routes {
		dst := &net.IPNet{IP: r.To.Addr().AsSlice(), Mask: net.CIDRMask(r.To.Bits(), r.To.Addr().BitLen())}
		if err := netlink.RouteReplace(&netlink.Route{Dst: dst, Gw: r.Via.AsSlice()}); err != nil {
			errs = append(errs, fmt.Errorf("route %s via %s: %w", r.To, r.Via, err))
		}
	}
	return errors.Join(errs...)
}

// set waits for the NIC and brings it up with its address.
func (a Addr) set() error {
	link, err := a.wait()
	if err != nil {
		return err
	}
	if a.Prefix.IsValid() {
		ip := &net.IPNet{IP: a.Prefix.Addr().AsSlice(), Mask: net.CIDRMask(a.Prefix.Bits(), a.Prefix.Addr().BitLen())}
		if err := netlink.AddrReplace(link, &netlink.Addr{IPNet: ip}); err != nil {
			return fmt.Errorf("%s: address %s: %w", link.Attrs().Name, a.Prefix, err)
		}
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("%s: up: %w", link.Attrs().Name, err)
	}
	return nil
}

func (a Addr) wait() (netlink.Link, error) {
	for end := time.Now().Add(nicLimit); ; time.Sleep(20 * time.Millisecond) {
		links, err := netlink.LinkList()
		if err == nil {
			for _, l := range links {
				if at := l.Attrs(); at.Name == a.Name || a.MAC != nil && bytes.Equal(at.HardwareAddr, a.MAC) {
					return l, nil
				}
			}
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("no NIC %s%s after %v", a.Name, a.MAC, nicLimit)
		}
	}
}
