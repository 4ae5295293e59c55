package bottleneck

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/model/facts"
)

// shapers are the queue disciplines that limit a rate.
var shapers = []string{"tbf", "htb", "hfsc", "cbq", "cake", "netem", "red", "sfb", "choke", "drr", "ets"}

// rateLimits blames queue disciplines that send at their configured rate, and filters that drop what exceeds one.
func rateLimits(p *path) (found []suspect) {
	for d := range facts.Each(p.l.Devices) {
		var lost loss
		for _, s := range p.losses {
			if s.at == atQdisc && s.device == d {
				lost = s
			}
		}
		if p.takesCopies(d, lost.packets) {
			continue
		}
		for _, q := range d.Qdisc {
			if f, is := p.rateLimit(d, &q, lost); is {
				found = append(found, f)
				break // the first is the outermost
			}
		}
	}
	for _, s := range p.lossesAt(atFilter) {
		if s.share < 0.01 {
			continue
		}
		f := suspect{kind: Policer, object: "a tc filter", strength: 0.88, lost: s.packets, share: s.share}
		if s.device != nil {
			f.object = "filter at " + deviceName(s.device)
			f.keys = []string{deviceKey(s.device)}
		}
		limit := p.policed(s.device)
		if limit != nil {
			f.kind, f.object = OVSPolicer, "policer of Open vSwitch at "+deviceName(s.device)
		}
		f.say = fmt.Sprintf("%s drops %s of the packets", f.object, percent(s.share))
		f.show("dropped by a filter", p.rate(s.packets), "packets/s", s.source)
		if limit != nil && limit.PolicingRate > 0 {
			f.show("its rate", float64(limit.PolicingRate)*1000, "bit/s", "ingress_policing_rate")
		}
		if limit != nil && limit.PacketRate > 0 {
			f.show("its packet rate", float64(limit.PacketRate)*1000, "packets/s", "ingress_policing_kpkts_rate")
		}
		found = append(found, f)
	}
	return found
}

// rateLimit returns the suspect of a queue discipline at a device that lost packets there; false if it limits no rate.
func (p *path) rateLimit(d *facts.DeviceLoad, q *facts.QdiscLoad, lost loss) (suspect, bool) {
	rate := p.rate(float64(q.Bytes) * 8)
	waits := lost.packets > 0 || q.Backlog > 0
	show := "tc qdisc show dev " + d.Name
	statistics := "tc -s qdisc show dev " + d.Name
	f := suspect{kind: RateLimit, object: q.Kind + " of " + deviceName(d), keys: deviceKeys(d), lost: lost.packets,
		share: lost.share}
	if lost.packets > 0 {
		f.show("dropped there", p.rate(lost.packets), "packets/s", lost.source)
	}
	if q.Backlog > 0 {
		f.show("packets that wait", float64(q.Backlog), "packets", statistics)
	}
	switch full := rate / max(q.RateBps, 1); {
	case q.RateBps > 0 && full >= 0.85 && (waits || q.Overlimits > 0):
		f.strength = 0.97
		if !waits {
			f.strength = 0.8
		}
		f.say = fmt.Sprintf("%s lets %s through, and its limit is %s", f.object, bitrate(rate), bitrate(q.RateBps))
		f.evidence = append([]Evidence{
			{"rate through " + f.object, rate, "bit/s", statistics},
			{"its limit", q.RateBps, "bit/s", show},
		}, f.evidence...)
	case q.RateBps > 0 && p.matters(lost) && q.Overlimits > 0:
		f.strength = 0.85 // in bursts
		f.say = fmt.Sprintf("%s holds packets back to %s and loses %s of them", f.object, bitrate(q.RateBps),
			percent(lost.share))
	case q.Kind == "tbf" && p.matters(lost): // net/sched/sch_tbf.c, tbf_enqueue: q->max_size
		f.strength = 0.85
		f.say = fmt.Sprintf("%s loses %s of the packets, though its limit of %s is not reached: they are longer than "+
			"its burst", f.object, percent(lost.share), bitrate(q.RateBps))
		f.advice = "a burst of at least the device's MTU and the frame's header: tc qdisc change"
	case q.FlowBps > 0 && p.matters(lost):
		f.strength = 0.85
		f.say = fmt.Sprintf("%s lets %s of each flow through and loses %s of the packets", f.object, bitrate(q.FlowBps),
			percent(lost.share))
		f.evidence = append([]Evidence{{"its limit of each flow", q.FlowBps, "bit/s", show}}, f.evidence...)
	case q.Kind == "fq" && q.Backlog > 0 && p.matters(lost) && takesAll(d):
		f.strength = 0.75
		f.say = fmt.Sprintf("%s holds packets back, at a device that takes every packet at once, and loses %s of "+
			"them: it limits the rate of flows", f.object, percent(lost.share))
	case q.RateBps == 0 && (slices.Contains(shapers, q.Kind) && q.Overlimits > 0 && waits ||
		q.Kind == "netem" && p.matters(lost)):
		f.strength = 0.8
		over := p.rate(float64(q.Overlimits))
		f.say = fmt.Sprintf("%s held packets back %s times a second", f.object, amount(over))
		f.show("times that it was over its limit", over, "times/s", statistics)
	default:
		return suspect{}, false
	}
	return f, true
}

