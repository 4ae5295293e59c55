package placement

import (
	"slices"

	"mpps/internal/model/facts"
)

// Paths finds the physical NICs behind devices, through bridges, bonds, VLANs and overlays.
type Paths struct {
	below   map[string][]string // device → devices below it
	nics    map[string]bool
	master  map[string]string // tap → bridge
	carries map[string]bool
}

// PathsOf returns the paths of a host.
func PathsOf(h *facts.Host) Paths {
	p := Paths{below: map[string][]string{}, nics: map[string]bool{}, master: map[string]string{},
		carries: map[string]bool{}}
	for _, n := range h.NICs {
		p.nics[n.Name] = true
		if n.Master != "" {
			p.below[n.Master] = append(p.below[n.Master], n.Name)
		}
	}
	for _, t := range h.Tunnels {
		if t.Lower != "" {
			p.below[t.Name] = append(p.below[t.Name], t.Lower)
		}
		if t.Master != "" {
			p.below[t.Master] = append(p.below[t.Master], t.Name)
		}
	}
	for _, t := range h.Taps {
		p.master[t.Name] = t.Master
	}
	for _, b := range h.Bridges {
		p.below[b.Name] = append(p.below[b.Name], b.Ports...)
	}

	for _, b := range h.Bridges {
		for _, nic := range p.NICs(b.Name) {
			p.carries[nic] = true
		}
	}
	for _, g := range h.Guests {
		for _, i := range g.NICs() {
			for _, nic := range p.Behind(i) {
				p.carries[nic] = true
			}
		}
	}
	if len(p.carries) == 0 { // no guest has a network yet: any NIC but the management one may get to carry it
		for _, n := range h.NICs {
			if n.Management == "" {
				p.carries[n.Name] = true
			}
		}
	}
	return p
}

// NICs returns the physical NICs behind a device, sorted. A NIC is behind itself.
func (p Paths) NICs(device string) []string {
	var found []string
	seen := map[string]bool{}
	var descend func(string)
	descend = func(name string) {
		if seen[name] || name == "" {
			return
		}
		seen[name] = true
		if p.nics[name] {
			found = append(found, name)
		}
		for _, lower := range p.below[name] {
			descend(lower)
		}
	}
	descend(device)
	slices.Sort(found)
	return found
}

// Behind returns the physical NICs behind a guest's interface: below the bridge or device in its definition, or, for
// libvirt networks, below the bridge of its tap while the guest runs.
func (p Paths) Behind(i facts.Interface) []string {
	if found := p.NICs(i.Source); len(found) > 0 {
		return found
	}
	return p.NICs(p.master[i.Tap])
}

// Carries reports whether a NIC carries guests' packets.
func (p Paths) Carries(nic string) bool { return p.carries[nic] }
