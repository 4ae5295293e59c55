package bottleneck

import (
	"fmt"
	"slices"

	"mpps/internal/model/facts"
)

// shapers are queue disciplines that limit a rate.
var shapers = []string{"tbf", "htb", "hfsc", "cbq", "cake", "netem", "red", "sfb", "choke", "drr", "ets"}

// rateLimits are queue disciplines that send at the rate that they are set to, and filters that drop what is above one.
func rateLimits(k *look) (found []suspect) {
	for i := range k.l.Devices {
		d := &k.l.Devices[i]
		var lost loss
		for _, s := range k.losses {
			if s.at == atQdisc && s.device == d {
				lost = s
			}
		}
		for _, q := range d.Qdisc {
			if f, is := k.rateLimit(d, &q, lost); is {
				found = append(found, f)
				break // the first is the outermost
			}
		}
	}
	for _, s := range k.lost(atFilter) {
		if s.share < 0.01 {
			continue
		}
		object := "a tc filter"
		f := suspect{kind: Policer, strength: 0.88, lost: s.packets, share: s.share}
		if s.device != nil {
			object = "filter at " + called(s.device)
			f.keys = []string{"dev:" + called(s.device)}
		}
		f.object = object
		f.say = fmt.Sprintf("%s drops %s of the packets", object, percent(s.share))
		f.evidence = []Evidence{{"dropped by a filter", k.rate(s.packets), "packets/s", s.source}}
		found = append(found, f)
	}
	return found
}

func (k *look) rateLimit(d *facts.DeviceLoad, q *facts.QdiscLoad, lost loss) (suspect, bool) {
	rate := k.rate(float64(q.Bytes) * 8)
	waits := lost.packets > 0 || q.Backlog > 0
	f := suspect{
		kind: RateLimit, object: fmt.Sprintf("%s of %s", q.Kind, called(d)), keys: []string{"dev:" + called(d)},
		lost: lost.packets, share: lost.share,
	}
	if d.Guest != "" {
		f.keys = append(f.keys, "guest:"+d.Guest)
	}
	if lost.packets > 0 {
		f.evidence = append(f.evidence, Evidence{"dropped there", k.rate(lost.packets), "packets/s", lost.source})
	}
	if q.Backlog > 0 {
		f.evidence = append(f.evidence, Evidence{"packets that wait", float64(q.Backlog), "packets",
			"tc -s qdisc show dev " + d.Name})
	}
	switch full := rate / max(q.RateBps, 1); {
	case q.RateBps > 0 && full >= 0.85 && (waits || q.Overlimits > 0):
		f.strength = 0.97
		if !waits {
			f.strength = 0.8
		}
		f.say = fmt.Sprintf("%s lets %s through, and its limit is %s", f.object, bitrate(rate), bitrate(q.RateBps))
		f.evidence = append([]Evidence{
			{"rate through " + f.object, rate, "bit/s", "tc -s qdisc show dev " + d.Name},
			{"its limit", q.RateBps, "bit/s", "tc qdisc show dev " + d.Name},
		}, f.evidence...)
	case q.RateBps > 0 && lost.packets > 0 && k.matters(lost) && q.Overlimits > 0:
		f.strength = 0.85 // in bursts
		f.say = fmt.Sprintf("%s holds packets back to %s and loses %s of them", f.object, bitrate(q.RateBps),
			percent(lost.share))
	case q.FlowBps > 0 && k.matters(lost):
		f.strength = 0.85
		f.say = fmt.Sprintf("%s lets %s of each flow through and loses %s of the packets", f.object, bitrate(q.FlowBps),
			percent(lost.share))
		f.evidence = append([]Evidence{{"its limit of each flow", q.FlowBps, "bit/s", "tc qdisc show dev " + d.Name}},
			f.evidence...)
	case q.Kind == "fq" && q.Backlog > 0 && k.matters(lost) && neverFull(d):
		f.strength = 0.75
		f.say = fmt.Sprintf("%s holds packets back, at a device that takes every packet at once, and loses %s of "+
			"them: it limits the rate of flows", f.object, percent(lost.share))
	case q.RateBps == 0 && slices.Contains(shapers, q.Kind) && q.Overlimits > 0 && waits, q.RateBps == 0 &&
		q.Kind == "netem" && lost.packets > 0 && k.matters(lost):
		f.strength = 0.8
		f.say = fmt.Sprintf("%s held packets back %s times a second", f.object, amount(k.rate(float64(q.Overlimits))))
		f.evidence = append(f.evidence, Evidence{"times that it was over its limit", k.rate(float64(q.Overlimits)),
			"times/s", "tc -s qdisc show dev " + d.Name})
	default:
		return suspect{}, false
	}
	return f, true
}

