package knob

import (
	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/reach"
	"mpps/internal/model/setting"
)

// offload is a family of features that should be on for bulk data. One that is off was switched off by somebody, or
// left off by its driver, and what is wrong with it shows in guests' packets: that is its risk.
func offload(name, title string, severity Severity) *Knob {
	return &Knob{
		ID: "nic.offload." + name, Title: title, Stage: datapath.NIC, Risk: goal.Connectivity,
		Where: featureAddresses(offloadFeatures[name]),
		Want: forNIC(func(v *View, n *facts.NIC, a setting.Address) Advice {
			f, has := feature(n, a.Rest())
			switch {
			case !has:
				return Skips("the driver does not know it")
			case f.Fixed && !f.On:
				return Skips("the hardware cannot do it (fixed)")
			case leftOff[n.Driver][a.Rest()] != "" && v.Readings.At(a).Value != "on":
				return Fine(n.Driver + " leaves it off by itself: " + leftOff[n.Driver][a.Rest()])
			case v.Goal.Bulk == 0:
				return Fine("it saves work for large segments, of which the target has none")
			}
			return onNIC(n, exact("on", "the NIC can take this work off the CPU, or the kernel can do it once for "+
				"many packets").At(severity).warn("somebody switched it off: where that was for a bug of the NIC or "+
				"its driver, packets of guests are lost or damaged again"))
		}),
	}
}

// leftOff are features that a driver offers and leaves off, and why, by driver and feature.
var leftOff = map[string]map[string]string{
	"r8169": { // drivers/net/ethernet/realtek/r8169_main.c, rtl_init_one
		"tx-scatter-gather": sgTimeouts, "tx-tcp-segmentation": sgTimeouts, "tx-tcp6-segmentation": sgTimeouts,
	},
}

const sgTimeouts = "transmit timeouts were reported with scatter-gather and segmentation"

func featureAddresses(features []string) func(*facts.Host) []setting.Address {
	return eachNIC(func(n *facts.NIC) bool { return len(n.Features) > 0 }, func(n *facts.NIC) []setting.Address {
		var all []setting.Address
		for _, name := range features {
			if _, has := feature(n, name); has {
				all = append(all, setting.Of(setting.NICFeature, n.Name, name))
			}
		}
		return all
	})
}

func feature(n *facts.NIC, name string) (facts.Feature, bool) {
	for _, f := range n.Features {
		if f.Name == name {
			return f, true
		}
	}
	return facts.Feature{}, false
}

// offloadFeatures are the features of each family, by the kernel's names.
var offloadFeatures = map[string][]string{
	"checksum":     {"rx-checksum", "tx-checksum-ipv4", "tx-checksum-ipv6", "tx-checksum-ip-generic"},
	"sg":           {"tx-scatter-gather"},
	"segmentation": {"tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-generic-segmentation"},
	"gro":          {"rx-gro"},
	"tunnel":       {"tx-udp_tnl-segmentation", "tx-udp_tnl-csum-segmentation", "tx-gre-segmentation"},
	"nocache_copy": {"tx-nocache-copy"},
	"udp_forward":  {"rx-udp-gro-forwarding"},
	"gro_list":     {"rx-gro-list"},
}

var (
	nicOffloadChecksum     = offload("checksum", "The NIC computes checksums", Medium)
	nicOffloadSG           = offload("sg", "The NIC gathers a packet from several buffers", Medium)
	nicOffloadSegmentation = offload("segmentation", "Segments are cut as late as possible", Medium)
	nicOffloadGRO          = offload("gro", "Received segments are joined before the bridge", Medium)
	nicOffloadTunnel       = offload("tunnel", "The NIC segments inside tunnels", Low)
)

var nicOffloadNoCache = &Knob{
	ID: "nic.offload.nocache_copy", Title: "Transmit copies through the cache", Stage: datapath.NIC, Risk: goal.None,
	Where: featureAddresses(offloadFeatures["nocache_copy"]),
	Want: forNIC(func(v *View, n *facts.NIC, a setting.Address) Advice {
		if len(v.Storage) == 0 {
			return Fine("it concerns data that processes of the host send, not packets of guests, and no storage " +
				"daemon runs here")
		}
		return onNIC(n,
			exact("off", "what the host's storage daemons send is copied around the cache, and read back from memory "+
				"when the NIC fetches it").At(Low))
	}),
}

var nicOffloadUDPForward = &Knob{
	ID: "nic.offload.udp_forward", Title: "UDP packets of one flow are joined on their way to guests",
	Stage: datapath.NIC, Risk: goal.None, Tiers: viaKernel(),
	Where: featureAddresses(offloadFeatures["udp_forward"]),
	Want: forNIC(func(v *View, n *facts.NIC, a setting.Address) Advice {
		fine := Fine("it joins UDP packets of one flow and one size; whether a path has enough of them shows only by " +
			"measuring")
		if v.Goal.Bulk == 0 && v.Goal.PPS == 0 || !v.underLoad(n.Name) {
			return fine
		}
		return fine.trying(setting.Exact("on"), "UDP packets of one flow and one size pass bridge and tap as one, if "+
			"enough of them come together")
	}),
}

var nicOffloadGROList = &Knob{
	ID: "nic.offload.gro_list", Title: "Packets of one flow are forwarded as one list",
	Stage: datapath.NIC, Risk: goal.None, Tiers: viaKernel(),
	Where: onPaths(reach.Routed, featureAddresses(offloadFeatures["gro_list"])),
	Want: forNIC(func(v *View, n *facts.NIC, a setting.Address) Advice {
		if !v.routes(n.Name) {
			return Skips("packets that the host routes for guests do not arrive at " + n.Name)
		}
		fine := Fine("it chains packets of one flow so that the host routes them once; whether a path has enough of " +
			"them shows only by measuring")
		if v.Goal.Bulk == 0 && v.Goal.PPS == 0 || !v.underLoad(n.Name) {
			return fine
		}
		return fine.trying(setting.Exact("on"), "packets of one flow pass rules, routes and NAT as one list, if "+
			"enough of them come together")
	}),
}
