package queuepath

import (
	"slices"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// nearlyAll is the part of a tap's packets from which on a NIC that was named is steered without the others that the
// tap sends by.
const nearlyAll = 0.9

// leaving counts, by tap and device, the packets that were seen to leave the host; those for guests stay in it. A veth
// leads to a container where packets leave by NICs; where there is none it may stand for one, as it does if it was
// named.
func leaving(o *Observation, named string) map[string]map[string]uint64 {
	if o == nil {
		return nil
	}
	all := map[string]map[string]uint64{}
	wire := map[string]*Device{}
	for i := range o.Devices {
		if d := &o.Devices[i]; d.Terminal() && !d.guest() {
			wire[d.Name] = d
		}
	}
	nic := false
	for i := range o.Rows {
		r := &o.Rows[i]
		d := wire[r.To.Device]
		if d == nil || r.To.Direction != Tx || r.First() {
			continue
		}
		by := all[r.Origin.Device]
		if by == nil {
			by = map[string]uint64{}
			all[r.Origin.Device] = by
		}
		by[d.Name] += r.Packets
		nic = nic || d.Kind == "nic" && by[d.Name] >= leastSent
	}
	var j *judge
	for name, d := range wire {
		if d.Kind != "veth" || name == named {
			continue
		}
		if !nic && j == nil {
			j = newJudge(o)
		}
		if nic || j.inward(d) {
			for _, by := range all {
				delete(by, name)
			}
		}
	}
	return all
}

// findNICs notes which NICs each tap's packets leave by, and tells which NICs these are. A tap that sent too little to
// tell, such as a broadcast that came out everywhere, counts where most of that left, if others leave there too.
func (s *steerer) findNICs() (used map[string]bool) {
	s.behind, used = map[string][]string{}, map[string]bool{}
	var quiet []string
	for _, t := range s.host.Taps {
		if t.Type != "tap" || !t.Up {
			continue
		}
		nics := s.nics(t)
		if len(nics) == 0 {
			quiet = append(quiet, t.Name)
		}
		s.behind[t.Name] = nics
		for _, n := range nics {
			used[n] = true
		}
	}
	for _, tap := range quiet {
		by := s.leaves[tap]
		total := sum(by)
		for name, n := range by {
			if used[name] && 2*n > total {
				s.behind[tap] = []string{name}
			}
		}
	}
	return used
}

// nics are the NICs that a tap's packets leave by: what stands below its bridge and, where that is a tunnel without a
// device of its own below it, an Open vSwitch, or no bridge but a route, where its packets were seen to leave, or if it
// is silent where it has lanes. Of a port of a bridge of which nothing is known the NIC that was named counts.
func (s *steerer) nics(t facts.Tap) []string {
	if found := s.paths.NICs(t.Master); len(found) > 0 {
		return found
	}
	standing := s.standing(t)
	found := s.seenNICs(t, standing)
	if len(found) == 0 {
		found = standing
	}
	if len(found) == 0 && s.options.NIC != "" && t.Master != "" {
		return []string{s.options.NIC}
	}
	return found
}

// seenNICs are the NICs that a good part of a tap's packets was seen to leave by: not those that a broadcast came out
// of. One that was named stands alone where nearly all leave by it, unless the tap has lanes at another: a packet
// carries one number for all.
func (s *steerer) seenNICs(t facts.Tap, standing []string) []string {
	by := s.leaves[t.Name]
	total := sum(by)
	elsewhere := slices.ContainsFunc(standing, func(n string) bool { return n != s.options.NIC })
	if n := by[s.options.NIC]; n >= leastSent && float64(n) >= nearlyAll*float64(total) && !elsewhere {
		return []string{s.options.NIC}
	}
	var found []string
	for name, n := range by {
		if n >= leastSent && float64(n) >= leastShare*float64(total) {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return found
}

func sum(packets map[string]uint64) uint64 {
	total := uint64(0)
	for _, n := range packets {
		total += n
	}
	return total
}

// standing are the NICs whose lanes name a tap.
func (s *steerer) standing(t facts.Tap) []string {
	name, found := s.sender(t).Tap, []string{}
	for _, nic := range s.options.Standing {
		r := s.host.Readings.At(setting.Of(setting.QueueLanes, nic))
		if r.State != setting.Known {
			continue
		}
		lanes, err := setting.ParseLanes(r.Value)
		if err == nil && slices.ContainsFunc(lanes, func(l setting.Lane) bool {
			return l.Tap == t.Name ||
				l.Tap == name
		}) {
			found = append(found, nic)
		}
	}
	return found
}
