package bench

import (
	"slices"

	"mpps/internal/facts"
	"mpps/internal/measure"
	"mpps/internal/report"
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
		if at := slices.IndexFunc(stops, func(s Stop) bool { return s.Name == loss.Interface }); at >= 0 {
			stops[at].Lost += loss.Packets
		}
	}
	return stops
}

// guestStops are bridge, tap, back end and guest of a guest's first NIC. The back end has one stage whatever it is.
func guestStops(h *facts.Host, name string) []Stop {
	var stops []Stop
	for _, s := range report.GuestPath(h, name) {
		stop := Stop{Stage: s.Kind, Name: s.Name, Before: s.Text}
		if s.BackEnd {
			stop = Stop{Stage: "vhost", Name: "back end", Before: s.Name + ": " + s.Text}
		}
		stops = append(stops, stop)
	}
	return stops
}
