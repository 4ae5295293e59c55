package knob

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/datapath"
	"mpps/internal/model/domain"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

var domainHugepages = &Knob{
	ID: "domain.hugepages", Title: "The guest's memory is in huge pages of the host's pool",
	Stage: datapath.Domain, Risk: goal.GuestRestart, After: []string{"domain.numatune"}, Tiers: pinned(),
	Where: eachGuest(managed, eachInDefinition("memoryBacking/hugepages")),
	Want: forGuest(func(v *View, g *facts.Guest, a setting.Address) Advice {
		if v.Tier != goal.Realtime {
			return Fine("huge pages alone bring no packets; they matter for latency")
		}
		if why := v.pageless(g); why != "" {
			return Skips(why)
		}
		if known := v.Readings.At(a); known.State == setting.Known {
			return v.judgePages(g, known.Value)
		}
		pages, holds := v.pagesFor(g)
		because := "page faults and TLB misses are latency: about 1 µs, and spikes"
		if pages != defaultPages {
			because += fmt.Sprintf("; the pool that has room is not of the default size (%s), so the "+
				"definition names it", sizeWords(v.DefaultHugepage()))
		}
		advice := exact(pages, because).At(Medium).restart(g.Name)
		if !holds {
			return advice.warn(fmt.Sprintf("no pool of huge pages has room for its %.1f GiB (%s): it does not start "+
				"before boot.hugepages gives them", gib(g.Memory), v.PoolWords(g.MemoryNodes)))
		}
		return advice
	}),
}

// pageless says why a guest cannot be given huge pages; "" if it can.
//   - The private memory of SEV-SNP and TDX guests is in guest_memfd (Documentation/virt/kvm/api.rst,
//     KVM_CREATE_GUEST_MEMFD). Plain SEV encrypts the memory that QEMU maps.
//   - On s390x KVM takes them only with its parameter hpage=1 (ibid., KVM_CAP_S390_HPAGE_1M), and QEMU does not start
//     with them otherwise (target/s390x/kvm/kvm.c, kvm_s390_set_max_pagesize).
//   - A QEMU that libvirt does not know was started with its memory as it is.
func (v *View) pageless(g *facts.Guest) string {
	if v.Architecture() == "s390x" && v.KVM.Parameters["kvm.hpage"] != "1" {
		return "KVM on s390x backs guests with huge pages only if its module has hpage=1: QEMU would not start"
	}
	if !g.Managed {
		return "libvirt does not know it: who starts its QEMU says which pages it takes"
	}
	doc, err := domain.Parse([]byte(g.Definition))
	if err == nil && slices.Contains([]string{"sev-snp", "tdx"}, doc.Guest().LaunchSecurity) {
		return "a confidential guest: its private memory is not from a pool of huge pages, which would be " +
			"reserved on top of it"
	}
	return ""
}

// judgePages judges a guest that is defined with huge pages: unless it runs, a pool of their size must have room.
func (v *View) judgePages(g *facts.Guest, found string) Advice {
	short := v.shortPageSize(g)
	if g.Active() || short == 0 {
		return Fine("its memory is in huge pages")
	}
	lacks := fmt.Sprintf("it does not start: its pages are of %s and of these too few are free (%s)", sizeWords(short),
		v.PoolWords(g.MemoryNodes))
	if better, holds := v.pagesFor(g); holds && better != found && !strings.Contains(found, "@") {
		return exact(better, lacks).At(High).restart(g.Name)
	}
	return Fine("its memory is in huge pages, but " + lacks + ": boot.hugepages")
}