// neverFull reports whether a device has no queue of its own that could fill up and make its queue discipline wait: of
// a fq before it packets wait for their flow's time alone (net/sched/sch_fq.c, fq_dequeue).
func neverFull(d *facts.DeviceLoad) bool {
	return d.Kind == "veth" && d.Counters["tx_dropped"] == 0 &&
		!slices.ContainsFunc(d.Queues, func(q facts.QueueLoad) bool { return q.Stopped > 0 })
}

// qdiscLimits are queues of queue disciplines that overflow although nobody limits the rate.
func qdiscLimits(k *look) (found []suspect) {
	for _, s := range k.lost(atQdisc) {
		if s.device == nil || slices.ContainsFunc(s.device.Qdisc, func(q facts.QdiscLoad) bool {
			return q.RateBps > 0 ||
				slices.Contains(shapers, q.Kind)
		}) {
			continue
		}
		f := suspect{
			kind: QdiscLimit, object: "queue of " + called(s.device), strength: 0.72, lost: s.packets, share: s.share,
			keys: []string{"dev:" + called(s.device)},
			say: fmt.Sprintf("the transmit queue of %s is full: %s of the packets are lost", called(s.device),
				percent(s.share)),
			evidence: []Evidence{{"dropped there", k.rate(s.packets), "packets/s", s.source}},
		}
		if s.device.Guest != "" {
			f.keys = append(f.keys, "guest:"+s.device.Guest)
		}
		for _, n := range k.h.NICs {
			if n.Name == s.device.Name && n.TxQueueLen > 0 && n.TxQueueLen < 500 {
				f.strength = 0.9
				f.evidence = append(f.evidence, Evidence{"length of the queue", float64(n.TxQueueLen), "packets",
					"/sys/class/net/" + n.Name + "/tx_queue_len"})
			}
		}
		found = append(found, f)
	}
	return found
}

// tapQueues are taps that overflow while whoever empties them has time: for bursts the queue is too short.
func tapQueues(k *look) (found []suspect) {
	for _, s := range k.lost(atTap) {
		if s.device == nil {
			continue
		}
		d := s.device
		f := suspect{
			kind: TapQueue, object: called(d), strength: 0.72, lost: s.packets, share: s.share,
			keys: []string{"dev:" + called(d), "guest:" + d.Guest},
			say: fmt.Sprintf("the queue of %s is full: %s of the packets are lost, while guest and vhost "+
				"threads have time", called(d), percent(s.share)),
			evidence: []Evidence{{"lost at " + called(d), k.rate(s.packets), "packets/s", s.source}},
		}
		if !slices.ContainsFunc(k.guests, func(g *guest) bool { return g.name == d.Guest && len(g.vcpus) > 0 }) {
			f.strength = 0.55 // who empties it was not seen: they may have no time
			f.say = fmt.Sprintf("the queue of %s is full: %s of the packets are lost; whether who empties it has "+
				"time was not seen", called(d), percent(s.share))
		}
		if d.TxPackets == 0 {
			f.kind, f.strength, f.stage = GuestDown, 0.9, ""
			f.object = d.Guest
			if f.object == "" {
				f.object = called(d)
			}
			f.say = fmt.Sprintf("%s takes no packets: all %s per second for %s are lost", f.object,
				amount(k.rate(s.packets)), called(d))
			found = append(found, f)
			continue
		}
		for _, t := range k.h.Taps {
			if t.Name != d.Name || d.Netns != "" && t.TxQueueLen == 0 {
				continue
			}
			f.evidence = append(f.evidence, Evidence{"length of its queue", float64(t.TxQueueLen), "packets",
				"/sys/class/net/" + d.Name + "/tx_queue_len"})
			f.say += fmt.Sprintf("; it holds %d", t.TxQueueLen)
			switch {
			case t.TxQueueLen < 500: // the default is 1000
				f.strength = 0.93
			case t.TxQueueLen >= 5000:
				f.strength = 0.6
			}
			break
		}
		found = append(found, f)
	}
	return found
}
