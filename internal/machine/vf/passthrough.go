package vf

import (
	"context"
	"encoding/binary"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

const pciDevices = "sys/bus/pci/devices"

// Passthrough reads what passing NIC functions through to guests needs into h.Passthrough. The network and the guests
// must have been read before.
func Passthrough(_ context.Context, m *tree.Tree, h *facts.Host) {
	interrupts, _ := m.Read("proc/interrupts")
	p := &facts.Passthrough{
		Remapping: remapping(interrupts), Posting: posting(m), Modules: vfioModules(m, h.Kernel.Release),
		Unsafe: m.Line("sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts") == "Y",
		Groups: sharedGroups(m, h), Functions: []facts.PhysicalFunction{},
	}
	for _, n := range h.NICs {
		if n.Bus == "pci" && n.PhysFn == "" && n.PCI != "" {
			p.Functions = append(p.Functions, physicalFunction(m, n))
		}
	}
	for i := range h.VFs {
		if h.VFs[i].PCI != "" {
			h.VFs[i].Vectors = vectors(config(m, h.VFs[i].PCI))
		}
	}
	for _, g := range h.Guests {
		if g.PID != 0 && len(g.Hostdevs) > 0 {
			limits, err := m.Read("proc/" + strconv.Itoa(g.PID) + "/limits")
			if limit, known := lockLimit(limits); err == nil && known {
				p.Locked = append(p.Locked, facts.LockLimit{Guest: g.Name, Limit: limit})
			}
		}
	}
	h.Passthrough = p
}

// remapping returns whether interrupts are remapped, "on" or "off", from the chip names in /proc/interrupts; empty if
// unknown. Those behind the IOMMU are IR-PCI-MSI, IR-PCI-MSIX, IR-IO-APIC (drivers/iommu/intel/irq_remapping.c,
// drivers/iommu/amd/iommu.c, prefix "IR-"); ARM's ITS separates the interrupts of devices by itself
// (drivers/irqchip/irq-gic-v3-its.c, IRQ_DOMAIN_FLAG_ISOLATED_MSI).
func remapping(interrupts string) string {
	switch {
	case remapped.MatchString(interrupts):
		return "on"
	case notRemapped.MatchString(interrupts):
		return "off"
	}
	return ""
}

var (
	remapped    = regexp.MustCompile(`\s(IR-(PCI-MSI|IO-APIC|HPET)|ITS-)`)
	notRemapped = regexp.MustCompile(`\s(PCI-MSI|IO-APIC)`)
)

// posting reports whether all of Intel's IOMMUs can deliver a device's interrupt to a running vCPU (bit 59 of their
// capabilities: drivers/iommu/intel/iommu.h, cap_pi_support; irq_remapping.c, set_irq_posting_cap). Empty if none shows
// it, as AMD's do not: the order of the two words in amd-iommu/features depends on the kernel.
func posting(m *tree.Tree) facts.Answer {
	const folder = "sys/class/iommu"
	answer := facts.Answer("")
	for _, unit := range m.List(folder) {
		word, err := strconv.ParseUint(m.Line(path.Join(folder, unit, "intel-iommu/cap")), 16, 64)
		switch {
		case err != nil:
		case word>>59&1 == 0:
			return facts.No
		default:
			answer = facts.Yes
		}
	}
	return answer
}

// vfioModules returns whether each VFIO module is loaded, available or missing. A built-in one also has a folder in
// /sys/module.
func vfioModules(m *tree.Tree, release string) map[string]string {
	modules := map[string]string{}
	listed := ""
	for _, name := range []string{"vfio-pci", "vfio_iommu_type1"} {
		if m.Exists("sys/module/" + strings.ReplaceAll(name, "-", "_")) {
			modules[name] = "loaded"
			continue
		}
		if listed == "" {
			for _, file := range []string{"modules.dep", "modules.builtin"} {
				text, _ := m.Read(path.Join("lib/modules", release, file))
				listed += text
			}
		}
		switch {
		case strings.Contains(listed, "/"+name+".ko"):
			modules[name] = "available"
		case listed != "":
			modules[name] = "missing"
		}
	}
	return modules
}

// sharedGroups returns the IOMMU groups of NIC functions that have other devices too.
func sharedGroups(m *tree.Tree, h *facts.Host) []facts.IOMMUGroup {
	numbers := []int{}
	for _, f := range h.VFs {
		numbers = append(numbers, f.Group)
	}
	for _, n := range h.NICs {
		if n.PCI == "" {
			continue
		}
		if number, err := strconv.Atoi(m.Target(path.Join(pciDevices, n.PCI) + "/iommu_group")); err == nil {
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	all := []facts.IOMMUGroup{}
	for _, number := range slices.Compact(numbers) {
		members := m.List("sys/kernel/iommu_groups/" + strconv.Itoa(number) + "/devices")
		if number < 0 || len(members) < 2 {
			continue
		}
		group := facts.IOMMUGroup{Number: number}
		for _, pci := range members {
			dir := path.Join(pciDevices, pci)
			group.Devices = append(group.Devices, facts.GroupDevice{
				PCI: pci, Class: strings.TrimPrefix(m.Line(dir+"/class"), "0x"), Driver: m.Target(dir + "/driver"),
			})
		}
		all = append(all, group)
	}
	return all
}

// physicalFunction reads a NIC's PCI device and the bridges above it.
func physicalFunction(m *tree.Tree, n facts.NIC) facts.PhysicalFunction {
	dir := path.Join(pciDevices, n.PCI)
	f := facts.PhysicalFunction{
		NIC: n.Name, PCI: n.PCI, Vendor: m.Line(dir + "/vendor"), Device: m.Line(dir + "/device"),
		DriverVersion: m.Line("sys/module/" + strings.ReplaceAll(n.Driver, "-", "_") + "/version"),
		Bridges:       []facts.PCIBridge{},
	}
	f.Windows, f.Unplaced = windows(m.Line(dir + "/resource"))
	f.Capability = offeredVFs(config(m, n.PCI))
	if physical, err := m.Readlink(dir); err == nil { // ../../../devices/pci0000:40/0000:40:01.0/0000:41:00.0
		above := strings.Split(path.Dir(physical), "/")
		slices.Reverse(above)
		for _, name := range above {
			if pciName.MatchString(name) {
				f.Bridges = append(f.Bridges, facts.PCIBridge{PCI: name, ACS: isolation(config(m, name))})
			}
		}
	}
	return f
}

// pciName is a device's name on the PCI bus; domains may have more than four digits (VMD).
var pciName = regexp.MustCompile(`^[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

// windows returns the number of VF memory windows in a resource file, and of those without an address. Lines 7 to 12
// (include/linux/pci.h, PCI_IOV_RESOURCES) are start, end and flags. A window that the kernel found no room for is
// marked unset and starts at 0 (drivers/pci/setup-res.c, pci_assign_resource; include/linux/ioport.h,
// IORESOURCE_UNSET). The kernel then refuses to create VFs: "not enough MMIO resources for SR-IOV" (drivers/pci/iov.c,
// sriov_enable).
func windows(resource string) (all, unplaced int) {
	const first, beyond, unset, memory = 7, 13, 0x20000000, 0x200
	lines := strings.Split(strings.TrimSpace(resource), "\n")
	for i := first; i < min(beyond, len(lines)); i++ {
		fields := strings.Fields(lines[i])
		if len(fields) != 3 {
			continue
		}
		start, errStart := strconv.ParseUint(fields[0], 0, 64)
		flags, errFlags := strconv.ParseUint(fields[2], 0, 64)
		if errStart != nil || errFlags != nil || flags&memory == 0 {
			continue
		}
		all++
		if flags&unset != 0 || start == 0 {
			unplaced++
		}
	}
	return all, unplaced
}

// config returns a device's configuration space: without privilege only the first 64 bytes (drivers/pci/pci-sysfs.c,
// pci_read_config); empty if it cannot be read.
func config(m *tree.Tree, pci string) []byte {
	text, err := m.Read(path.Join(pciDevices, pci, "config"))
	if err != nil {
		return nil
	}
	return []byte(text)
}

// Extended capabilities (include/uapi/linux/pci_regs.h).
const (
	pciHeader     = 64
	extendedStart = 0x100
	extendedACS   = 0x0d
	extendedSRIOV = 0x10
)

// findCapability returns the offset of an extended capability in a configuration space; 0 if there is none.
func findCapability(config []byte, id uint16) int {
	for at, left := extendedStart, 96; at >= extendedStart && at+4 <= len(config) && left > 0; left-- {
		header := binary.LittleEndian.Uint32(config[at:])
		if uint16(header) == id {
			return at
		}
		at = int(header >> 20 &^ 3)
	}
	return 0
}

// vectors returns the size of a function's MSI-X table; 0 without one, or if the configuration space cannot be read.
func vectors(config []byte) int {
	const first, capability, control, sizeMask = 0x34, 0x11, 2, 0x7ff // include/uapi/linux/pci_regs.h, PCI_CAP_ID_MSIX
	if len(config) <= pciHeader {
		return 0
	}
	end := min(len(config), extendedStart)
	for at, left := int(config[first]), 48; at >= pciHeader && at+4 <= end && left > 0; left-- {
		if config[at] == capability {
			return int(binary.LittleEndian.Uint16(config[at+control:])&sizeMask) + 1
		}
		at = int(config[at+1])
	}
	return 0
}

// offeredVFs returns TotalVFs of a card's SR-IOV capability: −1 without one, −2 if it cannot be read.
func offeredVFs(config []byte) int {
	const totalVFs = 0x0e
	at := findCapability(config, extendedSRIOV)
	switch {
	case len(config) <= pciHeader:
		return -2
	case at == 0 || at+totalVFs+2 > len(config):
		return -1
	}
	return int(binary.LittleEndian.Uint16(config[at+totalVFs:]))
}

// isolation returns whether a bridge isolates the devices below it: "none" without ACS, "on" if it has enabled what the
// kernel requires (drivers/iommu/iommu.c, REQ_ACS_FLAGS: source validation, request and completion redirect, upstream
// forwarding), else "off"; empty if unknown.
func isolation(config []byte) string {
	const control, needed = 6, 0x1d
	at := findCapability(config, extendedACS)
	switch {
	case len(config) <= pciHeader:
		return ""
	case at == 0 || at+control >= len(config):
		return "none"
	case config[at+control]&needed == needed:
		return "on"
	}
	return "off"
}

// lockLimit returns the limit of locked memory in a process's limits file in bytes, −1 if unlimited, and whether it
// could be read (fs/proc/base.c, proc_pid_limits).
func lockLimit(limits string) (int64, bool) {
	_, rest, found := strings.Cut(limits, "Max locked memory")
	fields := strings.Fields(rest)
	if !found || len(fields) == 0 {
		return 0, false
	}
	if fields[0] == "unlimited" {
		return -1, true
	}
	limit, err := strconv.ParseInt(fields[0], 10, 64)
	return limit, err == nil
}