// deviceKeys returns the keys of a device and its guest.
func deviceKeys(d *facts.DeviceLoad) []string {
	if d.Guest == "" {
		return []string{deviceKey(d)}
	}
	return []string{deviceKey(d), "guest:" + d.Guest}
}

// takesAll reports whether a device has no queue of its own that could fill up and stop its queue discipline. In an fq
// before such a device packets wait only for their flow's time (net/sched/sch_fq.c, fq_dequeue).
func takesAll(d *facts.DeviceLoad) bool {
	return d.Kind == "veth" && d.Counters["tx_dropped"] == 0 &&
		!slices.ContainsFunc(d.Queues, func(q facts.QueueLoad) bool { return q.Stopped > 0 })
}

// qdiscLimits blames queue disciplines that limit no rate and yet overflow.
func qdiscLimits(p *path) (found []suspect) {
	for _, s := range p.lossesAt(atQdisc) {
		d := s.device
		if d == nil || p.takesCopies(d, s.packets) || slices.ContainsFunc(d.Qdisc, func(q facts.QdiscLoad) bool {
			return q.RateBps > 0 || slices.Contains(shapers, q.Kind)
		}) {
			continue
		}
		f := suspect{
			kind: QdiscLimit, object: "queue of " + deviceName(d), strength: 0.72, lost: s.packets, share: s.share,
			keys: deviceKeys(d),
			say: fmt.Sprintf("the transmit queue of %s is full: %s of the packets are lost", deviceName(d),
				percent(s.share)),
			evidence: []Evidence{{"dropped there", p.rate(s.packets), "packets/s", s.source}},
		}
		if n := p.nic(d.Name); n != nil && n.TxQueueLen > 0 && n.TxQueueLen < 500 {
			f.strength = 0.9
			f.show("length of the queue", float64(n.TxQueueLen), "packets", "/sys/class/net/"+n.Name+"/tx_queue_len")
		}
		found = append(found, f)
	}
	return found
}

// tapQueues blames taps that overflow while their readers have time: the queue is too short for bursts.
func tapQueues(p *path) (found []suspect) {
	for _, s := range p.lossesAt(atTap) {
		d := s.device
		if d == nil {
			continue
		}
		name := deviceName(d)
		f := suspect{
			kind: TapQueue, object: name, strength: 0.72, lost: s.packets, share: s.share,
			keys: []string{deviceKey(d), "guest:" + d.Guest},
			say: fmt.Sprintf("the queue of %s is full: %s of the packets are lost, while guest and vhost "+
				"threads have time", name, percent(s.share)),
			evidence: []Evidence{{"lost at " + name, p.rate(s.packets), "packets/s", s.source}},
		}
		if received, _ := d.ToProgram(); received == 0 && len(d.Held) == 0 {
			f.kind, f.strength, f.object = GuestDown, 0.9, cmp.Or(d.Guest, name)
			f.say = fmt.Sprintf("%s takes no packets: all %s per second for %s are lost", f.object,
				amount(p.rate(s.packets)), name)
			found = append(found, f)
			continue
		}
		if q := unreadQueue(d); q != "" && d.Guest == "" {
			f.kind, f.strength = TapReader, 0.88
			f.say = fmt.Sprintf("%s of %s is not read: its packets are the %s that are lost, and the other queues "+
				"lose none", q, name, percent(s.share))
			f.advice = "have its program read every queue that it opened, or give the queue up (TUNSETQUEUE)"
			found = append(found, f)
			continue
		}
		if r, is := p.tapReader(d, f); is {
			found = append(found, r)
			continue
		}
		if !slices.ContainsFunc(p.guests, func(g *guest) bool { return g.name == d.Guest && len(g.vcpus) > 0 }) {
			f.strength = 0.55 // its readers are not in the load: they may have no time
			f.say = fmt.Sprintf("the queue of %s is full: %s of the packets are lost; whether who empties it has "+
				"time was not seen", name, percent(s.share))
		}
		waits := func(t *facts.ThreadLoad) float64 { return t.Waited }
		for _, g := range p.guests {
			w := most(slices.Values(slices.Concat(g.vhost, g.vcpus)), waits)
			if g.name == d.Guest && w != nil && w.Waited >= minWait {
				f.strength = 0.6
				f.say = fmt.Sprintf("the queue of %s is full: %s of the packets are lost; it is too short for bursts, "+
					"or for the time that %s waits for a CPU (%s)", name, percent(s.share), label(w), percent(w.Waited))
			}
		}
		if t := facts.Find(p.h.Taps, func(t *facts.Tap) bool {
			return t.Name == d.Name && (d.Netns == "" || t.TxQueueLen != 0)
		}); t != nil {
			f.show("length of its queue", float64(t.TxQueueLen), "packets", "/sys/class/net/"+d.Name+"/tx_queue_len")
			f.say += fmt.Sprintf("; it holds %d", t.TxQueueLen)
			switch {
			case t.TxQueueLen < 500: // the default is 1000
				f.strength = 0.93
			case t.TxQueueLen >= 5000:
				f.strength = 0.6
			}
		}
		found = append(found, f)
	}
	return found
}