var domainVFIOMemory = &Knob{
	ID: "domain.vfio_memory", Title: "A guest with a passed-through device finds all its memory at once",
	Stage: datapath.Domain, Risk: goal.GuestRestart, Tiers: tiers(goal.Passthrough, goal.Realtime), Check: true,
	Where: eachGuest(passthrough, guestFact("pinned-memory")),
	Want: forGuest(func(v *View, g *facts.Guest, a setting.Address) Advice {
		if g.Active() {
			return fact(fmt.Sprintf("%.1f GiB, pinned", gib(g.Memory)), Fine("it is active, and has its memory"))
		}
		room, where := uint64(0), "the host"
		if g.Hugepages {
			for _, need := range v.pageNeeds(g) {
				room += min(need.bytes, v.poolFree(need.size, need.nodes))
			}
			where = "the pool of its huge pages"
		} else {
			for _, n := range v.Topology.Nodes {
				if len(g.MemoryNodes) == 0 || g.MemoryNodes.Has(n.ID) {
					room += n.Free
				}
			}
			if len(g.MemoryNodes) > 0 {
				where = "node " + g.MemoryNodes.String()
			}
			if room == 0 && v.Housekeeping == nil {
				return Unsure("how much memory is free was not recorded")
			}
		}
		has := fmt.Sprintf("%.1f GiB free on %s", gib(room), where)
		if room < g.Memory {
			return fact(has, exact(fmt.Sprintf("%.1f GiB free", gib(g.Memory)), fmt.Sprintf("all %.1f GiB of its "+
				"memory are pinned when it starts: do not start it before they are free", gib(g.Memory))).At(High))
		}
		return fact(has, Fine("there is room for all its memory"))
	}),
}

var domainLocked = &Knob{
	ID: "domain.locked", Title: "The guest's and QEMU's memory cannot leave",
	Stage: datapath.Domain, Risk: goal.GuestRestart, After: []string{"domain.hugepages"}, Tiers: realtime(),
	Where: eachGuest(managed, eachInDefinition("memoryBacking/locked")),
	Want: forGuest(func(v *View, g *facts.Guest, a setting.Address) Advice {
		advice := exact("yes", "pages of the guest, or of QEMU itself, can be written out and come back in "+
			"milliseconds").At(Medium).restart(g.Name)
		needs, limit := v.lockedBytes(g), hardLimit(g)
		locked := v.Readings.At(a).State == setting.Known
		switch room, where, known := v.roomFor(g); {
		case !locked && v.overcommitted() != "":
			return Unsure(v.overcommitted())
		case !locked && known && room < needs:
			return Skips(fmt.Sprintf("about %.1f GiB would be locked when it starts and %.1f GiB are free on %s, "+
				"with what it has now: it would not start again", gib(needs), gib(room), where))
		case !locked && limit > 0 && limit < g.Memory+qemuOwn(g):
			return Skips(fmt.Sprintf("its <memtune><hard_limit> is %.1f GiB: the kernel locks no more than that, and "+
				"its memory and QEMU's own are about %.1f GiB. Raise it first (virsh memtune %s --hard-limit %d "+
				"--config)", gib(limit), gib(g.Memory+qemuOwn(g)), g.Name, advisedLimit(g)>>10))
		case limit == 0:
			return advice.warn(fmt.Sprintf("no <memtune><hard_limit> bounds what this QEMU locks; libvirt advises "+
				"one, well above what it needs: virsh memtune %s --hard-limit %d --config", g.Name,
				advisedLimit(g)>>10))
		}
		return advice
	}),
}

// qemuOwn estimates the bytes that QEMU locks besides its guest's memory: program, heap and stacks, and page tables for
// the guest's memory (8 bytes per 4 KiB, in guest and host).
func qemuOwn(g *facts.Guest) uint64 { return 512<<20 + g.Memory/256 }

// advisedLimit returns a limit for everything that a QEMU maps: in bytes, in whole GiB.
func advisedLimit(g *facts.Guest) uint64 { return (g.Memory + 3<<30 - 1) >> 30 << 30 }

// lockedBytes estimates how much ordinary memory a guest locks when it starts. Its huge pages are reserved already.
func (v *View) lockedBytes(g *facts.Guest) uint64 {
	if g.Hugepages {
		return qemuOwn(g)
	}
	return g.Memory + qemuOwn(g)
}

// roomFor returns the ordinary memory available to a guest at its next start, in bytes: what is free on its nodes plus
// what it uses now.
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

// hardLimit returns the <hard_limit> of a guest's definition in bytes; 0 if there is none.
func hardLimit(g *facts.Guest) uint64 {
	doc, err := domain.Parse([]byte(g.Definition))
	if err != nil {
		return 0
	}
	return doc.Guest().HardLimitKiB << 10
}
