package knob

import (
	"fmt"
	"strconv"

	"mpps/internal/datapath"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

// What the host needs of every node, after the founding measurements: 1–2 CPUs and 2–4 GiB, more on node 0.
const (
	reservedCPUs        = 1
	reservedMemory      = 2 << 30
	reservedMemoryFirst = 4 << 30
)

var placementReserve = &Knob{
	ID: "placement.reserve", Stage: datapath.Placement, Risk: goal.None, Check: true,
	Tiers: pinned(),
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
			own := pins(&g)
			if len(own) == 0 {
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
				return Unsure(fmt.Sprintf("%s not pinned: vCPUs run on any CPU of the node", guestsAre(loose)))
			}
			found := count(left, "CPU") + " without a vCPU"
			advice := Fine(fmt.Sprintf("%s of %d without a vCPU", count(left, "CPU"), len(online)))
			if left < reservedCPUs {
				advice = Wants(setting.Exact("1 CPU or 2 for the host"), "every CPU of the node is a vCPU's: the node's kswapd, kernel threads and interrupts run in the guests' time").At(High)
			}
			return seen(found, advice)
		}
		need := uint64(reservedMemory)
		if id == v.Topology.Nodes[0].ID {
			need = reservedMemoryFirst
		}
		switch {
		case node.Memory == 0:
			return Skips("the node has no memory")
		case scattered > 0:
			return Unsure(fmt.Sprintf("%s not bound to one node: how much of this one guests have is not known", guestsAre(scattered)))
		}
		left := node.Memory - min(memory, node.Memory)
		found := fmt.Sprintf("%.1f GiB beside the guests", gib(left))
		advice := Fine(fmt.Sprintf("%.1f of %.1f GiB are not the guests'", gib(left), gib(node.Memory)))
		if left < min(need, node.Memory/4) {
			advice = Wants(setting.Exact(fmt.Sprintf("%.0f GiB for the host", gib(need))), "guests have nearly all of the node's memory: its kswapd will run all the time").At(High)
		}
		return seen(found, advice)
	},
}
