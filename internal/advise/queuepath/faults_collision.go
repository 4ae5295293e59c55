package queuepath

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

// clash is a queue that more senders share than necessary.
type clash struct {
	queue   Queue
	parties []Queue
	packets uint64
}

// collisions returns the devices with more senders on a queue than the device's senders divided by its queues. With XPS
// a sender is a CPU: its packets take one queue, and two lanes of one CPU do not wait for each other. Without XPS it is
// the queue that the packet came from.
func (j *judge) collisions(funnels, flapping []Fault) []Fault {
	var all []Fault
	for _, side := range j.orderedSides() {
		d := j.Device(side.Device)
		if side.Direction != Tx || d == nil || d.TxQueues < 2 || !d.Terminal() || !j.matters(j.sides[side].packets) {
			continue
		}
		switch {
		case d.guest():
			all = append(all, j.guestCollision(d, side)...)
		case j.inward(d):
		case j.byXPS(d, side):
			all = append(all, j.xpsCollision(d, side)...)
		default:
			all = append(all, j.laneCollisions(d, side, funnels)...)
		}
	}
	for f := range facts.Each(all) {
		f.Follows = cmp.Or(j.flappingBehind(flapping, f), f.Follows)
	}
	return all
}

// flappingBehind returns the name of the flapping that causes a collision, "" if none does: without the flows that
// change queues each queue of the device would have one sender.
func (j *judge) flappingBehind(flapping []Fault, c *Fault) string {
	flap := facts.Find(flapping, func(p *Fault) bool { return p.Device == c.Device && p.direction() == Tx })
	if flap == nil {
		return ""
	}
	var moving uint64
	for _, q := range c.Queues {
		steady := 0
		for origin, n := range j.loads[q].byOrigin {
			switch {
			case flap.origins[origin]:
				moving += n
			case c.origins[origin] && float64(n) >= partyPart*float64(j.loads[q].packets):
				steady++
			}
		}
		if steady > 1 {
			return ""
		}
	}
	if float64(moving) < partyPart*float64(c.Packets) {
		return ""
	}
	return cmp.Or(flap.Follows, flap.Name())
}

// byXPS reports whether the CPU chooses the queue: the CPUs that send at least 90 % of the packets have XPS sets.
func (j *judge) byXPS(d *Device, side Side) bool {
	var covered uint64
	for cpu, n := range j.sides[side].choosers {
		if slices.ContainsFunc(d.XPS, func(s setting.CPUSet) bool { return s.Has(cpu) }) {
			covered += n
		}
	}
	return float64(covered) >= 0.9*float64(j.sides[side].packets)
}

// xpsCollision finds queues that XPS gives to more sending CPUs than necessary. Also queues whose set has more CPUs
// than necessary and where lanes meet, even if one CPU alone sent all of them just now.
func (j *judge) xpsCollision(d *Device, side Side) []Fault {
	total := j.sides[side]
	fair := fairShare(len(cpusWith(total.choosers, senderPart)), d.TxQueues)
	lanes := fairShare(len(total.senders(senderPart)), d.TxQueues)
	var mapped setting.CPUSet
	for _, set := range d.XPS {
		mapped = mapped.Or(set)
	}
	f := Fault{Kind: Collision, Device: d.Name, origins: queueSet(nil)}
	var sending []int
	for _, q := range j.queuesOf(side) {
		l := j.loads[q]
		cpus, from := cpusWith(l.choosers, partyPart), l.senders(partyPart)
		unfair := q.Queue < len(d.XPS) && len(d.XPS[q.Queue]) > fairShare(len(mapped), d.TxQueues)
		if !j.matters(l.packets) || len(cpus) <= fair && !(unfair && len(from) > lanes) {
			continue
		}
		f.Queues, f.Packets, sending = append(f.Queues, q), f.Packets+l.packets, append(sending, cpus...)
		maps.Copy(f.origins, queueSet(from))
	}
	if len(f.Queues) == 0 {
		return nil
	}
	j.setObject(&f, d, side)
	f.Evidence = fmt.Sprintf("%s send%s by %s of %s; %s idle", cpuWords(setting.CPUs(sending...)),
		words.If(len(f.origins) > 0, " %s", words.Count(len(f.origins), "lane")), queueWords(f.Queues), d.Name,
		j.idle(d, side))
	q := f.Queues[0].Queue
	var set setting.CPUSet
	if q < len(d.XPS) {
		set = d.XPS[q]
	}
	f.Cause = fmt.Sprintf("XPS sends them there: /sys/class/net/%s/queues/tx-%d/xps_cpus has %s", d.Name, q,
		cpuWords(set))
	if len(f.Queues) > 1 {
		f.Cause = fmt.Sprintf("XPS sends them there: /sys/class/net/%s/queues/tx-*/xps_cpus, of queue %d %s", d.Name, q,
			cpuWords(set))
	}
	f.Mend = Mend{Text: "divide the CPUs that send, above all those of the vhost threads, among the queues of " +
		d.Name, Command: steerCommand, Knob: "nic.xps"}
	return []Fault{f}
}

