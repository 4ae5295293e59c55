package queuepath

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mpps/internal/advise/knob"
	"mpps/internal/model/setting"
)

// Kind is what can be wrong with a way.
type Kind string

// The kinds.
const (
	Funnel    Kind = "funnel"    // many queues enter a device that has fewer than both ends of the way, mostly one
	Collision Kind = "collision" // several senders on one queue while there are enough for each to have its own
	// packets of one flow take different queues of a device: they can overtake each other
	Flapping  Kind = "flapping"
	Contended Kind = "contention" // CPUs wait for the lock of a queue or of its discipline
	// packets are handled on another NUMA node than the NIC, or the guest's memory, is on
	RemoteNode Kind = "remote"
)

// kinds is the order in which faults of the same weight are named.
var kinds = []Kind{Funnel, Flapping, Collision, Contended, RemoteNode}

// Fault is something wrong with the way, with its cause and what mends it.
type Fault struct {
	Kind     Kind          `json:"kind"`
	Object   string        `json:"object"` // a device, "eth0 tx 3", or "vhost of vm1"
	Device   string        `json:"device"` // where it is seen
	Queues   []Queue       `json:"queues"` // of that device, those that are concerned
	Severity knob.Severity `json:"severity"`
	Share    float64       `json:"share"`    // of all packets of the interval, 0 to 1
	Packets  uint64        `json:"packets"`  // concerned, of those that were watched
	Evidence string        `json:"evidence"` // in numbers
	Cause    string        `json:"cause"`    // why it is so
	Mend     Mend          `json:"mend"`     // what to do
	// name of the fault that it is a consequence of: that one is to be mended
	Follows string `json:"follows,omitempty"`

	origins map[Queue]bool // whose packets are concerned
	full    bool           // told by full rings, which a NIC at its rate has too
}

// Name is kind and object.
func (f *Fault) Name() string { return string(f.Kind) + " " + f.Object }

// Mend is what would mend a fault.
type Mend struct {
	Text    string `json:"text"`
	Command string `json:"command,omitempty"` // of mpps
	Knob    string `json:"knob,omitempty"`    // of the catalogue, for mpps explain
}

const steer = "mpps path --steer"

// What is too little to be a fault. An idle host has ARP, neighbour discovery, an administrator's session; none of it
// is slowed down by a queue that it shares.
const (
	leastPackets = 200  // of a fault, watched
	leastRate    = 500  // packets per second of a fault
	leastShare   = 0.02 // of all packets: of a fault
	sender       = 0.02 // of a device's packets: who sends less does not count as a sender, and
	// of a queue's packets: who has less does not share it; but of many a quarter of an equal part is enough,
	party     = 0.05
	leastPart = 0.002
	leastSent = 50 // packets of a sender or party
)

// Faults are what is wrong, the worst first, each followed by its consequences. There are none on a healthy path.
func Faults(o *Observation) []Fault {
	j := newJudge(o)
	flapping := j.flapping()
	funnels := j.funnels()
	collisions := j.collisions(funnels, flapping)
	all := slices.Concat(flapping, j.harmful(funnels, collisions), collisions)
	all = append(all, j.contention(all)...)
	all = append(all, j.remote()...)
	for i := range all {
		all[i].Severity = severity(&all[i])
	}
	return j.order(all)
}

// severity follows the share: a fault is as bad as the part of the packets that it meets. A remote node costs a part of
// the packet's time, where the others end what a second CPU could add.
func severity(f *Fault) knob.Severity {
	s := knob.Low
	switch {
	case f.full:
	case f.Share >= 0.3:
		s = knob.High
	case f.Share >= 0.1:
		s = knob.Medium
	}
	if f.Kind == RemoteNode {
		s--
	}
	return s
}

// order puts causes first, the worst at the head, and behind each its consequences.
func (j *judge) order(all []Fault) []Fault {
	depth := func(f *Fault) int { return j.depths[Side{f.Device, f.direction()}] }
	byWeight := func(a, b Fault) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(slices.Index(kinds, a.Kind),
			slices.Index(kinds, b.Kind)),
			cmp.Compare(depth(&a), depth(&b)), cmp.Compare(b.Packets, a.Packets), strings.Compare(a.Object, b.Object))
	}
	slices.SortStableFunc(all, byWeight)
	ordered := make([]Fault, 0, len(all))
	placed := make([]bool, len(all))
	var behind func(name string)
	behind = func(name string) {
		for i := range all {
			if !placed[i] && all[i].Follows == name {
				placed[i] = true
				ordered = append(ordered, all[i])
				behind(all[i].Name())
			}
		}
	}
	behind("")
	return ordered
}

func (f *Fault) direction() Direction {
	if len(f.Queues) > 0 {
		return f.Queues[0].Direction
	}
	return Tx
}

func percent(part float64) string {
	if part > 0 && part < 0.0095 {
		return fmt.Sprintf("%.1f %%", part*100)
	}
	return fmt.Sprintf("%.0f %%", part*100)
}

// some writes a number with its noun.
func some(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// numbersOf writes queues of one device as the kernel writes lists of CPUs.
func numbersOf(queues []Queue) string {
	var all []int
	unnamed := false
	for _, q := range queues {
		if q.Queue < 0 {
			unnamed = true
			continue
		}
		all = append(all, q.Queue)
	}
	text := setting.CPUs(all...).String()
	switch {
	case unnamed && text == "":
		return "none recorded"
	case unnamed:
		return text + " and none recorded"
	}
	return text
}

// devicesOf writes which queues of which devices: "vnet0 0-3, vnet1 0,2".
func devicesOf(queues []Queue) string {
	by := map[string][]Queue{}
	for _, q := range queues {
		by[q.Device] = append(by[q.Device], q)
	}
	const most = 4
	var words []string
	for _, device := range slices.SortedFunc(maps.Keys(by),
		func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) }) {
		if len(words) == most {
			words = append(words, "and of "+some(len(by)-most, "more device"))
			break
		}
		words = append(words, device+" "+numbersOf(by[device]))
	}
	return strings.Join(words, ", ")
}
