package knob

import (
	"fmt"

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
func bridgeReport(id, title, file, cost string) *Knob {
	return &Knob{
		ID: id, Title: title, Stage: datapath.Bridge, Risk: goal.None, Tiers: viaKernel(), Check: true,
		Where: eachBridge(file),
		Want:  always(exact("0", "reported only: "+cost).At(Info)),
	}
}

// unused says what a switch costs that is on for nothing.
const unused = "it costs a little for each packet where nobody uses it; measure before switching it off"

var (
	bridgeSnooping = bridgeReport("bridge.multicast_snooping", "IGMP and MLD snooping", "multicast_snooping",
		unused)
	bridgeSTP           = bridgeReport("bridge.stp", "Spanning tree", "stp_state", unused)
	bridgeVLANFiltering = bridgeReport("bridge.vlan_filtering", "VLAN filtering", "vlan_filtering", "it costs a "+
		"little for each packet. Where ports have VLANs it stays: switching it off joins them")
)

// eachBridgedTap lists an address of every guest's tap that is a port of a bridge, Linux's or Open vSwitch's.
func eachBridgedTap(at func(tap string) setting.Address) func(*facts.Host) []setting.Address {
	return func(h *facts.Host) []setting.Address {
		var all []setting.Address
		for _, t := range h.Taps {
			if t.Type != "macvtap" && t.Master != "" {
				all = append(all, at(t.Name))
			}
		}
		return all
	}
}

var bridgeUnicastFlood = &Knob{
	ID: "bridge.unicast_flood", Title: "Frames to unknown addresses go to every guest",
	Stage: datapath.Bridge, Risk: goal.Connectivity, Tiers: viaKernel(), Check: true,
	Where: func(h *facts.Host) []setting.Address {
		var all []setting.Address
		for _, t := range h.Taps { // ports of Open vSwitch have no such flag
			if t.Type != "macvtap" && t.Master != "" && t.Master != facts.OVSDatapath {
				all = append(all, setting.Of(setting.Sysfs, "class/net", t.Name, "brport/unicast_flood"))
			}
		}
		return all
	},
	Want: func(v *View, a setting.Address) Advice {
		device, _ := queueFile(setting.Of(a.Kind, a.Path[:len(a.Path)-len("/unicast_flood")], "x-0"))
		tap := v.taps[device]
		if tap == nil {
			return Skips("no such tap")
		}
		others := v.ports[tap.Master]
		if others < 2 {
			return Fine("the only tap of its bridge")
		}
		return exact("0", fmt.Sprintf("reported only: a frame to an address that %s has not learned is copied to "+
			"each of %d taps; a guest with a static entry in the bridge's table can do without", tap.Master,
			others)).At(Info)
	},
}

// noqueueSince is the kernel from which noqueue can be set on a device that has another discipline by default.
const noqueueSince = "4.3"

var bridgeTapQdisc = &Knob{
	ID: "bridge.tap_qdisc", Title: "No queueing discipline before a tap",
	Stage: datapath.Bridge, Risk: goal.Blip, Tiers: viaKernel(),
	Where: eachBridgedTap(func(tap string) setting.Address { return setting.Of(setting.RootQdisc, tap) }),
	Want: func(v *View, a setting.Address) Advice {
		tap := v.taps[a.Object()]
		switch {
		case tap == nil:
			return Skips("no such tap")
		case tap.Guest != "" && !v.Goal.ForGuest(tap.Guest):
			return Skips("the goal is for guest " + v.Goal.Guest)
		case facts.CompareVersions(v.Kernel.Release, noqueueSince) < 0:
			return Skips("the kernel can have none there since " + noqueueSince)
		}
		reading := v.Readings.At(a)
		if q, err := setting.ParseQdisc(reading.Value); reading.State == setting.Known && err == nil &&
			q.Kind != setting.NoQueue && !q.Default {
			return Fine(fmt.Sprintf("somebody put %s there: it may limit the guest's rate", q.Kind))
		}
		return exact(setting.NoQueue, "each packet takes the lock of a queue that never fills: a tap drops what its "+
			"ring has no room for").At(Low)
	},
}
