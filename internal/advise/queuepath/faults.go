package queuepath

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"mpps/internal/advise/knob"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

// Kind is what can be wrong with a path.
type Kind string

// The kinds.
const (
	Funnel    Kind = "funnel"    // many queues enter a device with fewer queues than both ends of the path, mostly one
	Collision Kind = "collision" // several senders on one queue while there are enough queues for each
	// packets of one flow take different queues of a device, so they can be reordered
	Flapping  Kind = "flapping"
	Contended Kind = "contention" // CPUs wait for the lock of a queue or of its discipline
	// packets are handled on another NUMA node than that of the NIC or of the guest's memory
	RemoteNode Kind = "remote"
)

// kinds orders faults of the same severity.
var kinds = []Kind{Funnel, Flapping, Collision, Contended, RemoteNode}

// Fault is something wrong with the path, with its cause and remedy.
type Fault struct {
	Kind     Kind          `json:"kind"`
	Object   string        `json:"object"` // a device, "eth0 tx 3", or "vhost of vm1"
	Device   string        `json:"device"` // where it shows
	Queues   []Queue       `json:"queues"` // affected queues of that device
	Severity knob.Severity `json:"severity"`
	Share    float64       `json:"share"`    // of all packets of the interval, 0 to 1
	Packets  uint64        `json:"packets"`  // affected, of those that were watched
	Evidence string        `json:"evidence"` // in numbers
	Cause    string        `json:"cause"`    // why it happens
	Mend     Mend          `json:"mend"`     // what to do
	// name of the fault that causes it: fix that one
	Follows string `json:"follows,omitempty"`

	origins map[Queue]bool // whose packets are affected
	full    bool           // seen by full rings, which a NIC at line rate has too
}

// Name returns kind and object.
func (f *Fault) Name() string { return string(f.Kind) + " " + f.Object }

// Mend is the remedy of a fault.
type Mend struct {
	Text    string `json:"text"`
	Command string `json:"command,omitempty"` // of mpps
	Knob    string `json:"knob,omitempty"`    // of the catalogue, for mpps explain
}

const steerCommand = "mpps path --steer"

// Lower bounds of a fault. An idle host has ARP, neighbour discovery and an administrator's session; sharing a queue
// slows none of them down.
const (
	leastPackets = 200  // of a fault, watched
	leastRate    = 500  // packets per second of a fault
	leastShare   = 0.02 // of all packets: of a fault
	senderPart   = 0.02 // of a device's packets: the least share of a sender
	// of a queue's packets: the least share of a party to it; if there are many, a quarter of an equal share is enough
	partyPart = 0.05
	leastPart = 0.002
	leastSent = 50 // packets of a sender or party
)

// Faults returns what is wrong, the worst first, each followed by its consequences; an empty list on a healthy path.
func Faults(o *Observation) []Fault {
	j := newJudge(o)
	flapping := j.flapping()
	funnels := j.funnels()
	collisions := j.collisions(funnels, flapping)
	all := slices.Concat(flapping, j.harmfulFunnels(funnels, collisions), collisions)
	all = append(all, j.contention(all)...)
	all = append(all, j.remoteFaults()...)
	for i := range all {
		all[i].Severity = severity(&all[i])
	}
	return j.order(all)
}

// severity follows the share of the affected packets. A remote node is less severe: it costs some of a packet's time,
// while the others stop packets from using a second CPU.
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

// order sorts causes, the worst first, and puts the consequences after each.
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
	var add func(follows string)
	add = func(follows string) {
		for i := range all {
			if !placed[i] && all[i].Follows == follows {
				placed[i] = true
				ordered = append(ordered, all[i])
				add(all[i].Name())
			}
		}
	}
	add("")
	return ordered
}

func (f *Fault) direction() Direction {
	if len(f.Queues) > 0 {
		return f.Queues[0].Direction
	}
	return Tx
}

// numbersOf formats queues of one device like the kernel formats lists of CPUs.
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

// devicesOf formats queues by device: "vnet0 0-3, vnet1 0,2".
func devicesOf(queues []Queue) string {
	by := map[string][]Queue{}
	for _, q := range queues {
		by[q.Device] = append(by[q.Device], q)
	}
	const most = 4
	var names []string
	for _, device := range slices.SortedFunc(maps.Keys(by),
		func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) }) {
		if len(names) == most {
			names = append(names, "and of "+words.Count(len(by)-most, "more device"))
			break
		}
		names = append(names, device+" "+numbersOf(by[device]))
	}
	return strings.Join(names, ", ")
}
