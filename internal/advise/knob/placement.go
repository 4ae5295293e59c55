package knob

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

var placementOvercommit = &Knob{
	ID: "placement.overcommit", Title: "No more vCPUs and memory than there are",
	Stage: datapath.Placement, Risk: goal.None, Tiers: pinned(), Check: true,
	Where: fixed(hostFact("vcpus"), hostFact("memory")),
	Want: func(v *View, a setting.Address) Advice {
		vcpus, memory, guests := 0, uint64(0), 0
		for _, g := range v.Guests {
			if g.Active() || g.Name == v.Goal.Guest {
				vcpus, memory, guests = vcpus+g.VCPUs, memory+g.Memory, guests+1
			}
		}
		if guests == 0 {
			return Skips("no guest runs")
		}
		var found, wanted string
		var over bool
		if a.Rest() == "vcpus" {
			room := v.vcpuRoom()
			if room <= 0 || len(v.Topology.Online) == 0 {
				return Unsure("the number of CPUs is not known")
			}
			kept := cmp.Or(v.Placement().Housekeeping.String(), "none")
			found, wanted, over = Count(vcpus, "vCPU"), fmt.Sprintf("at most %s of %d CPUs (%s kept for the host)",
				Count(room, "vCPU"), len(v.Topology.Online), kept), vcpus > room
		} else {
			total, room := v.memoryRoom()
			if total == 0 {
				return Unsure("the amount of memory is not known")
			}
			found, wanted, over = fmt.Sprintf("%.1f GiB", gib(memory)), fmt.Sprintf("at most %.1f of %.1f GiB",
				gib(room), gib(total)), memory > room
		}
		advice := Fine(fmt.Sprintf("%s: %s", Count(guests, "guest"), wanted))
		if over {
			because := fmt.Sprintf("%s together have more than the host can give at once", Count(guests, "guest"))
			if refused := v.Placement().Refused; len(refused) > 0 && a.Rest() == "vcpus" {
				because += fmt.Sprintf("; no place for %s: %s", refused[0].Guest, refused[0].Shortage)
			}
			advice = exact(wanted, because).At(v.overcommitSeverity(a.Rest()))
		}
		return fact(found, advice)
	},
}

// memoryRoom returns the host's memory, 0 if that is not known, and how much of it guests can have.
func (v *View) memoryRoom() (total, room uint64) {
	for _, n := range v.Topology.Nodes {
		total += n.Memory
	}
	return total, total - min(total/8, uint64(len(v.Topology.Nodes))*(2<<30))
}

// overcommitSeverity returns how much it matters that there are more vCPUs or more memory than the host has. Memory
// that is not there ends in the OOM killer, whatever the target. vCPUs that take turns are how most hosts are run: they
// cost packets at rates at which a vCPU has to answer at once, and break a wake-up latency.
func (v *View) overcommitSeverity(of string) Severity {
	switch {
	case of == "memory", v.Tier == goal.Realtime:
		return Critical
	case v.Tier == goal.Standard:
		return Low
	}
	return High
}

func gib(bytes uint64) float64 { return float64(bytes) / (1 << 30) }

var placementSiblings = &Knob{
	ID: "placement.siblings", Title: "No two vCPUs on one core",
	Stage: datapath.Placement, Risk: goal.None, Tiers: pinned(), Check: true,
	Where: eachGuest(anyGuest, guestFact("siblings")),
	Want: func(v *View, a setting.Address) Advice {
		g, why, ok := v.judged(a, true)
		switch {
		case !ok:
			return why
		case len(pinnedCPUs(g)) == 0:
			return Unsure("its vCPUs are pinned nowhere: any two can meet on a core")
		}
		onCore := map[int][]int{}
		loose := 0
		for vcpu, pin := range g.VCPUPins() {
			if len(pin) != 1 {
				loose++
				continue
			}
			if core, known := v.coreOf(pin[0]); known {
				onCore[core] = append(onCore[core], vcpu)
			}
		}
		var shared []string
		known := v.Tier != goal.Realtime
		for _, c := range v.Topology.CPUs {
			vcpus := onCore[c.Core]
			delete(onCore, c.Core)
			if len(vcpus) > 1 {
				known = known && g.OneCore(vcpus[0], vcpus[len(vcpus)-1])
				shared = append(shared, fmt.Sprintf("vCPUs %s", strings.Trim(fmt.Sprint(vcpus), "[]")))
			} else if other := v.otherOnCore(g, c.Core); len(vcpus) > 0 && other != "" {
				known = false
				shared = append(shared, fmt.Sprintf("vCPU %d and one of %s", vcpus[0], other))
			}
		}
		if len(shared) > 0 {
			because, severity := "vCPUs on the threads of one core slow each other down", High
			if known {
				because, severity = "the guest is shown these threads and fills idle cores first, but two busy vCPUs "+
					"of a core slow each other down all the same", Low
			}
			return fact(strings.Join(shared, "; ")+" on one core", exact("a core for each vCPU", because).At(severity))
		}
		if loose > 0 {
			return Unsure(fmt.Sprintf("%s not pinned to one CPU: they can meet on a core", Count(loose, "vCPU")))
		}
		return fact("a core for each vCPU", Fine("no core has two vCPUs"))
	},
}

