package queuepath

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// minPart returns the number of packets from which on one of several counts as a sender. How many senders there are
// follows from the inverse of the sum of squared shares, so that stray packets of many do not count.
func minPart[K comparable](packets map[K]uint64, part float64) float64 {
	var sum, squares float64
	for _, n := range packets {
		sum, squares = sum+float64(n), squares+float64(n)*float64(n)
	}
	if sum == 0 {
		return leastSent
	}
	return math.Max(leastSent, sum*math.Max(leastPart, math.Min(part, 0.25*squares/(sum*sum))))
}

// judge is an observation with the counts that the rules need.
type judge struct {
	*Observation
	lanes  []Lane
	depths map[Side]int
	total  uint64 // packets of the interval, each counted once
	loads  map[Queue]*load
	sides  map[Side]*load
}

// load is what passed a queue or a side of a device.
type load struct {
	amount
	moves    uint64
	byOrigin map[Queue]uint64 // packets
	byCPU    map[int]uint64   // that hand them to the device
	choosers map[int]uint64   // that chose the queue
}

// add counts a row. If only the device that a packet came by is known (a segment or a copy of what was received), no
// queue tells the senders apart.
func (l *load) add(r *Row, known bool) {
	if l.byOrigin == nil {
		l.byOrigin, l.byCPU, l.choosers = map[Queue]uint64{}, map[int]uint64{}, map[int]uint64{}
	}
	l.amount.add(amount{r.Frames, r.Packets, r.Bytes})
	l.moves += r.Moves
	if known {
		l.byOrigin[r.Origin] += r.Packets
	}
	l.byCPU[r.CPU] += r.Packets
	l.choosers[r.Chooser()] += r.Packets
}

func newJudge(o *Observation) *judge {
	j := &judge{Observation: o, lanes: Lanes(o), depths: Depths(o), loads: map[Queue]*load{}, sides: map[Side]*load{}}
	for l := range facts.Each(j.lanes) {
		j.total += l.Packets
	}
	seen := map[Queue]bool{}
	for r := range facts.Each(o.Rows) {
		if r.First() {
			seen[r.Origin] = true
		}
	}
	for r := range facts.Each(o.Rows) {
		if j.loads[r.To] == nil {
			j.loads[r.To] = &load{}
		}
		if j.sides[r.To.Side()] == nil {
			j.sides[r.To.Side()] = &load{}
		}
		known := r.Origin.Queue >= 0 || seen[r.Origin]
		j.loads[r.To].add(r, known)
		j.sides[r.To.Side()].add(r, known)
	}
	return j
}

// queueSet returns queues as a set.
func queueSet(queues []Queue) map[Queue]bool {
	set := map[Queue]bool{}
	for _, q := range queues {
		set[q] = true
	}
	return set
}

// count adds to one of the counters that are kept under a key.
func count[K, C comparable](all map[K]map[C]uint64, at K, counter C, n uint64) {
	if all[at] == nil {
		all[at] = map[C]uint64{}
	}
	all[at][counter] += n
}

// sum adds up counters.
func sum[K comparable](counters map[K]uint64) (all uint64) {
	for _, n := range counters {
		all += n
	}
	return all
}

// orderedSides returns the sides in path order.
func (j *judge) orderedSides() []Side {
	return slices.SortedFunc(maps.Keys(j.sides), func(a, b Side) int {
		return cmp.Or(cmp.Compare(j.depths[a], j.depths[b]), compareSides(a, b))
	})
}

// queuesOf returns the queues of a side that packets took, ascending.
func (j *judge) queuesOf(s Side) []Queue {
	all := slices.SortedFunc(maps.Keys(j.loads), compareQueues)
	return slices.DeleteFunc(all, func(q Queue) bool { return q.Side() != s })
}

// matters reports whether so many packets are enough for a fault.
func (j *judge) matters(packets uint64) bool {
	return packets >= leastPackets && float64(packets) >= leastShare*float64(j.total) &&
		(j.Watched <= 0 || float64(packets)/j.Watched >= leastRate)
}

func (j *judge) share(packets uint64) float64 {
	if j.total == 0 {
		return 0
	}
	return math.Min(1, float64(packets)/float64(j.total))
}

// senders returns the origins of a good part of a load, sorted. The host's own packets have no origin but the queue
// itself, and do not count.
func (l *load) senders(part float64) []Queue {
	var all []Queue
	least := minPart(l.byOrigin, part)
	for origin, n := range l.byOrigin {
		if origin.Direction == Rx && float64(n) >= least {
			all = append(all, origin)
		}
	}
	slices.SortFunc(all, compareQueues)
	return all
}

// cpus returns the CPUs that pass a good part of a load to the device.
func (l *load) cpus() setting.CPUSet { return cpusWith(l.byCPU, partyPart) }

func cpusWith(packets map[int]uint64, part float64) setting.CPUSet {
	var all []int
	least := minPart(packets, part)
	for cpu, n := range packets {
		if cpu >= 0 && float64(n) >= least {
			all = append(all, cpu)
		}
	}
	return setting.CPUs(all...)
}
