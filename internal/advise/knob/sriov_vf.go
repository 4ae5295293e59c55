package knob

import (
	"fmt"
	"strconv"
	"strings"

	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// eachVF lists attributes of every VF.
func eachVF(attributes ...string) func(*facts.Host) []setting.Address {
	return func(h *facts.Host) []setting.Address {
		var all []setting.Address
		for _, f := range h.VFs {
			for _, attribute := range attributes {
				all = append(all, setting.Of(setting.VFAttr, f.PF, strconv.Itoa(f.Index), attribute))
			}
		}
		return all
	}
}

// forVF returns the Want of a knob that advises on a VF. g is the guest that has it, nil if it is free.
func forVF(
	want func(v *View, f *facts.VF, g *facts.Guest, a setting.Address) Advice,
) func(*View, setting.Address) Advice {
	return func(v *View, a setting.Address) Advice {
		index, _, _ := strings.Cut(a.Rest(), "/")
		for i := range v.VFs {
			switch f := &v.VFs[i]; {
			case f.PF != a.Object() || strconv.Itoa(f.Index) != index:
			case f.Guest != "" && !v.Goal.ForGuest(f.Guest):
				return Skips("the goal is for guest " + v.Goal.Guest)
			case v.nics[f.PF] != nil && v.nics[f.PF].InfiniBand():
				return Skips("a function of InfiniBand: it has GUIDs and partitions instead")
			default:
				return want(v, f, v.guests[f.Guest], a)
			}
		}
		return Skips("no such virtual function")
	}
}

// ofGuest is forVF for attributes that matter only while a guest has the VF.
func ofGuest(
	want func(v *View, f *facts.VF, g *facts.Guest, a setting.Address) Advice,
) func(*View, setting.Address) Advice {
	return forVF(func(v *View, f *facts.VF, g *facts.Guest, a setting.Address) Advice {
		if g == nil {
			return Fine("no guest has it: what stands there matters to the next one, which sets its own")
		}
		return want(v, f, g, a)
	})
}

// ifaceOf returns the guest interface that is a VF; nil if the definition passes the VF as a plain device.
func ifaceOf(g *facts.Guest, f *facts.VF) *facts.Interface {
	return facts.Find(g.Interfaces, func(i *facts.Interface) bool { return i.Type == "hostdev" && i.Source == f.PCI })
}

// userOf says who uses a VF that no guest has: the host, by an interface or below a macvtap, or another process; "" if
// it is free.
func (v *View) userOf(f *facts.VF) string {
	if v.standsOn(f.NIC) {
		return "a macvtap on " + f.NIC
	}
	if f.HostUse != "" {
		return "the host, " + f.NIC + " is " + f.HostUse
	}
	return f.Holder
}

var sriovVFRate = &Knob{
	ID: "sriov.vf.rate", Title: "Rate limit of a virtual function",
	Stage: datapath.SRIOV, Risk: goal.None, Tiers: tiers(goal.Passthrough),
	Where: eachVF("max_tx_rate", "min_tx_rate"),
	Want: ofGuest(func(v *View, f *facts.VF, g *facts.Guest, a setting.Address) Advice {
		found, known := number(v.Readings.At(a))
		if strings.HasSuffix(a.Path, "/min_tx_rate") {
			pf := v.nics[f.PF]
			if known && pf != nil && facts.CheckVFMinRate(pf.Driver, int(found)) != nil {
				return exact("0", facts.CheckVFMinRate(pf.Driver, int(found)).Error()).At(Low)
			}
			return Fine("a guaranteed rate holds nothing back")
		}
		if needs := onWire(v.Goal); known && found > 0 && float64(found) < needs {
			return exact("0", fmt.Sprintf("the target is %.0f Mb/s on the wire", needs)).At(High).warn("guest " +
				g.Name + " can then take the whole port")
		}
		return Fine("no limit below the target")
	}),
}

var sriovVFSpoofchk = &Knob{
	ID: "sriov.vf.spoofchk", Title: "A guest cannot send with another's address",
	Stage: datapath.SRIOV, Risk: goal.Connectivity, Tiers: tiers(goal.Passthrough), Asked: true,
	Where: eachVF("spoofchk"),
	Want: ofGuest(func(v *View, f *facts.VF, g *facts.Guest, a setting.Address) Advice {
		if f.Trust {
			return Fine("trusted: a guest that sends for others needs it off")
		}
		return exact("on", "the guest can send with other guests' addresses").At(Low)
	}),
}

var sriovVFMAC = &Knob{
	ID: "sriov.vf.mac", Title: "A virtual function has its guest's MAC address",
	Stage: datapath.SRIOV, Risk: goal.Connectivity, Tiers: tiers(goal.Passthrough),
	Where: eachVF("mac"),
	Want: ofGuest(func(v *View, f *facts.VF, g *facts.Guest, a setting.Address) Advice {
		if i := ifaceOf(g, f); i != nil && i.MAC != "" {
			return exact(i.MAC, "the definition of "+g.Name+" names this address").At(Medium)
		}
		if r := v.Readings.At(a); r.State == setting.Known && r.Value == "00:00:00:00:00:00" {
			return Unsure("nobody set an address, and the definition of " + g.Name + " names none: the guest makes " +
				"one up at each start")
		}
		return Fine("set, and fixed for the guest")
	}),
}

var sriovVFTrust = &Knob{
	ID: "sriov.vf.trust", Title: "No virtual function is trusted without need",
	Stage: datapath.SRIOV, Risk: goal.Connectivity, Tiers: tiers(goal.Passthrough),
	Where: eachVF("trust"),
	Want: forVF(func(v *View, f *facts.VF, g *facts.Guest, a setting.Address) Advice {
		switch user := v.userOf(f); {
		case g != nil:
			return Fine("as whoever gave the function to " + g.Name + " wanted it")
		case user != "":
			return Fine("as its user wants it: " + user)
		}
		return exact("off", "no guest has the function: the next one would get the trust of the last").At(Low)
	}),
}

var sriovVFVLAN = &Knob{
	ID: "sriov.vf.vlan", Title: "A virtual function is in its guest's VLAN",
	Stage: datapath.SRIOV, Risk: goal.Connectivity, Tiers: tiers(goal.Passthrough),
	Where: eachVF("vlan"),
	Want: ofGuest(func(v *View, f *facts.VF, g *facts.Guest, a setting.Address) Advice {
		i := ifaceOf(g, f)
		if i == nil {
			return Fine("the definition of " + g.Name + " names no VLAN for it")
		}
		return exact(strconv.Itoa(i.VLAN), "the definition of "+g.Name+" puts it there").At(High)
	}),
}

var sriovVFLinkState = &Knob{
	ID: "sriov.vf.link_state", Title: "A virtual function's link follows the port's",
	Stage: datapath.SRIOV, Risk: goal.Connectivity, Tiers: tiers(goal.Passthrough),
	Where: eachVF("link_state"),
	Want: ofGuest(func(v *View, _ *facts.VF, g *facts.Guest, a setting.Address) Advice {
		return Wants(setting.Any("auto", "enable"), "the guest is cut off").At(High)
	}),
}
