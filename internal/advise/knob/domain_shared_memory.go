package knob

import (
	"fmt"
	"slices"

	"mpps/internal/model/datapath"
	"mpps/internal/model/domain"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

const backingAccess, backingSource = "memoryBacking/access.mode", "memoryBacking/source.type"

var domainSharedMemory = &Knob{
	ID: "domain.shared_memory", Title: "The switch sees the memory of a guest with vhost-user NICs",
	Stage: datapath.Domain, Risk: goal.GuestRestart, After: []string{"domain.hugepages"},
	Tiers: tiers(goal.Standard, goal.Aggressive, goal.Passthrough, goal.Realtime),
	Where: eachGuest(vhostUserManaged, func(g *facts.Guest) []setting.Address {
		return slices.Concat(eachInDefinition(backingAccess)(g), eachInDefinition(backingSource)(g))
	}),
	Want: forGuest(sharedMemory),
}

// vhostUserManaged reports whether a guest of libvirt is defined with a NIC whose rings another process shares.
func vhostUserManaged(g *facts.Guest) bool {
	return g.Managed && slices.ContainsFunc(g.Interfaces, func(i facts.Interface) bool { return i.Type == "vhostuser" })
}

// sharedMemory wants all of a guest's memory shared: cell by cell as the cell says, or else as <access> says (libvirt,
// src/qemu/qemu_validate.c, qemuValidateDomainDefVhostUserRequireSharedMemory, which asks this of other vhost-user
// devices and of passt).
func sharedMemory(_ *View, g *facts.Guest, a setting.Address) Advice {
	doc, err := domain.Parse([]byte(g.Definition))
	if err != nil {
		return Unsure("its definition could not be read")
	}
	d := doc.Guest()
	const blind = "the process that shares its NIC's rings does not see private memory: no packet passes"
	shared := 0
	for _, cell := range d.CPU.Cells {
		switch cell.Access {
		case "private":
			return Unsure(fmt.Sprintf("cell %d is private (memAccess), whatever <access> says, and mpps does not set "+
				"that: %s", cell.ID, blind))
		case "shared":
			shared++
		}
	}
	access := d.Backing.Access == "shared"
	whole := access || shared > 0 && shared == len(d.CPU.Cells)
	source := d.Backing.HugePages || d.Backing.Source == "memfd" || d.Backing.Source == "file"
	switch path := a.Rest(); {
	case path == backingAccess && whole:
		return Fine("all its memory is shared")
	case path == backingAccess:
		return exact("shared", blind).At(Critical).restart(g.Name)
	case source:
		return Fine("its memory is a file that can be shared")
	case whole && d.Backing.Source == "":
		return exact("memfd", "shared memory without a source is a file in libvirt's memory_backing_dir, and pages of "+
			"it are written to that disk").At(Medium).restart(g.Name)
	}
	return exact("memfd", blind+", and memory of no file cannot be shared").At(Critical).restart(g.Name)
}
