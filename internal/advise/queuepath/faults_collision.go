package queuepath

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"mpps/internal/model/setting"
)

// clash is a queue that more senders share than would need to.
type clash struct {
	queue   Queue
	parties []Queue
	packets uint64
}

// collisions are the devices on whose queues senders meet although there are enough queues: more on a queue than the
// device's senders divided by its queues. Who is a sender depends on who chooses. With XPS it is the sending CPU: what
// one CPU sends takes one queue, and two lanes of one CPU do not wait for each other. Without XPS it is the queue where
// the packet came from.
func (j *judge) collisions(funnels, flapping []Fault) []Fault {
	var all []Fault
	for _, side := range j.orderedSides() {
		d := j.Device(side.Device)
		if side.Direction != Tx || d == nil || d.TxQueues < 2 || !d.Terminal() || !j.weighs(j.sides[side].packets) {
			continue
		}
		switch {
		case d.guest():
			all = append(all, j.crowded(d, side)...)
		case j.inward(d):
		case j.byXPS(d, side):
			all = append(all, j.xpsCollision(d, side)...)
		default:
			all = append(all, j.laneCollisions(d, side, funnels)...)
		}
	}
	for i := range all {
		f := &all[i]
		if root := j.broughtBy(flapping, f); root != "" {
			f.Follows = root
		}
	}
	return all
}

// broughtBy is the name of the flapping that brings a collision about: without the flows that change queues on that
// device there would be one sender on each of its queues.
func (j *judge) broughtBy(flapping []Fault, c *Fault) string {
	at := slices.IndexFunc(flapping, func(p Fault) bool { return p.Device == c.Device && p.direction() == Tx })
	if at < 0 {
		return ""
	}
	flap := &flapping[at]
	var moving uint64
	for _, q := range c.Queues {
		steady := 0
		for origin, n := range j.at[q].byOrigin {
			switch {
			case flap.origins[origin]:
				moving += n
			case c.origins[origin] && float64(n) >= party*float64(j.at[q].packets):
				steady++
			}
		}
		if steady > 1 {
			return ""
		}
	}
	if float64(moving) < party*float64(c.Packets) {
		return ""
	}
	return cmp.Or(flap.Follows, flap.Name())
}

// byXPS reports whether the queue is chosen by the CPU: sets are there for the CPUs that send nearly all of it.
func (j *judge) byXPS(d *Device, side Side) bool {
	var covered uint64
	for cpu, n := range j.sides[side].choosers {
		if slices.ContainsFunc(d.XPS, func(s setting.CPUSet) bool { return s.Has(cpu) }) {
			covered += n
		}
	}
	return float64(covered) >= 0.9*float64(j.sides[side].packets)
}

// xpsCollision is found where XPS has more CPUs send by one queue than it must; and where a queue's set has more CPUs
// than it must and lanes meet there, even if one CPU alone sent all of them just now.
func (j *judge) xpsCollision(d *Device, side Side) []Fault {
	total := j.sides[side]
	fair := share(len(goodPart(total.choosers, sender)), d.TxQueues)
	lanes := share(len(total.senders(sender)), d.TxQueues)
	var mapped setting.CPUSet
	for _, set := range d.XPS {
		mapped = mapped.Or(set)
	}
	f := Fault{Kind: Collision, Device: d.Name, origins: map[Queue]bool{}}
	var sending []int
	for _, q := range j.queuesOf(side) {
		l := j.at[q]
		cpus, from := goodPart(l.choosers, party), l.senders(party)
		unfair := q.Queue < len(d.XPS) && len(d.XPS[q.Queue]) > share(len(mapped), d.TxQueues)
		if !j.weighs(l.packets) || len(cpus) <= fair && !(unfair && len(from) > lanes) {
			continue
		}
		f.Queues, f.Packets, sending = append(f.Queues, q), f.Packets+l.packets, append(sending, cpus...)
		for _, origin := range from {
			f.origins[origin] = true
		}
	}
	if len(f.Queues) == 0 {
		return nil
	}
	j.place(&f, d, side)
	lanesSent := ""
	if len(f.origins) > 0 {
		lanesSent = " " + some(len(f.origins), "lane")
	}
	f.Evidence = fmt.Sprintf("%s send%s by %s %s of %s; %s idle", cpuWords(setting.CPUs(sending...)), lanesSent,
		plural(len(f.Queues), "queue"), numbersOf(f.Queues),
		d.Name, j.idle(d, side))
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
		d.Name, Command: steer, Knob: "nic.xps"}
	return []Fault{f}
}

// share is how many of n a queue has at least, if they are divided evenly.
func share(n, queues int) int { return (n + queues - 1) / queues }

