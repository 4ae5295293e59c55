package queuepath

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

// Lower bounds of flapping. A thread that the scheduler moves takes its flows along once for each move, and a change of
// a device's settings moves each flow once.
const (
	leastMoves = 20
	leastFlap  = 0.005 // of the frames
)

// flap counts how often flows that came by one device changed queues of a side.
type flap struct {
	frames, moves, packets uint64
	origins                map[Queue]bool
	took                   map[chooser]map[int]uint64 // packets by queue
}

// chooser is a CPU that chooses queues for packets of an origin.
type chooser struct {
	origin Queue
	cpu    int
}

func newFlap() *flap { return &flap{origins: map[Queue]bool{}, took: map[chooser]map[int]uint64{}} }

// byCPU reports whether each CPU's packets keep to a queue, so that flows change queues because they change CPUs.
func (f *flap) byCPU() bool {
	var all, kept uint64
	for _, queues := range f.took {
		all, kept = all+sum(queues), kept+queues[busiestKey(queues)]
	}
	return float64(kept) >= 0.9*float64(all)
}

// flapping returns the devices between whose queues flows change again and again. After the first such device the same
// flows mostly change queues too: that is a consequence.
func (j *judge) flapping() []Fault {
	seen := map[Side]map[string]*flap{} // by side, and by device of the origin
	for r := range facts.Each(j.Rows) {
		side := r.To.Side()
		if seen[side] == nil {
			seen[side] = map[string]*flap{}
		}
		f := seen[side][r.Origin.Device]
		if f == nil {
			f = newFlap()
			seen[side][r.Origin.Device] = f
		}
		f.frames, f.moves, f.packets = f.frames+r.Frames, f.moves+r.Moves, f.packets+r.Packets
		if r.Moves > 0 {
			f.origins[r.Origin] = true
		}
		count(f.took, chooser{r.Origin, r.Chooser()}, r.To.Queue, r.Packets)
	}
	var all []Fault
	roots := map[string]string{} // by device of the origin: where its flows first flap
	for _, side := range j.orderedSides() {
		byRoot := map[string]*flap{}
		for _, device := range slices.Sorted(maps.Keys(seen[side])) {
			f := seen[side][device]
			if f.moves < leastMoves || float64(f.moves) < leastFlap*float64(f.frames) || !j.matters(f.packets) {
				continue
			}
			root := roots[device]
			if root == "" {
				roots[device] = (&Fault{Kind: Flapping, Object: j.flapObject(side)}).Name()
			}
			if byRoot[root] == nil {
				byRoot[root] = newFlap()
			}
			byRoot[root].merge(f)
		}
		for _, root := range slices.Sorted(maps.Keys(byRoot)) {
			all = append(all, j.flapFault(side, root, byRoot[root]))
		}
	}
	return all
}

func (f *flap) merge(more *flap) {
	f.frames, f.moves, f.packets = f.frames+more.frames, f.moves+more.moves, f.packets+more.packets
	maps.Copy(f.origins, more.origins)
	maps.Copy(f.took, more.took)
}

func (j *judge) flapObject(side Side) string { return side.Device + " " + string(side.Direction) }

func (j *judge) flapFault(side Side, root string, f *flap) Fault {
	fault := Fault{Kind: Flapping, Object: j.flapObject(side), Device: side.Device, Packets: f.packets,
		Share: j.share(f.packets), Follows: root, origins: f.origins}
	fault.Queues = facts.Where(j.queuesOf(side), func(q Queue) bool { return j.loads[q].moves > 0 })
	fault.Evidence = fmt.Sprintf("%d of %d frames (%s) took another queue of %s than the frame of their flow before "+
		"them: queues %s", f.moves, f.frames, words.Share(float64(f.moves)/float64(max(f.frames, 1))), side.Device,
		numbersOf(fault.Queues))
	fault.Cause, fault.Mend = j.flapCause(side, f)
	if root != "" {
		fault.Cause = "the flows changed queues before: see " + root
	}
	return fault
}

// flapCause returns the likely cause of flows that change queues, and the remedy.
func (j *judge) flapCause(side Side, f *flap) (string, Mend) {
	d := cmp.Or(j.Device(side.Device), &Device{Name: side.Device})
	by := map[Queue]map[int]uint64{} // packets by origin and CPU
	for at, queues := range f.took {
		count(by, at.origin, at.cpu, sum(queues))
	}
	var roaming setting.CPUSet // the most CPUs that handle one origin's packets
	for _, origin := range slices.SortedFunc(maps.Keys(by), compareQueues) {
		if cpus := busyCPUs(by[origin]); len(cpus) > len(roaming) && len(cpus) > 1 {
			roaming = cpus
		}
	}
	const risk = "; packets that change queues can overtake each other, which TCP takes for loss"
	switch {
	case side.Direction == Rx && d.guest():
		return "the guest sends a flow by several of its queues: its sending thread moves between CPUs" + risk,
			Mend{Text: "in the guest, keep sending threads on their CPUs, and set XPS there", Command: "mpps plan",
				Knob: "guest.xps"}
	case side.Direction == Rx && d.Kind == "nic":
		return "the NIC moves flows between its receive queues, by flow director filters or because its hash was " +
				"changed" + risk,
			Mend{Text: fmt.Sprintf("end it: ethtool -K %s ntuple on switches the automatic filters of ixgbe off; "+
				"leave the hash as it is under load", d.Name)}
	case side.Direction == Rx:
		return "who sends changes queues" + risk, Mend{Text: "keep sending threads on their CPUs"}
	case d.guest():
		return "the guest answers a flow by several of its queues, and the tap follows it" + risk,
			Mend{Text: "in the guest, keep sending threads on their CPUs, and set XPS there", Command: "mpps plan",
				Knob: "guest.xps"}
	case len(roaming) > 1 && j.byXPS(d, side) && f.byCPU():
		return fmt.Sprintf("XPS chooses the queue of %s by CPU, and one lane's packets come from %s in turn%s", d.Name,
				cpuWords(roaming), risk),
			Mend{Text: "keep the threads that send (vhost) on a CPU each", Command: "mpps plan", Knob: "vhost.threads"}
	}
	return fmt.Sprintf("the choice of %s's queue was changed while flows went on: XPS, the number of queues, or a "+
			"program", d.Name) + risk,
		Mend{Text: "leave it as it is under load; a plan sets it once", Command: steerCommand, Knob: "nic.xps"}
}
