package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"mpps/internal/cli"
	"mpps/internal/measure/traffic"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

func parseRate(text string) (float64, error) { return cli.AfterColon(goal.ParseRate(text)) }

// parsePositiveRate reads a rate above 0.
func parsePositiveRate(text string) (float64, error) {
	v, err := goal.ParseRate(text)
	if err == nil && v <= 0 {
		err = fmt.Errorf("expected more than nothing, found %q", text)
	}
	return cli.AfterColon(v, err)
}

func parseCPUs(text string) (setting.CPUSet, error) {
	set, err := setting.ParseCPUs(text)
	if err == nil && len(set) == 0 {
		err = errors.New("expected CPUs such as 1 or 2-3")
	}
	return cli.AfterColon(set, err)
}

func parseEndpoint(text string) (traffic.Endpoint, error) {
	return cli.AfterColon(traffic.ParseEndpoint(text))
}

func parseIPv4(text string) (netip.Addr, error) {
	ip, err := netip.ParseAddr(text)
	if err != nil || !ip.Is4() {
		return ip, fmt.Errorf(" %q: expected an IPv4 address", text)
	}
	return ip, nil
}

// parseMAC reads the MAC address of one interface.
func parseMAC(text string) (net.HardwareAddr, error) {
	mac, err := net.ParseMAC(text)
	if err != nil || len(mac) != 6 || mac[0]&1 != 0 {
		return nil, fmt.Errorf(" %q: expected the MAC address of an interface", text)
	}
	return mac, nil
}