// fairShare returns how many of n the fullest queue has if they are divided evenly.
func fairShare(n, queues int) int { return (n + queues - 1) / queues }

// laneCollisions finds queues where the packets of several origin queues meet, one fault for each cause.
func (j *judge) laneCollisions(d *Device, side Side, funnels []Fault) []Fault {
	from := j.sides[side].senders(senderPart)
	fair := fairShare(len(from), d.TxQueues)
	by := map[string][]clash{}
	for _, q := range j.queuesOf(side) {
		l := j.loads[q]
		parties := slices.DeleteFunc(l.senders(partyPart), func(o Queue) bool { return !slices.Contains(from, o) })
		if len(parties) <= fair || len(from) > d.TxQueues && j.sharedFairly(d, side, parties, q, fair) {
			continue
		}
		cause := j.funnelBefore(q, parties, funnels)
		if carried := d.laneCause(q, parties); carried != "" {
			cause = carried
		} else if cause == "" && sameNumbers(parties, d.TxQueues) {
			cause = "kept"
		}
		by[cause] = append(by[cause], clash{q, parties, l.packets})
	}
	var all []Fault
	for _, cause := range slices.Sorted(maps.Keys(by)) {
		f := Fault{Kind: Collision, Device: d.Name, origins: queueSet(nil)}
		for _, c := range by[cause] {
			f.Queues, f.Packets = append(f.Queues, c.queue), f.Packets+c.packets
			maps.Copy(f.origins, queueSet(c.parties))
		}
		if !j.matters(f.Packets) {
			continue
		}
		j.setObject(&f, d, side)
		meet := slices.SortedFunc(maps.Keys(f.origins), compareQueues)
		f.Evidence = fmt.Sprintf("%s (%s) meet on %s of %s; %s idle", words.Count(len(meet), "queue"), devicesOf(meet),
			queueWords(f.Queues), d.Name, j.idle(d, side))
		if crowd := mostSenders(by[cause]); len(from) > d.TxQueues && crowd > fair {
			f.Evidence += fmt.Sprintf("; %d on one where %d would do", crowd, fair)
		}
		f.Mend = Mend{Text: "give each guest queue a window of " + d.Name + "'s queues and carry its number there",
			Command: steerCommand, Knob: "overlay.queue_mapping"}
		switch cause {
		case plannedCause:
			f.Cause = fmt.Sprintf("mpps's lane program leads them there: the windows of %s were planned for other "+
				"guests, or for what they sent then", d.Name)
			f.Mend.Text = "plan the windows again, from what guests send now"
		case astrayCause:
			f.Cause = fmt.Sprintf("mpps's lane program is attached to %s, and lanes do not come out where they were "+
				"planned: something after it erases them or chooses again", d.Name)
			f.Mend = Mend{Text: "see what else is attached to the taps and to " + d.Name,
				Command: "tc filter show dev " + firstDevice(meet) + " ingress", Knob: "overlay.queue_mapping"}
		case "kept":
			f.Cause = fmt.Sprintf("the kernel takes the queue's number at the tap for the queue of %s: the first "+
				"queues of all guests are its first queues", d.Name)
		case "":
			f.Cause = fmt.Sprintf("what chose the queue of %s (a hash of the flow, where nothing else is set) knows "+
				"neither guests nor what is idle", d.Name)
		default:
			f.Follows = cause
			f.Cause = fmt.Sprintf("behind the %s a hash of the flow chooses the queue of %s", cause, d.Name)
		}
		all = append(all, f)
	}
	return all
}

