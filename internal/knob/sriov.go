package knob

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/datapath"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

// eachPF lists one fact of every NIC that can have virtual functions.
func eachPF(what string) func(*facts.Host) []setting.Address {
	return func(h *facts.Host) []setting.Address {
		var all []setting.Address
		for _, n := range h.NICs {
			if n.SRIOV != nil && n.SRIOV.Total > 0 {
				all = append(all, setting.Of(setting.Fact, n.Name, what))
			}
		}
		return all
	}
}

// functions are the virtual functions of a physical one.
func (v *View) functions(pf string) []facts.VF {
	var all []facts.VF
	for _, f := range v.VFs {
		if f.PF == pf {
			all = append(all, f)
		}
	}
	return all
}

// enabled is the physical function that an address speaks of, with virtual ones that can be seen, or the reason why nothing
// is said of it.
func (v *View) enabled(a setting.Address) (*facts.NIC, []facts.VF, Advice, bool) {
	n := v.nics[a.Object()]
	if n == nil || n.SRIOV == nil {
		return nil, nil, Skips("no such physical function"), false
	}
	if n.SRIOV.Enabled == 0 {
		return nil, nil, Skips(n.Name + " has no virtual functions now"), false
	}
	all := v.functions(n.Name)
	if len(all) == 0 {
		return nil, nil, Unsure(fmt.Sprintf("%s has %s, but none of them could be seen", n.Name, count(n.SRIOV.Enabled, "virtual function"))), false
	}
	return n, all, Advice{}, true
}

var sriovNumVFs = &Knob{
	ID: "sriov.numvfs", Title: "The NIC has virtual functions", Stage: datapath.SRIOV, Risk: goal.Connectivity, Check: true,
	Tiers: tiers(goal.Passthrough),
	Doc: Doc{
		Want:   "1 or more, for passthrough",
		Why:    "A guest with a virtual function of its own talks to the NIC without the host: no tap, no vhost, no bridge. For 64-byte packets it sent 3.5 Mpps and received 1.9 Mpps on an X520, against 0.5 and 0.7 by tap and bridge.",
		Cost:   "The guest loses live migration (sriov.migrate), and the host's bridge and rules no longer see its packets. All functions share the port: together the X520 did 11.2 Mpps, divided among the guests.",
		Verify: "/sys/class/net/PF/device/sriov_numvfs; lspci shows them. 'mpps sriov create PF -n N' makes them and names who is in the way.",
		Traps: []string{
			"A count that is not 0 cannot be changed to another: it goes through 0, which takes all functions away, those of running guests too. Look who has one first (sriov.usage).",
			"X520 (ixgbe): 63, fewer with DCB (31 with four traffic classes, 15 with eight).",
			"max_vfs= as a module parameter is the old way: many drivers ignore it today, and those that heed it make functions on every port.",
			"Functions take queues from the physical one: igb has 2 queues left, ixgbe loses flow director and most of its RSS.",
			"sriov_totalvfs of 0, or no such file: SR-IOV is off in the firmware or in the card's own configuration (firmware.sriov, mlxconfig).",
		},
		Sources: []Source{
			{"through 0; EBUSY otherwise", "drivers/pci/iov.c, sriov_numvfs_store"},
			{"63, 31, 15", "drivers/net/ethernet/intel/ixgbe/ixgbe_sriov.h, IXGBE_MAX_VFS_DRV_LIMIT, IXGBE_MAX_VFS_4TC, IXGBE_MAX_VFS_8TC"},
			{"rates of VF against tap and bridge", "founding measurements, X520, 64 bytes"},
		},
	},
	Where: func(h *facts.Host) []setting.Address {
		var all []setting.Address
		for _, n := range h.NICs {
			if n.SRIOV != nil && n.SRIOV.Total > 0 {
				all = append(all, setting.Of(setting.Sysfs, "class/net", n.Name, "device/sriov_numvfs"))
			}
		}
		return all
	},
	Want: func(v *View, a setting.Address) Advice {
		n := v.nics[strings.Split(a.Path, "/")[2]]
		if n == nil || n.SRIOV == nil {
			return Skips("no such physical function")
		}
		if !n.Up {
			return Skips(n.Name + " is down")
		}
		limit, _ := facts.VFMost(n.Driver, n.SRIOV.Total, 0)
		return Wants(setting.Least(1), fmt.Sprintf("the target needs a virtual function for the guest, and %s can have %d: 'mpps sriov create %s -n N' makes them, and has them back at boot", n.Name, limit, n.Name)).At(High)
	},
}

