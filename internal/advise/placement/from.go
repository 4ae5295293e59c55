package placement

import (
	"cmp"
	"slices"

	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
)

// From describes a host and what the goal wants of it. The guests to be placed are the active ones, also while they are
// paused, and the one that the goal names; guests that the goal does not concern stay where they are pinned, and are
// placed only where they are not pinned at all.
func From(h *facts.Host, g goal.Goal) Ask {
	var ask Ask
	if g.Tier() == goal.Realtime {
		ask.Quiet = g.CPUs
	}
	for _, c := range h.Topology.CPUs {
		if c.Online {
			ask.CPUs = append(ask.CPUs, CPU{ID: c.ID, Core: c.Core, Node: c.Node, L3: c.L3,
				Isolated: h.Topology.Isolated.Has(c.ID)})
		}
	}
	for i, n := range h.Topology.Nodes {
		node := Node{ID: n.ID, Memory: n.Memory, Distances: map[int]int{}}
		for j, d := range n.Distances {
			if j < len(h.Topology.Nodes) && j != i {
				node.Distances[h.Topology.Nodes[j].ID] = d
			}
		}
		for _, p := range n.Hugepages {
			node.Pages = append(node.Pages, Pages{Size: p.Size, Count: p.Total})
		}
		ask.Nodes = append(ask.Nodes, node)
	}

	paths := PathsOf(h)
	for _, n := range h.NICs {
		if n.Up && n.PhysFn == "" && paths.Carries(n.Name) {
			ask.NICs = append(ask.NICs, NIC{Name: n.Name, Node: n.Node})
		}
	}
	slices.SortFunc(ask.NICs, func(a, b NIC) int { return cmp.Compare(a.Name, b.Name) })

	for _, s := range h.Storage {
		ask.Daemons = append(ask.Daemons, Daemon{Name: s.Name, Node: s.Node, CPUs: s.Count, Memory: s.Memory})
	}
	for i := range h.Guests {
		if guest := &h.Guests[i]; guest.VCPUs > 0 && (guest.Active() || g.Guest == guest.Name) {
			ask.Guests = append(ask.Guests, describe(h, guest, paths, g))
		}
	}
	ask.queue()
	return ask
}

// queue gives the NICs whose queues nobody chose theirs: as many as all guests' vhost threads may be together.
func (ask *Ask) queue() {
	share := budget(*ask)
	for i := range ask.Guests {
		for j := range ask.Guests[i].NICs {
			n := &ask.Guests[i].NICs[j]
			if n.Queues == 0 && !n.VF && !ask.Guests[i].tuned {
				n.Queues = max(1, min(ask.Guests[i].VCPUs, share))
			}
		}
	}
}

func describe(h *facts.Host, guest *facts.Guest, paths Paths, g goal.Goal) Guest {
	d := Guest{
		Name: guest.Name, VCPUs: guest.VCPUs, Memory: guest.Memory, Emulator: guest.EmulatorPin,
		Realtime: g.Latency > 0 && g.ForGuest(guest.Name), Fixed: !g.ForGuest(guest.Name),
		Hugepages: guest.Hugepages || g.Latency > 0 && g.ForGuest(guest.Name), Passthrough: len(guest.Hostdevs) > 0,
	}
	if g.ForGuest(guest.Name) {
		d.Allowed, d.Rate = g.CPUs, g.PPS
	}
	for _, i := range guest.NICs() {
		if !Tapped(i) {
			continue
		}
		n := Interface{MAC: i.MAC}
		if i.Queues > 1 {
			n.Queues = min(i.Queues, TapQueues)
			d.tuned = true
		}
		if nics := paths.Behind(i); len(nics) > 0 {
			n.NIC = nics[0]
		}
		d.NICs = append(d.NICs, n)
	}
	for _, pci := range guest.Hostdevs {
		for _, v := range h.VFs {
			if v.PCI == pci {
				d.NICs = append(d.NICs, Interface{MAC: v.MAC, NIC: v.PF, VF: true, Node: nodeOf(h, v.PF)})
			}
		}
	}
	for _, pin := range guest.Pins[:min(len(guest.Pins), guest.VCPUs)] {
		if len(pin) != 1 {
			d.Pins = nil
			break
		}
		d.Pins = append(d.Pins, pin[0])
	}
	return d
}

// nodeOf is the node of a NIC, −1 where it is not known.
func nodeOf(h *facts.Host, nic string) int {
	for _, n := range h.NICs {
		if n.Name == nic {
			return n.Node
		}
	}
	return -1
}

// TapQueues is how many queues a tap can have (drivers/net/tun.c, MAX_TAP_QUEUES).
const TapQueues = 256

// Tapped reports whether an interface's packets pass a tap on this host: not those of passed-through functions, nor
// those that another process carries.
func Tapped(i facts.Interface) bool {
	return slices.Contains([]string{"bridge", "network", "ethernet", "direct"}, i.Type)
}

// budget is how many queues one guest NIC may have so that all vhost threads together do not outnumber half of the
// host's CPUs (the founding measurement gave half of the CPUs to vhost, and no more), at least 1.
func budget(ask Ask) int {
	nics := 0
	for _, g := range ask.Guests {
		for _, n := range g.NICs {
			if !n.VF {
				nics++
			}
		}
	}
	cpus := 0 // vhost threads stay off isolated ones
	for _, c := range ask.CPUs {
		if !ask.aside(c) {
			cpus++
		}
	}
	if nics == 0 {
		return cpus / 2
	}
	return max(1, cpus/2/nics)
}

// Queues is how many queues a guest NIC should have: the range that is worth trying, and what to write where the value
// is outside of it. Measured for 9 vCPUs: 4 to 9 queues; fewer vCPUs want a queue each.
func Queues(ask Ask, vcpus int) (least, most, write int) {
	most = max(1, min(vcpus, TapQueues))
	share := min(budget(ask), most)
	least = min(4, most, share)
	return least, most, max(least, share)
}
