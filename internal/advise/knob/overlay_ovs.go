package knob

import (
	"fmt"
	"net/netip"
	"slices"

	"mpps/internal/model/facts"
)

// ovsTunnelMTU judges a device that serves tunnels of Open vSwitch, whose own MTU of 65000 decides nothing
// (lib/dpif-netlink-rtnl.c, dpif_netlink_rtnl_create): what guests send must fit with the headers of their ports.
func (v *View) ovsTunnelMTU(t *facts.Tunnel) Advice {
	if !v.OpenVSwitch.Known() {
		return Unsure("Open vSwitch's database was not read: the guests' MTU decides what fits, not the tunnel's")
	}
	headers, port := v.ovsHeaders(t)
	sender, exit := v.ovsSender(t)
	switch {
	case headers == 0:
		return Skips("no port of Open vSwitch uses it")
	case sender == nil:
		return Skips("no device with an MTU sends through it")
	}
	found, need := fmt.Sprintf("MTU %d inside", sender.MTU), sender.MTU+headers
	below, name := v.mtuBelow(t)
	large := fmt.Sprintf("full packets of %s are %d bytes outside by %s", sender.Name, need, port)
	switch {
	case below == 0:
		return Unsure(large + ": which NIC that is depends on the route to the other end")
	case need <= below:
		return fact(found, Fine(fmt.Sprintf("with %d bytes of headers it fits into the %d of %s", headers, below,
			name)))
	case exit != "":
		return Unsure(fmt.Sprintf("%s, and %s takes %d; whether they leave by it or by %s is decided by flows%s", large,
			name, below, exit, v.fragments()))
	}
	return fact(found, exact(fmt.Sprintf("at most MTU %d inside, or %d on %s", below-headers, need, name),
		fmt.Sprintf("%s, and %s takes %d: they are fragmented, or dropped%s", large, name, below,
			v.fragments())).At(High))
}

// fragments says how many packets the host fragmented, or dropped because it may not, while watched; empty if none.
func (v *View) fragments() string {
	if v.Interval == nil {
		return ""
	}
	made := v.Interval.Stack["Ip.FragOKs"] + v.Interval.Stack["Ip6FragOKs"]
	failed := v.Interval.Stack["Ip.FragFails"] + v.Interval.Stack["Ip6FragFails"]
	if made+failed == 0 {
		return ""
	}
	return fmt.Sprintf("; the host fragmented %d packets and could not fragment %d %s", made, failed, v.overInterval())
}

// Bytes that a tunnel's headers take beyond the least (overhead).
const (
	overIPv6  = 20 // RFC 8200: a header of 40 bytes in place of 20
	greField  = 4  // key, checksum with its reserved half, and sequence number each (RFC 2890, section 2)
	ovnOption = 8  // Geneve option of OVN with the logical ports (ovn-architecture(7), Tunnel Encapsulations)
)

// ovsHeaders returns the most bytes that a port of Open vSwitch with a kind of device adds to a packet, and the port; 0
// if there is none. Options that flows set are not known.
func (v *View) ovsHeaders(t *facts.Tunnel) (most int, port string) {
	for b := range facts.Each(v.OpenVSwitch.Bridges) {
		for p := range facts.Each(b.Ports) {
			for i := range facts.Each(p.Interfaces) {
				bytes := v.portHeaders(t, b, i)
				if slices.Contains(facts.OVSTunnels[i.Type], t.Type) && bytes > most {
					most, port = bytes, i.Name
				}
			}
		}
	}
	return most, port
}

// portHeaders returns how many bytes a tunnel port of a bridge adds to a packet.
func (v *View) portHeaders(t *facts.Tunnel, b *facts.OVSBridge, i *facts.OVSInterface) int {
	bytes := overhead[t.Type]
	remote, err := netip.ParseAddr(i.Options["remote_ip"])
	if err == nil && remote.Is6() && i.Type != "ip6gre" {
		bytes += overIPv6
	}
	if i.Type == "gre" || i.Type == "ip6gre" {
		bytes += greField * greFields(i.Options)
	}
	if o := v.OpenVSwitch.OVN; o != nil && i.Type == "geneve" && b.Name == o.Bridge {
		bytes += ovnOption
	}
	return bytes
}

// greFields returns how many optional fields a GRE port has in its headers (ovs-vswitchd.conf.db(5), Interface).
func greFields(options map[string]string) (n int) {
	has := func(names ...string) {
		if slices.ContainsFunc(names, func(name string) bool {
			value := options[name]
			return value != "" && value != "0" && value != "false"
		}) {
			n++
		}
	}
	has("key", "out_key")
	has("csum")
	has("seq")
	return n
}

// ovsSender returns the tap or veth with the largest MTU among the ports of the bridges that a tunnel's ports belong to
// or are patched to, nil if there is none; and another way out of these bridges: a NIC, bond or VLAN device.
func (v *View) ovsSender(t *facts.Tunnel) (largest *facts.OVSInterface, exit string) {
	for _, b := range v.ovsNetwork(t) {
		for p := range facts.Each(b.Ports) {
			for i := range facts.Each(p.Interfaces) {
				veth := facts.Find(v.Links, func(l *facts.Link) bool { return l.Name == i.Name && l.Kind == "veth" })
				switch {
				case v.nics[i.Name] != nil, v.tunnel(i.Name) != nil:
					exit = i.Name
				case (veth != nil || v.taps[i.Name] != nil) && i.MTU > 0 && (largest == nil || i.MTU > largest.MTU):
					largest = i
				}
			}
		}
	}
	return largest, exit
}

// ovsNetwork returns the bridges with ports of a tunnel, and those that patch ports connect them to.
func (v *View) ovsNetwork(t *facts.Tunnel) (all []*facts.OVSBridge) {
	bridges := map[string]*facts.OVSBridge{} // by the names of their patch ports
	for b := range facts.Each(v.OpenVSwitch.Bridges) {
		for p := range facts.Each(b.Ports) {
			for i := range facts.Each(p.Interfaces) {
				if slices.Contains(facts.OVSTunnels[i.Type], t.Type) && !slices.Contains(all, b) {
					all = append(all, b)
				}
				bridges[i.Name] = b
			}
		}
	}
	for at := 0; at < len(all); at++ {
		for p := range facts.Each(all[at].Ports) {
			for _, i := range p.Interfaces {
				peer := bridges[i.Options["peer"]]
				if i.Type == "patch" && peer != nil && !slices.Contains(all, peer) {
					all = append(all, peer)
				}
			}
		}
	}
	return all
}
