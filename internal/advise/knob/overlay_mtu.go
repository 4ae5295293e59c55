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
			return Skips("Open vSwitch gives each of its tunnels MTU 65000: the guests' MTU decides what fits")
		}
		if t.MTU == 0 {
			return Unsure("its MTU was not recorded")
		}
		below, name := 0, ""
		for _, nic := range v.paths.NICs(t.Name) {
			if n := v.nics[nic]; n != nil && n.MTU > 0 && (below == 0 || n.MTU < below) {
				below, name = n.MTU, n.Name
			}
		}
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
