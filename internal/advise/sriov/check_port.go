package sriov

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/words"
)

// checkPort checks one PF, or a NIC that could be one. audited are the points of the catalogue about it.
func (e *examiner) checkPort(n *facts.NIC, audited []Point) {
	own := slices.DeleteFunc(slices.Clone(e.functions), func(f Function) bool { return f.PF != n.Name })
	card := e.card(n)
	e.checkSRIOV(n, card)
	e.checkDriver(n, card)
	if n.SRIOV == nil {
		return
	}
	e.checkWindows(n, card)
	e.checkLink(n)
	e.add(audited...)
	e.checkGroups(n, card, own)
	e.checkFunctions(own)
}

// card returns the PCI facts of a NIC; nil: not recorded, or on another bus.
func (e *examiner) card(n *facts.NIC) *facts.PhysicalFunction {
	if e.h.Passthrough == nil {
		return nil
	}
	return facts.Find(e.h.Passthrough.Functions, func(f *facts.PhysicalFunction) bool { return f.NIC == n.Name })
}

// checkSRIOV: the file sriov_totalvfs is there where the card's capability offers functions (drivers/pci/iov.c,
// sriov_init) and the driver has not said otherwise (pci_sriov_set_totalvfs).
func (e *examiner) checkSRIOV(n *facts.NIC, card *facts.PhysicalFunction) {
	const id, title = "offered", "the card offers virtual functions"
	if n.SRIOV != nil {
		found := fmt.Sprintf("%d made of %d", n.SRIOV.Enabled, n.SRIOV.Total)
		if card != nil && card.Capability > n.SRIOV.Total {
			found += fmt.Sprintf(" (the card says %d, its driver fewer)", card.Capability)
		}
		e.ok(id, title, found)
		return
	}
	vendor, capability := "", -2
	if card != nil {
		vendor, capability = card.Vendor, card.Capability
	}
	switch {
	case n.Bus != "pci":
		e.bad(knob.Info, id, title, "a device of bus "+cmp.Or(n.Bus, "unknown"), "only functions of PCI cards can be "+
			"given to guests", "")
	case capability > 0:
		e.bad(knob.High, id, title, fmt.Sprintf("the card says %d, the kernel shows no sriov_totalvfs", capability),
			"its driver allows none (ice and i40e in safe or recovery mode, mlx5 by its firmware), or the kernel "+
				"could not set the capability up", "the kernel's log for "+n.PCI+"; "+vendorSetup(vendor))
	case capability == 0:
		e.bad(knob.High, id, title, "the card's capability says 0", "SR-IOV is off in the card's own configuration",
			vendorSetup(vendor))
	case capability == -1:
		e.bad(knob.Medium, id, title, "the card shows no SR-IOV capability", "it has none, or hides it while it is "+
			"off in its own configuration", vendorSetup(vendor))
	default:
		e.bad(knob.Medium, id, title, "no sriov_totalvfs", "SR-IOV is off in the firmware or in the card's own "+
			"configuration, or the card has none; as root it can be distinguished", vendorSetup(vendor))
	}
}

// vendorSetup returns how to enable SR-IOV on a card, by PCI vendor ID (pci-ids.ucw.cz).
func vendorSetup(vendor string) string {
	const firmware = "switch SR-IOV on in the machine's firmware"
	switch vendor {
	case "0x8086":
		return firmware + "; Intel's cards are set in their page of the firmware's setup (device configuration) or " +
			"with bootutil"
	case "0x15b3":
		return "mlxconfig -d PCI set SRIOV_EN=1 NUM_OF_VFS=N (mstconfig where Mellanox' own tools are not " +
			"installed), then a cold start; and " + firmware
	case "0x14e4":
		return firmware + "; Broadcom's cards: multi-function mode SR-IOV in their page of the firmware's setup, or " +
			"niccli"
	case "0x1077":
		return firmware + "; Marvell's (QLogic's) cards: virtualization mode SR-IOV in their page of the firmware's " +
			"setup"
	case "0x1924":
		return firmware + "; Solarflare's cards: sfboot switch-mode=sriov vf-count=N"
	}
	return firmware + " and in the card's own setup"
}

func (e *examiner) checkDriver(n *facts.NIC, card *facts.PhysicalFunction) {
	const id, title = "driver", "driver and firmware"
	if n.Driver == "" {
		e.bad(knob.High, id, title, "no driver", "functions are made by the driver of the physical one",
			"modprobe it; 'lspci -k' names it")
		return
	}
	found := n.Driver
	if card != nil && card.DriverVersion != "" {
		found += " " + card.DriverVersion + " (from outside the kernel)"
	}
	if n.Firmware != "" {
		found += ", firmware " + n.Firmware
	}
	p := Point{ID: id, Object: n.Name, Title: title, State: OK, Severity: knob.Info, Found: found,
		Traps: traps[n.Driver]}
	if n.Driver == "bnxt_en" && !n.Up {
		p.State, p.Severity = NotOK, knob.High
		p.Why, p.Do = "bnxt_en takes a number of functions only while the interface is up, and says nothing when it "+
			"does not", "ip link set "+n.Name+" up"
	}
	e.add(p)
}

