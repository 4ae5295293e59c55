package knob

import (
	"fmt"
	"strings"

	"mpps/internal/datapath"
	"mpps/internal/domain"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

var domainVNUMA = &Knob{
	ID: "domain.vnuma", Title: "The guest's own NUMA cells fit its vCPUs", Stage: datapath.Domain, Risk: goal.GuestRestart, Check: true,
	Tiers: pinned(),
	Doc: Doc{
		Want: "cells that fit its vCPUs, and the nodes that they run on",
		Why: "A guest that spans nodes of the host should see them as cells of its own, or its kernel mixes near and far memory. A guest on one node needs one cell or none. " +
			"A cell with many more vCPUs than the guest ever uses makes its kernel reserve for all of them: tables, per-CPU memory, queues of its drivers.",
		Cost:   "The guest's topology changes: licences and applications that look at it notice.",
		Verify: "numactl -H in the guest.",
		Traps: []string{
			"<vcpu current='9'>128</vcpu> leaves room for hot plug and makes the guest's kernel prepare for 128 CPUs.",
			"memAccess='shared' is needed for vhost-user, not for vhost in the kernel.",
		},
		Sources: []Source{
			{"cells", "libvirt formatdomain, \"Guest NUMA topology\""},
			{"a cell of 128 CPUs for 9 vCPUs, 1.8 Mpps all the same", "founding measurements"},
		},
	},
	Where: eachGuest(managed, guestFact("vnuma")),
	Want: func(v *View, a setting.Address) Advice {
		g, advice, ok := v.guest(a)
		if !ok {
			return advice
		}
		if g.Definition == "" {
			return Unsure("its definition could not be read")
		}
		cells, err := numaCells(g.Definition)
		if err != nil {
			return Unsure(err.Error())
		}
		room := 0
		for _, cell := range cells {
			room += len(cell)
		}
		found := fmt.Sprintf("%s, %s", count(len(cells), "cell"), count(room, "vCPU"))
		nodes := v.nodesOf(pins(g))
		advice = Fine("its cells fit")
		switch {
		case len(nodes) > 1 && len(cells) < len(nodes):
			advice = Wants(setting.Exact(count(len(nodes), "cell")), fmt.Sprintf("its vCPUs run on nodes %s, and the guest does not know which memory is near", nodes)).At(Medium)
		case room > 2*g.VCPUs && room > g.VCPUs+8:
			advice = Wants(setting.Exact(fmt.Sprintf("room for %s", count(g.VCPUs, "vCPU"))), fmt.Sprintf("its cells span %d vCPUs, of which it uses %d: its kernel prepares for all of them; odd, not wrong", room, g.VCPUs)).At(Info)
		}
		return seen(found, advice)
	},
}

// numaCells are the vCPUs of each cell in a domain's <cpu><numa>.
func numaCells(definition string) ([]setting.CPUSet, error) {
	if !strings.Contains(definition, "<cell") { // most have none: no need to take the whole document apart
		return nil, nil
	}
	doc, err := domain.Parse([]byte(definition))
	if err != nil {
		return nil, fmt.Errorf("definition: %w", err)
	}
	var cells []setting.CPUSet
	for _, c := range doc.Guest().CPU.Cells {
		cpus, err := domain.ParseSet(c.CPUs)
		if err != nil {
			return nil, fmt.Errorf("cell %d: %w", c.ID, err)
		}
		cells = append(cells, setting.CPUs(cpus...))
	}
	return cells, nil
}

var domainMachine = &Knob{
	ID: "domain.machine", Title: "Machine type of the guest", Stage: datapath.Domain, Risk: goal.GuestRestart, Check: true,
	Tiers: pinned(),
	Doc: Doc{
		Want:   "q35, for new guests",
		Why:    "q35 has PCI Express: virtio devices as modern PCIe devices, passed-through VFs with their full capabilities, hot plug by root ports. i440fx has plain PCI only. Packet rates of virtio hardly differ.",
		Cost:   "Changing it gives all devices other addresses: a reinstall for some Windows guests, renamed NICs for others.",
		Verify: "virsh dumpxml NAME: os/type machine.",
		Traps:  []string{"Do not change it on a guest that works: it is for new ones. mpps only says it."},
		Sources: []Source{
			{"PCIe only on q35", "QEMU docs/pcie.txt; libvirt pci-hotplug"},
			{"i440fx at 1.8 Mpps", "founding measurements"},
		},
	},
	Where: eachGuest(managed, guestFact("machine")),
	Want: func(v *View, a setting.Address) Advice {
		g, advice, ok := v.guest(a)
		if !ok {
			return advice
		}
		if g.Machine == "" {
			return Unsure("its machine type is not known")
		}
		found := g.Machine
		advice = Fine("not i440fx")
		if strings.Contains(g.Machine, "i440fx") || g.Machine == "pc" {
			advice = Wants(setting.Exact("q35"), "i440fx has no PCI Express: odd for a new guest, not wrong for one that works").At(Info)
		}
		return seen(found, advice)
	},
}
