package queuepath

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/reach"
)

// ownChoice are drivers whose ndo_select_queue does not always follow the packet's queue and XPS. That of ena, which
// never asked XPS for forwarded packets, is gone since Linux 6.9 and stable kernels of 2024 (78e886ba2b54).
var ownChoice = []string{"hv_netvsc", "cxgb4", "bnx2x", "mana"}

// queueChoosers returns the devices between a group's taps and its NICs that choose a queue themselves and overwrite
// the tap's: with one queue they erase it, with several they shift it by one, since a transmit queue counts from 0 and
// a recorded one from 1 (net/core/dev.c, netdev_core_pick_tx). A bond keeps it (drivers/net/bonding,
// bond_select_queue).
func (s *steerer) queueChoosers(g group) []*facts.Tunnel {
	return slices.DeleteFunc(s.between(g.taps),
		func(t *facts.Tunnel) bool { return !slices.Contains(overlays, t.Type) })
}

// between returns the virtual devices that packets of some taps may pass: tunnels, VLANs, bonds.
func (s *steerer) between(taps []string) []*facts.Tunnel {
	var masters []string
	for _, tap := range taps {
		if t := s.tap(tap); t != nil && !slices.Contains(masters, s.paths.Master(tap)) {
			masters = append(masters, s.paths.Master(tap))
		}
	}
	var all []*facts.Tunnel
	for t := range facts.Each(s.host.Tunnels) {
		if slices.ContainsFunc(masters, func(m string) bool { return s.leadsTo(m, t.Name) }) {
			all = append(all, t)
		}
	}
	return all
}

// leadsTo reports whether packets that enter a device may reach another: a port of a bridge, or a device below a VLAN
// or bond.
func (s *steerer) leadsTo(device, below string) bool {
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
		if s.paths.Switched(name) { // its patch ports and tunnels
			return slices.ContainsFunc(s.paths.From(name), func(hop reach.Hop) bool { return hop.Device == below })
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

// advise returns what would help too, but recreates a device or a guest, which mpps does not do.
func (s *steerer) advise(g group, one Steered) []Advice {
	var all []Advice
	add := func(command, format string, a ...any) {
		all = append(all, Advice{Text: fmt.Sprintf(format, a...), Command: command})
	}
	want := max(2, one.Queues)
	for _, t := range s.queueChoosers(g) {
		switch {
		case t.TxQueues > 1 || t.Lockless || t.LocklessBy == "":
		case t.Master == facts.OVSDatapath: // lib/dpif-netlink-rtnl.c makes it
			add("", "%s, which ovs-vswitchd made, has one transmit queue with a lock that all lanes take in turn, "+
				"steered or not; a tunnel of another type may have none (mpps inspect)", t.Name)
		case t.LockedBy != "":
			add(unlock(t), "%s has a transmit queue with a lock that all lanes take in turn, steered or not, for %s; "+
				"more queues would not help: the far end drops a number that comes late. Change the far end first, "+
				"that it asks for none, and mind that a device made again cuts its guests off meanwhile", t.Name,
				t.LockedBy)
		default:
			add(fmt.Sprintf("ip -d link show %s; ip link del %s; ip link add %s numtxqueues %d numrxqueues %d type "+
				"%s … (the options shown)", t.Name, t.Name, t.Name, want, want, t.Type),
				"%s has one transmit queue with a lock that all lanes take in turn, steered or not; the "+
					"number is fixed when the device is made, and recreating it cuts its guests off meanwhile", t.Name)
		}
	}
	all = append(all, s.keptQdiscs(g)...)
	for _, p := range g.ports {
		if n := s.nic(p.name); n != nil && slices.Contains(ownChoice, n.Driver) && one.Means != AsItIs {
			add("mpps path", "%s chooses transmit queues itself and may not ask what a packet "+
				"carries, nor XPS; whether lanes come out as planned is what is watched afterwards", n.Driver)
		}
	}
	for _, tap := range g.taps {
		if why := s.whyErased(tap); one.Means == ByProgram && why != "" {
			add("give each vhost thread a CPU of its own ('mpps plan'), then mpps path --steer --by xps; or do "+
				"without the classifier",
				"%s: it gets none, and its packets take the queues that the kernel chooses", why)
		}
	}
	for i, sender := range g.senders {
		guest := s.guestOf(g.taps[i])
		if guest == nil {
			continue
		}
		if sender.Queues == 1 && guest.VCPUs > 1 && one.Queues > len(g.senders) {
			add(fmt.Sprintf("mpps plan --guest %s (domain.queues)", guest.Name),
				"%s has %d vCPUs and one queue on %s, so one lane; more come with its next start", guest.Name,
				guest.VCPUs, g.taps[i])
		}
		for _, p := range g.ports {
			if p.node >= 0 && sender.Node >= 0 && sender.Node != p.node {
				add("mpps place", "the vhost threads of %s run on node %d, %s is on node %d: each packet crosses, "+
					"whichever queue it takes", guest.Name, sender.Node, p.name, p.node)
			}
		}
	}
	for _, t := range s.host.Taps {
		if t.Type == "macvtap" && slices.ContainsFunc(g.ports, func(p port) bool { return p.name == t.Lower }) {
			add("", "%s is a macvtap: it passes no bridge and records no queue, "+
				"so that its packets have no lane; they take the queues of the others", t.Name)
		}
	}
	return all
}

// unlock returns the command that takes off a GRE device what it has a lock for. Before Linux 6.12 the device follows
// its options (net/ipv4/ip_gre.c, ipgre_link_update; not that of IPv6), since then it stays as it was made.
func unlock(t *facts.Tunnel) string {
	made := slices.DeleteFunc(slices.Clone(t.Made), func(word string) bool { return word == t.LockedBy })
	again := fmt.Sprintf("ip link del %[1]s && ip link add %[1]s %[2]s && ip link set %[1]s", t.Name,
		strings.Join(made, " "))
	if t.Master != "" {
		again += " master " + t.Master
	}
	switch {
	case t.LocklessBy == "feature" && t.Type == "gretap":
		return fmt.Sprintf("ip link set %s type %s no%s", t.Name, t.Type, t.LockedBy)
	case len(made) == 0:
		return "ip -d link show " + t.Name + " (its options; make it again without " + t.LockedBy + ")"
	}
	return fmt.Sprintf("bridge -d link show dev %[1]s; bridge fdb show dev %[1]s; %s up (and what was shown)", t.Name,
		again)
}

// guestOf returns the active guest of a tap, nil if there is none.
func (s *steerer) guestOf(tap string) *facts.Guest {
	return facts.Find(s.host.Guests, func(g *facts.Guest) bool {
		return g.Active() && slices.ContainsFunc(g.NICs(), func(n facts.Interface) bool { return g.TapHere(&n) == tap })
	})
}
