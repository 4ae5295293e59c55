package reach

import "mpps/internal/model/facts"

// Function: a function passed through. The host does not see the packets.
const Function Kind = "function"

var function = &Hops{
	Kind: Function, Words: "a function passed through", Judged: true,
	What:  "a function passed through: SR-IOV",
	Needs: []string{"nics", "vfs", "passthrough"},
	Knobs: []string{"sriov.numvfs", "sriov.ready", "sriov.persist", "sriov.attach", "sriov.vf.rate",
		"sriov.vf.spoofchk", "sriov.vf.mac", "sriov.vf.trust", "sriov.vf.vlan", "sriov.vf.link_state",
		"sriov.vf.vectors",
		"sriov.usage", "sriov.guest", "sriov.bridge", "sriov.migrate"},
	Bottlenecks: []string{"vf-rate"},
}

// eswitch returns what packets of a VF pass on the host in switchdev mode, unless the card handles them by a rule that
// was offloaded: its representor, the bridge that this is a port of, and what leads to the wire from there. None in
// legacy mode, where the card switches by MAC address and VLAN.
func (g *graph) eswitch(v *facts.VF) []Hop {
	pf := facts.Find(g.host.NICs, func(n *facts.NIC) bool { return n.Name == v.PF })
	if pf == nil {
		return []Hop{}
	}
	port := facts.Find(g.host.NICs, func(n *facts.NIC) bool { return n.Represents(v, pf) })
	if port == nil {
		return []Hop{}
	}
	w := g.walk()
	w.note(port.Name, g.nodes[port.Name])
	if master := g.nodes[port.Name].master; g.nodes[master] != nil {
		w.down(master)
	}
	return w.passed()
}
