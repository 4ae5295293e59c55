package queuepath

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/facts"
)

// ownChoice are drivers with an ndo_select_queue that does not, or not always, follow the packet's queue and XPS.
var ownChoice = []string{"hv_netvsc", "cxgb4", "bnx2x"}

// choosers are the devices between a group's taps and its NICs that choose a queue of their own, and write it where the
// tap's was: with one queue they erase it, with several they shift it by one, since a transmit queue counts from 0 and
// a recorded one from 1 (net/core/dev.c, netdev_core_pick_tx). A bond keeps it (drivers/net/bonding,
// bond_select_queue).
func (s *steerer) choosers(g group) []*facts.Tunnel {
	return slices.DeleteFunc(s.between(g.taps),
		func(t *facts.Tunnel) bool { return !slices.Contains(overlays, t.Type) })
}

// between are the virtual devices that packets of some taps may pass: tunnels, VLANs, bonds.
func (s *steerer) between(taps []string) []*facts.Tunnel {
	var masters []string
	for _, tap := range taps {
		if t := s.tap(tap); t != nil && !slices.Contains(masters, t.Master) {
			masters = append(masters, t.Master)
		}
	}
	var all []*facts.Tunnel
	for i := range s.host.Tunnels {
		t := &s.host.Tunnels[i]
		if slices.ContainsFunc(masters, func(m string) bool { return s.above(m, t.Name) }) {
			all = append(all, t)
		}
	}
	return all
}

// above reports whether packets that enter one device may come to another: a port of a bridge, or what is below a VLAN
// or bond.
func (s *steerer) above(device, below string) bool {
	seen := map[string]bool{}
	var descend func(string) bool
	descend = func(name string) bool {
		if seen[name] || name == "" {
			return false
		}
		seen[name] = true
		if name == below {
			return true
		}
		for _, b := range s.host.Bridges {
			if b.Name == name && slices.ContainsFunc(b.Ports, descend) {
				return true
			}
		}
		for _, t := range s.host.Tunnels {
			if t.Name == name && slices.ContainsFunc(strings.Split(t.Lower, ","), descend) {
				return true
			}
		}
		return false
	}
	return descend(device)
}

// advise says what would help besides: mpps does not make a device or a guest again.
func (s *steerer) advise(g group, one Steered) []Advice {
	var all []Advice
	want := max(2, one.Queues)
	for _, t := range s.choosers(g) {
		if t.TxQueues == 1 && !t.Lockless && t.LocklessBy != "" {
			all = append(all, Advice{
				fmt.Sprintf("%s has one transmit queue with a lock that all lanes take in turn, steered or not; the "+
					"number is fixed when the device is made, and making it anew cuts its guests off meanwhile",
					t.Name),
				fmt.Sprintf("ip -d link show %s; ip link del %s; ip link add %s numtxqueues %d numrxqueues %d type "+
					"%s … (the options shown)", t.Name, t.Name, t.Name, want, want, t.Type),
			})
		}
	}
	all = append(all, s.qdiscsLeft(g)...)
	for _, p := range g.ports {
		if n := s.nic(p.name); n != nil && slices.Contains(ownChoice, n.Driver) && one.Means != AsItIs {
			all = append(all, Advice{fmt.Sprintf("%s chooses transmit queues itself and may not ask what a packet "+
				"carries, nor XPS; whether lanes come out as planned is what is watched afterwards", n.Driver),
				"mpps path"})
		}
	}
	for _, tap := range g.taps {
		if why := s.erased(tap); one.Means == ByProgram && why != "" {
			all = append(all, Advice{
				why + ": it gets none, and its packets take the queues that the kernel chooses",
				"give each vhost thread a CPU of its own ('mpps plan'), then mpps path --steer --by xps; or do " +
					"without the classifier",
			})
		}
	}
	for i, sender := range g.senders {
		guest := s.guestOf(g.taps[i])
		if guest == nil {
			continue
		}
		if sender.Queues == 1 && guest.VCPUs > 1 && one.Queues > len(g.senders) {
			all = append(all, Advice{
				fmt.Sprintf("%s has %d vCPUs and one queue on %s, so one lane; more come with its next start",
					guest.Name, guest.VCPUs, g.taps[i]),
				fmt.Sprintf("mpps plan --guest %s (domain.queues)", guest.Name),
			})
		}
		for _, p := range g.ports {
			if p.node >= 0 && sender.Node >= 0 && sender.Node != p.node {
				all = append(all, Advice{
					fmt.Sprintf("the vhost threads of %s run on node %d, %s is on node %d: each packet crosses, "+
						"whichever queue it takes", guest.Name, sender.Node, p.name, p.node),
					"mpps place",
				})
			}
		}
	}
	for _, t := range s.host.Taps {
		if t.Type == "macvtap" && slices.ContainsFunc(g.ports, func(p port) bool { return p.name == t.Lower }) {
			all = append(all, Advice{Text: fmt.Sprintf("%s is a macvtap: it passes no bridge and records no queue, "+
				"so that its packets have no lane; they take the queues of the others", t.Name)})
		}
	}
	return all
}

func (s *steerer) guestOf(tap string) *facts.Guest {
	for i := range s.host.Guests {
		g := &s.host.Guests[i]
		if g.Active() && slices.ContainsFunc(g.NICs(), func(n facts.Interface) bool { return n.Tap == tap }) {
			return g
		}
	}
	return nil
}
