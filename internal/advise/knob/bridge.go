package knob

import (
	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

func eachBridge(file string) func(*facts.Host) []setting.Address {
	return func(h *facts.Host) []setting.Address {
		var all []setting.Address
		for _, b := range h.Bridges {
			all = append(all, setting.Of(setting.Sysfs, "class/net", b.Name, "bridge", file))
		}
		return all
	}
}

// bridgeReport is a switch of a bridge that is reported and never planned: whether it costs anything here must be
// measured.
func bridgeReport(id, title, file string) *Knob {
	return &Knob{
		ID: id, Title: title, Stage: datapath.Bridge, Risk: goal.None, Tiers: viaKernel(), Check: true,
		Where: eachBridge(file),
		Want: always(exact("0", "reported only: it costs a little for each packet where nobody uses it; measure "+
			"before switching it off").At(Info)),
	}
}

var (
	bridgeSnooping      = bridgeReport("bridge.multicast_snooping", "IGMP and MLD snooping", "multicast_snooping")
	bridgeSTP           = bridgeReport("bridge.stp", "Spanning tree", "stp_state")
	bridgeVLANFiltering = bridgeReport("bridge.vlan_filtering", "VLAN filtering", "vlan_filtering")
)
