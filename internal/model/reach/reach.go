// Package reach finds how each guest's NIC reaches the wire: through which devices of the host, to which NICs, and
// whether that is a path that mpps can judge. What it cannot establish it says; it never guesses.
package reach

import (
	"slices"

	"mpps/internal/model/facts"
)

// Kinds of hops that are not the kernel's: a device that is only known as the port of a bridge, the host's network
// layer, which is no device and has no name, and others that are devices of a bus.
const (
	UnknownDevice = "unknown"
	Routing       = "routing"
	// RepresentorPort is a port of a NIC's eSwitch that stands for a function.
	RepresentorPort = "representor"
	VDPADevice      = "vdpa"
)

// Hop is a device that packets pass.
type Hop struct {
	Device string `json:"device"` // empty for the host's network layer
	Kind   string `json:"kind"`   // NIC, representor, tap, bridge, vdpa, or the kernel's kind: vxlan, bond, veth …
	// facts.Namespace.ID of the namespace that has the device, whose names count for themselves; 0: the host's
	Namespace uint64 `json:"namespace,omitempty"`
}

// Here returns the name of a device of the host; empty if it is in another network namespace.
func (hop Hop) Here() string {
	if hop.Namespace != 0 {
		return ""
	}
	return hop.Device
}

// Path is how one NIC of a guest reaches the wire.
type Path struct {
	Guest    string   `json:"guest"`
	MAC      string   `json:"mac"`
	Kinds    []Kind   `json:"kinds"`              // sorted; several where packets can take several ways
	Hops     []Hop    `json:"hops"`               // from the guest outwards, each device once
	NICs     []string `json:"nics"`               // of the host, sorted; empty if there is none, or it is not known
	Function string   `json:"function,omitempty"` // PCI address of a function passed through, or in a namespace
	// the guest runs; otherwise this is the path that its definition gives
	Active bool `json:"active"`
}

// Judged reports whether mpps has rules for every way that packets of a path can take.
func (p *Path) Judged() bool {
	return !slices.ContainsFunc(p.Kinds, func(k Kind) bool { return !k.Judged() })
}

// Has reports whether packets of a path can take a way of a kind.
func (p *Path) Has(k Kind) bool { return slices.Contains(p.Kinds, k) }

// ends reports whether it is known where a path ends: at NICs of the host, in a network without a way out, or at a NIC
// that another namespace has.
func (p *Path) ends() bool {
	return len(p.NICs) > 0 || p.Has(Inner) || slices.ContainsFunc(p.Hops, func(hop Hop) bool {
		return hop.Kind == "NIC" && hop.Namespace != 0
	})
}

// Declined returns the kinds of a path that mpps has no rules for.
func (p *Path) Declined() []Kind {
	return slices.DeleteFunc(slices.Clone(p.Kinds), Kind.Judged)
}

// Map is how the guests of a host reach the wire.
type Map struct {
	Paths []Path
	// paths of active guests that pass a device and are not judged, by device: their kinds, sorted
	declined  map[string][]Kind
	carries   map[string]bool
	functions map[string]bool // PFs of functions that guests have
	unsure    []Kind          // of paths that may pass another NIC, which is not known
	unseen    bool            // there may be guests that were not seen
	ends      []facts.Place   // of active guests' paths, where another namespace begins that was not read
	graph     *graph
}

// Of returns how the guests of a host reach the wire.
func Of(h *facts.Host) *Map {
	m := &Map{declined: map[string][]Kind{}, carries: map[string]bool{},
		functions: map[string]bool{}, graph: newGraph(h)}
	for g := range facts.Each(h.Guests) {
		for _, i := range g.NICs() {
			p, ends := m.graph.path(g, i)
			m.add(p)
			if p.Active {
				m.ends = append(m.ends, ends...)
			}
		}
		for _, pci := range g.Hostdevs {
			named := func(i facts.Interface) bool { return i.Function == pci || i.Source == pci }
			if p, known := m.graph.function(g, pci); known && !slices.ContainsFunc(g.NICs(), named) {
				m.add(p)
			}
		}
	}
	m.addPollers(h)
	m.addBridges(h)
	m.unseen = slices.ContainsFunc(h.Unseen, func(u facts.Unseen) bool { return u.Part == facts.UnseenGuests })
	return m
}

func (m *Map) add(p Path) {
	m.Paths = append(m.Paths, p)
	// the PF's own queues do not carry a function
	through := slices.Equal(p.Kinds, []Kind{Function}) || p.Function != ""
	for _, nic := range p.NICs {
		if through {
			m.functions[nic] = true
		} else {
			m.carries[nic] = true
		}
	}
	for _, k := range p.Kinds {
		unknown := !p.ends() && k != VhostUser || k == Unresolved
		if unknown && !through && !slices.Contains(m.unsure, k) {
			m.unsure = append(m.unsure, k)
		}
	}
	if !p.Active {
		return
	}
	for _, k := range p.Declined() {
		for _, hop := range p.Hops {
			m.decline(hop.Here(), k)
		}
		for _, nic := range p.NICs {
			m.decline(nic, k)
		}
	}
}

func (m *Map) decline(device string, k Kind) {
	if device != "" && !slices.Contains(m.declined[device], k) {
		m.declined[device] = append(m.declined[device], k)
		slices.Sort(m.declined[device])
	}
}