// funnelBefore returns the name of the first funnel that at least 90 % of some origins' packets passed before a queue,
// "" if there is none.
func (j *judge) funnelBefore(q Queue, origins []Queue, funnels []Fault) string {
	for _, f := range funnels {
		var passed, all uint64
		for l := range facts.Each(j.lanes) {
			at := slices.IndexFunc(l.Stops, func(s Stop) bool { return s.Queue == q })
			if at < 0 || !slices.Contains(origins, l.Origin()) {
				continue
			}
			all += l.Packets
			if slices.ContainsFunc(l.Stops[:at], func(s Stop) bool { return s.Side() == Side{f.Device, Tx} }) {
				passed += l.Packets
			}
		}
		if all > 0 && float64(passed) >= 0.9*float64(all) {
			return f.Name()
		}
	}
	return ""
}

// sameNumbers reports whether queues of different devices have the same number modulo n.
func sameNumbers(queues []Queue, n int) bool {
	devices := map[string]bool{}
	for _, q := range queues {
		if q.Queue < 0 || q.Queue%n != queues[0].Queue%n {
			return false
		}
		devices[q.Device] = true
	}
	return len(devices) > 1 || len(queues) > 1 && n < len(queues)
}

// guestCollision finds a guest that receives the packets of many queues by one of its own. The guest chooses the queue:
// a tap remembers by which queue the guest sent each flow (drivers/net/tun.c, tun_automq_select_queue). The chance that
// the flows merely hash to one queue must be below 1 in 64.
func (j *judge) guestCollision(d *Device, side Side) []Fault {
	from := j.sides[side].senders(senderPart)
	if len(from) < 2 || float64(len(from)-1)*math.Log2(float64(d.TxQueues)) < 6 {
		return nil
	}
	for _, q := range j.queuesOf(side) {
		l := j.loads[q]
		if float64(l.packets) < 0.98*float64(j.sides[side].packets) {
			continue
		}
		f := Fault{Kind: Collision, Device: d.Name, Queues: []Queue{q}, Packets: l.packets, origins: queueSet(from)}
		j.setObject(&f, d, side)
		f.Evidence = fmt.Sprintf("%s (%s) lead to queue %d of %s; %s idle", words.Count(len(from), "queue"),
			devicesOf(from), q.Queue, d.Name, j.idle(d, side))
		f.Cause = "the guest answers these flows by one queue, and the tap follows it"
		f.Mend = Mend{Text: "in the guest, use all channels and spread them by CPU", Command: "mpps plan",
			Knob: "guest.xps"}
		return []Fault{f}
	}
	return nil
}

// setObject sets the object and share of a collision.
func (j *judge) setObject(f *Fault, d *Device, side Side) {
	f.Object = d.Name
	if len(f.Queues) == 1 {
		f.Object = fmt.Sprintf("%s %s %d", d.Name, side.Direction, f.Queues[0].Queue)
	}
	f.Share = j.share(f.Packets)
}

// idle returns in words how many of a device's transmit queues had next to nothing to do.
func (j *judge) idle(d *Device, side Side) string {
	return fmt.Sprintf("%d of %s", j.idleQueues(d, side), words.Count(d.TxQueues, "queue"))
}

func (j *judge) idleQueues(d *Device, side Side) int {
	busy := 0
	for _, q := range j.queuesOf(side) {
		if n := j.loads[q].packets; n >= leastSent &&
			float64(n)*float64(d.TxQueues) >= 0.1*float64(j.sides[side].packets) {
			busy++
		}
	}
	return max(0, d.TxQueues-busy)
}

// queueWords formats queues of one device with their noun.
func queueWords(queues []Queue) string {
	return words.Either(len(queues) == 1, "queue ", "queues ") + numbersOf(queues)
}

// cpuWords formats a set of CPUs with its noun.
func cpuWords(set setting.CPUSet) string { return strings.ReplaceAll(set.Words(), ",", ", ") }
