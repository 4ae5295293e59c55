package knob

import (
	"mpps/internal/setting"
)

// attestOnly is a check of what only a person can see in the firmware's setup. The names of the switches are those that
// server makers use.
func attestOnly(id string) *Knob {
	k := firmware(Knob{ID: id})
	k.Want = func(v *View, a setting.Address) Advice {
		if advice, ok := v.onMetal(); !ok {
			return advice
		}
		advice := v.attested(id, "", Low)
		if advice.Want != nil {
			advice.Because = k.Doc().Why
		}
		return advice
	}
	return k
}

var (
	firmwareDeadLine       = attestOnly("firmware.llc_dead_line_alloc")
	firmwareStaleAtoS      = attestOnly("firmware.stale_atos")
	firmwareWrCRC          = attestOnly("firmware.wr_crc")
	firmwarePatrol         = attestOnly("firmware.patrol_scrub")
	firmwareDemand         = attestOnly("firmware.demand_scrub")
	firmwareRAS            = attestOnly("firmware.ras_mode")
	firmwareCOD            = clusterOnDie(attestOnly("firmware.cluster_on_die"))
	firmwareNUMAOptimized  = attestOnly("firmware.numa_optimized")
	firmwareErrorThreshold = attestOnly("firmware.correctable_error_threshold")
	firmwareTXT            = attestOnly("firmware.txt")
	firmwareUSB3           = attestOnly("firmware.usb3")
	firmwareLegacyUSB      = attestOnly("firmware.legacy_usb")
	firmwarePorts          = attestOnly("firmware.port_60_64")
	firmwareContainment    = attestOnly("firmware.enhanced_error_containment")
	firmwareCTDP           = cTDP(attestOnly("firmware.ctdp"))
)

// clusterOnDie makes a check that is worked out on Intel, where a socket that is split has more than one node.
func clusterOnDie(k *Knob) *Knob {
	unseen := k.Want
	k.Want = func(v *View, a setting.Address) Advice {
		c := v.Topology.Counts
		switch {
		case v.Virtual != "" || maker(v.Host) == "" || c.Packages == 0 || c.NUMANodes == 0:
			return unseen(v, a)
		case maker(v.Host) != "intel":
			return Skips("a matter of Intel's processors")
		}
		found := count(c.NUMANodes, "node") + " for " + count(c.Packages, "socket")
		if c.NUMANodes%c.Packages != 0 {
			return Unsure(found + ": the numbers do not fit, and which sockets are split cannot be told")
		}
		if c.NUMANodes > c.Packages {
			return seen(found, Wants(setting.Exact("a node a socket"), "the guest's CPUs and the NIC share only a part of the cache").At(Low))
		}
		return seen(found, Fine("the sockets are not split"))
	}
	return k
}

// cTDP makes a check that Intel's processors do not need.
func cTDP(k *Knob) *Knob {
	always := k.Want
	k.Want = func(v *View, a setting.Address) Advice {
		if v.Virtual == "" && maker(v.Host) == "intel" {
			return Skips("a matter of AMD's and Hygon's processors")
		}
		return always(v, a)
	}
	return k
}
