package measure

import (
	"cmp"
	"slices"
	"strings"
)

// Counter names one counter on the way of the packets.
type Counter struct {
	Where     string `json:"where"`               // "host", "netns:A", or the agent's address
	Interface string `json:"interface,omitempty"` // empty for counters of the machine (softnet, UDP)
	Name      string `json:"name"`                // "rx_dropped", "softnet.dropped", "sink.too_late"
}

// Counters are readings of counters at one moment.
type Counters map[Counter]uint64

// Delta is what a counter did during the run.
type Delta struct {
	Counter
	Before uint64 `json:"before"`
	After  uint64 `json:"after"`
	Delta  uint64 `json:"delta"`
}

// Loss is a place where packets were seen to be dropped.
type Loss struct {
	Counter
	Packets uint64 `json:"packets"`
}

// Deltas are the counters that moved forward between two readings, sorted by place and name. A counter that is missing
// on one side or went backwards (driver reload) is left out.
func Deltas(before, after Counters) []Delta {
	deltas := []Delta{}
	for c, b := range after {
		if a, ok := before[c]; ok && b > a {
			deltas = append(deltas, Delta{Counter: c, Before: a, After: b, Delta: b - a})
		}
	}
	slices.SortFunc(deltas, func(x, y Delta) int { return compareCounters(x.Counter, y.Counter) })
	return deltas
}

func compareCounters(x, y Counter) int {
	return cmp.Or(cmp.Compare(x.Where, y.Where), cmp.Compare(x.Interface, y.Interface), cmp.Compare(x.Name, y.Name))
}

// dropNames are counters of packets that went no further, as the kernel's rtnl_link_stats64 and softnet name them
// (Documentation/networking/statistics.rst). rx_missed_errors and the like are not in rx_dropped, rx_fifo_errors and
// rx_over_errors may repeat rx_missed_errors in some drivers and are shown without being added.
var dropNames = []string{"rx_dropped", "tx_dropped", "rx_missed_errors", "rx_nohandler", "tx_aborted_errors", "softnet.dropped", "qdisc.drops",
	"udp.rcvbuf_errors", "packet.drops"}

// IsDrop tells whether a counter counts packets that were dropped there.
func IsDrop(name string) bool {
	return slices.Contains(dropNames, name) || strings.HasPrefix(name, "xdp.drop.")
}

// LocateLoss finds the drop counters that moved, largest first, and how many of the lost packets none of them explains.
// Counters see all traffic, so they can explain more than was lost; the rest is 0 then. Where nothing was lost there is
// nothing to find.
func LocateLoss(deltas []Delta, lost uint64) (losses []Loss, unexplained uint64) {
	losses = []Loss{}
	if lost == 0 {
		return losses, 0
	}
	var seen uint64
	for _, d := range deltas {
		if IsDrop(d.Name) {
			losses = append(losses, Loss{Counter: d.Counter, Packets: d.Delta})
			seen += d.Delta
		}
	}
	sortLosses(losses)
	return losses, minus(lost, seen)
}

func sortLosses(losses []Loss) {
	slices.SortFunc(losses, func(x, y Loss) int {
		return cmp.Or(cmp.Compare(y.Packets, x.Packets), compareCounters(x.Counter, y.Counter))
	})
}
