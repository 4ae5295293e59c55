package queuepath

import (
	"slices"

	"mpps/internal/model/facts"
	"mpps/internal/model/reach"
	"mpps/internal/model/setting"
)

// nearlyAll is the share of a tap's packets from which on a named NIC is steered without the tap's other NICs.
const nearlyAll = 0.9

// leavingPackets counts the packets that were seen to leave the host, by tap and device, without those for guests. If
// packets leave by NICs, a veth leads to a container; without NICs it may stand for one, as it does if it was named.
func leavingPackets(o *Observation, named string) map[string]map[string]uint64 {
	if o == nil {
		return nil
	}
	all := map[string]map[string]uint64{}
	wire := map[string]*Device{}
	for d := range facts.Each(o.Devices) {
		if d.Terminal() && !d.guest() {
			wire[d.Name] = d
		}
	}
	nic := false
	for r := range facts.Each(o.Rows) {
		d := wire[r.To.Device]
		if d == nil || r.To.Direction != Tx || r.First() {
			continue
		}
		count(all, r.Origin.Device, d.Name, r.Packets)
		nic = nic || d.Kind == "nic" && all[r.Origin.Device][d.Name] >= leastSent
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

// findNICs sets which NICs each tap's packets leave by, and returns these NICs. A tap that sent too little to tell,
// such as broadcasts that left everywhere, belongs to the NIC that most of them left by, if other taps use it too.
func (s *steerer) findNICs() (used map[string]bool) {
	s.behind, used = map[string][]string{}, map[string]bool{}
	var quiet []string
	for _, t := range s.host.Taps {
		if t.Type != "tap" || !t.Up || s.paths.ProcessSwitch(t.Name) != "" {
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

// nics returns the NICs that a tap's packets leave by: those below its bridge, of Linux or of Open vSwitch. Below a
// tunnel whose underlay is not known, an Open vSwitch without its database or a route none are known: then those where
// its packets were seen to leave, or if it is silent those where it has lanes, or if it is a bridge's port the named
// NIC.
func (s *steerer) nics(t facts.Tap) []string {
	if found := s.paths.NICs(s.paths.Master(t.Name)); len(found) > 0 {
		return found
	}
	standing := s.standingNICs(t)
	found := s.seenNICs(t, standing)
	if len(found) == 0 {
		found = standing
	}
	if len(found) == 0 && s.options.NIC != "" && t.Master != "" {
		return []string{s.options.NIC}
	}
	return found
}

// seenNICs returns the NICs that a good part of a tap's packets was seen to leave by, without those that only a
// broadcast left by. It returns only the named NIC if nearly all leave by it, unless the tap has lanes at another one:
// a packet carries one number for all.
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

// standingNICs returns the NICs whose lanes name a tap.
func (s *steerer) standingNICs(t facts.Tap) []string {
	name, found := s.sender(t).Tap, []string{}
	for _, nic := range s.options.Standing {
		r := s.host.Readings.At(setting.Of(setting.QueueLanes, nic))
		if r.State != setting.Known {
			continue
		}
		lanes, err := setting.ParseLanes(r.Value)
		if err == nil && slices.ContainsFunc(lanes,
			func(l setting.Lane) bool { return l.Tap == t.Name || l.Tap == name }) {
			found = append(found, nic)
		}
	}
	return found
}

// ProcessSwitches returns the bridges with taps of guests whose packets a process switches, each once: they pass no
// queue of the kernel between tap and NIC.
func ProcessSwitches(h *facts.Host) (bridges []string) {
	paths := reach.Of(h)
	for _, t := range h.Taps {
		if b := paths.ProcessSwitch(t.Name); b != "" && !slices.Contains(bridges, b) {
			bridges = append(bridges, b)
		}
	}
	return bridges
}
