package reach

import (
	"slices"

	"mpps/internal/model/facts"
)

// VDPA: a device that implements virtio's data path.
const VDPA Kind = "vdpa"

var vdpa = &Hops{
	Kind: VDPA, Words: "vDPA", Judged: true,
	What:       "a device that implements virtio's data path: a function of a NIC, or a simulator",
	But:        "not one that a process implements (VDUSE)",
	Interfaces: facts.VDPATypes,
	Needs:      []string{"vdpa", "vfs", "nics"},
	Present: func(h *facts.Host) bool {
		return len(h.VDPA) > 0 || slices.ContainsFunc(h.Guests, func(g facts.Guest) bool {
			return slices.ContainsFunc(g.Interfaces, facts.Interface.VDPA)
		})
	},
	Knobs: []string{"domain.vdpa"},
}

// vdpaPath returns the path of a guest's vDPA device: by the function that implements it, which the host does not see
// the packets of. The simulator hands back what it is sent, so nothing leads out; and what a process that implements a
// device (VDUSE) does with the packets is not seen.
func (g *graph) vdpaPath(guest *facts.Guest, i facts.Interface) Path {
	v := g.host.VDPAOf(i)
	if v == nil {
		w := g.walk()
		w.passes(VDPA)
		w.passes(Unresolved)
		return w.path(guest, i.MAC, false)
	}
	p := g.functionPath(guest, i.MAC, v.PCI)
	switch v.Parent {
	case facts.VDPASimulator:
		p.Kinds = []Kind{Inner, VDPA}
	case facts.VDUSE:
		p.Kinds = []Kind{PolledUnseen, VDPA}
	default:
		p.Kinds = []Kind{VDPA}
	}
	p.Hops = slices.Insert(p.Hops, 0, Hop{Device: v.Name, Kind: VDPADevice})
	if nic := facts.Find(g.host.NICs, func(n *facts.NIC) bool {
		return v.PCI != "" && n.PCI == v.PCI && !n.Representor()
	}); nic != nil && len(p.NICs) == 0 { // a subfunction's
		p.NICs = []string{nic.Name}
	}
	return p
}
