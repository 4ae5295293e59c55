package measure

import (
	"cmp"
	"slices"
)

// Counter names one counter on the path of the packets.
type Counter struct {
	Where     string `json:"where"`               // "host", "netns:A", or the agent's address
	Interface string `json:"interface,omitempty"` // empty for counters of the machine (softnet, UDP)
	// of the interface, as rtnetlink has it: "tuntap", "veth"; "device" for hardware
	Kind string `json:"kind,omitempty"`
	Name string `json:"name"` // "rx_dropped", "softnet.dropped", "sink.too_late"
}

// Counters are the readings of counters at one moment.
type Counters map[Counter]uint64

// Delta is how far a counter moved during the run.
type Delta struct {
	Counter
	Before uint64 `json:"before"`
	After  uint64 `json:"after"`
	Delta  uint64 `json:"delta"`
}

// Loss is a place that dropped packets.
type Loss struct {
	Counter
	Place   Place  `json:"place,omitempty"`
	Packets uint64 `json:"packets"` // not counted by any other loss of the run
}

// Deltas returns the counters that increased between two readings, sorted by place and name. It leaves out counters
// that are missing on one side or went backwards (driver reload).
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

func sortLosses(losses []Loss) {
	slices.SortFunc(losses, func(x, y Loss) int {
		return cmp.Or(cmp.Compare(y.Packets, x.Packets), compareCounters(x.Counter, y.Counter))
	})
}
