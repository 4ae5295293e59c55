package queuepath

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/model/reach"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

// port is a NIC by which guests send.
type port struct {
	name   string
	queues int
	node   int   // −1: not known
	nodes  []int // of the CPUs that its queues interrupt, by queue; −1: not known
}

// group is NICs that the same taps send by. A packet's lane is one number, whichever NIC it leaves by, so all have the
// same windows.
type group struct {
	ports   []port
	senders []Sender
	taps    []string // of the senders, by their current names
}

type steerer struct {
	host    *facts.Host
	seen    *Observation
	options SteerOptions
	paths   *reach.Map
	ports   []port
	behind  map[string][]string          // tap → NICs
	leaves  map[string]map[string]uint64 // tap → device → packets seen to leave by it
}

func newSteerer(h *facts.Host, o *Observation, options SteerOptions) *steerer {
	s := &steerer{host: h, seen: o, options: options, paths: reach.Of(h), leaves: leavingPackets(o, options.NIC)}
	used := s.findNICs()
	for _, n := range options.Standing {
		used[n] = true
	}
	if options.NIC != "" {
		used[options.NIC] = true
	}
	for n := range facts.Each(h.NICs) {
		if used[n.Name] {
			s.ports = append(s.ports, port{name: n.Name, queues: n.TxQueues, node: n.Node, nodes: s.irqNodes(n)})
			delete(used, n.Name)
		}
	}
	if o != nil {
		for _, d := range o.Devices {
			if used[d.Name] {
				s.ports = append(s.ports, port{name: d.Name, queues: d.TxQueues, node: d.Node})
			}
		}
	}
	slices.SortFunc(s.ports, func(a, b port) int { return strings.Compare(a.name, b.name) })
	return s
}

// irqNodes returns the nodes of the CPUs that a NIC's queues interrupt, by queue; −1: not known.
func (s *steerer) irqNodes(n *facts.NIC) []int {
	nodes := slices.Repeat([]int{-1}, n.TxQueues)
	for _, irq := range n.IRQs {
		q, is := knob.QueueOf(irq.On)
		cpus := words.Either(len(irq.Effective) > 0, irq.Effective, irq.Affinity)
		if is && q < len(nodes) {
			nodes[q] = s.nodeOf(cpus)
		}
	}
	return nodes
}

// nodeOf returns the node that all of some CPUs are on; −1 if there is none.
func (s *steerer) nodeOf(cpus setting.CPUSet) int {
	node := -1
	for _, c := range s.host.Topology.CPUs {
		if !cpus.Has(c.ID) {
			continue
		}
		if node >= 0 && c.Node != node {
			return -1
		}
		node = c.Node
	}
	return node
}

// queueNodes returns the nodes of the queues of a group's first NIC.
func (s *steerer) queueNodes(g group) []int { return g.ports[0].nodes }

// groups returns the NICs that guests send by. NICs that one tap sends by are one group.
func (s *steerer) groups() ([]group, error) {
	if s.options.NIC != "" && !slices.ContainsFunc(s.ports, func(p port) bool { return p.name == s.options.NIC }) {
		return nil, &Refusal{fmt.Sprintf("there is no NIC %s", s.options.NIC), "mpps inspect lists them; a NIC is " +
			"what has the wire, not the bridge or the bond above it"}
	}
	var all []group
	left := slices.Clone(s.ports)
	for len(left) > 0 {
		g := group{ports: left[:1:1]}
		left = left[1:]
		for grown := true; grown; {
			grown = false
			for i, p := range left {
				if s.sharesTap(g, p) {
					g.ports, left, grown = append(g.ports, p), slices.Delete(slices.Clone(left), i, i+1), true
					break
				}
			}
		}
		if s.options.NIC != "" && !slices.ContainsFunc(g.ports, func(p port) bool { return p.name == s.options.NIC }) {
			continue
		}
		s.addSenders(&g)
		if len(g.senders) > 0 {
			all = append(all, g)
		}
	}
	if len(all) == 0 {
		what := words.Either(s.options.NIC != "", "no guest sends through a tap and a bridge by "+s.options.NIC,
			"no guest sends through a tap and a bridge by a NIC of this host")
		if bridges := ProcessSwitches(s.host); len(bridges) > 0 {
			what = fmt.Sprintf("guests' packets pass %s, which a process switches (Open vSwitch's datapath "+
				"netdev): its threads, not the kernel, choose their queues", strings.Join(bridges, ", "))
		}
		hint := "start the guests first; "
		if s.seen != nil {
			hint = fmt.Sprintf("guests must send while they are watched, %.2g s here, --for watches longer; ",
				s.seen.Watched)
		}
		return nil, &Refusal{what, hint + "--nic NAME says which NIC a tunnel leaves by where its route cannot be " +
			"seen; macvtap and virtual functions choose their queue themselves"}
	}
	return all, nil
}

