package knob

import (
	"fmt"
	"strings"

	"mpps/internal/datapath"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

var domainHugepages = &Knob{
	ID: "domain.hugepages", Title: "The guest's memory is in huge pages of the host's pool", Stage: datapath.Domain, Risk: goal.GuestRestart,
	After: []string{"domain.numatune"}, Tiers: pinned(),
	Doc: Doc{
		Want: "in huge pages for realtime; else as it is",
		Why: "Memory from the pool is there from the start, is never swapped, merged or compacted, and needs few TLB entries. For packet rates it brings nothing by itself: the founding measurement saw no gain in throughput. " +
			"For wake-up latency it is worth about 1 µs and takes out the spikes of page faults.",
		Cost:   "The pool is taken from the host whether guests use it or not. A guest does not start if the pool of its node has too few free pages.",
		Verify: "/proc/meminfo, HugePages_Free falls by the guest's memory at its start; numastat -p PID.",
		Traps: []string{
			"1 GiB pages come from the kernel's command line (boot.hugepages) or, one node at a time and soon after boot, from sysfs; later memory is too scattered.",
			"The pool must be on the node of numatune: pages are spread over all nodes unless a count is given for each node.",
			"<hugepages/> without a size means pages of the host's default size (Hugepagesize in /proc/meminfo): a pool of another size, however large, does not serve it. mpps names the size where the pool that has room is not of the default one.",
			"Written before there is a pool, the guest does not start until the pool is there: where boot.hugepages makes it with the next boot, mpps writes the definition after that ('mpps apply --resume').",
			"Transparent huge pages give most of the TLB gain without a pool, and are the default of QEMU's memory.",
			"A guest in huge pages cannot be ballooned, and locks no memory by itself: <locked/> is another matter.",
		},
		Sources: []Source{
			{"<memoryBacking><hugepages/>", "libvirt formatdomain, \"Memory Backing\""},
			{"no network gain, about 1 µs of latency", "founding measurements"},
			{"the default size", "libvirt src/qemu/qemu_command.c, qemuGetDomainHupageMemPath, virFileGetDefaultHugepageSize"},
			{"pools by node", "Documentation/admin-guide/mm/hugetlbpage.rst"},
		},
	},
	Where: eachGuest(managed, inDefinition("memoryBacking/hugepages")),
	Want: func(v *View, a setting.Address) Advice {
		g, advice, ok := v.guest(a)
		if !ok {
			return advice
		}
		if v.Tier != goal.Realtime {
			return Fine("huge pages alone bring no packets; they matter for latency")
		}
		if known := v.Readings.At(a); known.State == setting.Known {
			return v.pagesStand(g, known.Value)
		}
		pages, holds := v.pagesFor(g)
		because := "page faults and TLB misses are latency: about 1 µs, and spikes"
		if pages != defaultPages {
			because += fmt.Sprintf("; the pool that has room is not of the default size (%s), so the definition names it", sizeWords(v.DefaultHugepage()))
		}
		advice = Wants(setting.Exact(pages), because).At(Medium).restart(g.Name)
		if !holds {
			return advice.warn(fmt.Sprintf("no pool of huge pages has room for its %.1f GiB (%s): it does not start before boot.hugepages gives them", gib(g.Memory), v.PoolWords(g.MemoryNodes)))
		}
		return advice
	},
}

// pagesStand judges a guest that has huge pages by its definition: of a size whose pool has room, where it does not run.
func (v *View) pagesStand(g *facts.Guest, found string) Advice {
	short := v.pagesShort(g)
	if g.Active() || short == 0 {
		return Fine("its memory is in huge pages")
	}
	lacks := fmt.Sprintf("it does not start: its pages are of %s and of these too few are free (%s)", sizeWords(short), v.PoolWords(g.MemoryNodes))
	if better, holds := v.pagesFor(g); holds && better != found && !strings.Contains(found, "@") {
		return Wants(setting.Exact(better), lacks).At(High).restart(g.Name)
	}
	return Fine("its memory is in huge pages, but " + lacks + ": boot.hugepages")
}

var domainVFIOMemory = &Knob{
	ID: "domain.vfio_memory", Title: "A guest with a passed-through device finds all its memory at once", Stage: datapath.Domain, Risk: goal.GuestRestart, Check: true,
	Tiers: tiers(goal.Passthrough, goal.Realtime),
	Doc: Doc{
		Want: "all of the guest's memory free where it belongs, before the guest starts",
		Why: "A device that writes into the guest's memory by itself needs that memory in place: QEMU pins all of it when the guest starts. What looked free because other guests had not touched theirs is gone at once. " +
			"It was seen as a sudden allocation of 16 GiB, and a host that swapped.",
		Cost:   "No overcommit of memory with passed-through devices, and no ballooning of these guests.",
		Verify: "VmPin and VmLck in /proc/PID/status of QEMU; free memory of the node before the start.",
		Traps: []string{
			"Ballooning is switched off silently for guests with such devices.",
			"A hard limit (<memtune><hard_limit>) below the guest's memory plus QEMU's own ends it at the start.",
			"Several passed-through devices count the limit of locked memory once each with vDPA, once together with VFIO.",
		},
		Sources: []Source{
			{"all memory is pinned", "drivers/vfio/vfio_iommu_type1.c, vfio_pin_pages_remote; QEMU hw/vfio/container.c"},
			{"16 GiB at once, and swapping", "founding experience"},
		},
	},
	Where: eachGuest(passthrough, guestFact("pinned-memory")),
	Want: func(v *View, a setting.Address) Advice {
		g, advice, ok := v.guest(a)
		if !ok {
			return advice
		}
		if g.Active() {
			return seen(fmt.Sprintf("%.1f GiB, pinned", gib(g.Memory)), Fine("it is active, and has its memory"))
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
			return seen(has, Wants(setting.Exact(fmt.Sprintf("%.1f GiB free", gib(g.Memory))), fmt.Sprintf("all %.1f GiB of its memory are pinned when it starts: do not start it before they are free", gib(g.Memory))).At(High))
		}
		return seen(has, Fine("there is room for all its memory"))
	},
}
