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
	ID: "domain.hugepages", Stage: datapath.Domain, Risk: goal.GuestRestart,
	After: []string{"domain.numatune"}, Tiers: pinned(),
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
	ID: "domain.vfio_memory", Stage: datapath.Domain, Risk: goal.GuestRestart, Check: true,
	Tiers: tiers(goal.Passthrough, goal.Realtime),
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