// sharesTap reports whether a tap sends both by a port and by one of a group.
func (s *steerer) sharesTap(g group, p port) bool {
	for _, nics := range s.behind {
		if slices.Contains(nics, p.name) &&
			slices.ContainsFunc(g.ports, func(in port) bool { return slices.Contains(nics, in.name) }) {
			return true
		}
	}
	return false
}

// enoughQueues refuses NICs with one transmit queue, where nothing can be kept apart, and NICs whose queues are divided
// into traffic classes: the kernel takes the remainder of the packet's queue within its class (net/core/dev.c,
// skb_tx_hash), and XPS has a map for each class.
func (s *steerer) enoughQueues(g group) error {
	for _, p := range g.ports {
		if n := s.nic(p.name); n != nil && n.Classes > 1 {
			return &Refusal{fmt.Sprintf("the transmit queues of %s are divided into %d traffic classes: a packet "+
				"takes one of its class, whatever it carries", p.name, n.Classes),
				fmt.Sprintf("tc qdisc show dev %s, dcb ets show dev %s; without mqprio or DCB its queues can be "+
					"steered", p.name, p.name)}
		}
		if p.queues >= 2 {
			continue
		}
		hint := "its driver offers no more"
		if n := s.nic(p.name); n != nil && n.Channels != nil && max(n.Channels.MaxCombined, n.Channels.MaxTx) > 1 {
			hint = fmt.Sprintf("ethtool -L %s combined %d, or let 'mpps plan' choose (nic.channels)", p.name,
				max(n.Channels.MaxCombined, n.Channels.MaxTx))
		}
		has := words.Count(p.queues, "transmit queue")
		return &Refusal{fmt.Sprintf("%s has %s: expected at least 2", p.name, has), hint}
	}
	return nil
}

func (s *steerer) nic(name string) *facts.NIC {
	return facts.Find(s.host.NICs, func(n *facts.NIC) bool { return n.Name == name })
}

// addSenders adds the taps that send by a group.
func (s *steerer) addSenders(g *group) {
	named := map[string]int{}
	for _, t := range s.host.Taps {
		if !s.sends(t, *g) {
			continue
		}
		sender := s.sender(t)
		named[sender.Tap]++
		g.senders, g.taps = append(g.senders, sender), append(g.taps, t.Name)
	}
	perGuest := map[string]int{}
	for i := range g.senders {
		if named[g.senders[i].Tap] > 1 { // two guests have this address
			g.senders[i].Tap = g.taps[i]
		}
		perGuest[g.senders[i].Guest]++
	}
	for i := range g.senders { // a guest's weight is divided among its taps
		g.senders[i].Weight /= float64(perGuest[g.senders[i].Guest])
		g.senders[i].Weighed = len(s.options.Weights) > 0
	}
	s.setSeen(g)
}

func (s *steerer) sends(t facts.Tap, g group) bool {
	return slices.ContainsFunc(g.ports, func(p port) bool { return slices.Contains(s.behind[t.Name], p.name) })
}

// sender returns a tap with its guest. A tap of libvirt's is identified by the guest's MAC address: its name changes
// with the next start.
func (s *steerer) sender(t facts.Tap) Sender {
	one := Sender{Tap: t.Name, Guest: t.Name, Queues: max(1, t.RxQueues), Weight: 1, Node: -1}
	for guest := range facts.Each(s.host.Guests) {
		for _, nic := range guest.NICs() {
			if guest.TapHere(&nic) != t.Name || !guest.Active() {
				continue
			}
			one.Guest, one.Queues = guest.Name, max(1, nic.Queues)
			if guest.Managed && (nic.Type == "bridge" || nic.Type == "network") && nic.MAC != "" {
				one.Tap = nic.MAC
			}
			if cpus, _ := workers(guest, nic.MAC); len(cpus) > 0 {
				one.Node = s.nodeOf(cpus)
			}
		}
	}
	if w := s.options.Weights[one.Guest]; w > 0 {
		one.Weight = w
	}
	return one
}

// workers returns the CPUs that the vhost threads of a guest's NIC may run on, and the threads by queue.
func workers(g *facts.Guest, mac string) (setting.CPUSet, []facts.Thread) {
	var all []int
	var threads []facts.Thread
	for _, t := range g.Threads {
		if t.Role == "vhost" && t.NIC == mac && t.Sure != facts.NotByOrder {
			all, threads = append(all, t.Affinity...), append(threads, t)
		}
	}
	slices.SortFunc(threads, func(a, b facts.Thread) int { return a.Queue - b.Queue })
	return setting.CPUs(all...), threads
}
