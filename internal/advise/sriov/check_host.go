package sriov

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/words"
)

const notRecorded = "the snapshot was taken by a version that did not look"

// checkHost checks the parts of the host that all functions share and the catalogue does not check.
func (e *examiner) checkHost() {
	f, p := e.h.Firmware, e.h.Passthrough
	const id, title = "iommu", "the running kernel uses the IOMMU"
	if f.Groups > 0 {
		e.ok(id, title, words.Count(f.Groups, "IOMMU group"))
	} else {
		do := "intel_iommu=on iommu=pt on the command line of an Intel host (AMD's is on by itself): 'mpps plan " +
			"--nic vf'; then reboot"
		if f.Tables && !f.DMAR && !f.IVRS {
			do = "first the firmware: it offers none (firmware.vt_d)"
		}
		e.bad(knob.Critical, id, title, "no IOMMU group; command line: "+e.h.Kernel.CommandLine,
			"without one vfio gives no device to a guest", do)
	}
	if p == nil {
		e.unknown("remapping", "interrupts are remapped", notRecorded, "")
		e.unknown("vfio", "vfio-pci is there", notRecorded, "")
		return
	}
	e.checkRemapping(p)
	e.checkVFIO(p)
	e.checkMemlock(p)
}

// checkRemapping: without it vfio refuses every device (drivers/vfio/vfio_iommu_type1.c, vfio_iommu_type1_attach_group:
// "No interrupt remapping support. Use the module param allow_unsafe_interrupts").
func (e *examiner) checkRemapping(p *facts.Passthrough) {
	const id, title = "remapping", "interrupts are remapped"
	const do = "switch the IOMMU's interrupt remapping on in the firmware; take intremap=off or nointremap from the " +
		"command line"
	switch {
	case p.Remapping == "on":
		e.ok(id, title, "on: chips in /proc/interrupts are called IR-…")
	case p.Remapping == "" || e.h.Firmware.Groups == 0 && p.Remapping == "off":
		e.unknown(id, title, "seen in /proc/interrupts once the kernel uses the IOMMU", "")
	case p.Unsafe:
		e.bad(knob.Medium, id, title, "off, and vfio_iommu_type1.allow_unsafe_interrupts is set",
			"a guest can raise any interrupt of the host with its function", do)
	default:
		e.bad(knob.High, id, title, "off", "vfio refuses devices: a guest could raise any interrupt of the host", do)
	}
}

func (e *examiner) checkVFIO(p *facts.Passthrough) {
	const id, title = "vfio", "vfio-pci is there"
	switch state := p.Modules["vfio-pci"]; state {
	case "loaded":
		e.ok(id, title, "loaded")
	case "available":
		e.ok(id, title, "not loaded; libvirt loads it when a guest needs it")
	case "missing":
		e.bad(knob.Critical, id, title, "no such module for kernel "+e.h.Kernel.Release, "guests are given functions "+
			"through it",
			"install the package with all of the kernel's modules (linux-modules-extra-…, kernel-modules)")
	default:
		e.unknown(id, title, "neither /sys/module nor the kernel's list of modules shows it", "modprobe vfio-pci")
	}
}

// checkMemlock checks that running guests with functions may lock all of their memory. libvirt raises the limit of its
// QEMU processes by itself (src/qemu/qemu_domain.c, qemuDomainGetMemLockLimitBytes).
func (e *examiner) checkMemlock(p *facts.Passthrough) {
	const id, title = "memlock", "guests may lock their memory"
	for _, l := range p.Locked {
		g := guestNamed(e.h, l.Guest)
		if g != nil && l.Limit >= 0 && uint64(l.Limit) < g.Memory {
			e.bad(knob.High, id, title, fmt.Sprintf("%s: %d MiB of %d MiB", l.Guest, l.Limit>>20, g.Memory>>20),
				"a guest with a function has all of its memory locked",
				"start it with libvirt, which raises the limit by itself, or with ulimit -l unlimited")
			return
		}
	}
	if len(p.Locked) > 0 {
		e.ok(id, title, words.Count(len(p.Locked), "running guest with a function has room",
			"running guests with functions have room"))
	}
}

