package queuepath

import (
	"cmp"
	"slices"

	"mpps/internal/model/setting"
	"mpps/internal/words"
)

// Sender is a tap that sends through a NIC.
type Sender struct {
	Tap    string // as in setting.Lane
	Guest  string
	Queues int     // of the tap
	Weight float64 // its share if there are too few queues; 0 and less count as 1

	Weighed bool      // the user gave weights: windows must not overlap
	Seen    []float64 // packets by queue; empty if none were watched
	Node    int       // NUMA node of its sending CPUs; −1: several, or not known
}

// Windows divides a NIC's transmit queues among its senders. If there are enough queues, each sender gets as many as it
// has itself, and no two share one. If there are too few, lanes rather than senders are balanced: windows may overlap,
// so that an idle sender takes nothing from a busy one, and no queue has several lanes while another has none. A lane
// weighs as much as its packets; without packets all weigh the same. With weights each sender gets its own queues by
// weight, at least one and at most as many as it has; with more senders than queues each gets one, with the weights as
// even as possible.
//
// before are the current windows. As few of them move as possible: none if a sender leaves, or if one is added and
// there is room in one piece. nodes are the NUMA nodes of the CPUs that serve the NIC's queues, by queue; −1 or missing
// if not known. Of equally good places the one with the most queues on the sender's node is taken. The result is in the
// order of the senders.
func Windows(senders []Sender, queues int, nodes []int, before []setting.Lane) []setting.Lane {
	if queues < 1 || len(senders) == 0 {
		return nil
	}
	d := division{queues: queues, nodes: nodes, before: map[string]setting.Lane{}}
	for _, l := range before {
		if l.Base+l.Count <= queues {
			d.before[l.Tap] = l
		}
	}
	if laneCount(senders) > queues {
		return d.overlapping(senders)
	}
	return d.ownWindows(senders)
}

// QueueOf returns the NIC's queue for a queue of a tap.
func QueueOf(l setting.Lane, queue int) int { return l.Base + queue%l.Count }

type division struct {
	queues int
	nodes  []int
	before map[string]setting.Lane
}

func weight(s Sender) float64 { return words.Either(s.Weight > 0, s.Weight, 1) }

// queueCounts returns how many queues each sender gets, by progressive filling: the next queue goes to the sender with
// the fewest for its weight.
func (d *division) queueCounts(senders []Sender) []int {
	counts := slices.Repeat([]int{1}, len(senders))
	for range d.queues - len(senders) {
		next := -1
		for i, s := range senders {
			if counts[i] < s.Queues && (next < 0 || d.poorer(senders, counts, i, next)) {
				next = i
			}
		}
		if next < 0 {
			break // all have as many as they can use
		}
		counts[next]++
	}
	return counts
}

// poorer reports whether sender i has less for its weight than j. Of two that have the same, the one that had more
// before comes first, then the one whose tap sorts first.
func (d *division) poorer(senders []Sender, counts []int, i, j int) bool {
	a, b := float64(counts[i])*weight(senders[j]), float64(counts[j])*weight(senders[i])
	return cmp.Or(cmp.Compare(a, b), cmp.Compare(d.hadMore(senders[j], counts[j]), d.hadMore(senders[i], counts[i])),
		cmp.Compare(senders[i].Tap, senders[j].Tap),
	) < 0
}

// hadMore returns 1 if a sender had more queues before, else 0.
func (d *division) hadMore(s Sender, now int) int {
	return words.Either(d.before[s.Tap].Count > now, 1, 0)
}

// oneEach gives one queue to each of more senders than queues. A sender that has one keeps it, a new one gets the
// emptiest queue. Then senders move from fuller queues to emptier ones while that makes the two more even.
func (d *division) oneEach(senders []Sender) []setting.Lane {
	loads := make([]float64, d.queues)
	at := make([]int, len(senders))
	byWeight := make([]int, len(senders))
	for i := range senders {
		byWeight[i] = i
	}
	slices.SortStableFunc(byWeight, func(i, j int) int {
		return cmp.Or(cmp.Compare(weight(senders[j]), weight(senders[i])), cmp.Compare(senders[i].Tap, senders[j].Tap))
	})
	put := func(i, queue int) {
		at[i] = queue
		loads[queue] += weight(senders[i])
	}
	for _, i := range byWeight {
		if b, had := d.before[senders[i].Tap]; had {
			put(i, b.Base)
		}
	}
	for _, i := range byWeight {
		if _, had := d.before[senders[i].Tap]; !had {
			put(i, slices.Index(loads, slices.Min(loads)))
		}
	}
	for {
		least := slices.Index(loads, slices.Min(loads))
		best, gain := -1, 0.0
		for _, i := range byWeight {
			w, here := weight(senders[i]), loads[at[i]]
			// the decrease of the sum of squares; it must be more than rounding
			if g := w * (here - loads[least] - w); at[i] != least && g > gain && g > 1e-9*here*here {
				best, gain = i, g
			}
		}
		if best < 0 {
			break
		}
		loads[at[best]] -= weight(senders[best])
		put(best, least)
	}
	return lanesOf(senders, slices.Repeat([]int{1}, len(senders)), at)
}
