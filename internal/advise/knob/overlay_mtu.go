package knob

import (
	"fmt"

	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
)

var overlayMTU = &Knob{
	ID: "overlay.mtu", Title: "Packets fit into the tunnel and into the network below it",
	Stage: datapath.Overlay, Risk: goal.Connectivity, Tiers: viaKernel(), Check: true,
	Where: eachOverlay("mtu"),
	Want: forOverlay(func(v *View, t *facts.Tunnel) Advice {
		if t.Master == facts.OVSDatapath { // lib/dpif-netlink-rtnl.c, dpif_netlink_rtnl_create, MAX_MTU
			return v.ovsTunnelMTU(t)
		}
		if t.MTU == 0 {
			return Unsure("its MTU was not recorded")
		}
		below, name := v.mtuBelow(t)
		found := fmt.Sprintf("MTU %d", t.MTU)
		most := below - overhead[t.Type]
		switch b := v.bridges[t.Master]; {
		case b != nil && b.MTU > t.MTU:
			return fact(found, exact(fmt.Sprintf("MTU %d", b.MTU), fmt.Sprintf("%s has MTU %d, and drops what is too "+
				"large for %s", b.Name, b.MTU, t.Name)).At(Medium))
		case below == 0:
			return Unsure(fmt.Sprintf("which NIC it sends through depends on the route to the other end: that NIC's "+
				"MTU must be at least %d", t.MTU+overhead[t.Type]))
		case t.MTU > most:
			return fact(found, exact(fmt.Sprintf("at most MTU %d, or %d on %s", most, t.MTU+overhead[t.Type], name),
				fmt.Sprintf("full packets inside are %d bytes outside, and %s takes %d: they are fragmented, or "+
					"dropped", t.MTU+overhead[t.Type], name, below)).At(High))
		}
		return fact(found, Fine(fmt.Sprintf("with its headers it fits into the %d of %s", below, name)))
	}),
}

// mtuBelow returns the smallest MTU of the NICs, bonds and VLAN devices that a tunnel sends through, and the device
// that has it; 0 if it is not known.
func (v *View) mtuBelow(t *facts.Tunnel) (below int, name string) {
	for _, hop := range v.paths.From(t.Name) {
		mtu := 0
		if n := v.nics[hop.Device]; n != nil {
			mtu = n.MTU
		} else if l := v.tunnel(hop.Device); l != nil && overhead[l.Type] == 0 {
			mtu = l.MTU
		}
		if mtu > 0 && (below == 0 || mtu < below) {
			below, name = mtu, hop.Device
		}
	}
	return below, name
}
