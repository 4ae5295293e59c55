package reach

import (
	"maps"
	"slices"

	"mpps/internal/model/facts"
)

// connectOpenVSwitch puts below each bridge of Open vSwitch what its ports lead to, where the database was read. What
// its flows do with packets is not known: every port may be a way out.
func (g *graph) connectOpenVSwitch(o *facts.OpenVSwitch) {
	if o == nil {
		return
	}
	owner := map[string]string{}     // bridge of each interface
	tunnels := map[string][]string{} // devices of the datapath by kind
	for _, name := range slices.Sorted(maps.Keys(g.nodes)) {
		if n := g.nodes[name]; n.master == facts.OVSDatapath {
			tunnels[n.kind] = append(tunnels[n.kind], name)
		}
	}
	for b := range facts.Each(o.Bridges) {
		kind := "openvswitch"
		if b.Datapath == facts.UserDatapath {
			kind = facts.UserDatapath
		}
		g.nodes[b.Name] = &node{kind: kind, name: b.Name}
		for p := range facts.Each(b.Ports) {
			for _, i := range p.Interfaces {
				owner[i.Name] = b.Name
			}
		}
	}
	for b := range facts.Each(o.Bridges) {
		for p := range facts.Each(b.Ports) {
			for i := range facts.Each(p.Interfaces) {
				g.addPort(b.Name, i, owner, tunnels)
			}
			if p.Fake && g.nodes[p.Name] == nil {
				g.nodes[p.Name] = &node{kind: "openvswitch", name: p.Name}
			}
			if p.Fake && p.Name != b.Name {
				g.nodes[p.Name].below = []string{b.Name}
			}
		}
	}
}

// addPort connects an interface of a bridge.
func (g *graph) addPort(bridge string, i *facts.OVSInterface, owner map[string]string, tunnels map[string][]string) {
	at := g.nodes[bridge]
	switch n := g.nodes[i.Name]; {
	case i.Name == bridge:
	case i.Type == "patch":
		if peer := owner[i.Options["peer"]]; peer != "" {
			at.below = append(at.below, peer)
		}
	case facts.OVSTunnels[i.Type] != nil:
		for _, kind := range facts.OVSTunnels[i.Type] {
			at.below = append(at.below, facts.Where(tunnels[kind], func(name string) bool {
				return !slices.Contains(at.below, name)
			})...)
		}
	case n != nil && i.Type != "internal":
		n.master = bridge
	case n == nil && i.Type == "internal" && g.internal[i.Name] != "": // a router's or a DHCP server's
		g.nodes[g.internal[i.Name]].master = bridge
	}
}
