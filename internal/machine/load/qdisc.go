package load

import (
	"fmt"
	"maps"
	"math"
	"slices"

	tc "github.com/vishvananda/netlink"

	"mpps/internal/model/facts"
)

// qdiscLook has the counters of one qdisc.
type qdiscLook struct {
	kind    string
	parent  string
	packets uint32 // the library reads 32 bits, which wrap after an hour at 1 Mpps
	bytes   uint64
	drops   uint32
	over    uint32
	requeue uint32
	waiting uint32
	rate    float64 // bits per second
	// limit of each flow, bits per second
	flowRate float64
}

// readQdiscs reads the qdiscs of all devices in the calling thread's namespace.
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
			look.setCounters((*tc.ClassStatistics)(a.Statistics))
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
				class.setCounters(htb.Statistics)
			}
			d.qdiscs["class "+class.parent] = class
		}
	}
	return nil
}

func (q *qdiscLook) setCounters(s *tc.ClassStatistics) {
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

// rateOf returns a qdisc's rate limit in bits per second; 0 if it has none or it is unknown.
func rateOf(q tc.Qdisc) float64 {
	switch q := q.(type) {
	case *tc.Tbf:
		return float64(q.Rate) * 8
	case *tc.Netem:
		return float64(q.Rate64) * 8
	}
	return 0
}

// flowRateOf returns a qdisc's rate limit of each flow in bits per second; 0 if it has none, which fq shows as all ones
// (net/sched/sch_fq.c, fq_init: flow_max_rate = ~0UL).
func flowRateOf(q tc.Qdisc) float64 {
	if fq, is := q.(*tc.Fq); is && fq.FlowMaxRate != math.MaxUint32 {
		return float64(fq.FlowMaxRate) * 8
	}
	return 0
}

// grown32 returns the growth of a 32-bit counter that may wrap. Growth by half the range or more means that it was
// reset, as when the qdiscs of a device's queues are recreated with their old handles.
func grown32(before, after uint32) uint64 {
	if grown := after - before; grown < 1<<31 {
		return uint64(grown)
	}
	return uint64(after)
}

// qdiscsBetween returns the load of a device's qdiscs between two readings, root first.
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
			Bytes: facts.Increase(a.bytes, b.bytes), Drops: grown32(a.drops, b.drops),
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
