package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/reach"
	"mpps/internal/words"
)

// Way is how some guests reach the wire.
type Way struct {
	Shared   []Station // the wire first; the same for all
	Joined   bool      // the branches meet in the last of Shared; otherwise each function of a NIC has its own way
	Branches []Branch
	Alike    []string // ways that differ from this one in names alone, and are not listed
	Declined string   // what mpps has no rules for; empty: nothing
}

// Branch is the part of a way that belongs to one NIC of a guest alone: tap, back end, guest.
type Branch struct {
	Stations []Station
	Alike    []string // guests that differ in names, addresses and CPUs alone, and are not listed
}

// Limits for lists of similar things.
const (
	mostAlike = 5
	mostWays  = 2
)

// fold returns how many of n things that are alike are listed: at most so many, unless all or only one more.
func fold(n, most int, all bool) int {
	if all || n <= most+1 {
		return n
	}
	return most
}

// Ways returns the ways of a host's guests, and the bridges without guests as ways without branches. It lists similar
// ones once, unless all is set. on holds the devices and guests that are on any of them, listed or not.
func Ways(h *facts.Host, all bool) (ways []Way, on map[string]bool) {
	on = map[string]bool{}
	m, named := reach.Of(h), devicesOf(h)
	used := slices.DeleteFunc(m.Paths, func(p reach.Path) bool {
		return len(p.Hops) == 0 && len(p.NICs) == 0 && !p.Active
	})
	for _, alike := range Group(Group(used, wayKey), func(way []reach.Path) string { return wayShape(named, way) }) {
		listed := fold(len(alike), mostWays, all)
		for i, paths := range alike {
			mark(paths, on)
			if i < listed {
				ways = append(ways, wayOf(named, paths, all))
				continue
			}
			last := &ways[len(ways)-1]
			last.Alike = append(last.Alike, wayName(paths))
		}
	}
	return append(ways, emptyWays(named, m, on, all)...), on
}

// emptyWays returns the bridges without guests as ways without branches, and adds their devices to those on one.
func emptyWays(h *devices, m *reach.Map, on map[string]bool, all bool) (ways []Way) {
	var empty [][]reach.Hop
	bridges := facts.Map(h.Bridges, func(b facts.Bridge) string { return b.Name })
	for _, name := range slices.Concat(bridges, emptySwitches(h.OpenVSwitch, h.NICs)) {
		if on[name] {
			continue
		}
		empty = append(empty, m.From(name))
		for _, hop := range empty[len(empty)-1] {
			on[hop.Here()] = true
		}
	}
	listed := fold(len(empty), mostWays, all)
	for i, hops := range empty {
		if i < listed {
			ways = append(ways, Way{Shared: sharedStations(h, hops), Joined: true,
				Branches: programTaps(h, hops[0].Device, all)})
			continue
		}
		last := &ways[len(ways)-1]
		last.Alike = append(last.Alike, hops[0].Device)
	}
	return ways
}

// programTaps returns the taps of a bridge without guests.
func programTaps(h *devices, bridge string, all bool) (found []Branch) {
	taps := facts.Where(h.Taps, func(t facts.Tap) bool { return t.Master == bridge })
	listed := fold(len(taps), mostAlike, all)
	for _, t := range taps[:listed] {
		found = append(found, Branch{Stations: []Station{{Kind: "tap", Name: t.Name,
			Text: words.Join(", ", "of no guest that was found", words.Count(t.RxQueues, "queue"),
				tapProgramText(t.XDP, t.Classifiers))}}})
	}
	if len(found) > 0 {
		found[listed-1].Alike = words.Each(taps[listed:], func(t facts.Tap) string { return t.Name })
	}
	return found
}

// mark marks the devices and guests of paths.
func mark(paths []reach.Path, on map[string]bool) {
	for _, p := range paths {
		for _, hop := range p.Hops {
			on[hop.Here()] = true
		}
		for _, nic := range p.NICs {
			on[nic] = true
		}
		on["guest "+p.Guest] = true
	}
}

