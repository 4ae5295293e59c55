package knob

import (
	"strings"

	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// offload is a family of features that should be on.
func offload(name, title string, severity Severity) *Knob {
	return &Knob{
		ID: "nic.offload." + name, Title: title, Stage: datapath.NIC, Risk: goal.None,
		Where: featureAddresses(offloadFeatures[name]),
		Want: forNIC(func(v *View, n *facts.NIC, a setting.Address) Advice {
			f, has := feature(n, a.Rest())
			if !has {
				return Skips("the driver does not know it")
			}
			if f.Fixed && !f.On {
				return Skips("the hardware cannot do it (fixed)")
			}
			return onNIC(n, exact("on",
				"the NIC can take this work off the CPU, or the kernel can do it once for many packets").At(severity))
		}),
	}
}

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
		if !strings.HasPrefix(n.Driver, "mlx") {
			return Fine("matters on Mellanox NICs only; this is " + n.Driver)
		}
		return onNIC(n,
			exact("off", "copies around the cache are read back from memory when the NIC fetches them").At(Low))
	}),
}
