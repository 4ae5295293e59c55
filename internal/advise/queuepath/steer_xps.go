package queuepath

import (
	"cmp"
	"fmt"
	"slices"

	"mpps/internal/advise/plan"
	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// vhostThreads returns the vhost threads of a sender by queue, nil if they are not known or not one for each queue.
func (s *steerer) vhostThreads(g group, i int) []facts.Thread {
	guest := s.guestOf(g.taps[i])
	if guest == nil {
		return nil
	}
	for _, nic := range guest.NICs() {
		if nic.Tap == g.taps[i] {
			if _, threads := workers(guest, nic.MAC); len(threads) == g.senders[i].Queues {
				return threads
			}
		}
	}
	return nil
}

// noXPS returns why the sending CPU does not identify the sender; "" if it does. A tap passes its guest's packets to
// the stack on the CPU of the vhost thread, and there they go on to the NIC.
func (s *steerer) noXPS(g group) string {
	at := map[int]string{}
	for i, sender := range g.senders {
		if t := s.tap(g.taps[i]); t != nil &&
			slices.ContainsFunc(t.RPS, func(c setting.CPUSet) bool { return len(c) > 0 }) {
			return fmt.Sprintf("RPS of %s hands packets to other CPUs", t.Name)
		}
		threads := s.vhostThreads(g, i)
		if threads == nil {
			return fmt.Sprintf("which vhost threads send for %s is not known", sender.Guest)
		}
		for _, t := range threads {
			if len(t.Affinity) != 1 {
				return fmt.Sprintf("vhost threads of %s float over %s", sender.Guest, cpuWords(t.Affinity))
			}
			if other, taken := at[t.Affinity[0]]; taken {
				return fmt.Sprintf("vhost threads of %s and %s share CPU %d", other, sender.Guest, t.Affinity[0])
			}
			at[t.Affinity[0]] = sender.Guest
		}
	}
	for _, p := range g.ports {
		if r := s.host.Readings.At(setting.XPS(p.name, 0)); r.State == setting.Absent || r.ReadOnly {
			return fmt.Sprintf("%s has no XPS: %s", p.name, cmp.Or(r.Why, "the kernel was built without"))
		}
	}
	return ""
}

func (s *steerer) tap(name string) *facts.Tap {
	return facts.Find(s.host.Taps, func(t *facts.Tap) bool { return t.Name == name })
}

// currentXPS returns the windows that the XPS of a group's first NIC amounts to now, of senders whose CPUs have
// adjacent queues.
func (s *steerer) currentXPS(g group) []setting.Lane {
	p := g.ports[0]
	queueOf := map[int]int{}
	for q := range p.queues {
		cpus, err := setting.ParseCPUs(s.host.Readings.At(setting.XPS(p.name, q)).Value)
		if err != nil {
			continue
		}
		for _, cpu := range cpus {
			queueOf[cpu] = q
		}
	}
	var lanes []setting.Lane
	for i, sender := range g.senders {
		var queues []int
		for _, t := range s.vhostThreads(g, i) {
			if q, has := queueOf[t.Affinity[0]]; has && !slices.Contains(queues, q) {
				queues = append(queues, q)
			}
		}
		if len(queues) > 0 && slices.Max(queues)-slices.Min(queues)+1 == len(queues) {
			lanes = append(lanes, setting.Lane{Tap: sender.Tap, Base: slices.Min(queues), Count: len(queues)})
		}
	}
	return lanes
}

// planXPS gives the CPU of each vhost thread the queue of its lane, and the other CPUs the queues with the fewest CPUs.
// It removes a lane program: XPS would precede it.
func (s *steerer) planXPS(g group, one Steered) []plan.Change {
	var changes []plan.Change
	for _, p := range g.ports {
		lanes := setting.Of(setting.QueueLanes, p.name)
		if s.host.Readings.At(lanes).State == setting.Known {
			changes = append(changes, s.change("overlay.queue_mapping", "Queue lanes", lanes, setting.NotThere(),
				goal.None, datapath.Overlay, "the CPU that sends names the queue"))
		}
		for q, cpus := range s.masks(g, one.Lanes, p.queues) {
			changes = append(changes, s.change("nic.xps", "Transmit queues by CPU", setting.XPS(p.name, q),
				setting.Exact(cpus.String()), goal.None, datapath.NIC, one.summary()))
		}
	}
	return changes
}

// masks returns the CPUs of each queue of a NIC.
func (s *steerer) masks(g group, lanes []setting.Lane, queues int) []setting.CPUSet {
	sets := make([]setting.CPUSet, queues)
	sending := map[int]bool{}
	for i := range g.senders {
		for queue, t := range s.vhostThreads(g, i) {
			q := QueueOf(lanes[i], queue)
			sets[q] = sets[q].Or(t.Affinity)
			sending[t.Affinity[0]] = true
		}
	}
	busy := make([]int, queues) // queues with guests' lanes are the last that other CPUs share
	for q := range sets {
		busy[q] = len(sets[q]) * (1 + len(s.host.Topology.Online))
	}
	for _, cpu := range s.host.Topology.Online {
		if sending[cpu] {
			continue
		}
		q := slices.Index(busy, slices.Min(busy))
		sets[q] = sets[q].Or(setting.CPUs(cpu))
		busy[q]++
	}
	return sets
}