// laneCollisions are found where queues that packets came from meet on one queue, by cause.
func (j *judge) laneCollisions(d *Device, side Side, funnels []Fault) []Fault {
	from := j.sides[side].senders(sender)
	fair := share(len(from), d.TxQueues)
	by := map[string][]clash{}
	for _, q := range j.queuesOf(side) {
		l := j.at[q]
		parties := slices.DeleteFunc(l.senders(party), func(o Queue) bool { return !slices.Contains(from, o) })
		if len(parties) <= fair || len(from) > d.TxQueues && j.shared(d, side, parties, q, fair) {
			continue
		}
		cause := j.throughFunnel(q, parties, funnels)
		if carried := d.carried(q, parties); carried != "" {
			cause = carried
		} else if cause == "" && sameNumbers(parties, d.TxQueues) {
			cause = "kept"
		}
		by[cause] = append(by[cause], clash{q, parties, l.packets})
	}
	var all []Fault
	for _, cause := range slices.Sorted(maps.Keys(by)) {
		f := Fault{Kind: Collision, Device: d.Name, origins: map[Queue]bool{}}
		for _, c := range by[cause] {
			f.Queues, f.Packets = append(f.Queues, c.queue), f.Packets+c.packets
			for _, p := range c.parties {
				f.origins[p] = true
			}
		}
		if !j.weighs(f.Packets) {
			continue
		}
		j.place(&f, d, side)
		meet := slices.SortedFunc(maps.Keys(f.origins), compareQueues)
		f.Evidence = fmt.Sprintf("%s (%s) meet on %s %s of %s; %s idle", some(len(meet), "queue"), devicesOf(meet),
			plural(len(f.Queues), "queue"),
			numbersOf(f.Queues), d.Name, j.idle(d, side))
		if crowd := crowdOf(by[cause]); len(from) > d.TxQueues && crowd > fair {
			f.Evidence += fmt.Sprintf("; %d on one where %d would do", crowd, fair)
		}
		f.Mend = Mend{Text: "give each guest queue a window of " + d.Name + "'s queues and carry its number there",
			Command: steer, Knob: "overlay.queue_mapping"}
		switch cause {
		case planned:
			f.Cause = fmt.Sprintf("mpps's lane program leads them there: the windows of %s were planned for other "+
				"guests, or for what they sent then", d.Name)
			f.Mend.Text = "plan the windows anew, from what guests send now"
		case astray:
			f.Cause = fmt.Sprintf("mpps's lane program is attached to %s, and lanes do not come out where they were "+
				"planned: something behind it erases them or chooses anew", d.Name)
			f.Mend = Mend{Text: "see what else is attached to the taps and to " + d.Name,
				Command: "tc filter show dev " + devicesFirst(meet) + " ingress", Knob: "overlay.queue_mapping"}
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

// throughFunnel is the name of the first funnel that nearly all packets of some origins passed on their way to a queue.
func (j *judge) throughFunnel(q Queue, origins []Queue, funnels []Fault) string {
	for _, f := range funnels {
		var passed, all uint64
		for i := range j.lanes {
			l := &j.lanes[i]
			at := slices.IndexFunc(l.Stops, func(s Stop) bool { return s.Queue == q })
			if at < 0 || !slices.Contains(origins, l.Origin()) {
				continue
			}
			all += l.Packets
			if slices.ContainsFunc(l.Stops[:at], func(s Stop) bool {
				return s.Device == f.Device &&
					s.Direction == Tx
			}) {
				passed += l.Packets
			}
		}
		if all > 0 && float64(passed) >= 0.9*float64(all) {
			return f.Name()
		}
	}
	return ""
}

// sameNumbers reports whether queues of different devices have one number, as a device of n queues counts.
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

// crowded is found where all that many queues send to a guest takes one of its queues. Which one is the guest's own
// choice: a tap remembers by which queue it sent each flow (drivers/net/tun.c, tun_automq_select_queue). That flows
// hash to one by chance must be less likely than once in 64.
func (j *judge) crowded(d *Device, side Side) []Fault {
	from := j.sides[side].senders(sender)
	if len(from) < 2 || float64(len(from)-1)*math.Log2(float64(d.TxQueues)) < 6 {
		return nil
	}
	for _, q := range j.queuesOf(side) {
		l := j.at[q]
		if float64(l.packets) < 0.98*float64(j.sides[side].packets) {
			continue
		}
		f := Fault{Kind: Collision, Device: d.Name, Queues: []Queue{q}, Packets: l.packets, origins: map[Queue]bool{}}
		for _, origin := range from {
			f.origins[origin] = true
		}
		j.place(&f, d, side)
		f.Evidence = fmt.Sprintf("%s (%s) lead to queue %d of %s; %s idle", some(len(from), "queue"), devicesOf(from),
			q.Queue, d.Name, j.idle(d, side))
		f.Cause = "the guest answers these flows by one queue, and the tap follows it"
		f.Mend = Mend{Text: "in the guest, use all channels and spread them by CPU", Command: "mpps plan",
			Knob: "guest.xps"}
		return []Fault{f}
	}
	return nil
}

// place fills in what follows from where a collision is.
func (j *judge) place(f *Fault, d *Device, side Side) {
	f.Object = d.Name
	if len(f.Queues) == 1 {
		f.Object = fmt.Sprintf("%s %s %d", d.Name, side.Direction, f.Queues[0].Queue)
	}
	f.Share = j.share(f.Packets)
}

// idle says how many of a device's transmit queues had next to nothing to do.
func (j *judge) idle(d *Device, side Side) string {
	return fmt.Sprintf("%d of %s", j.idleQueues(d, side), some(d.TxQueues, "queue"))
}

func (j *judge) idleQueues(d *Device, side Side) int {
	busy := 0
	for _, q := range j.queuesOf(side) {
		if n := j.at[q].packets; n >= leastSent &&
			float64(n)*float64(d.TxQueues) >= 0.1*float64(j.sides[side].packets) {
			busy++
		}
	}
	return max(0, d.TxQueues-busy)
}

func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// cpuWords writes a set of CPUs with its noun.
func cpuWords(set setting.CPUSet) string {
	switch {
	case len(set) == 0:
		return "no CPU"
	case len(set) == 1:
		return "CPU " + set.String()
	}
	return "CPUs " + strings.ReplaceAll(set.String(), ",", ", ")
}
