package knob

import (
	"fmt"

	"mpps/internal/datapath"
	"mpps/internal/domain"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

var domainLocked = &Knob{
	ID: "domain.locked", Stage: datapath.Domain, Risk: goal.GuestRestart, After: []string{"domain.hugepages"}, Tiers: realtime(),
	Where: eachGuest(managed, inDefinition("memoryBacking/locked")),
	Want: func(v *View, a setting.Address) Advice {
		g, advice, ok := v.guest(a)
		if !ok {
			return advice
		}
		advice = Wants(setting.Exact("yes"), "pages of the guest, or of QEMU itself, can be written out and come back in milliseconds").At(Medium).restart(g.Name)
		needs, limit := v.locks(g), hardLimit(g)
		locked := v.Readings.At(a).State == setting.Known
		switch room, where, known := v.roomFor(g); {
		case !locked && known && room < needs:
			return Skips(fmt.Sprintf("about %.1f GiB would be locked when it starts and %.1f GiB are free on %s, with what it has now: it would not start again", gib(needs), gib(room), where))
		case !locked && limit > 0 && limit < g.Memory+qemuOwn(g):
			return Skips(fmt.Sprintf("its <memtune><hard_limit> is %.1f GiB: the kernel locks no more than that, and its memory and QEMU's own are about %.1f GiB. Raise it first (virsh memtune %s --hard-limit %d --config)",
				gib(limit), gib(g.Memory+qemuOwn(g)), g.Name, advisedLimit(g)>>10))
		case limit == 0:
			return advice.warn(fmt.Sprintf("no <memtune><hard_limit> bounds what this QEMU locks; libvirt advises one, well above what it needs: virsh memtune %s --hard-limit %d --config", g.Name, advisedLimit(g)>>10))
		}
		return advice
	},
}

// qemuOwn is about what a QEMU locks besides its guest's memory, in bytes: its program, heap and stacks, and the page tables of the
// guest's memory (8 bytes of 4 KiB, on both sides).
func qemuOwn(g *facts.Guest) uint64 { return 512<<20 + g.Memory/256 }

// advisedLimit is a limit for all that a QEMU maps, in bytes, in whole GiB.
func advisedLimit(g *facts.Guest) uint64 { return (g.Memory + 3<<30 - 1) >> 30 << 30 }

// locks is about how much ordinary memory is locked at a guest's start: what its definition has in huge pages is taken already.
func (v *View) locks(g *facts.Guest) uint64 {
	if g.Hugepages {
		return qemuOwn(g)
	}
	return g.Memory + qemuOwn(g)
}

// roomFor is how much ordinary memory a guest finds at its next start: what is free on its nodes, and what it has itself.
func (v *View) roomFor(g *facts.Guest) (bytes uint64, where string, known bool) {
	nodes := 0
	for _, n := range v.Topology.Nodes {
		if len(g.MemoryNodes) == 0 || g.MemoryNodes.Has(n.ID) {
			bytes, nodes = bytes+max(n.Available, n.Free), nodes+1
		}
	}
	where = "the host"
	if len(g.MemoryNodes) > 0 && nodes > 0 {
		where = "node " + g.MemoryNodes.String()
	}
	if bytes == 0 && v.Housekeeping != nil && len(g.MemoryNodes) == 0 {
		bytes = v.Housekeeping.Available
	}
	if bytes == 0 {
		return 0, where, false
	}
	return bytes + g.Resident, where, true
}

// hardLimit is the limit of a guest's definition for all memory of its QEMU, in bytes; 0 where there is none.
func hardLimit(g *facts.Guest) uint64 {
	doc, err := domain.Parse([]byte(g.Definition))
	if err != nil {
		return 0
	}
	return doc.Guest().HardLimitKiB << 10
}
