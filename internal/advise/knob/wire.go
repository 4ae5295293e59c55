package knob

import (
	"cmp"
	"fmt"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/reach"
)

// between is what each Ethernet frame takes on the wire besides itself, in bytes: preamble, start of frame and the gap
// between packets (IEEE 802.3-2022, 4.2.7 and 4.4.2).
const between = 20

// onWire returns what a goal asks of a link in each direction, in Mb/s.
func onWire(g goal.Goal) float64 {
	return max(g.PPS*float64(cmp.Or(g.Frame, 64)+between)*8, g.Bulk) / 1e6
}

// WireNote says that the links of the NICs that carry guests' packets are too slow for the target; "" if they are not,
// if one of them does not tell its speed, or if not every path of the guests is known.
func WireNote(h *facts.Host, g goal.Goal) string {
	paths, total := reach.Of(h), 0
	var names []string
	for _, n := range h.NICs {
		switch {
		case paths.Carries(n.Name) == "":
			return ""
		case paths.Carries(n.Name) == facts.No, !n.Up, n.PhysFn != "", n.Representor():
			continue
		case n.Speed <= 0:
			return ""
		}
		total, names = total+n.Speed, append(names, n.Name)
	}
	frame := cmp.Or(g.Frame, 64)
	most := float64(total) * 1e6 / float64((frame+between)*8)
	switch {
	case total == 0:
		return ""
	case g.PPS > most:
		return fmt.Sprintf("The links of %s (%d Mb/s) carry at most %.0f kpps of %d-byte frames each way: the target "+
			"is %.0f kpps, and nothing in this plan makes them faster.", strings.Join(names, ", "), total, most/1e3,
			frame, g.PPS/1e3)
	case g.Bulk > float64(total)*1e6:
		return fmt.Sprintf("The links of %s carry %d Mb/s each way: the target is %.0f Mb/s, and nothing in this plan "+
			"makes them faster.", strings.Join(names, ", "), total, g.Bulk/1e6)
	}
	return ""
}
