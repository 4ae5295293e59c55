package queuepath

import (
	"cmp"
	"slices"

	"mpps/internal/model/setting"
)

// Sender is one tap that sends through a NIC: a guest's NIC as the host sees it.
type Sender struct {
	Tap    string  // as a lane names it (setting.Lane)
	Guest  string  // whose it is
	Queues int     // that it sends by
	Weight float64 // its share where there are not enough queues; 0 and less count as 1

	Weighed bool      // somebody asked for weights: windows are not to overlap
	Seen    []float64 // packets by queue; none where nothing was watched
	Node    int       // NUMA node of the CPUs that send for it; −1: several, or not known
}

// Windows divides a NIC's transmit queues among those that send through it. Where there are enough queues each gets as
// many as it has itself, and no two share one. Where there are fewer queues than theirs together, lanes are balanced
// and not senders: windows may overlap, so that one who is idle takes nothing from one who is busy, and no queue has
// several lanes while one has none. Lanes count by the packets that were seen, all alike where none were. Where weights
// were asked for each gets queues of its own by weight, at least one and no more than it has, and of more senders than
// queues each gets one, the weights on the queues as even as can be.
//
// before are windows that stand. As few of them move as possible: none where a sender goes, or where one comes and
// there is room in one piece. nodes are the NUMA nodes of the CPUs that serve the NIC's queues, by queue, −1 or none
// where it is not known: of places that are as good the one with the most queues on the sender's node is taken. The
// result is in the order of the senders.
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
	if demand(senders) > queues {
		return d.short(senders)
	}
	return d.own(senders)
}

// QueueOf is the NIC's queue by which a queue of a tap leaves.
func QueueOf(l setting.Lane, queue int) int { return l.Base + queue%l.Count }

type division struct {
	queues int
	nodes  []int
	before map[string]setting.Lane
}

func weight(s Sender) float64 {
	if s.Weight > 0 {
		return s.Weight
	}
	return 1
}

// counts are how many queues each sender gets, by progressive filling: the next one goes to who has the least for its
// weight.
func (d *division) counts(senders []Sender) []int {
	counts := make([]int, len(senders))
	left := d.queues - len(senders)
	for i := range counts {
		counts[i] = 1
	}
	for ; left > 0; left-- {
		next := -1
		for i, s := range senders {
			if counts[i] >= s.Queues {
				continue
			}
			if next < 0 || d.poorer(senders, counts, i, next) {
				next = i
			}
		}
		if next < 0 {
			break // everybody has as many as it can use
		}
		counts[next]++
	}
	return counts
}

// poorer reports whether one sender has less for its weight than another. Of two that have the same the one comes first
// that had more before than now, then the one whose name does.
func (d *division) poorer(senders []Sender, counts []int, i, j int) bool {
	a, b := float64(counts[i])*weight(senders[j]), float64(counts[j])*weight(senders[i])
	return cmp.Or(
		cmp.Compare(a, b),
		cmp.Compare(d.hadMore(senders[j], counts[j]), d.hadMore(senders[i], counts[i])),
		cmp.Compare(senders[i].Tap, senders[j].Tap),
	) < 0
}

// hadMore is 1 where a sender had more queues than these before, 0 otherwise.
func (d *division) hadMore(s Sender, now int) int {
	if d.before[s.Tap].Count > now {
		return 1
	}
	return 0
}

// shared gives each of more senders than there are queues one of them. Who has one stays, who comes goes where the
// least is, and then senders move from fuller queues to emptier ones while that makes the two more even.
func (d *division) shared(senders []Sender) []setting.Lane {
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
			// The gain is by how much the sum of squares falls; more than rounding makes.
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
	lanes := make([]setting.Lane, len(senders))
	for i, s := range senders {
		lanes[i] = setting.Lane{Tap: s.Tap, Base: at[i], Count: 1}
	}
	return lanes
}
