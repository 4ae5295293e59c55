package knob

import (
	"mpps/internal/datapath"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/setting"
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

// bridgeReport is a bridge's switch that is reported and never planned: whether it costs anything here is for measuring.
func bridgeReport(id, title, file, why string, traps []string, sources []Source) *Knob {
	return &Knob{
		ID: id, Title: title, Stage: datapath.Bridge, Risk: goal.None, Check: true, Tiers: viaKernel(),
		Doc: Doc{
			Want: "0 where nobody uses it", Why: why, Cost: "Switching it off where somebody uses it breaks them; mpps only reports it.",
			Verify: "cat /sys/class/net/BRIDGE/bridge/" + file, Traps: traps, Sources: sources,
		},
		Where: eachBridge(file),
		Want: func(v *View, a setting.Address) Advice {
			return Wants(setting.Exact("0"), "reported only: it costs a little for each packet where nobody uses it; measure before switching it off").At(Info)
		},
	}
}

var bridgeSnooping = bridgeReport("bridge.multicast_snooping", "IGMP and MLD snooping", "multicast_snooping",
	"The bridge looks into multicast packets to learn who wants them, and then sends them there only. Unicast pays one test; without snooping multicast goes to all ports.",
	[]string{"With snooping off every guest gets every multicast packet. With it on and no querier in the network, IPv6 neighbour discovery can fail after some minutes."},
	[]Source{{"the test for each frame", "net/bridge/br_input.c, br_handle_frame_finish; br_multicast.c, br_multicast_rcv"}})

var bridgeSTP = bridgeReport("bridge.stp", "Spanning tree", "stp_state",
	"With spanning tree a port forwards only after twice the forward delay (30 s), and every topology change flushes what the bridge has learned. Packets themselves pay nothing.",
	[]string{"A new bridge drops everything until its ports forward, with STP off as well: wait for state 3 before measuring."},
	[]Source{{"port states", "net/bridge/br_stp.c, br_stp_if.c"}})

var bridgeVLANFiltering = bridgeReport("bridge.vlan_filtering", "VLAN filtering", "vlan_filtering",
	"The bridge looks up each frame's VLAN on its way in and out. It costs little and is what separates guests where VLANs are assigned on ports.",
	[]string{"Switching it off joins all VLANs of the bridge: a matter of security, never of speed alone."},
	[]Source{{"look-ups for each frame", "net/bridge/br_vlan.c, br_allowed_ingress, br_handle_vlan"}})
