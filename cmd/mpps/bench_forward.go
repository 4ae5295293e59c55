package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// checkForward checks the flags of a way through a device that forwards.
func (f *ppsFlags) checkForward() error {
	const hint = "bench pps --forward (--from IFACE | --via BRIDGE) (--to IFACE | --out BRIDGE) [--gateway IP]"
	switch {
	case !f.forward && (f.out != "" || f.gateway != "" || f.gatewayMAC != ""):
		return usage(errors.New("--out, --gateway and --gateway-mac belong to --forward"), hint)
	case !f.forward:
		return nil
	case f.agent != "":
		return usage(errors.New("--forward leads from one end of this machine to another, and --agent to another machine"), hint)
	case (f.from == "") == (f.via == ""):
		return usage(errors.New("packets leave from an interface or through a bridge"), hint)
	case (f.to == "") == (f.out == ""):
		return usage(errors.New("packets arrive at an interface or through a bridge"), hint)
	case f.gateway != "" && f.gatewayMAC != "":
		return usage(errors.New("--gateway and --gateway-mac: expected one of them"), hint)
	}
	_, _, err := f.gateways()
	return err
}

// gateways reads what is said of a guest that routes.
func (f *ppsFlags) gateways() (ip netip.Addr, mac net.HardwareAddr, err error) {
	if f.gateway != "" {
		if ip, err = netip.ParseAddr(f.gateway); err != nil || !ip.Is4() {
			return ip, nil, usage(fmt.Errorf("--gateway %q: expected an IPv4 address", f.gateway), "")
		}
	}
	if f.gatewayMAC != "" {
		if mac, err = net.ParseMAC(f.gatewayMAC); err != nil || len(mac) != 6 || mac[0]&1 != 0 {
			return ip, nil, usage(fmt.Errorf("--gateway-mac %q: expected the MAC address of an interface", f.gatewayMAC), "")
		}
	}
	return ip, mac, nil
}
