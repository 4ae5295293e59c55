package queuepath

import (
	"cmp"
	"fmt"

	"mpps/internal/advise/plan"
	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// lockedBy is the queueing discipline by which lanes wait for each other on a device that would let them pass without a
// lock (net/core/dev.c, __dev_queue_xmit). One discipline has one lock; mq has one for each queue, which is enough for
// as many lanes. A device that takes a lock of its own gains nothing.
func (s *steerer) lockedBy(g group, t *facts.Tunnel) (q setting.Qdisc, r setting.Reading, locked bool) {
	lanes := 0
	for _, sender := range g.senders {
		lanes += sender.Queues
	}
	r = s.host.Readings.At(setting.Of(setting.RootQdisc, t.Name))
	q, err := setting.ParseQdisc(r.Value)
	if !t.Up || !t.Lockless || lanes < 2 || r.State != setting.Known || err != nil || q.Kind == setting.NoQueue {
		return q, r, false
	}
	return q, r, q.Kind != "mq" || lanes > t.TxQueues
}

// planQdiscs takes disciplines off the virtual devices that a group's packets pass. What cannot be put back as it was
// stays.
func (s *steerer) planQdiscs(g group) []plan.Change {
	var changes []plan.Change
	for _, t := range s.between(g.taps) {
		q, r, locked := s.lockedBy(g, t)
		if !locked || r.ReadOnly {
			continue
		}
		c := s.change("overlay.queues", "No queueing discipline on a virtual device",
			setting.Of(setting.RootQdisc, t.Name), setting.Exact(setting.NoQueue), goal.Blip, datapath.Overlay,
			fmt.Sprintf("all lanes take the lock of %s in turn; %s itself needs none", q.Kind, t.Name))
		c.Warning = "what is sent by " + t.Name +
			" while its discipline is exchanged, for a few milliseconds, is dropped"
		changes = append(changes, c)
	}
	return changes
}

// qdiscsLeft says which disciplines stay, and why.
func (s *steerer) qdiscsLeft(g group) []Advice {
	var all []Advice
	for _, t := range s.between(g.taps) {
		if q, r, locked := s.lockedBy(g, t); locked && r.ReadOnly {
			all = append(all, Advice{
				fmt.Sprintf("all lanes take the lock of %s on %s in turn, and it is left alone: %s", q.Kind, t.Name,
					cmp.Or(r.Why, "it cannot be exchanged")),
				fmt.Sprintf("tc qdisc show dev %s; tc qdisc replace dev %s root noqueue", t.Name, t.Name),
			})
		}
	}
	return all
}

// qdiscAddresses are the disciplines of virtual devices that packets of taps pass.
func (s *steerer) qdiscAddresses() []setting.Address {
	var taps []string
	for _, t := range s.host.Taps {
		if t.Type == "tap" && t.Up {
			taps = append(taps, t.Name)
		}
	}
	var all []setting.Address
	for _, t := range s.between(taps) {
		all = append(all, setting.Of(setting.RootQdisc, t.Name))
	}
	return all
}
