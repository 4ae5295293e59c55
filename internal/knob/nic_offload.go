package knob

import (
	"strings"

	"mpps/internal/datapath"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

// offload is a family of features that are on unless known broken.
func offload(name, title, why string, severity Severity) *Knob {
	return &Knob{
		ID: "nic.offload." + name, Title: title, Stage: datapath.NIC, Risk: goal.None,
		Doc: Doc{
			Want:   "on, unless the hardware cannot",
			Why:    why,
			Cost:   "None where the hardware does it right. A driver's bug in an offload shows as corrupt or lost packets: then it is switched off for a reason that somebody should have written down.",
			Verify: "ethtool -k DEV shows on; cycles a packet fall (mpps bench).",
			Traps: []string{
				"Features marked [fixed] cannot be changed and are skipped.",
				"Old advice switches offloads off on bridges; that was for lro, which the kernel switches off by itself on a bridge's ports.",
				"Switching one on can switch others on or off with it (scatter-gather and segmentation need transmit checksums): the value read back counts.",
			},
			Sources: []Source{
				{"names of features", "net/ethtool/common.c, netdev_features_strings"},
				{"dependencies", "net/core/dev.c, netdev_fix_features"},
				{"lro is switched off for forwarding", "net/core/dev.c, dev_disable_lro; net/bridge/br_if.c, br_add_if"},
			},
		},
		Where: featureAddresses(offloadFeatures[name]),
		Want: func(v *View, a setting.Address) Advice {
			n, advice, ok := v.nic(a)
			if !ok {
				return advice
			}
			f, has := feature(n, a.Rest())
			if !has {
				return Skips("the driver does not know it")
			}
			if f.Fixed && !f.On {
				return Skips("the hardware cannot do it (fixed)")
			}
			return onNIC(n, Wants(setting.Exact("on"), "the NIC can take this work off the CPU, or the kernel can do it once for many packets").At(severity))
		},
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

var nicOffloads = []*Knob{
	offload("checksum", "The NIC computes checksums", "Without it the CPU reads every byte of every packet once more, on receive and on transmit.", Medium),
	offload("sg", "The NIC gathers a packet from several buffers", "Without scatter-gather each packet of a guest is copied into one piece first, and segmentation is not possible.", Medium),
	offload("segmentation", "Segments are cut as late as possible", "A guest hands over up to 64 KiB at once; bridge and tap are passed once for all of it, and the NIC (or the kernel at the last moment) cuts it into packets. For bulk data it is the difference between 1 and 40 passes; for 64-byte packets it does nothing.", Medium),
	offload("gro", "Received segments are joined before the bridge", "Segments of one TCP flow are joined as they come in, so that bridge, tap and guest see one large packet instead of dozens. For 64-byte UDP it does nothing.", Medium),
	offload("tunnel", "The NIC segments inside tunnels", "Packets of guests on VXLAN or GENEVE are cut inside the tunnel by the NIC; without it the kernel does before the encapsulation, and every segment is encapsulated on its own.", Low),
}

var nicOffloadNoCache = &Knob{
	ID: "nic.offload.nocache_copy", Title: "Transmit copies through the cache", Stage: datapath.NIC, Risk: goal.None,
	Doc: Doc{
		Want:   "off on Mellanox NICs; else as it is",
		Why:    "tx-nocache-copy writes user data around the cache when it is copied into packets. What is sent right afterwards is then read from memory again. On Mellanox NICs switching it off was found better.",
		Cost:   "Data that nobody reads again takes up cache.",
		Verify: "ethtool -k DEV shows tx-nocache-copy: off.",
		Traps: []string{
			"It is off by default since 3.14; old tuning scripts switch it on.",
			"It concerns data that a process on the host sends, not packets of guests.",
		},
		Sources: []Source{
			{"off for Mellanox", "founding measurements"},
			{"off by default", "kernel commit \"net: Do not enable tx-nocache-copy by default\"; net/core/dev.c, register_netdevice"},
		},
	},
	Where: featureAddresses(offloadFeatures["nocache_copy"]),
	Want: func(v *View, a setting.Address) Advice {
		n, advice, ok := v.nic(a)
		if !ok {
			return advice
		}
		if !strings.HasPrefix(n.Driver, "mlx") {
			return Fine("matters on Mellanox NICs only; this is " + n.Driver)
		}
		return onNIC(n, Wants(setting.Exact("off"), "copies around the cache are read back from memory when the NIC fetches them").At(Low))
	},
}