// checkJournal reports transactions that must be rolled back first.
func (e *examiner) checkJournal(j Journal) {
	const id, title = "journal", "no change of functions is half done"
	if j.Unread != "" {
		e.unknown(id, title, j.Unread, "repeat as root")
		return
	}
	for _, u := range j.Unsettled {
		e.bad(knob.High, id, title, fmt.Sprintf("transaction %s is %s", u.TX, u.State),
			"it wrote, or may have written, "+strings.Join(firstOf(u.About, 3), ", "), "mpps rollback "+u.TX)
	}
	if len(j.Unsettled) == 0 {
		e.ok(id, title, "the journal has none")
	}
}

// checkReservations compares reservations with the definitions of guests. A definition without a reservation is fine:
// not made by mpps.
func (e *examiner) checkReservations(name string, nics []*facts.NIC) {
	const id, title = "reservations", "what mpps gave is in the guests' definitions"
	hold := 0
	for _, r := range e.h.Reservations {
		if name != "" && !slices.ContainsFunc(nics, func(n *facts.NIC) bool { return n.Name == r.PF }) {
			continue
		}
		file := "/" + r.Address().Path
		what := words.Either(r.Network != "", fmt.Sprintf("one of %s by network %s", r.PF, r.Network),
			fmt.Sprintf("%s/%d (%s)", r.PF, r.Index, r.PCI))
		g := e.reservedFor(r)
		switch {
		case g == nil && e.guestsUnseen != "":
			e.unknown(id, title, fmt.Sprintf("%s for guest %s: %s", what, r.Guest, e.guestsUnseen), "")
		case g == nil:
			e.bad(knob.Medium, id, title, fmt.Sprintf("%s for guest %s, which does not exist", what, r.Guest),
				"nobody else is given it",
				fmt.Sprintf("mpps sriov release %s, or remove %s where mpps no longer knows the guest", r.Guest, file))
		case !definesReserved(g, r):
			e.bad(knob.High, id, title, fmt.Sprintf("%s for guest %s, whose definition does not name it", what, g.Name),
				"it is half given or half taken back: by an interrupted change, or by hand",
				"mpps rollback, where the journal has an unfinished change (above); otherwise mpps sriov release "+
					g.Name)
		case r.Network == "" && !slices.ContainsFunc(e.functions, func(f Function) bool { return f.PCI == r.PCI }):
			e.bad(knob.High, id, title, fmt.Sprintf("%s for guest %s, but there is no such function", what, g.Name),
				"the guest does not start until it is made again",
				fmt.Sprintf("mpps sriov create %s -n %d", r.PF, r.Index+1))
		default:
			hold++
		}
	}
	if hold == len(e.h.Reservations) || hold > 0 && name != "" {
		e.ok(id, title, words.Count(hold, "reservation holds", "reservations hold"))
	}
}

// reservedFor returns the guest of a reservation, by UUID since it may have been renamed; nil: none.
func (e *examiner) reservedFor(r facts.Reservation) *facts.Guest {
	return facts.Find(e.h.Guests, func(g *facts.Guest) bool {
		return r.UUID != "" && g.UUID == r.UUID || r.UUID == "" && g.Name == r.Guest
	})
}

// definesReserved reports whether a guest's definition has the reserved function.
func definesReserved(g *facts.Guest, r facts.Reservation) bool {
	if r.Network == "" {
		return slices.Contains(g.Hostdevs, r.PCI)
	}
	return slices.ContainsFunc(g.Interfaces, func(i facts.Interface) bool {
		// a running guest has the function itself instead of the network
		return i.MAC == r.MAC && (i.Source == r.Network || i.Type == "hostdev")
	})
}
