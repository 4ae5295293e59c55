package guestinit

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// Config is the configuration on the kernel command line.
type Config struct {
	Addrs    []Addr
	Routes   []Route
	Forward  bool
	IPv6     bool
	Hostname string
}

// Addr is the address of one NIC.
type Addr struct {
	Name   string           // of the NIC, unless it is identified by its MAC
	MAC    net.HardwareAddr // or nil
	Prefix netip.Prefix     // invalid: the NIC is only brought up
}

// Route is a route to a destination; the zero prefix is the default route.
type Route struct {
	To  netip.Prefix
	Via netip.Addr
}

// ParseCmdline reads the arguments that begin with "mpps."; the rest is the kernel's.
func ParseCmdline(text string) (Config, error) {
	var c Config
	for _, word := range strings.Fields(text) {
		rest, ok := strings.CutPrefix(word, "mpps.")
		if !ok {
			continue
		}
		key, value, _ := strings.Cut(rest, "=")
		var err error
		switch key {
		case "addr":
			var a Addr
			if a, err = parseAddr(value); err == nil {
				c.Addrs = append(c.Addrs, a)
			}
		case "route":
			var r Route
			if r, err = parseRoute(value); err == nil {
				c.Routes = append(c.Routes, r)
			}
		case "forward":
			c.Forward = value == "1"
		case "ipv6":
			c.IPv6 = value == "1"
		case "hostname":
			c.Hostname = value
		}
		if err != nil {
			return c, fmt.Errorf("kernel argument %s: %w", word, err)
		}
	}
	return c, nil
}

func parseAddr(v string) (Addr, error) {
	nic, prefix, ok := strings.Cut(v, "=")
	if !ok || nic == "" {
		return Addr{}, fmt.Errorf("found %q, want NIC=ADDRESS/LENGTH", v)
	}
	a := Addr{Name: nic}
	if strings.Contains(nic, ":") {
		mac, err := net.ParseMAC(nic)
		if err != nil {
			return Addr{}, err
		}
		a = Addr{MAC: mac}
	}
	if prefix == "" {
		return a, nil
	}
	var err error
	a.Prefix, err = netip.ParsePrefix(prefix)
	return a, err
}

func parseRoute(v string) (Route, error) {
	to, via, ok := strings.Cut(v, "=")
	if !ok {
		return Route{}, fmt.Errorf("found %q, want DESTINATION=GATEWAY", v)
	}
	var r Route
	var err error
	if r.Via, err = netip.ParseAddr(via); err != nil {
		return r, err
	}
	if to == "default" {
		zero := netip.IPv4Unspecified()
		if r.Via.Is6() {
			zero = netip.IPv6Unspecified()
		}
		r.To = netip.PrefixFrom(zero, 0)
		return r, nil
	}
	r.To, err = netip.ParsePrefix(to)
	return r, err
}
