package report

import (
	"slices"

	"mpps/internal/facts"
	"mpps/internal/measure"
)

// Path makes the stations of a packet's way from a sender on the host's bridge into a guest's first NIC, as they were
// before and are after. A station that looks the same has no After. The losses are those that a run located.
func Path(before, after *facts.Host, guest string, sender string, run *measure.Run) []Stop {
	was, is := guestStops(before, guest), guestStops(after, guest)
	stops := []Stop{{Stage: "sender", Name: "mpps", Before: sender}}
	for i, s := range was {
		if i < len(is) && is[i].Before != s.Before {
			s.After = is[i].Before
		}
		stops = append(stops, s)
	}
	if run == nil {
		return stops
	}
	stops[0].Packets = run.Sent
	for _, loss := range run.Losses {
		at := slices.IndexFunc(stops, func(s Stop) bool { return s.Name == loss.Interface })
		if at >= 0 {
			stops[at].Lost += loss.Packets
		}
	}
	return stops
}

// guestStops are bridge, tap, vhost and guest of a guest's first NIC.
func guestStops(h *facts.Host, name string) []Stop {
	at := slices.IndexFunc(h.Guests, func(g facts.Guest) bool { return g.Name == name })
	if at < 0 || len(h.Guests[at].Interfaces) == 0 {
		return nil
	}
	g := h.Guests[at]
	i := g.Interfaces[0]
	var stops []Stop
	if b := slices.IndexFunc(h.Bridges, func(b facts.Bridge) bool { return b.Name == i.Source }); b >= 0 {
		stops = append(stops, Stop{Stage: "bridge", Name: i.Source, Before: bridgeText(h, h.Bridges[b])})
	}
	stations := slices.DeleteFunc(guestStations(h, g, i), func(s station) bool { return s.kind == "inside" }) // no packet is lost there
	for n, s := range stations {
		stage := s.kind
		if n == len(stations)-2 {
			stage = "vhost" // the place of the back end, whatever stands there
		}
		text := s.text
		if stage == "vhost" {
			text = s.name + ": " + s.text
			s.name = "back end"
		}
		stops = append(stops, Stop{Stage: stage, Name: s.name, Before: text})
	}
	return stops
}
