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

// eachVF lists attributes of every virtual function.
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

// vf returns the virtual function of an address and the guest that has it, nil if it is free; or the reason why no knob
// should touch it.
func (v *View) vf(a setting.Address) (*facts.VF, *facts.Guest, Advice, bool) {
	parts := strings.Split(a.Path, "/")
	for i := range v.VFs {
		f := &v.VFs[i]
		if len(parts) != 3 || f.PF != parts[0] || strconv.Itoa(f.Index) != parts[1] {
			continue
		}
		if f.Guest != "" && !v.Goal.ForGuest(f.Guest) {
			return nil, nil, Skips("the goal is for guest " + v.Goal.Guest), false
		}
		return f, v.guests[f.Guest], Advice{}, true
	}
	return nil, nil, Skips("no such virtual function"), false
}

// ifaceOf returns the interface of a guest that is a function, nil if its definition passes it as a plain device.
func ifaceOf(g *facts.Guest, f *facts.VF) *facts.Interface {
	for i := range g.Interfaces {
		if g.Interfaces[i].Type == "hostdev" && g.Interfaces[i].Source == f.PCI {
			return &g.Interfaces[i]
		}
	}
	return nil
}

const freeVF = "no guest has it: what stands there matters to the next one, which sets its own"

// frameOnWire is what a frame takes on the wire beyond its own bytes: preamble, delimiter and gap (IEEE 802.3).
const frameOnWire = 20

var sriovVFRate = &Knob{
	ID: "sriov.vf.rate", Title: "Rate limit of a virtual function",
	Stage: datapath.SRIOV, Risk: goal.None, Tiers: tiers(goal.Passthrough),
	Where: eachVF("max_tx_rate", "min_tx_rate"),
	Want: func(v *View, a setting.Address) Advice {
		f, g, advice, ok := v.vf(a)
		if !ok {
			return advice
		}
		if g == nil {
			return Fine(freeVF)
		}
		found, known := number(v.Readings.At(a))
		if strings.HasSuffix(a.Path, "/min_tx_rate") {
			pf := v.nics[f.PF]
			if known && pf != nil && facts.VFMinRate(pf.Driver, int(found)) != nil {
				return Wants(setting.Exact("0"), facts.VFMinRate(pf.Driver, int(found)).Error()).At(Low)
			}
			return Fine("a guaranteed rate holds nothing back")
		}
		frame := v.Goal.Frame
		if frame == 0 {
			frame = 64
		}
		needs := v.Goal.PPS * float64(frame+frameOnWire) * 8 / 1e6
		if needs = max(needs, v.Goal.Bulk/1e6); known && found > 0 && float64(found) < needs {
			return Wants(setting.Exact("0"),
				fmt.Sprintf("the target is %.0f Mb/s on the wire",
					needs)).At(High).warn("guest " + g.Name + " can then take the whole port")
		}
		return Fine("no limit below the target")
	},
}

var sriovVFSpoofchk = &Knob{
	ID: "sriov.vf.spoofchk", Title: "A guest cannot send with another's address",
	Stage: datapath.SRIOV, Risk: goal.Connectivity, Tiers: tiers(goal.Passthrough),
	Where: eachVF("spoofchk"),
	Want: func(v *View, a setting.Address) Advice {
		f, g, advice, ok := v.vf(a)
		switch {
		case !ok:
			return advice
		case g == nil:
			return Fine(freeVF)
		case f.Trust:
			return Fine("trusted: a guest that sends for others needs it off")
		}
		return Wants(setting.Exact("on"), "the guest can send with other guests' addresses").At(Low)
	},
}

var sriovVFMAC = &Knob{
	ID: "sriov.vf.mac", Title: "A virtual function has its guest's MAC address",
	Stage: datapath.SRIOV, Risk: goal.Connectivity, Tiers: tiers(goal.Passthrough),
	Where: eachVF("mac"),
	Want: func(v *View, a setting.Address) Advice {
		f, g, advice, ok := v.vf(a)
		if !ok {
			return advice
		}
		if g == nil {
			return Fine(freeVF)
		}
		if i := ifaceOf(g, f); i != nil && i.MAC != "" {
			return Wants(setting.Exact(i.MAC), "the definition of "+g.Name+" names this address").At(Medium)
		}
		if r := v.Readings.At(a); r.State == setting.Known && r.Value == "00:00:00:00:00:00" {
			return Unsure("nobody set an address, and the definition of " + g.Name + " names none: the guest makes " +
				"one up at each start")
		}
		return Fine("set, and fixed for the guest")
	},
}

var sriovVFTrust = &Knob{
	ID: "sriov.vf.trust", Title: "No virtual function is trusted without need",
	Stage: datapath.SRIOV, Risk: goal.Connectivity, Tiers: tiers(goal.Passthrough),
	Where: eachVF("trust"),
	Want: func(v *View, a setting.Address) Advice {
		_, g, advice, ok := v.vf(a)
		switch {
		case !ok:
			return advice
		case g != nil:
			return Fine("as whoever gave the function to " + g.Name + " wanted it")
		}
		return Wants(setting.Exact("off"),
			"no guest has the function: the next one would get the trust of the last").At(Low)
	},
}

var sriovVFVLAN = &Knob{
	ID: "sriov.vf.vlan", Title: "A virtual function is in its guest's VLAN",
	Stage: datapath.SRIOV, Risk: goal.Connectivity, Tiers: tiers(goal.Passthrough),
	Where: eachVF("vlan"),
	Want: func(v *View, a setting.Address) Advice {
		f, g, advice, ok := v.vf(a)
		if !ok {
			return advice
		}
		if g == nil {
			return Fine(freeVF)
		}
		i := ifaceOf(g, f)
		if i == nil {
			return Fine("the definition of " + g.Name + " names no VLAN for it")
		}
		return Wants(setting.Exact(strconv.Itoa(i.VLAN)), "the definition of "+g.Name+" puts it there").At(High)
	},
}

var sriovVFLinkState = &Knob{
	ID: "sriov.vf.link_state", Title: "A virtual function's link follows the port's",
	Stage: datapath.SRIOV, Risk: goal.Connectivity, Tiers: tiers(goal.Passthrough),
	Where: eachVF("link_state"),
	Want: func(v *View, a setting.Address) Advice {
		_, g, advice, ok := v.vf(a)
		if !ok {
			return advice
		}
		if g == nil {
			return Fine(freeVF)
		}
		return Wants(setting.Any("auto", "enable"), "the guest is cut off").At(High)
	},
}
