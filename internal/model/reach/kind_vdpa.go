package reach

import (
	"slices"

	"mpps/internal/model/facts"
)

// VDPA: a device that implements virtio's data path.
const VDPA Kind = "vdpa"

var vdpa = &Hops{
	Kind: VDPA, Words: "vDPA",
	What:       "a device that implements virtio's data path: a function of a NIC, or a simulator",
	Interfaces: []string{"vdpa", "vhost-vdpa"},
	Needs:      []string{"vdpa", "vfs", "nics"},
}

// vdpaPath returns the path of a guest's vDPA device: by the function that implements it, which the host does not see
// the packets of. What vdpa_sim_net is sent it hands back, and VDUSE has a process: nothing leads on from there.
func (g *graph) vdpaPath(guest *facts.Guest, i facts.Interface) Path {
	v := facts.Find(g.host.VDPA, func(v *facts.VDPA) bool { return v.Node != "" && v.Node == i.Source })
	if v == nil {
		w := g.walk()
		w.passes(VDPA)
		return w.path(guest, i.MAC, false)
	}
	p := g.functionPath(guest, i.MAC, v.PCI)
	p.Kinds = []Kind{VDPA}
	p.Hops = slices.Insert(p.Hops, 0, Hop{Device: v.Name, Kind: VDPADevice})
	if nic := facts.Find(g.host.NICs, func(n *facts.NIC) bool {
		return v.PCI != "" && n.PCI == v.PCI && !n.Representor()
	}); nic != nil && len(p.NICs) == 0 { // a subfunction's
		p.NICs = []string{nic.Name}
	}
	return p
}
