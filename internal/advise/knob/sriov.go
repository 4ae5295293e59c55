package knob

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// isPF reports whether a NIC can have VFs.
func isPF(n *facts.NIC) bool { return n.SRIOV != nil && n.SRIOV.Total > 0 }

// eachPF lists one fact about every NIC that can have VFs.
func eachPF(what string) func(*facts.Host) []setting.Address {
	return eachNIC(isPF, onlyNIC(setting.Fact, what))
}

// vfsOf returns the VFs of a PF.
func (v *View) vfsOf(pf string) []facts.VF {
	return facts.Where(v.VFs, func(f facts.VF) bool { return f.PF == pf })
}

// pfWithVFs returns the PF of an address and its visible VFs, or advice that says why they are not judged.
func (v *View) pfWithVFs(a setting.Address) (*facts.NIC, []facts.VF, Advice, bool) {
	n := v.nics[a.Object()]
	if n == nil || n.SRIOV == nil {
		return nil, nil, Skips("no such physical function"), false
	}
	if n.SRIOV.Enabled == 0 {
		return nil, nil, Skips(n.Name + " has no virtual functions now"), false
	}
	all := v.vfsOf(n.Name)
	if len(all) == 0 {
		return nil, nil, Unsure(fmt.Sprintf("%s has %s, but none of them could be seen", n.Name,
			Count(n.SRIOV.Enabled, "virtual function"))), false
	}
	return n, all, Advice{}, true
}

var sriovNumVFs = &Knob{
	ID: "sriov.numvfs", Title: "The NIC has virtual functions",
	Stage: datapath.SRIOV, Risk: goal.Connectivity, Tiers: tiers(goal.Passthrough), Check: true,
	Where: eachNIC(isPF, func(n *facts.NIC) []setting.Address {
		return []setting.Address{setting.Of(setting.Sysfs, "class/net", n.Name, "device/sriov_numvfs")}
	}),
	Want: func(v *View, a setting.Address) Advice {
		n := v.nics[strings.Split(a.Path, "/")[2]]
		if n == nil || n.SRIOV == nil {
			return Skips("no such physical function")
		}
		if !n.Up {
			return Skips(n.Name + " is down")
		}
		if has := facts.Find(v.NICs, func(o *facts.NIC) bool {
			return o.Up && o.SRIOV != nil && o.SRIOV.Enabled > 0
		}); has != nil && n.SRIOV.Enabled == 0 {
			return Skips(has.Name + " has virtual functions for the guests")
		}
		if needs := onWire(v.Goal); n.Speed > 0 && needs > float64(n.Speed) {
			return Skips(fmt.Sprintf("the target is %.0f Mb/s on the wire, more than %s's %d", needs, n.Name, n.Speed))
		}
		if other := facts.Find(v.NICs, func(o *facts.NIC) bool {
			return o.Up && o.SRIOV != nil && o.Management == "" && o.Speed >= n.Speed
		}); n.Management != "" && other != nil {
			return Skips(n.Name + " is the operator's way in, and " + other.Name + " can have functions too")
		}
		limit, _ := facts.MaxVFs(n.Driver, n.SRIOV.Total, 0)
		return Wants(setting.Least(1),
			fmt.Sprintf("the target needs a virtual function for the guest, and %s can have %d: 'mpps sriov create "+
				"%s -n N' makes them, and has them back at boot", n.Name, limit, n.Name)).At(High)
	},
}

var sriovReady = &Knob{
	ID: "sriov.ready", Title: "Virtual functions have settled",
	Stage: datapath.SRIOV, Risk: goal.None, After: []string{"sriov.numvfs"}, Tiers: tiers(goal.Passthrough),
	Check: true,
	Where: eachPF("vfs-ready"),
	Want: func(v *View, a setting.Address) Advice {
		n, all, advice, ok := v.pfWithVFs(a)
		if !ok {
			return advice
		}
		var waiting []string
		for _, f := range all {
			if f.NIC == "" && f.Driver != "vfio-pci" && f.Guest == "" && (f.Driver != "" || n.SRIOV.AutoProbe) {
				waiting = append(waiting, fmt.Sprint(f.Index))
			}
		}
		has := fmt.Sprintf("%d of %d ready", len(all)-len(waiting), n.SRIOV.Enabled)
		if len(waiting) > 0 {
			return fact(has,
				exact("all ready", fmt.Sprintf("functions %s have neither a name nor a guest: their driver has not "+
					"come, or failed (dmesg)", strings.Join(waiting[:min(8, len(waiting))], ", "))).At(Medium))
		}
		if len(all) < n.SRIOV.Enabled {
			return fact(has, exact("all ready", "not all functions are there yet").At(Medium))
		}
		return fact(has, Fine("every function has a name, a guest, or is left without a driver on purpose"))
	},
}

var sriovPersist = &Knob{
	ID: "sriov.persist", Title: "Virtual functions are made at boot, before libvirt starts",
	Stage: datapath.SRIOV, Risk: goal.None, After: []string{"sriov.numvfs"}, Tiers: tiers(goal.Passthrough),
	Check: true,
	Where: eachPF("vfs-at-boot"),
	Want: func(v *View, a setting.Address) Advice {
		n := v.nics[a.Object()]
		if n == nil || n.SRIOV == nil {
			return Skips("no such physical function")
		}
		if n.SRIOV.Enabled == 0 {
			return Skips(n.Name + " has no virtual functions now")
		}
		if v.Housekeeping == nil {
			return Unsure("whether a unit or rule makes them at boot was not recorded")
		}
		var vague []string
		for _, f := range v.Housekeeping.VFFiles {
			switch f.Device {
			case n.Name:
				return fact(f.Path, Fine("made at boot by "+f.Path))
			case "":
				vague = append(vague, f.Path)
			}
		}
		if len(vague) > 0 {
			return fact(strings.Join(vague, " "),
				Fine("made at boot, as far as can be told, by "+strings.Join(vague, ", ")))
		}
		return fact("nothing makes them at boot",
			exact("a unit, rule or .link file", fmt.Sprintf("after a reboot they are gone, and guests that need them "+
				"do not start: 'mpps sriov create %s -n %d' has them back", n.Name, n.SRIOV.Enabled)).At(Medium))
	},
}

var sriovUsage = &Knob{
	ID: "sriov.usage", Title: "Each virtual function is one guest's",
	Stage: datapath.SRIOV, Risk: goal.None, Tiers: tiers(goal.Passthrough), Check: true,
	Where: eachPF("vf-usage"),
	Want: func(v *View, a setting.Address) Advice {
		_, all, advice, ok := v.pfWithVFs(a)
		if !ok {
			return advice
		}
		var shared, used []string
		for _, f := range all {
			var names []string
			for _, g := range v.Guests {
				if slices.Contains(g.Hostdevs, f.PCI) {
					names = append(names, g.Name)
				}
			}
			if len(names) > 0 {
				used = append(used, fmt.Sprintf("%d: %s", f.Index, strings.Join(names, " and ")))
			}
			if len(names) > 1 {
				shared = append(shared, fmt.Sprintf("function %d (%s) stands in the definitions of %s", f.Index, f.PCI,
					strings.Join(names, " and ")))
			}
		}
		has := fmt.Sprintf("%d of %d in use", len(used), len(all))
		if len(used) > 0 {
			has += " (" + strings.Join(used[:min(8, len(used))], ", ") + ")"
		}
		if len(shared) > 0 {
			return fact(has, exact("one guest each", strings.Join(shared[:min(4, len(shared))], "; ")).At(Medium))
		}
		return fact(has, Fine("no function is named by two guests"))
	},
}
