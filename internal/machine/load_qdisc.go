package machine

import (
	"fmt"
	"maps"
	"math"
	"slices"

	tc "github.com/vishvananda/netlink"

	"mpps/internal/model/facts"
)

// qdiscLook is what is counted of one queue discipline.
type qdiscLook struct {
	kind    string
	parent  string
	packets uint32 // of 32 bits where the library reads them: it wraps after an hour at a million a second
	bytes   uint64
	drops   uint32
	over    uint32
	requeue uint32
	waiting uint32
	rate    float64 // bits per second
	// of each flow, bits per second
	flowRate float64
}

// readQdiscs reads the queue disciplines of all devices of the calling thread's namespace.
func readQdiscs(devices map[int]deviceLook) error {
	all, err := tc.QdiscList(nil)
	if err != nil {
		return err
	}
	for _, q := range all {
		a := q.Attrs()
		d, known := devices[a.LinkIndex]
		if !known || q.Type() == "noqueue" {
			continue
		}
		look := qdiscLook{kind: q.Type(), parent: parentName(a.Parent), rate: rateOf(q), flowRate: flowRateOf(q)}
		if a.Statistics != nil {
			look.count((*tc.ClassStatistics)(a.Statistics))
		}
		d.qdiscs[tc.HandleStr(a.Handle)+" "+look.parent] = look
		if q.Type() != "htb" {
			continue
		}
		link := &tc.GenericLink{LinkAttrs: tc.LinkAttrs{Index: a.LinkIndex, Name: d.name}}
		classes, err := tc.ClassList(link, 0)
		if err != nil {
			return fmt.Errorf("classes of %s: %w", d.name, err)
		}
		for _, c := range classes {
			htb, is := c.(*tc.HtbClass)
			if !is {
				continue
			}
			class := qdiscLook{kind: "htb", parent: tc.HandleStr(htb.Handle), rate: float64(htb.Ceil) * 8}
			if htb.Statistics != nil {
				class.count(htb.Statistics)
			}
			d.qdiscs["class "+class.parent] = class
		}
	}
	return nil
}

func (q *qdiscLook) count(s *tc.ClassStatistics) {
	if s.Basic != nil {
		q.packets, q.bytes = s.Basic.Packets, s.Basic.Bytes
	}
	if s.Queue != nil {
		q.drops, q.over, q.requeue, q.waiting = s.Queue.Drops, s.Queue.Overlimits, s.Queue.Requeues, s.Queue.Qlen
	}
}

func parentName(parent uint32) string {
	switch parent {
	case tc.HANDLE_ROOT:
		return "root"
	case tc.HANDLE_INGRESS: // TC_H_CLSACT is the same number
		return "ingress"
	}
	return tc.HandleStr(parent)
}

// rateOf is the rate that a discipline limits to, in bits per second; 0 where it limits none, or the library does not
// tell.
func rateOf(q tc.Qdisc) float64 {
	switch q := q.(type) {
	case *tc.Tbf:
		return float64(q.Rate) * 8
	case *tc.Netem:
		return float64(q.Rate64) * 8
	}
	return 0
}

// flowRateOf is the rate that a discipline limits each flow to, in bits per second; 0 where it limits none. fq says all
// ones for that (net/sched/sch_fq.c, fq_init: flow_max_rate = ~0UL).
func flowRateOf(q tc.Qdisc) float64 {
	if fq, is := q.(*tc.Fq); is && fq.FlowMaxRate != math.MaxUint32 {
		return float64(fq.FlowMaxRate) * 8
	}
	return 0
}

// grown32 is how much a counter of 32 bits grew. It wraps; but one that would have grown by half its range was set to 0
// in between, as when the disciplines of a device's queues are remade under their old handles.
func grown32(before, after uint32) uint64 {
	if grown := after - before; grown < 1<<31 {
		return uint64(grown)
	}
	return uint64(after)
}

// qdiscsBetween is what a device's disciplines did between two looks: the one at the root first.
func qdiscsBetween(before, after map[string]qdiscLook) []facts.QdiscLoad {
	all := []facts.QdiscLoad{}
	for _, key := range slices.Sorted(maps.Keys(after)) {
		b := after[key]
		a := before[key]
		if a.kind != b.kind {
			a = qdiscLook{}
		}
		load := facts.QdiscLoad{
			Kind: b.kind, Parent: b.parent, Packets: grown32(a.packets, b.packets),
			Bytes: facts.Grown(a.bytes, b.bytes), Drops: grown32(a.drops, b.drops),
			Overlimits: grown32(a.over, b.over), Requeues: grown32(a.requeue, b.requeue), Backlog: uint64(b.waiting),
			RateBps: b.rate, FlowBps: b.flowRate,
		}
		if b.parent == "root" {
			all = slices.Insert(all, 0, load)
			continue
		}
		all = append(all, load)
	}
	return all
}
