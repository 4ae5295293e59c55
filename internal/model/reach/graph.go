package reach

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"mpps/internal/model/facts"
)

// node is a device of the host and what it is connected to.
type node struct {
	kind      string // of Hop
	nic       bool
	tap       bool
	master    string   // bridge, bond, VRF or OVS datapath that it is a port of
	below     []string // what its packets leave by: ports of a bridge or bond, the device under a VLAN, the underlay
	peer      string   // other end of a veth
	elsewhere bool     // that end, or the device below, is in another network namespace
	unknown   bool     // where its packets leave is not known
	redirects []string // devices that tc filters send its packets out by
	program   bool     // a BPF program on it chooses where its packets go
	function  bool     // a representor: it leads to a function, as a tap to a guest
	stray     bool     // a tap that no guest is known to have: a VPN, another hypervisor

	name  string // in its namespace
	space uint64 // facts.Namespace.ID; 0: the host's
	dead  bool   // the namespace beyond leads no further
	pci   string // of a NIC in another namespace
	pf    string // its PF, if it is a VF of the host's
}

// graph is the devices of a host by name, and those of other namespaces by the keys that keyOf makes.
type graph struct {
	nodes   map[string]*node
	host    *facts.Host
	routing map[uint64]*facts.Routing // by facts.Namespace.ID; 0: the host's
	// keys of internal ports of Open vSwitch in other namespaces, by name: those of one ovs-vswitchd differ
	internal map[string]string
}

func newGraph(h *facts.Host) *graph {
	g := &graph{nodes: map[string]*node{}, host: h, routing: map[uint64]*facts.Routing{0: h.Routing},
		internal: map[string]string{}}
	for n := range facts.Each(h.NICs) {
		one := node{kind: "NIC", nic: true, master: n.Master}
		if n.Representor() {
			one.kind, one.nic, one.function = RepresentorPort, false, true
		}
		g.add(n.Name, one)
	}
	for _, t := range h.Taps {
		g.add(t.Name, node{kind: cmp.Or(t.Type, "tap"), tap: true, stray: t.Up, master: t.Master, below: list(t.Lower),
			elsewhere: t.Elsewhere, redirects: t.Redirects, program: programmed(t.XDP, t.Classifiers)})
	}
	for _, t := range h.Tunnels {
		below := slices.Concat(list(t.Lower), t.Underlay)
		g.add(t.Name, node{kind: t.Type, master: t.Master, below: below, elsewhere: t.Elsewhere,
			unknown: len(below) == 0 && !t.Elsewhere && overlay(t.Type)})
	}
	for _, l := range h.Links {
		below := slices.Concat(list(l.Lower), l.Underlay)
		g.add(l.Name, node{kind: l.Kind, master: l.Master, below: below, peer: l.Peer, elsewhere: l.Elsewhere,
			dead: l.DeadEnd, program: len(l.Programs) > 0,
			unknown: len(below) == 0 && l.Peer == "" && !l.Elsewhere && !slices.Contains(ends, l.Kind)})
	}
	for _, b := range h.Bridges {
		g.add(b.Name, node{kind: "bridge"})
	}
	for n := range facts.Each(h.Namespaces) {
		g.addNamespace(n)
	}
	g.connect(h)
	return g
}

func (g *graph) add(name string, n node) {
	if name != "" && g.nodes[name] == nil { // the first of the same name wins
		n.name = cmp.Or(n.name, name)
		g.nodes[name] = &n
	}
}

// connect makes ports what is below their masters. Every internal port of Open vSwitch is connected to its datapath,
// though it has no master (net/openvswitch/vport-internal_dev.c), if the database does not tell the bridges' ports.
func (g *graph) connect(h *facts.Host) {
	g.connectOpenVSwitch(h.OpenVSwitch)
	for _, name := range slices.Sorted(maps.Keys(g.nodes)) {
		n := g.nodes[name]
		if n.kind == "openvswitch" && name != facts.OVSDatapath && !h.OpenVSwitch.Known() {
			n.below = append(n.below, facts.OVSDatapath)
			g.add(facts.OVSDatapath, node{kind: "openvswitch"})
		}
		if master := g.nodes[n.master]; master != nil && master.kind != "vrf" {
			master.below = append(master.below, name)
		}
	}
	taps := map[string]bool{}
	for guest := range facts.Each(h.Guests) {
		for _, i := range guest.NICs() {
			taps[guest.TapHere(&i)] = true
			if n := g.nodes[keyOf(guest.SpaceOf(&i), i.Tap)]; n != nil {
				n.stray = false
			}
		}
	}
	for _, b := range h.Bridges {
		n := g.nodes[b.Name]
		have := map[string]bool{}
		for _, port := range n.below {
			have[port] = true
		}
		for _, port := range b.Ports {
			if !have[port] {
				have[port], n.below = true, append(n.below, port)
			}
			if taps[port] {
				g.add(port, node{kind: "tap", tap: true})
			}
			g.add(port, node{kind: UnknownDevice})
			g.nodes[port].master = cmp.Or(g.nodes[port].master, b.Name)
		}
	}
}

