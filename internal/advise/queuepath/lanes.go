package queuepath

import (
	"cmp"
	"maps"
	"slices"

	"mpps/internal/model/setting"
)

// Way is which way the packets of a lane go, as the guests see it.
type Way string

// The ways.
const (
	Out     Way = "out"     // from a guest to the wire
	In      Way = "in"      // from the wire to a guest
	Between Way = "between" // from one guest to another
	Through Way = "through" // from one device to another, no guest: routed
	Own     Way = "own"     // of the host itself: first seen when it was transmitted
)

// Lane is the way of packets from the queue where the host saw them first to the last queue where it did.
type Lane struct {
	Way   Way    `json:"way"`
	Guest string `json:"guest,omitempty"` // who sends, or on the way in who gets them; empty: not known
	Stops []Stop `json:"stops"`           // first the origin, last the exit
	// by the last queue they left the stack; false: dropped there, or for the host itself
	Left    bool    `json:"left"`
	Frames  uint64  `json:"frames"`
	Packets uint64  `json:"packets"`
	Bytes   uint64  `json:"bytes"`
	Share   float64 `json:"share"` // of all packets of the interval, 0 to 1
	PPS     float64 `json:"pps"`   // packets per second of the time that was watched
}

// Stop is a queue on a lane, with the CPUs that handled its packets there.
type Stop struct {
	Queue
	CPUs setting.CPUSet `json:"cpus"`
	// that carries packets of this queue of a tap, with vhost its worker; 0: none known
	Thread int `json:"thread,omitempty"`
}

// Origin is the lane's first queue.
func (l *Lane) Origin() Queue { return l.Stops[0].Queue }

// Exit is the lane's last queue.
func (l *Lane) Exit() Queue { return l.Stops[len(l.Stops)-1].Queue }

// fewCPU is the share of a stop's packets below which a CPU is not named: an interrupt that went astray.
const fewCPU = 0.01

// Lanes joins rows to lanes, the widest first. Rows tell of two queues each, and of the origin: where one origin's
// packets are divided at two devices in a row, which part went on as which was not counted, and the widest ways that
// fit are taken. Packets that left the origin count, also those that came there before the window began; packets that
// came to a queue and were not seen to leave it end there; more that leave a later queue than came to it (they were
// inside when the window began) are left out.
func Lanes(o *Observation) []Lane {
	byOrigin := map[Queue]*web{}
	for i := range o.Rows {
		r := &o.Rows[i]
		w := byOrigin[r.Origin]
		if w == nil {
			w = &web{next: map[Queue][]*strand{}, cpus: map[Queue]map[int]uint64{}, thread: map[int]uint64{}}
			byOrigin[r.Origin] = w
		}
		w.add(r)
	}
	var lanes []Lane
	for _, origin := range slices.SortedFunc(maps.Keys(byOrigin), compareQueues) {
		lanes = append(lanes, byOrigin[origin].unravel(origin)...)
	}
	var all uint64
	for i := range lanes {
		all += lanes[i].Packets
	}
	for i := range lanes {
		l := &lanes[i]
		l.describe(o)
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

// amount is how much went a way.
type amount struct{ frames, packets, bytes uint64 }

func (a *amount) add(b amount) { a.frames += b.frames; a.packets += b.packets; a.bytes += b.bytes }

// take takes off an amount, as far as there is so much: frames can be cut into more, or grow, on the way.
func (a *amount) take(b amount) {
	a.frames -= min(a.frames, b.frames)
	a.packets -= min(a.packets, b.packets)
	a.bytes -= min(a.bytes, b.bytes)
}

// strand is what went from one queue to the next, of one origin.
type strand struct {
	to Queue
	amount
}

// web is the ways of one origin's packets.
type web struct {
	first  amount
	next   map[Queue][]*strand
	cpus   map[Queue]map[int]uint64 // packets by CPU
	thread map[int]uint64           // packets by thread at the first sight
}

func (w *web) add(r *Row) {
	a := amount{r.Frames, r.Packets, r.Bytes}
	if w.cpus[r.To] == nil {
		w.cpus[r.To] = map[int]uint64{}
	}
	w.cpus[r.To][r.CPU] += r.Packets
	if r.First() {
		w.first.add(a)
		w.thread[r.Thread] += r.Packets
		return
	}
	at := slices.IndexFunc(w.next[r.From], func(s *strand) bool { return s.to == r.To })
	if at < 0 {
		w.next[r.From] = append(w.next[r.From], &strand{to: r.To})
		at = len(w.next[r.From]) - 1
	}
	w.next[r.From][at].add(a)
}

// unravel takes the widest way off the web until nothing is left of it.
func (w *web) unravel(origin Queue) []Lane {
	came := map[Queue]amount{origin: w.first}
	for _, from := range slices.SortedFunc(maps.Keys(w.next), compareQueues) {
		for _, s := range w.next[from] {
			sum := came[s.to]
			sum.add(s.amount)
			came[s.to] = sum
		}
	}
	// What ended at a queue is a strand of its own, to nowhere.
	stays := map[Queue]*amount{}
	for _, q := range slices.SortedFunc(maps.Keys(came), compareQueues) {
		rest := came[q]
		for _, s := range w.next[q] {
			rest.take(s.amount)
		}
		stays[q] = &rest
	}
	var lanes []Lane
	for {
		way, amount := w.widest(origin, stays)
		if amount.packets == 0 {
			return lanes
		}
		l := Lane{Frames: amount.frames, Packets: amount.packets, Bytes: amount.bytes}
		for i, q := range way {
			stop := Stop{Queue: q, CPUs: busyCPUs(w.cpus[q])}
			if i == 0 {
				stop.Thread = most(w.thread)
			}
			l.Stops = append(l.Stops, stop)
		}
		lanes = append(lanes, l)
	}
}

// widest follows the widest strand from the origin to where packets end, takes off what fits through all of it, and
// tells how much that is.
func (w *web) widest(origin Queue, stays map[Queue]*amount) ([]Queue, amount) {
	way := []Queue{origin}
	var strands []*amount
	for at := origin; ; {
		var best *strand
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
	narrowest := strands[0]
	for _, s := range strands {
		if s.packets < narrowest.packets {
			narrowest = s
		}
	}
	whole := *narrowest
	for _, s := range strands {
		s.take(whole)
	}
	return way, whole
}

// describe says whose packets they are and which way they go.
func (l *Lane) describe(o *Observation) {
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
	if !from { // softirq, with whoever was interrupted
		l.Stops[0].Thread = 0
	}
	for i := range l.Stops {
		s := &l.Stops[i]
		if s.Thread == 0 {
			s.Thread = o.worker(s.Queue)
		}
	}
}

// guest reports whether a device leads to a guest.
func (d *Device) guest() bool {
	return d != nil && (d.Guest != "" || d.Kind == "tap" || d.Kind == "macvtap")
}

// worker is the vhost thread of a tap's queue, 0 where none is known.
func (o *Observation) worker(q Queue) int {
	for _, v := range o.Vhost {
		if v.Device == q.Device && v.Queue == q.Queue {
			return v.Thread
		}
	}
	return 0
}

func busyCPUs(packets map[int]uint64) setting.CPUSet {
	var all uint64
	for _, n := range packets {
		all += n
	}
	var cpus []int
	for cpu, n := range packets {
		if cpu >= 0 && float64(n) >= fewCPU*float64(all) {
			cpus = append(cpus, cpu)
		}
	}
	return setting.CPUs(cpus...)
}

// most is the key with the most packets, the lowest of those that have as many.
func most(packets map[int]uint64) int {
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