var sriovReady = &Knob{
	ID: "sriov.ready", Title: "Virtual functions have settled", Stage: datapath.SRIOV, Risk: goal.None, Check: true,
	After: []string{"sriov.numvfs"}, Tiers: tiers(goal.Passthrough),
	Doc: Doc{
		Want:   "each function with a name, a guest, or without a driver on purpose",
		Why:    "Making functions returns before their drivers have found them: names appear one after the other, are renamed by udev, and a guest that starts in between gets a function that its driver has not finished with, or none. 63 functions take about 10 s.",
		Cost:   "Waiting, with a time limit.",
		Verify: "Every VF has a name in /sys/class/net, or vfio-pci as driver; udevadm settle returns.",
		Traps: []string{
			"With sriov_drivers_autoprobe=0, or the VF's driver blacklisted (ixgbevf, iavf), functions never get a name on the host: that is the faster way where all go to guests.",
			"NetworkManager and DHCP clients take each new name for a new network: keep them off (unmanaged-devices).",
			"\"ls /sys/class/net | wc -l\" as a test counts names that udev is about to change.",
		},
		Sources: []Source{
			{"autoprobe", "Documentation/ABI/testing/sysfs-bus-pci, sriov_drivers_autoprobe"},
			{"63 functions in about 10 s", "founding experience"},
		},
	},
	Where: eachPF("vfs-ready"),
	Want: func(v *View, a setting.Address) Advice {
		n, all, advice, ok := v.enabled(a)
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
			return seen(has, Wants(setting.Exact("all ready"), fmt.Sprintf("functions %s have neither a name nor a guest: their driver has not come, or failed (dmesg)", strings.Join(waiting[:min(8, len(waiting))], ", "))).At(Medium))
		}
		if len(all) < n.SRIOV.Enabled {
			return seen(has, Wants(setting.Exact("all ready"), "not all functions are there yet").At(Medium))
		}
		return seen(has, Fine("every function has a name, a guest, or is left without a driver on purpose"))
	},
}

var sriovPersist = &Knob{
	ID: "sriov.persist", Title: "Virtual functions are made at boot, before libvirt starts", Stage: datapath.SRIOV, Risk: goal.None, Check: true,
	After: []string{"sriov.numvfs"}, Tiers: tiers(goal.Passthrough),
	Doc: Doc{
		Want:   "a unit, rule or .link file that makes them before libvirt starts",
		Why:    "sriov_numvfs is 0 again after each boot. A guest that starts by itself, or a libvirt network that is a pool of functions, does not come up if they are made after libvirt has started, and nobody tries again.",
		Cost:   "One unit or .link file.",
		Verify: "'mpps sriov create PF -n N' brings it about, with --persist unit (the default) or link. systemd-analyze critical-chain libvirtd.service, or virtqemud.service, shows the unit before it; after a reboot the functions are there.",
		Traps: []string{
			"rc.local runs after libvirt on many systems.",
			"A .link file (SR-IOVVirtualFunctions=) needs systemd 251 or newer and works when udev meets the device, before any service.",
			"A unit must be ordered Before= libvirtd.service and virtqemud.service and be WantedBy the same target.",
			"Attributes (MAC, VLAN, rate) do not come back with the functions: whoever makes them must set these too. A .link file knows no rates.",
			"The first .link file that matches a device hides all others, also the one by which the distribution names it.",
			"A NetworkManager profile with sriov.total-vfs makes them when the profile comes up, and takes them away when it goes down.",
		},
		Sources: []Source{
			{".link option", "systemd.link(5), SR-IOVVirtualFunctions="},
			{"a pool that starts before its functions does not come up", "founding experience"},
		},
	},
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
				return seen(f.Path, Fine("made at boot by "+f.Path))
			case "":
				vague = append(vague, f.Path)
			}
		}
		if len(vague) > 0 {
			return seen(strings.Join(vague, " "), Fine("made at boot, as far as can be told, by "+strings.Join(vague, ", ")))
		}
		return seen("nothing makes them at boot", Wants(setting.Exact("a unit, rule or .link file"), fmt.Sprintf("after a reboot they are gone, and guests that need them do not start: 'mpps sriov create %s -n %d' has them back", n.Name, n.SRIOV.Enabled)).At(Medium))
	},
}

var sriovUsage = &Knob{
	ID: "sriov.usage", Title: "Each virtual function is one guest's", Stage: datapath.SRIOV, Risk: goal.None, Check: true,
	Tiers: tiers(goal.Passthrough),
	Doc: Doc{
		Want:   "one guest for each function",
		Why:    "Definitions name functions by PCI address, and nothing keeps two of them from naming the same: the second guest fails at its start, or takes the function over after the first has ended, with the settings of the first.",
		Cost:   "None.",
		Verify: "mpps inspect shows which function is whose, and which is free; ip -s link show PF counts per function where the driver tells.",
		Traps: []string{
			"The interface name of a function on the host (ens1f0v3) is gone while a guest has it: count by PCI address.",
			"Counters per function (ip -s link) are the physical function's view: frames that the guest's own driver dropped are not in them.",
			"A definition that names a function which no longer exists (the count was lowered) fails only at the guest's start.",
		},
		Sources: []Source{
			{"traffic by function", "include/uapi/linux/if_link.h, IFLA_VF_STATS"},
			{"more guests than functions fail late", "founding experience"},
		},
	},
	Where: eachPF("vf-usage"),
	Want: func(v *View, a setting.Address) Advice {
		_, all, advice, ok := v.enabled(a)
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
				shared = append(shared, fmt.Sprintf("function %d (%s) stands in the definitions of %s", f.Index, f.PCI, strings.Join(names, " and ")))
			}
		}
		has := fmt.Sprintf("%d of %d in use", len(used), len(all))
		if len(used) > 0 {
			has += " (" + strings.Join(used[:min(8, len(used))], ", ") + ")"
		}
		if len(shared) > 0 {
			return seen(has, Wants(setting.Exact("one guest each"), strings.Join(shared[:min(4, len(shared))], "; ")).At(Medium))
		}
		return seen(has, Fine("no function is named by two guests"))
	},
}