// ends are the kinds of devices that nothing need be under: packets end there, or leave by ports, which are listed. A
// device of any other kind, such as a tunnel of layer 3, has a way on that is not seen.
var ends = []string{"veth", "netkit", "team", "openvswitch", "vrf", "dummy", "ifb", "bond"}

// programmed reports whether a BPF program sees what arrives at a tap before the network layer does. At a port of a
// bridge it is taken for one that filters or measures.
func programmed(xdp bool, classifiers []string) bool {
	return xdp || slices.Contains(classifiers, "bpf")
}

// overlay reports whether a tunnel's packets leave by a route of the host where it is bound to no device.
func overlay(kind string) bool { return kind != "vlan" && kind != "bond" }

func list(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// path returns the path of a guest's NIC, and where it leads to namespaces that were not read. That of a
// guest that does
// not run starts where its definition says.
func (g *graph) path(guest *facts.Guest, i facts.Interface) (Path, []facts.Place) {
	w, tap := g.walk(), keyOf(guest.SpaceOf(&i), i.Tap)
	switch {
	case i.Function != "" || i.Type == "hostdev":
		return g.functionPath(guest, i.MAC, cmp.Or(i.Function, i.Source)), nil
	case i.Backend == "passt":
		w.passes(UserMode)
	case ofInterface(i.Type) == VhostUser:
		w.vhostUserPath(i)
	case ofInterface(i.Type) == VDPA:
		return g.vdpaPath(guest, i), nil
	case ofInterface(i.Type) != "":
		w.passes(ofInterface(i.Type))
		if i.Type == "af-xdp" && w.nodes[i.Source] != nil {
			w.enter(i.Source)
		}
	case guest.Away(&i) && (guest.SpaceOf(&i) == 0 || g.nodes[tap] == nil):
		w.passes(Namespace)
		w.passes(Unresolved)
	case g.nodes[tap] != nil:
		if i.VirtualPort == "openvswitch" && w.nodes[tap].master == "" { // the datapath may be a process
			w.passes(Unresolved)
		}
		w.start(tap)
	case (i.Type == "bridge" || i.Type == "direct") && g.nodes[i.Source] != nil:
		w.enter(i.Source)
	}
	return w.path(guest, i.MAC, i.Type == "direct"), w.beyond
}

// function returns the path of a passed-through device; false if it is no network function that the host knows.
func (g *graph) function(guest *facts.Guest, pci string) (Path, bool) {
	p := g.functionPath(guest, "", pci)
	return p, len(p.NICs) > 0
}

func (g *graph) functionPath(guest *facts.Guest, mac, pci string) Path {
	p := Path{Guest: guest.Name, MAC: mac, Kinds: []Kind{Function}, Hops: []Hop{}, NICs: []string{},
		Function: pci, Active: guest.Active()}
	for v := range facts.Each(g.host.VFs) {
		if pci != "" && v.PCI == pci && v.PF != "" {
			p.NICs, p.Hops = []string{v.PF}, g.eswitch(v)
		}
	}
	return p
}

// walk starts a walk from a guest to the wire.
func (g *graph) walk() *walk {
	return &walk{graph: g, hops: []Hop{}, seen: map[string]bool{}, leads: map[string]bool{}, nics: map[string]bool{},
		kinds: map[Kind]bool{}, ends: map[string][]string{}, taken: map[string]bool{}}
}

// walk is a walk from a guest to the wire.
type walk struct {
	*graph
	seen   map[string]bool
	leads  map[string]bool // devices that a way out was found beyond
	hops   []Hop
	nics   map[string]bool
	kinds  map[Kind]bool
	beyond []facts.Place // where namespaces begin that were not read
	pci    string        // of a VF that is in another namespace
	away   bool          // another namespace has the NIC
	// devices at which packets can leave for the host's network layer or another namespace: other ends of the same
	// network, unless nothing else leads out of it
	exits []string
	ends  map[string][]string // of hops that lead to exits alone
	taken map[string]bool     // exits by which a path leaves
	// from the bridges passed to others of the same namespace that nothing leads out of but, maybe, their own ports
	asides [][]string
	stray  bool // a tap of no guest was reached: whatever has it may lead on
}

func (w *walk) passes(k Kind) { w.kinds[k] = true }

// onlySwitched reports whether nothing but bridges, of the kernel or of Open vSwitch, was passed.
func (w *walk) onlySwitched() bool {
	return len(w.kinds) == 0 || len(w.kinds) == 1 && w.kinds[OpenVSwitch]
}

// alone reports whether nothing was found yet that leads out of a network of bridges.
func (w *walk) alone() bool { return w.onlySwitched() && len(w.nics) == 0 && !w.away }

// start walks from a tap.
func (w *walk) start(tap string) {
	n := w.nodes[tap]
	w.note(tap, n)
	redirected := false
	for _, device := range n.redirects {
		if to := w.nodes[device]; to != nil && to.kind == "ifb" {
			w.note(device, to) // it gives them back (drivers/net/ifb.c, ifb_ri_tasklet)
			continue
		}
		w.enter(device)
		redirected = true
	}
	switch master := w.nodes[n.master]; {
	case n.kind == "macvtap" || !n.tap:
		if n.elsewhere {
			w.leadsAway(n)
		}
		for _, lower := range n.below {
			w.down(lower)
		}
	case n.master != "" && (master == nil || master.kind != "vrf"):
		w.enter(n.master)
		if redirected { // what the filters do not match
			w.passes(Unresolved)
		}
	case redirected:
		if len(w.nics) > 0 { // no rules for taps without a bridge
			w.passes(Unresolved)
		}
	case n.program:
		w.passes(Unresolved)
	default:
		w.exits = append(w.exits, tap)
	}
}

// enter walks into a device that a packet arrives at from a guest's side.
func (w *walk) enter(device string) {
	if w.nodes[device] == nil {
		w.passes(Unresolved)
		return
	}
	w.down(device)
	if w.nodes[device].kind == "bridge" {
		w.exits = append(w.exits, device)
	}
}

// leave takes the exits of a network that nothing else leads out of: first those of the bridges passed, then those of
// bridges that pairs lead to.
func (w *walk) leave() {
	w.leaveFrom(0)
	for _, aside := range w.asides {
		if !w.alone() {
			break
		}
		hops, exits := len(w.hops), len(w.exits)
		for _, device := range aside {
			w.hops = append(w.hops, w.nodes[device].hop())
		}
		w.exits = append(w.exits, aside[len(aside)-1])
		if w.leaveFrom(exits); w.alone() {
			w.hops = w.hops[:hops]
		}
	}
	switch {
	case len(w.exits) == 0 || !w.alone():
	case w.stray:
		w.passes(Unresolved)
	default:
		w.passes(Inner)
	}
}

// leaveFrom takes the exits from an index on. What another namespace forwards is one way more wherever it is: a
// router's.
func (w *walk) leaveFrom(at int) {
	w.throughNamespaces(at)
	if !w.alone() {
		return
	}
	for _, device := range w.exits[at:] {
		n := w.nodes[device]
		switch r := w.routing[n.space]; {
		case n.elsewhere && !n.dead:
			w.leadsAway(n)
		case n.space != 0 || n.dead:
		case r == nil, n.kind == UnknownDevice:
			w.passes(Unresolved)
		case r.Forward != facts.No && (slices.Contains(r.Addressed, device) || n.tap):
			w.passes(Routed)
			w.taken[device] = true
			w.hops = append(w.hops, Hop{Kind: Routing})
			for _, uplink := range r.Uplinks {
				w.down(uplink)
			}
		case r.Forward == "":
			w.passes(Unresolved)
		}
	}
}

// down walks from a device towards the wire.
func (w *walk) down(device string) {
	n := w.nodes[device]
	if n == nil || w.seen[device] || n.tap || n.function { // it leads to another guest
		w.stray = w.stray || n != nil && n.stray && !w.seen[device]
		return
	}
	at := len(w.hops)
	w.note(device, n)
	if kind := ofDevice(n.kind); kind != "" {
		w.passes(kind)
	}
	switch {
	case n.nic:
		w.arrive(device, n)
		return
	case n.unknown:
		w.passes(Unresolved)
	case n.elsewhere, n.kind == UnknownDevice:
		w.exits = append(w.exits, device)
	case n.peer != "":
		w.link(device, n, at)
		return
	case device == facts.OVSDatapath && w.host.OpenVSwitch.Known(): // by a port that the database does not have
		w.passes(Unresolved)
	case n.kind == "openvswitch" && w.host.OpenVSwitch.Known(): // its own port may have an address
		w.exits = append(w.exits, device)
	}
	if n.space != 0 && n.kind == "openvswitch" { // a router's port: what is forwarded by it arrives at its bridge
		w.down(n.master)
	}
	before := w.ways()
	for _, lower := range n.below {
		w.down(lower)
	}
	w.leads[device] = w.ways() > before
}

// link walks a veth pair from one of its ends, whose hop is at an index. It is passed if there is a way out beyond it,
// or beside another pair to a device that has one. Otherwise it leads to another guest's bridge, say, or back.
func (w *walk) link(device string, n *node, at int) {
	before, exits, asides := w.ways(), len(w.exits), len(w.asides)
	if w.cross(n.peer, n); w.ways() > before {
		if found := w.exits[exits:]; w.ways()-before == len(found) {
			w.leadTo(w.hops[at:], found)
		}
		return
	}
	w.setAside(w.hops[at:], asides)
	w.hops = w.hops[:at]
	peer := w.nodes[n.peer]
	if peer == nil || !w.leads[peer.master] {
		w.seen[device], w.seen[n.peer] = false, false // the pair may lead out from its other end
		return
	}
	to := slices.IndexFunc(w.hops, func(hop Hop) bool { return keyOf(hop.Namespace, hop.Device) == peer.master })
	w.hops = slices.Insert(w.hops, max(to, 0), n.hop(), peer.hop())
}

// leadTo notes that hops lead to nothing but exits.
func (w *walk) leadTo(hops []Hop, exits []string) {
	for _, hop := range hops {
		if key := keyOf(hop.Namespace, hop.Device); w.ends[key] == nil {
			w.ends[key] = slices.Clone(exits)
		}
	}
}

// setAside keeps the hops over a pair that leads to a bridge, and puts them before those that were set aside beyond it.
func (w *walk) setAside(hops []Hop, beyond int) {
	at := slices.IndexFunc(hops, func(hop Hop) bool { return hop.Kind == "bridge" })
	if at < 0 {
		return
	}
	over := facts.Map(hops[:at+1], func(hop Hop) string { return keyOf(hop.Namespace, hop.Device) })
	for i, aside := range w.asides[beyond:] {
		w.asides[beyond+i] = slices.Concat(over, aside)
	}
	w.asides = append(w.asides, over)
}

// ways returns how many ways out were found.
func (w *walk) ways() int { return len(w.nics) + len(w.exits) + len(w.kinds) + len(w.beyond) }

// cross walks out of the other end of a veth.
func (w *walk) cross(peer string, from *node) {
	n := w.nodes[peer]
	if n == nil {
		w.passes(Unresolved)
		return
	}
	if w.seen[peer] {
		return
	}
	w.note(peer, n)
	master := w.nodes[n.master]
	switch {
	case n.program:
		w.passes(Unresolved)
	case master == nil || master.kind == "vrf":
		w.exit(peer, n, from)
	default:
		w.down(n.master)
		if from.space != n.space && master.kind == "bridge" { // its own port may have an address
			w.exit(n.master, master, from)
		}
	}
}

func (w *walk) note(device string, n *node) {
	w.seen[device] = true
	w.hops = append(w.hops, n.hop())
}

// passed returns the hops. A pair to another namespace is none where a NIC was found: it leads to a container, say,
// beside the guest. So is one whose other end the host has for itself.
func (w *walk) passed() []Hop {
	return slices.DeleteFunc(slices.Clone(w.hops), func(hop Hop) bool {
		key := keyOf(hop.Namespace, hop.Device)
		leaves := slices.ContainsFunc(w.ends[key], func(exit string) bool { return w.taken[exit] })
		return len(w.nics) > 0 && (w.ends[key] != nil && !leaves ||
			slices.Contains(pairs, hop.Kind) && w.nodes[key].elsewhere)
	})
}

func (w *walk) found() []string {
	found := slices.AppendSeq(make([]string, 0, len(w.nics)), maps.Keys(w.nics))
	slices.Sort(found)
	return found
}

func (w *walk) path(guest *facts.Guest, mac string, direct bool) Path {
	if w.cut() {
		w.passes(Unresolved)
	}
	if w.onlySwitched() {
		w.leave()
	}
	p := Path{Guest: guest.Name, MAC: mac, Hops: w.passed(), NICs: w.found(), Function: w.pci, Active: guest.Active()}
	there := slices.ContainsFunc(p.Hops, func(hop Hop) bool { return hop.Namespace != 0 })
	if len(w.kinds) == 0 {
		switch {
		case !p.ends():
			w.passes(Unresolved)
		case direct || len(p.Hops) > 0 && slices.Contains([]string{"macvtap", "ipvtap"}, p.Hops[0].Kind):
			w.passes(Macvtap)
		case !there || slices.ContainsFunc(p.Hops, func(hop Hop) bool {
			return hop.Kind == "bridge" && hop.Namespace == 0
		}):
			w.passes(Bridged)
		}
	}
	if there {
		w.passes(Namespace)
	}
	p.Kinds = slices.Sorted(maps.Keys(w.kinds))
	return p
}