// addPollers declines the NICs that a polling process shares with the kernel.
func (m *Map) addPollers(h *facts.Host) {
	for _, p := range h.Pollers {
		for _, nic := range p.NICs {
			m.carries[nic] = true
			m.decline(nic, PolledUnseen)
		}
	}
}

// addBridges counts NICs of bridges as those of guests that are yet to come. Where no guest has a network yet, that is
// every NIC that is not the operator's way in.
func (m *Map) addBridges(h *facts.Host) {
	for _, b := range h.Bridges {
		for _, nic := range m.NICs(b.Name) {
			m.carries[nic] = true
		}
	}
	if len(m.carries) > 0 || slices.ContainsFunc(m.Paths, func(p Path) bool { return p.Active }) {
		return
	}
	for _, n := range h.NICs {
		if n.Management == "" {
			m.carries[n.Name] = true
		}
	}
}

// Ends returns where paths of active guests lead to network namespaces that were not read: a device of the host or of
// one that was.
func (m *Map) Ends() []facts.Place { return m.ends }

// Passes reports whether paths of active guests pass a network namespace.
func (m *Map) Passes(namespace uint64) bool {
	return slices.ContainsFunc(m.Paths, func(p Path) bool {
		return p.Active && slices.ContainsFunc(p.Hops, func(hop Hop) bool { return hop.Namespace == namespace })
	})
}

// Carries reports whether a NIC's queues carry guests' packets. It is No only where every guest's path is known and
// none passes them.
func (m *Map) Carries(nic string) facts.Answer {
	switch {
	case m.carries[nic]:
		return facts.Yes
	case m.Unsure() != "":
		return ""
	}
	return facts.No
}

// PassesFunctions reports whether guests have functions of a PF.
func (m *Map) PassesFunctions(pf string) bool { return m.functions[pf] }

// Declined returns the kinds of the paths that pass a device and that mpps does not judge; none if it judges them all.
func (m *Map) Declined(device string) []Kind { return m.declined[device] }

// DeclinedKinds returns the kinds of all active paths that are not judged, sorted.
func (m *Map) DeclinedKinds() []Kind {
	var all []Kind
	for _, p := range m.NotJudged() {
		all = append(all, p.Declined()...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// NotJudged returns the paths of active guests that are not judged.
func (m *Map) NotJudged() []Path {
	all := []Path{}
	for _, p := range m.Paths {
		if p.Active && !p.Judged() {
			all = append(all, p)
		}
	}
	return all
}

// Unsure returns why it is not known whether a NIC that is on no path carries guests' packets, empty where it is known.
func (m *Map) Unsure() string {
	switch {
	case len(m.unsure) > 0:
		return "a guest uses " + Words(m.unsure)
	case m.unseen:
		return "not all guests could be seen"
	}
	return ""
}

// NICs returns the NICs behind a device of the host, sorted. A NIC is behind itself.
func (m *Map) NICs(device string) []string {
	w := m.graph.walk()
	w.down(device)
	return w.found()
}

// Master returns the bridge, bond or VRF that a device is a port of: of a port of Open vSwitch its bridge, where the
// database tells, not the datapath; empty if there is none.
func (m *Map) Master(device string) string {
	if n := m.graph.nodes[device]; n != nil {
		return n.master
	}
	return ""
}

// Switched reports whether a device is a bridge of Open vSwitch whose ports the database tells.
func (m *Map) Switched(device string) bool {
	o := m.graph.host.OpenVSwitch
	return o.Known() && facts.Find(o.Bridges, func(b *facts.OVSBridge) bool { return b.Name == device }) != nil
}

// ProcessSwitch returns the bridge that a device is a port of, if a process switches its packets (Open vSwitch with
// DPDK or AF_XDP): they pass no queue of the kernel between two ports; empty if it is none.
func (m *Map) ProcessSwitch(device string) string {
	master := m.Master(device)
	if n := m.graph.nodes[master]; n != nil && n.kind == facts.UserDatapath {
		return master
	}
	return ""
}

// From returns the devices between a device and the wire, itself first.
func (m *Map) From(device string) []Hop {
	w := m.graph.walk()
	w.down(device)
	return w.passed()
}

// Behind returns the NICs behind a guest's interface, sorted.
func (m *Map) Behind(i facts.Interface) []string {
	for _, p := range m.Paths {
		if p.MAC == i.MAC && (i.MAC != "" || len(p.Hops) > 0 && p.Hops[0].Here() == i.Tap) {
			return p.NICs
		}
	}
	return nil
}

// JudgesAny reports whether a path is one that mpps judges, or no guest has a path yet.
func (m *Map) JudgesAny() bool {
	active := slices.DeleteFunc(slices.Clone(m.Paths), func(p Path) bool { return !p.Active })
	return len(active) == 0 || slices.ContainsFunc(active, func(p Path) bool { return p.Judged() })
}

// Of returns the paths of a guest's NICs.
func (m *Map) Of(guest string) []Path {
	var own []Path
	for p := range facts.Each(m.Paths) {
		if p.Guest == guest {
			own = append(own, *p)
		}
	}
	return own
}
