package queuepath

import (
	"fmt"
	"strings"

	"mpps/internal/advise/plan"
	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// planProgram clears XPS, which precedes the queue that a packet carries (net/core/dev.c, netdev_pick_tx), and attaches
// the programs.
func (s *steerer) planProgram(g group, one Steered) []plan.Change {
	var changes []plan.Change
	for _, p := range g.ports {
		for q := range p.queues {
			a := setting.XPS(p.name, q)
			if r := s.host.Readings.At(a); r.State != setting.Absent {
				changes = append(changes, s.change("nic.xps", "Transmit queues by CPU", a, setting.Exact(""), goal.None,
					datapath.NIC, "XPS would come before the queue that a packet carries"))
			}
		}
	}
	risk, warning := goal.None, ""
	if s.lacksTCX() {
		risk = goal.Blip
		warning = "this kernel has no tcx (Linux 6.6): clsact comes to the NIC and the taps, which stops their " +
			"transmit queues for a moment"
	}
	for _, p := range g.ports {
		c := s.change("overlay.queue_mapping", "Queue lanes", setting.Of(setting.QueueLanes, p.name),
			setting.Exact(setting.LanesText(one.Lanes)), risk, datapath.Overlay, one.summary())
		c.Warning = warning
		changes = append(changes, c)
	}
	return changes
}

// currentLanes returns the windows that the program has now.
func (s *steerer) currentLanes(g group) []setting.Lane {
	for _, p := range g.ports {
		if r := s.host.Readings.At(setting.Of(setting.QueueLanes, p.name)); r.State == setting.Known {
			if lanes, err := setting.ParseLanes(r.Value); err == nil && len(lanes) > 0 {
				return lanes
			}
		}
	}
	return nil
}

// lacksTCX reports whether the kernel has no tcx. If it was not probed, as on a recorded machine, the release decides
// (6.6, commit e420bed02507).
func (s *steerer) lacksTCX() bool {
	if asked := s.host.Kernel.Lanes; asked != nil {
		return !asked.TCX
	}
	return s.olderThan("6.6")
}

func (s *steerer) olderThan(than string) bool {
	release := s.host.Kernel.Release
	return release != "" && facts.CompareVersions(release, than) < 0
}

// noProgram returns why the programs cannot carry queues; "" if they can for at least some taps.
func (s *steerer) noProgram(g group) string {
	switch asked := s.host.Kernel.Lanes; {
	case asked != nil && asked.Why != "":
		return fmt.Sprintf("the kernel does not take the program that carries queues (Linux 5.1 or later does): %s",
			asked.Why)
	case asked == nil && s.olderThan("5.1"): // commit 74e31ca850c1: skb->queue_mapping may be written
		return fmt.Sprintf("the program that carries queues needs Linux 5.1 or later, found %s", s.host.Kernel.Release)
	}
	if len(s.carriable(g).taps) == 0 {
		return s.whyErased(g.taps[0])
	}
	return ""
}

// whyErased returns why a lane that is carried from a tap would not arrive; "" if it does.
func (s *steerer) whyErased(tap string) string {
	t := s.tap(tap)
	if t == nil {
		return ""
	}
	tell := func(side, device string, kinds []string) string {
		return fmt.Sprintf("a classifier at the %s of %s (%s; tc filter show dev %s %s) erases the lane of each "+
			"packet that it passes", side, device, strings.Join(kinds, ", "), device, side)
	}
	if len(t.Classifiers) > 0 {
		return tell("ingress", tap, t.Classifiers)
	}
	for between := range facts.Each(s.host.Tunnels) {
		if len(between.Classifiers) > 0 && s.leadsTo(t.Master, between.Name) {
			return tell("egress", between.Name, between.Classifiers)
		}
	}
	return ""
}

// carriable returns a group without the taps whose lanes would not arrive.
func (s *steerer) carriable(g group) group {
	part := group{ports: g.ports}
	for i, tap := range g.taps {
		if s.whyErased(tap) == "" {
			part.taps, part.senders = append(part.taps, tap), append(part.senders, g.senders[i])
		}
	}
	return part
}