// checkWindows: the kernel makes no functions whose windows found no place ("not enough MMIO resources for SR-IOV").
func (e *examiner) checkWindows(n *facts.NIC, card *facts.PhysicalFunction) {
	const id, title = "room", "address space for the functions"
	switch {
	case card == nil && n.Bus != "pci":
	case card == nil:
		e.unknown(id, title, notRecorded, "")
	case card.Unplaced > 0:
		e.bad(knob.Critical, id, title, fmt.Sprintf("%d of %s without a place", card.Unplaced,
			words.Count(card.Windows, "window", "windows")),
			"the kernel refuses to make functions: \"not enough MMIO resources for SR-IOV\"",
			"switch \"above 4G decoding\" (more room for PCI devices) on in the firmware; if that is not enough boot "+
				"with pci=realloc")
	case card.Windows == 0:
		e.unknown(id, title, "the device shows no windows for its functions", "")
	default:
		e.ok(id, title, words.Count(card.Windows, "window has its place", "windows have their places"))
	}
}

func (e *examiner) checkLink(n *facts.NIC) {
	const id, title = "link", "the port is up and has a link"
	switch {
	case !n.Up:
		e.bad(knob.Medium, id, title, "down", "functions of most cards have no link while the physical one is down, "+
			"and limits of rates are refused", "ip link set "+n.Name+" up")
	case n.Carrier == "down":
		e.bad(knob.Low, id, title, "up, no carrier", "functions follow the port's link, unless link_state is enable",
			"look at cable, module and switch")
	case n.Speed > 0:
		e.ok(id, title, fmt.Sprintf("up, %d Mb/s", n.Speed))
	default:
		e.ok(id, title, "up, speed not told")
	}
}

// checkGroups finds devices that share the IOMMU group of a function: a guest gets, or blocks, the whole group. Bridges
// do not count (Documentation/driver-api/vfio.rst).
func (e *examiner) checkGroups(n *facts.NIC, card *facts.PhysicalFunction, own []Function) {
	const id, title = "isolation", "each function has its own IOMMU group"
	switch {
	case n.Bus != "pci":
		return
	case e.h.Passthrough == nil:
		e.unknown(id, title, notRecorded, "")
		return
	case e.h.Firmware.Groups == 0:
		e.unknown(id, title, "there are no groups without an IOMMU", "")
		return
	}
	for _, g := range e.h.Passthrough.Groups {
		var mine, others []string
		for _, d := range g.Devices {
			switch {
			case d.Bridge():
			case slices.ContainsFunc(own, func(f Function) bool { return f.PCI == d.PCI }),
				len(own) == 0 && d.PCI == n.PCI:
				mine = append(mine, d.PCI)
			default:
				others = append(others, d.PCI)
			}
		}
		if len(mine) == 0 || len(mine)+len(others) < 2 {
			continue
		}
		shared := fmt.Sprintf("group %d: %s", g.Number, strings.Join(firstOf(append(mine, others...), 6), ", "))
		severity, why := knob.High, "they go to one guest together or to none"
		if len(own) == 0 {
			severity, why = knob.Medium, "the functions to be made may land in that group too, and then "+why
		}
		e.bad(severity, id, title, shared, words.Join("; ", why, bridgesWithoutACS(card)), "switch ACS on in the "+
			"firmware, or put the card into a slot that hangs on the processor itself; pcie_acs_override= is a patch "+
			"that only hides it")
		return
	}
	if len(own) == 0 {
		e.ok(id, title, n.Name+" itself shares its group with no other device; no function is made yet")
		return
	}
	e.ok(id, title, words.Count(len(own), "function, in its own group", "functions, each in its own group"))
}

// bridgesWithoutACS names the PCI bridges above the card that do not isolate devices; empty: none.
func bridgesWithoutACS(card *facts.PhysicalFunction) string {
	var open []string
	if card != nil {
		for _, b := range card.Bridges {
			if b.ACS == "none" || b.ACS == "off" {
				open = append(open, b.PCI)
			}
		}
	}
	return words.If(len(open) > 0, "without ACS on the way: %s", strings.Join(open, ", "))
}

// checkFunctions checks the existing functions of a PF.
func (e *examiner) checkFunctions(own []Function) {
	if len(own) == 0 {
		return
	}
	drivers := map[string]int{}
	var bare, bound []string
	for _, f := range own {
		drivers[cmp.Or(f.Driver, "none")]++
		name := fmt.Sprintf("%s/%d", f.PF, f.Index)
		if f.Holding == Running && f.MAC != "" && facts.NoAddress(f.MAC) {
			bare = append(bare, name+" of "+f.Guest)
		}
		if f.Holding == Bound {
			bound = append(bound, name)
		}
	}
	counts := words.Each(slices.Sorted(maps.Keys(drivers)),
		func(driver string) string { return fmt.Sprintf("%s %d", driver, drivers[driver]) })
	e.ok("vf-driver", "drivers of the functions", strings.Join(counts, ", "))
	const address, leftover = "functions of running guests have an address", "no function is bound for nobody"
	if len(bare) > 0 {
		e.bad(knob.Low, "mac", address, strings.Join(firstOf(bare, 6), ", ")+" without", "the guest made one up, and "+
			"makes up another at its next start", "mpps sriov set PF/N mac ADDRESS, while the guest is shut off")
	} else {
		e.ok("mac", address, "none is without")
	}
	switch some := strings.Join(firstOf(bound, 6), ", "); {
	case len(bound) == 0:
		e.ok("leftover", leftover, "none")
	case e.guestsUnseen != "":
		e.unknown("leftover", leftover, some+": "+e.guestsUnseen, "")
	default:
		e.bad(knob.Low, "leftover", leftover, some, "they are passed on (vfio) and nobody is known to have them: a "+
			"guest with managed='no' has ended, or something stopped in the middle", "mpps sriov reset "+bound[0])
	}
}

// firstOf returns at most n elements of a list, plus "and N more" if it has more.
func firstOf(all []string, n int) []string {
	if len(all) <= n {
		return all
	}
	return append(slices.Clone(all[:n]), fmt.Sprintf("and %d more", len(all)-n))
}