// otherOnCore returns an active guest other than g with a vCPU that is pinned to one CPU of a core; "": there is none.
func (v *View) otherOnCore(g *facts.Guest, core int) string {
	if v.onCore == nil {
		v.onCore = map[int][]string{}
		for other := range facts.Each(v.Guests) {
			for _, pin := range other.VCPUPins() {
				if len(pin) != 1 || !other.Active() {
					continue
				}
				if core, known := v.coreOf(pin[0]); known {
					v.onCore[core] = append(v.onCore[core], other.Name)
				}
			}
		}
	}
	for _, name := range v.onCore[core] {
		if name != g.Name {
			return name
		}
	}
	return ""
}

func (v *View) coreOf(cpu int) (int, bool) {
	c, known := v.Topology.CPU(cpu)
	return c.Core, known && c.Core >= 0
}

// What the host needs of every node, as the bridge guide recommends: 1–2 CPUs and 2–4 GiB, more on node 0.
const (
	reservedCPUs        = 1
	reservedMemory      = 2 << 30
	reservedMemoryFirst = 4 << 30
)

var placementReserve = &Knob{
	ID: "placement.reserve", Title: "Every node keeps CPUs and memory for the host",
	Stage: datapath.Placement, Risk: goal.None, Tiers: pinned(), Check: true,
	Where: func(h *facts.Host) []setting.Address {
		var all []setting.Address
		for _, n := range h.Topology.Nodes {
			node := "node" + strconv.Itoa(n.ID)
			all = append(all, setting.Of(setting.Fact, node, "cpus"), setting.Of(setting.Fact, node, "memory"))
		}
		return all
	},
	Want: func(v *View, a setting.Address) Advice {
		id := 0
		if _, err := fmt.Sscanf(a.Object(), "node%d", &id); err != nil {
			return Skips("no such node")
		}
		node, ok := v.Topology.Node(id)
		if !ok {
			return Skips("no such node")
		}
		loose, guests := 0, 0
		var vcpus setting.CPUSet
		memory, scattered := uint64(0), 0
		for _, g := range v.Guests {
			if !g.Active() && g.Name != v.Goal.Guest {
				continue
			}
			guests++
			own := pinnedCPUs(&g)
			if len(own) == 0 || !pinnedOneByOne(&g) && len(own.And(node.CPUs)) > 0 {
				loose++
			}
			vcpus = vcpus.Or(own)
			switch {
			case len(g.MemoryNodes) == 1 && g.MemoryNodes[0] == id, len(v.Topology.Nodes) == 1:
				memory += g.Memory
			case len(g.MemoryNodes) != 1:
				scattered++
			}
		}
		if guests == 0 {
			return Skips("no guest runs")
		}
		if a.Rest() == "cpus" {
			online := node.CPUs.And(v.Topology.Online)
			left := len(online.Minus(vcpus))
			switch {
			case len(online) == 0:
				return Skips("the node has no CPU that is online")
			case loose > 0:
				return Unsure(fmt.Sprintf("%s not pinned one by one: vCPUs move among CPUs of the node",
					guestsAre(loose)))
			}
			found := Count(left, "CPU") + " without a vCPU"
			advice := Fine(fmt.Sprintf("%s of %d without a vCPU", Count(left, "CPU"), len(online)))
			if left < reservedCPUs {
				advice = exact("1 CPU or 2 for the host", "every CPU of the node is a vCPU's: the node's kswapd, "+
					"kernel threads and interrupts run in the guests' time").At(High)
			}
			return fact(found, advice)
		}
		need := uint64(reservedMemory)
		if id == v.Topology.Nodes[0].ID {
			need = reservedMemoryFirst
		}
		switch {
		case node.Memory == 0:
			return Skips("the node has no memory")
		case scattered > 0:
			return Unsure(fmt.Sprintf("%s not bound to one node: how much of this one guests have is not known",
				guestsAre(scattered)))
		}
		left := node.Memory - min(memory, node.Memory)
		found := fmt.Sprintf("%.1f GiB beside the guests", gib(left))
		advice := Fine(fmt.Sprintf("%.1f of %.1f GiB are not the guests'", gib(left), gib(node.Memory)))
		if left < min(need, node.Memory/4) {
			advice = exact(fmt.Sprintf("%.0f GiB for the host", gib(need)),
				"guests have nearly all of the node's memory: its kswapd will run all the time").At(High)
		}
		return fact(found, advice)
	},
}
