package queuepath

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"mpps/internal/model/setting"
)

// What is too rare to be called flapping: a thread that the scheduler moves takes its flows along, once for each move,
// and each flow of a device whose settings are changed moves once.
const (
	leastMoves = 20
	leastFlap  = 0.005 // of the frames
)

// flap is how often flows that came by one device changed queues of a side.
type flap struct {
	frames, moves, packets uint64
	origins                map[Queue]bool
	cpus                   map[Queue]map[int]uint64 // packets by origin and CPU that chose the queue
	took                   map[cpuOf]map[int]uint64 // and by the queue that they took
}

// cpuOf is a CPU that chooses queues for packets of an origin.
type cpuOf struct {
	origin Queue
	cpu    int
}

func newFlap() *flap {
	return &flap{origins: map[Queue]bool{}, cpus: map[Queue]map[int]uint64{}, took: map[cpuOf]map[int]uint64{}}
}

// byCPU reports whether a CPU's packets keep to a queue, so that they change it by changing the CPU.
func (f *flap) byCPU() bool {
	var all, kept uint64
	for _, queues := range f.took {
		for _, n := range queues {
			all += n
		}
		kept += queues[most(queues)]
	}
	return float64(kept) >= 0.9*float64(all)
}

// flapping are the devices whose queues flows change between, again and again. Behind the first one on their way the
// same flows mostly change queues too: a consequence.
func (j *judge) flapping() []Fault {
	seen := map[Side]map[string]*flap{} // by side, and by device of the origin
	for i := range j.Rows {
		r := &j.Rows[i]
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
		if f.cpus[r.Origin] == nil {
			f.cpus[r.Origin] = map[int]uint64{}
		}
		chooser := cpuOf{r.Origin, r.Chooser()}
		if f.took[chooser] == nil {
			f.took[chooser] = map[int]uint64{}
		}
		f.took[chooser][r.To.Queue] += r.Packets
		f.cpus[r.Origin][chooser.cpu] += r.Packets
	}
	var all []Fault
	roots := map[string]string{} // by device of the origin: where its flows begin to flap
	for _, side := range j.orderedSides() {
		byRoot := map[string]*flap{}
		for _, device := range slices.Sorted(maps.Keys(seen[side])) {
			f := seen[side][device]
			if f.moves < leastMoves || float64(f.moves) < leastFlap*float64(f.frames) || !j.weighs(f.packets) {
				continue
			}
			root := roots[device]
			if root == "" {
				roots[device] = (&Fault{Kind: Flapping, Object: j.flapObject(side)}).Name()
			}
			if byRoot[root] == nil {
				byRoot[root] = newFlap()
			}
			byRoot[root].join(f)
		}
		for _, root := range slices.Sorted(maps.Keys(byRoot)) {
			all = append(all, j.flappingAt(side, root, byRoot[root]))
		}
	}
	return all
}

func (f *flap) join(more *flap) {
	f.frames, f.moves, f.packets = f.frames+more.frames, f.moves+more.moves, f.packets+more.packets
	maps.Copy(f.origins, more.origins)
	maps.Copy(f.cpus, more.cpus)
	maps.Copy(f.took, more.took)
}

func (j *judge) flapObject(side Side) string { return side.Device + " " + string(side.Direction) }

func (j *judge) flappingAt(side Side, root string, f *flap) Fault {
	fault := Fault{Kind: Flapping, Object: j.flapObject(side), Device: side.Device, Packets: f.packets,
		Share: j.share(f.packets), Follows: root, origins: f.origins}
	for _, q := range j.queuesOf(side) {
		if j.at[q].moves > 0 {
			fault.Queues = append(fault.Queues, q)
		}
	}
	fault.Evidence = fmt.Sprintf("%d of %d frames (%s) took another queue of %s than the frame of their flow before "+
		"them: queues %s",
		f.moves, f.frames, percent(float64(f.moves)/float64(max(f.frames, 1))), side.Device, numbersOf(fault.Queues))
	fault.Cause, fault.Mend = j.whyFlapping(side, f)
	if root != "" {
		fault.Cause = "the flows changed queues before: see " + root
	}
	return fault
}

// whyFlapping says what makes flows change queues, as far as what was seen tells, and what ends it.
func (j *judge) whyFlapping(side Side, f *flap) (string, Mend) {
	d := cmp.Or(j.Device(side.Device), &Device{Name: side.Device})
	var roaming setting.CPUSet // CPUs of one origin that several CPUs handle
	for _, origin := range slices.SortedFunc(maps.Keys(f.cpus), compareQueues) {
		if cpus := busyCPUs(f.cpus[origin]); len(cpus) > len(roaming) && len(cpus) > 1 {
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
		Mend{Text: "leave it as it is under load; a plan sets it once", Command: steer, Knob: "nic.xps"}
}
