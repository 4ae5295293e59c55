package gallery

import (
	"slices"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/reach"
	"mpps/internal/model/setting"
)

// kindsOf returns the kinds of the paths of a host's guests, judged or not.
func kindsOf(h *facts.Host) (judged, declined []string) {
	for _, p := range reach.Of(h).Paths {
		for _, k := range p.Kinds {
			to := &declined
			if p.Judged() {
				to = &judged
			}
			if !slices.Contains(*to, string(k)) {
				*to = append(*to, string(k))
			}
		}
	}
	slices.Sort(judged)
	slices.Sort(declined)
	return judged, declined
}

// pathsInWords says by which paths a host's guests reach the wire, and which of these are not judged.
func pathsInWords(h *facts.Host) string {
	judged, declined := kindsOf(h)
	parts := slices.Clone(judged)
	if len(declined) > 0 {
		parts = append(parts, "not judged: "+strings.Join(declined, ", "))
	}
	if len(parts) == 0 {
		return "no guest"
	}
	return strings.Join(parts, "; ")
}

// checkPaths compares the paths with those that the file expects.
func (s *Spec) checkPaths(p problems) {
	if s.Paths == nil {
		return
	}
	m, err := s.build()
	if err != nil {
		return // said already
	}
	judged, declined := kindsOf(m.Host)
	found := slices.Compact(slices.Sorted(slices.Values(slices.Concat(judged, declined))))
	if !slices.Equal(found, s.Paths) {
		p.add(s.Name+" paths", "found %v, expected %v", found, s.Paths)
	}
}

// checkDeclined: a plan changes nothing that serves a path which is not judged, and puts nothing on the CPUs of a
// polling process.
func (s *Spec) checkDeclined(v verdict, p problems) {
	for _, path := range v.paths {
		if path.Judged() || !path.Active {
			continue
		}
		for _, c := range v.plan.Changes {
			if serves(c.Address, path) {
				p.add(s.Name+" declined "+c.ID, "with %q: %s is changed, and the path of guest %s is not judged (%v)",
					v.flags, c.Address, path.Guest, path.Kinds)
			}
		}
	}
	for _, c := range v.plan.Changes {
		kind := c.Address.Kind
		if kind != setting.IRQAffinity && kind != setting.ThreadAffinity && kind != setting.DomainLive {
			continue
		}
		from, _ := setting.ParseCPUs(c.From.Value)
		to, err := setting.ParseCPUs(c.To.Value)
		if more := to.Minus(from).And(v.polled); err == nil && len(more) > 0 {
			p.add(s.Name+" polled "+c.ID, "with %q: %s is to run on CPU %s, which a polling process has", v.flags,
				c.Address, more)
		}
	}
}

// serves reports whether an address belongs to a device, a NIC or the guest's NIC of a path.
func serves(a setting.Address, path reach.Path) bool {
	if a.Kind == setting.ThreadAffinity && a.Object() == path.Guest && strings.Contains(a.Path, "/"+path.MAC+"/") {
		return true
	}
	if guest, mac := a.GuestNIC(); mac != "" {
		return guest == path.Guest && mac == path.MAC
	}
	device := a.Device()
	return device != "" && (slices.Contains(path.NICs, device) || slices.ContainsFunc(path.Hops, func(h reach.Hop) bool {
		return h.Here() == device
	}))
}
