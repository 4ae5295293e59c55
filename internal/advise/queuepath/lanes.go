package queuepath

import (
	"cmp"
	"maps"
	"slices"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// Way is the direction of a lane's packets, as the guests see it.
type Way string

// The ways.
const (
	Out     Way = "out"     // from a guest to the wire
	In      Way = "in"      // from the wire to a guest
	Between Way = "between" // from one guest to another
	Through Way = "through" // from one device to another, no guest: routed
	Own     Way = "own"     // of the host itself: first seen at transmission
)

// Lane is the path of packets from the first queue where the host saw them to the last.
type Lane struct {
	Way   Way    `json:"way"`
	Guest string `json:"guest,omitempty"` // the sender, or on the way in the receiver; empty: not known
	Stops []Stop `json:"stops"`           // from the origin to the exit
	// they left the stack by the last queue; false: dropped there, or for the host itself
	Left    bool    `json:"left"`
	Frames  uint64  `json:"frames"`
	Packets uint64  `json:"packets"`
	Bytes   uint64  `json:"bytes"`
	Share   float64 `json:"share"` // of all packets of the interval, 0 to 1
	PPS     float64 `json:"pps"`   // packets per second while watched
}

// Stop is a queue on a lane, with the CPUs that handled its packets there.
type Stop struct {
	Queue
	CPUs setting.CPUSet `json:"cpus"`
	// thread that carries the packets of this tap queue, with vhost its worker; 0: not known
	Thread int `json:"thread,omitempty"`
}

// Origin returns the lane's first queue.
func (l *Lane) Origin() Queue { return l.Stops[0].Queue }

// Exit returns the lane's last queue.
func (l *Lane) Exit() Queue { return l.Stops[len(l.Stops)-1].Queue }

// fewCPU is the share of a stop's packets below which a CPU is left out: a stray interrupt.
const minCPUShare = 0.01

// Lanes joins rows to lanes, the widest first. A row has two queues and the origin. If one origin's packets divide at
// two devices in a row, the rows do not show which part went on where, so the widest paths that fit are taken. Packets
// that left the origin count, even if they arrived before the window began. Packets that were not seen to leave a queue
// end there. If more leave a later queue than arrived at it (they were inside when the window began), the excess is
// left out.
func Lanes(o *Observation) []Lane {
	byOrigin := map[Queue]*flowGraph{}
	for r := range facts.Each(o.Rows) {
		w := byOrigin[r.Origin]
		if w == nil {
			w = &flowGraph{next: map[Queue][]*edge{}, cpus: map[Queue]map[int]uint64{}, thread: map[int]uint64{}}
			byOrigin[r.Origin] = w
		}
		w.add(r)
	}
	var lanes []Lane
	for _, origin := range slices.SortedFunc(maps.Keys(byOrigin), compareQueues) {
		lanes = append(lanes, byOrigin[origin].lanes(origin)...)
	}
	var all uint64
	for l := range facts.Each(lanes) {
		all += l.Packets
	}
	for l := range facts.Each(lanes) {
		l.classify(o)
		if all > 0 {
			l.Share = float64(l.Packets) / float64(all)
		}
		if o.Watched > 0 {
			l.PPS = float64(l.Packets) / o.Watched
		}
	}
	slices.SortStableFunc(lanes, func(a, b Lane) int { return cmp.Compare(b.Packets, a.Packets) })
	return lanes
}

// amount is what passed a path.
type amount struct{ frames, packets, bytes uint64 }

func (a *amount) add(b amount) { a.frames += b.frames; a.packets += b.packets; a.bytes += b.bytes }

// sub subtracts an amount, down to 0: frames can be segmented or grow on the path.
func (a *amount) sub(b amount) {
	a.frames -= min(a.frames, b.frames)
	a.packets -= min(a.packets, b.packets)
	a.bytes -= min(a.bytes, b.bytes)
}

// edge is what passed from one queue to the next, of one origin.
type edge struct {
	to Queue
	amount
}

// flowGraph is the paths of one origin's packets.
type flowGraph struct {
	first  amount
	next   map[Queue][]*edge
	cpus   map[Queue]map[int]uint64 // packets by CPU
	thread map[int]uint64           // packets by thread at first sight
}

func (w *flowGraph) add(r *Row) {
	a := amount{r.Frames, r.Packets, r.Bytes}
	count(w.cpus, r.To, r.CPU, r.Packets)
	if r.First() {
		w.first.add(a)
		w.thread[r.Thread] += r.Packets
		return
	}
	at := slices.IndexFunc(w.next[r.From], func(s *edge) bool { return s.to == r.To })
	if at < 0 {
		w.next[r.From] = append(w.next[r.From], &edge{to: r.To})
		at = len(w.next[r.From]) - 1
	}
	w.next[r.From][at].add(a)
}

// lanes removes the widest path from the graph until nothing is left.
func (w *flowGraph) lanes(origin Queue) []Lane {
	came := map[Queue]amount{origin: w.first}
	for _, from := range slices.SortedFunc(maps.Keys(w.next), compareQueues) {
		for _, s := range w.next[from] {
			sum := came[s.to]
			sum.add(s.amount)
			came[s.to] = sum
		}
	}
	// packets that end at a queue
	stays := map[Queue]*amount{}
	for _, q := range slices.SortedFunc(maps.Keys(came), compareQueues) {
		rest := came[q]
		for _, s := range w.next[q] {
			rest.sub(s.amount)
		}
		stays[q] = &rest
	}
	var lanes []Lane
	for {
		way, amount := w.widestPath(origin, stays)
		if amount.packets == 0 {
			return lanes
		}
		l := Lane{Frames: amount.frames, Packets: amount.packets, Bytes: amount.bytes}
		for i, q := range way {
			stop := Stop{Queue: q, CPUs: busyCPUs(w.cpus[q])}
			if i == 0 {
				stop.Thread = busiestKey(w.thread)
			}
			l.Stops = append(l.Stops, stop)
		}
		lanes = append(lanes, l)
	}
}

// widestPath follows the widest edges from the origin to where packets end. It removes the amount that passes all of
// them, and returns path and amount.
func (w *flowGraph) widestPath(origin Queue, stays map[Queue]*amount) ([]Queue, amount) {
	way := []Queue{origin}
	var strands []*amount
	for at := origin; ; {
		var best *edge
		for _, s := range w.next[at] {
			if s.packets > 0 && !slices.Contains(way, s.to) &&
				(best == nil || s.packets > best.packets || s.packets == best.packets &&
					compareQueues(s.to, best.to) < 0) {
				best = s
			}
		}
		if end := stays[at]; best == nil || end != nil && end.packets > best.packets {
			if end != nil && end.packets > 0 {
				strands = append(strands, end)
			}
			break
		}
		strands = append(strands, &best.amount)
		way, at = append(way, best.to), best.to
	}
	if len(strands) == 0 {
		return way, amount{}
	}
	whole := *slices.MinFunc(strands, func(a, b *amount) int { return cmp.Compare(a.packets, b.packets) })
	for _, s := range strands {
		s.sub(whole)
	}
	return way, whole
}

// classify sets whose packets they are and their direction.
func (l *Lane) classify(o *Observation) {
	origin, exit := o.Device(l.Origin().Device), o.Device(l.Exit().Device)
	l.Left = exit != nil && exit.Terminal() && l.Exit().Direction == Tx
	from := origin.guest() && (l.Origin().Direction == Rx || origin.Kind == "macvtap")
	to := exit.guest() && l.Exit().Direction == Tx
	switch {
	case l.Origin().Direction == Tx && !from:
		l.Way, to = Own, false
	case from && to && len(l.Stops) > 1:
		l.Way = Between
	case from:
		l.Way = Out
	case to:
		l.Way = In
	default:
		l.Way = Through
	}
	switch {
	case from:
		l.Guest = origin.Guest
	case to:
		l.Guest = exit.Guest
	}
	if !from { // a softirq, with the interrupted thread
		l.Stops[0].Thread = 0
	}
	for s := range facts.Each(l.Stops) {
		if s.Thread == 0 {
			s.Thread = o.worker(s.Queue)
		}
	}
}

// guest reports whether a device leads to a guest.
func (d *Device) guest() bool {
	return d != nil && (d.Guest != "" || d.Kind == "tap" || d.Kind == "macvtap")
}

// worker returns the vhost thread of a tap's queue, 0 if it is not known.
func (o *Observation) worker(q Queue) int {
	v := facts.Find(o.Vhost, func(v *Vhost) bool { return v.Device == q.Device && v.Queue == q.Queue })
	return cmp.Or(v, &Vhost{}).Thread
}

func busyCPUs(packets map[int]uint64) setting.CPUSet {
	all := float64(sum(packets))
	var cpus []int
	for cpu, n := range packets {
		if cpu >= 0 && float64(n) >= minCPUShare*all {
			cpus = append(cpus, cpu)
		}
	}
	return setting.CPUs(cpus...)
}

// busiestKey returns the key with the most packets, of several the lowest.
func busiestKey(packets map[int]uint64) int {
	best := 0
	for _, key := range slices.Sorted(maps.Keys(packets)) {
		if packets[key] > packets[best] {
			best = key
		}
	}
	return best
}

func compareQueues(a, b Queue) int {
	return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Direction, b.Direction), cmp.Compare(a.Queue, b.Queue))
}
