package queuepath

import (
	"cmp"
	"maps"
	"slices"

	"mpps/internal/model/facts"
)

// Side is one side of a device: what it hands to the stack, or what the stack hands to it.
type Side struct {
	Device    string    `json:"device"`
	Direction Direction `json:"direction"`
}

// Side returns the side of the device that a queue is on.
func (q Queue) Side() Side { return Side{q.Device, q.Direction} }

// Hop is a matrix: packets from the queues of one side to those of the next.
type Hop struct {
	From       Side       `json:"from"`
	To         Side       `json:"to"`
	FromQueues []int      `json:"from_queues"` // ascending, without unused ones
	ToQueues   []int      `json:"to_queues"`
	Packets    [][]uint64 `json:"packets"` // by FromQueues, then by ToQueues
	Sum        uint64     `json:"sum"`
}

// Hops returns the matrices of an interval in path order.
func Hops(o *Observation) []Hop {
	type pair struct{ from, to Side }
	cells := map[pair]map[[2]int]uint64{}
	for r := range facts.Each(o.Rows) {
		if r.First() {
			continue
		}
		count(cells, pair{r.From.Side(), r.To.Side()}, [2]int{r.From.Queue, r.To.Queue}, r.Packets)
	}
	var hops []Hop
	for p, at := range cells {
		h := Hop{From: p.from, To: p.to}
		for c := range at {
			h.FromQueues, h.ToQueues = append(h.FromQueues, c[0]), append(h.ToQueues, c[1])
		}
		h.FromQueues, h.ToQueues = ascending(h.FromQueues), ascending(h.ToQueues)
		for _, from := range h.FromQueues {
			var line []uint64
			for _, to := range h.ToQueues {
				n := at[[2]int{from, to}]
				line, h.Sum = append(line, n), h.Sum+n
			}
			h.Packets = append(h.Packets, line)
		}
		hops = append(hops, h)
	}
	depths := Depths(o)
	slices.SortFunc(hops, func(a, b Hop) int {
		return cmp.Or(cmp.Compare(depths[a.From], depths[b.From]), cmp.Compare(depths[a.To], depths[b.To]),
			compareSides(a.From, b.From), compareSides(a.To, b.To))
	})
	return hops
}

func ascending(numbers []int) []int {
	slices.Sort(numbers)
	return slices.Compact(numbers)
}

func compareSides(a, b Side) int {
	return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Direction, b.Direction))
}

// Depths returns for each side of a device the most sides that packets passed before it: its column when the path is
// drawn. A loop counts once.
func Depths(o *Observation) map[Side]int {
	before := map[Side]map[Side]bool{}
	for r := range facts.Each(o.Rows) {
		for _, side := range []Side{r.From.Side(), r.To.Side()} {
			if before[side] == nil {
				before[side] = map[Side]bool{}
			}
		}
		if !r.First() {
			before[r.To.Side()][r.From.Side()] = true
		}
	}
	depths := map[Side]int{}
	var depth func(s Side, on []Side) int
	depth = func(s Side, on []Side) int {
		if d, known := depths[s]; known {
			return d
		}
		on = append(on, s)
		d := 0
		for _, p := range slices.SortedFunc(maps.Keys(before[s]), compareSides) {
			if !slices.Contains(on, p) {
				d = max(d, depth(p, on)+1)
			}
		}
		depths[s] = d
		return d
	}
	for _, s := range slices.SortedFunc(maps.Keys(before), compareSides) {
		depth(s, nil)
	}
	return depths
}