// wayOf returns the way of paths that share it.
func wayOf(named *devices, paths []reach.Path, all bool) Way {
	first := paths[0]
	shared := sharedStations(named, outward(first.Hops))
	way := Way{Shared: shared, Joined: len(shared) > 0 || len(first.Hops) > 0 && len(first.NICs) == 0}
	if len(shared) == 0 {
		for _, nic := range first.NICs {
			way.Shared = append(way.Shared, Station{Kind: "NIC", Name: nic, Text: "physical function"})
		}
	}
	if declined := first.Declined(); len(declined) > 0 {
		way.Declined = reach.Words(declined)
	}
	for _, alike := range Group(paths, func(p reach.Path) string { return pathShape(named, p) }) {
		listed := words.Either(!all && len(paths) > mostAlike, 1, len(alike))
		for _, p := range alike[:listed] {
			way.Branches = append(way.Branches, Branch{Stations: pathStations(named, p)})
		}
		last := &way.Branches[len(way.Branches)-1]
		last.Alike = words.Each(alike[listed:], func(p reach.Path) string { return p.Guest })
	}
	return way
}

// wayShape is the same for ways that differ in names alone: the kinds of their stations, and of their guests.
func wayShape(h *devices, way []reach.Path) string {
	key := []string{fmt.Sprint(way[0].Kinds)}
	for _, hop := range outward(way[0].Hops) {
		key = append(key, hop.Kind)
	}
	for _, alike := range Group(way, func(p reach.Path) string { return pathShape(h, p) }) {
		key = append(key, pathShape(h, alike[0]), words.Either(len(alike) > 1, "several", "one"))
	}
	return strings.Join(key, "|")
}

// pathShape is the same for guests' NICs that differ in names, addresses and CPUs alone.
func pathShape(h *devices, p reach.Path) string {
	g := h.guests[p.Guest]
	i, found := h.vnics[vnic{p.Guest, p.MAC}]
	if !found {
		return fmt.Sprint(p.Kinds, g.State)
	}
	return fmt.Sprint(p.Kinds, g.State, g.Job, g.VCPUs, len(vcpuSeats(h.Host, g)) > 0, len(g.Pending) > 0, i.Model,
		i.Type, i.Backend, i.Queues)
}

// wayName names a way that is not drawn: the device nearest to its guests, or its NICs.
func wayName(way []reach.Path) string {
	if hops := outward(way[0].Hops); len(hops) > 0 {
		return hops[0].Device
	}
	return cmp.Or(strings.Join(way[0].NICs, "+"), way[0].Guest)
}

// wayKey is the same for paths that differ in the tap alone.
func wayKey(p reach.Path) string {
	key := []string{fmt.Sprint(p.Kinds), strings.Join(p.NICs, ",")}
	for _, hop := range outward(p.Hops) {
		key = append(key, hop.Device)
	}
	return strings.Join(key, " ")
}

// own are the kinds of hops that are a guest's alone.
var own = []string{"tap", "macvtap", reach.VhostUserPort, reach.VDPADevice, reach.RepresentorPort}

// outward returns a path's hops beyond the guest's own: its tap, vhost-user port, vDPA device or representor.
func outward(hops []reach.Hop) []reach.Hop {
	for len(hops) > 0 && slices.Contains(own, hops[0].Kind) {
		hops = hops[1:]
	}
	return hops
}

// sharedStations returns NICs, then what is between them and the guests, the wire first.
func sharedStations(h *devices, hops []reach.Hop) []Station {
	isNIC := func(hop reach.Hop) bool { return hop.Kind == "NIC" }
	nics := slices.SortedFunc(slices.Values(slices.DeleteFunc(slices.Clone(hops), func(hop reach.Hop) bool {
		return !isNIC(hop)
	})), func(a, b reach.Hop) int { return strings.Compare(a.Device, b.Device) })
	between := slices.DeleteFunc(slices.Clone(hops), isNIC)
	slices.Reverse(between)
	return facts.Map(slices.Concat(nics, between), func(hop reach.Hop) Station { return stationOf(h, hop) })
}