// unreadQueue returns the transmit queue of a tap all of whose packets are lost, while the other queues lose none, or
// "a queue" if several had as many; "" if there is none such. The tap counts what it drops after a queue's discipline
// has passed it on (drivers/net/tun.c, tun_net_xmit).
func unreadQueue(d *facts.DeviceLoad) string {
	lost, found := float64(d.Counters["tx_dropped"]), ""
	for _, q := range d.Qdisc {
		number, isQueue := strings.CutPrefix(q.Parent, "0:") // the queue of mq, counted from 1
		n, err := strconv.ParseUint(number, 16, 16)
		if !isQueue || err != nil || q.Packets == 0 || math.Abs(float64(q.Packets)-lost) > 0.01*lost {
			continue
		}
		if found != "" {
			return "a queue"
		}
		found = "queue " + strconv.FormatUint(n-1, 10)
	}
	return found
}

// tapReader returns what is to be said of the program that has a tap open which loses packets: what it waits for, or
// how busy it is. False if no program is known, or if it is a guest's.
func (p *path) tapReader(d *facts.DeviceLoad, lost suspect) (suspect, bool) {
	t := p.busiestOfProcess(d.Held...)
	if d.Guest != "" || len(d.Held) == 0 {
		return suspect{}, false
	}
	lost.kind, lost.strength = TapReader, 0.8
	lost.say = fmt.Sprintf("the queue of %s is full: %s of the packets are lost", lost.object, percent(lost.share))
	if t == nil {
		lost.say += "; the program that has it open sleeps"
		lost.waitsIn(d.HeldWaits)
		return lost, true
	}
	lost.keys = append(lost.keys, cpuKey(cpuOf(t)))
	if t.Throttle >= minThrottle {
		lost.strength = 0.9
		lost.say += fmt.Sprintf("; the cgroup of %s, which reads it, is held back %s of the time", label(t),
			percent(t.Throttle))
		lost.advice = "raise or take away the quota: cpu.max of its cgroup"
		lost.show("share of the time that its cgroup was throttled", t.Throttle, "share", "cpu.stat")
		return lost, true
	}
	if p.heldBack(t) {
		if f, is := p.heldUp(t, lost); is {
			return f, true
		}
	}
	lost.show("share of a CPU that "+label(t)+" used", t.Ran, "share", schedstat(t))
	received, _ := d.ToProgram()
	read := p.rate(float64(received))
	lost.show("packets that it reads", read, "packets/s", "counters of "+d.Name)
	lost.say += fmt.Sprintf("; %s, which reads it, takes %s a second and is at %s of a CPU", label(t),
		amount(read), percent(t.Ran))
	lost.waitsIn(d.HeldWaits)
	if p.saturated(t) {
		lost.strength = 0.92
	} else if read > 0 && t.Ran < 0.5 && lost.share < 0.5 {
		return suspect{}, false // it has time and reads most: the queue is too short for bursts
	}
	return lost, true
}
