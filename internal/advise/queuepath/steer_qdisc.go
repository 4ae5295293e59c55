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

// lockingQdisc returns the queueing discipline whose lock lanes take in turn on a device that needs no lock itself
// (net/core/dev.c, __dev_queue_xmit). One discipline has one lock; mq has one for each queue, which is enough for as
// many lanes. A device that takes its own lock would gain nothing.
func (s *steerer) lockingQdisc(g group, t *facts.Tunnel) (q setting.Qdisc, r setting.Reading, locked bool) {
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

// planQdiscs removes disciplines from the virtual devices that a group's packets pass, except those that could not be
// restored.
func (s *steerer) planQdiscs(g group) []plan.Change {
	var changes []plan.Change
	for _, t := range s.between(g.taps) {
		q, r, locked := s.lockingQdisc(g, t)
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

// keptQdiscs returns which disciplines stay, and why.
func (s *steerer) keptQdiscs(g group) []Advice {
	var all []Advice
	for _, t := range s.between(g.taps) {
		if q, r, locked := s.lockingQdisc(g, t); locked && r.ReadOnly {
			all = append(all, Advice{
				fmt.Sprintf("all lanes take the lock of %s on %s in turn, and it is left alone: %s", q.Kind, t.Name,
					cmp.Or(r.Why, "it cannot be exchanged")),
				fmt.Sprintf("tc qdisc show dev %s; tc qdisc replace dev %s root noqueue", t.Name, t.Name),
			})
		}
	}
	return all
}

// qdiscAddresses returns the disciplines of the virtual devices that packets of taps pass.
func (s *steerer) qdiscAddresses() []setting.Address {
	taps := facts.Where(s.host.Taps, func(t facts.Tap) bool { return t.Type == "tap" && t.Up })
	between := s.between(facts.Map(taps, func(t facts.Tap) string { return t.Name }))
	return facts.Map(between, func(t *facts.Tunnel) setting.Address { return setting.Of(setting.RootQdisc, t.Name) })
}
