package reach

import (
	"fmt"
	"slices"

	"mpps/internal/model/facts"
)

// keyOf returns the key of a device: its name on the host, and otherwise one that no device has (net/core/dev.c,
// dev_valid_name: none has a slash).
func keyOf(namespace uint64, device string) string {
	if namespace == 0 || device == "" {
		return device
	}
	return fmt.Sprintf("%d/%s", namespace, device)
}

func (n *node) hop() Hop { return Hop{Device: n.name, Kind: n.kind, Namespace: n.space} }

// addNamespace adds the devices of another namespace, and connects those whose other end, or device below, is known.
func (g *graph) addNamespace(n *facts.Namespace) {
	g.routing[n.ID] = n.Routing
	for d := range facts.Each(n.Devices) {
		name := keyOf(n.ID, d.Name)
		one := node{kind: d.Kind, name: d.Name, space: n.ID, nic: d.Kind == "NIC",
			tap: d.Kind == "tap" || d.Kind == "macvtap", stray: d.Up,
			master: keyOf(n.ID, d.Master), peer: keyOf(n.ID, d.Peer),
			elsewhere: d.Elsewhere, pci: d.PCI, program: programmed(d.XDP, d.Classifiers),
			redirects: facts.Map(d.Redirects, func(to string) string { return keyOf(n.ID, to) })}
		if d.Lower != "" {
			one.below = []string{keyOf(n.ID, d.Lower)}
		}
		if d.Beyond != nil {
			one.elsewhere = false
			other := keyOf(d.Beyond.Namespace, d.Beyond.Device)
			if slices.Contains(pairs, d.Kind) {
				one.peer = other
				if peer := g.nodes[other]; peer != nil && peer.space != n.ID {
					peer.peer, peer.elsewhere, peer.unknown = name, false, false
				}
			} else {
				one.below = append(one.below, other)
			}
		}
		one.unknown = len(one.below) == 0 && one.peer == "" && !one.elsewhere && !one.nic && !one.tap &&
			d.Kind != "bridge" && !slices.Contains(ends, d.Kind)
		if i := slices.IndexFunc(g.host.VFs, func(v facts.VF) bool { return d.PCI != "" && v.PCI == d.PCI }); i >= 0 {
			one.pf = g.host.VFs[i].PF
		}
		if d.Kind == "openvswitch" {
			g.internal[d.Name] = name
		}
		g.add(name, one)
	}
}

// pairs are the kinds of devices that come in pairs.
var pairs = []string{"veth", "netkit"}

// arrive ends a walk at a NIC. A VF in another namespace leads to its PF; another NIC there is none of the host's.
func (w *walk) arrive(device string, n *node) {
	switch {
	case n.space == 0:
		w.nics[device] = true
	case n.pf != "":
		w.nics[n.pf], w.pci = true, n.pci
	default:
		w.away = true
	}
}

// leadsAway ends a walk where a namespace begins that was not read.
func (w *walk) leadsAway(n *node) {
	w.passes(Namespace)
	w.passes(Unresolved)
	w.beyond = append(w.beyond, facts.Place{Namespace: n.space, Device: n.name})
}

// cut reports whether a namespace was passed that has further devices: they may lead out of it too.
func (w *walk) cut() bool {
	return slices.ContainsFunc(w.hops, func(hop Hop) bool {
		n := w.host.Namespace(hop.Namespace)
		return n != nil && n.Cut
	})
}

// exit notes a device, reached from another, as one at which packets can leave for its network layer. That of another
// namespace than the other's that leads nowhere else is a neighbour's.
func (w *walk) exit(device string, n, from *node) {
	if r := w.routing[n.space]; n.space == 0 || n.space == from.space || r == nil || w.onward(device, n, r) {
		w.exits = append(w.exits, device)
	}
}

// onward reports whether a namespace may forward what arrives at a device to another.
func (w *walk) onward(device string, n *node, r *facts.Routing) bool {
	return r.Forward != facts.No && slices.ContainsFunc(r.Uplinks, func(to string) bool {
		return keyOf(n.space, to) != device
	})
}

// throughNamespaces takes the exits from an index on that are in other namespaces, and those that they lead to.
func (w *walk) throughNamespaces(at int) {
	for i := at; i < len(w.exits); i++ {
		if n := w.nodes[w.exits[i]]; n.space != 0 && !n.elsewhere {
			w.through(w.exits[i], n, w.routing[n.space])
		}
	}
}

// through walks through the network layer of another namespace.
func (w *walk) through(device string, n *node, r *facts.Routing) {
	switch {
	case r == nil || r.Forward == "":
		if w.alone() {
			w.passes(Unresolved)
		}
		return
	case !w.onward(device, n, r) || !slices.Contains(r.Addressed, n.name) && !n.tap:
		return
	}
	before := len(w.hops)
	w.taken[device] = true
	w.hops = append(w.hops, Hop{Kind: Routing, Namespace: n.space})
	for _, uplink := range r.Uplinks {
		w.down(keyOf(n.space, uplink))
	}
	if len(w.hops) == before+1 { // it leads back
		w.hops, w.taken[device] = w.hops[:before], false
	}
}
