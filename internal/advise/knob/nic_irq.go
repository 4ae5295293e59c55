package knob

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/advise/placement"
	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

var nicChannels = &Knob{
	ID: "nic.channels", Title: "Number of NIC queues", Stage: datapath.NIC, Risk: goal.Blip, Tiers: viaKernel(),
	Where: eachNIC(func(n *facts.NIC) bool { return n.Channels != nil && n.Channels.MaxCombined > 0 },
		onlyNIC(setting.NICChannels, "combined")),
	Want: forNIC(func(v *View, n *facts.NIC, a setting.Address) Advice {
		serving := v.serving(n.Name)
		if serving == nil {
			return Skips("no CPU may serve it: guests have them all")
		}
		switch {
		case n.Channels == nil:
			return Skips("the driver does not tell its channels")
		case n.Channels.Combined == 0 && n.Channels.Rx > 0:
			return Skips("it has separate receive and transmit channels, and drivers refuse a mixture of both")
		}
		most := n.Channels.MaxCombined
		if max := v.Readings.At(a).Max; max != nil {
			most = int(*max)
		}
		has := "the driver has"
		if reach := hashReach(n); reach < most {
			most, has = reach, "its hash reaches"
		}
		why := fmt.Sprintf("%s may serve it (%s); %s at most %s", Count(len(serving.CPUs), "CPU"), serving.Why, has,
			Count(most, "queue"))
		want := min(len(serving.CPUs), most)
		if needed := placement.NICQueues(v.Goal); needed < want {
			want, why = needed, fmt.Sprintf("%s; the target needs %s", why, Count(needed, "queue"))
		}
		return onNIC(n, Wants(setting.Least(int64(want)), why))
	}),
}

// channelsThen returns how many channels nic.channels gives a NIC at least, 0 if it sets none.
func (v *View) channelsThen(n *facts.NIC) int {
	serving := v.serving(n.Name)
	if serving == nil || n.Channels == nil || n.Channels.Combined == 0 {
		return 0
	}
	return min(v.usefulQueues(serving), n.Channels.MaxCombined, hashReach(n))
}

// usefulQueues returns how many queues of a NIC have a use: one for each CPU that may serve it, and no more than the
// target needs.
func (v *View) usefulQueues(s *placement.Serving) int {
	return min(len(s.CPUs), placement.NICQueues(v.Goal))
}

// QueueOf returns the queue number in an interrupt's name: the number at its end, which common drivers write after rx,
// tx, TxRx, input, output or fp ("eth0-TxRx-3", "i40e-eth0-TxRx-3", "virtio2-input.0", "mlx5_comp3@pci:…"). Interrupts
// for link, mailbox and configuration have none.
func QueueOf(name string) (int, bool) {
	name, _, _ = strings.Cut(name, "@")
	end := len(name)
	start := end
	for start > 0 && name[start-1] >= '0' && name[start-1] <= '9' {
		start--
	}
	if start == end {
		return 0, false
	}
	before := strings.ToLower(strings.TrimRight(name[:start], "-._"))
	for _, kind := range []string{"rx", "tx", "input", "output", "fp", "comp", "queue", "q"} {
		if strings.HasSuffix(before, kind) {
			n, err := strconv.Atoi(name[start:end])
			return n, err == nil
		}
	}
	return 0, false
}

var nicIRQBalance = &Knob{
	ID: "nic.irqbalance", Title: "irqbalance leaves the NIC's interrupts alone",
	Stage: datapath.NIC, Risk: goal.None, Tiers: tiers(goal.Standard, goal.Aggressive, goal.Realtime),
	Where: fixed(setting.Of(setting.Service, "irqbalance")),
	Want: func(v *View, a setting.Address) Advice {
		const moves = "it moves interrupts that are placed one by one"
		if v.allFloat() {
			return Fine(isIn(v.floaters()) + " not pinned: no CPU is a guest's alone, and it spreads interrupts over " +
				"all")
		}
		b := v.balancer()
		if b != nil && b.Script != "" {
			return Unsure("its policy script decides for each interrupt whether it is moved, and was not asked: " +
				b.Script)
		}
		if b != nil && len(b.IRQs) > 0 && v.allBanned(b.IRQs) {
			return Fine("it leaves the interrupts of all NICs alone that carry guests' packets (--banirq)")
		}
		if banned := v.banned(b); len(v.vcpuCPUs()) > 0 && len(v.vcpuCPUs().Minus(banned)) == 0 {
			return exact("stopped", fmt.Sprintf("%s; the CPUs that it leaves alone (%s) include the guests'", moves,
				banned)).At(Low)
		}
		return exact("stopped", moves+", onto guests' CPUs too")
	},
}

// balancer returns how irqbalance is configured, nil if that is not known.
func (v *View) balancer() *facts.IRQBalance {
	if v.Isolation == nil {
		return nil
	}
	return v.Isolation.IRQBalance
}

// balanced reports whether irqbalance moves an interrupt of a NIC and may run (see nic.irqbalance): then it would soon
// undo any other place.
func (v *View) balanced(n *facts.NIC, a setting.Address) bool {
	b := v.balancer()
	leaves := func(irq facts.IRQ) bool { return n.Address(irq) == a && slices.Contains(b.IRQs, irq.Number) }
	return v.allFloat() && v.Readings.At(irqbalance).Value == "running" &&
		(b == nil || b.Script == "" && !slices.ContainsFunc(n.IRQs, leaves))
}

// banned returns the CPUs that irqbalance leaves alone, none if that is not known: those that its configuration names,
// or else what is isolated or has no tick (irqbalance, cputree.c, setup_banned_cpus).
func (v *View) banned(b *facts.IRQBalance) setting.CPUSet {
	switch {
	case b == nil || b.Why != "":
		return nil
	case b.Configured:
		return b.Banned
	}
	return v.Topology.Isolated.Or(v.Topology.NohzFull)
}

// allBanned reports whether the queues' interrupts of all NICs that carry guests' packets are among some.
func (v *View) allBanned(some []int) bool {
	for n := range facts.Each(v.NICs) {
		if !n.Up || v.paths.Carries(n.Name) != facts.Yes {
			continue
		}
		for _, irq := range n.IRQs {
			if _, isQueue := QueueOf(irq.On); isQueue && !slices.Contains(some, irq.Number) {
				return false
			}
		}
	}
	return true
}

var nicIRQAffinity = &Knob{
	ID: "nic.irq_affinity", Title: "A CPU for each NIC queue's interrupt",
	Stage: datapath.NIC, Risk: goal.None,
	After: []string{"nic.channels", "nic.ring.rx", "nic.ring.tx", "nic.irqbalance"},
	Tiers: tiers(goal.Standard, goal.Aggressive, goal.Realtime),
	Where: eachNIC(func(n *facts.NIC) bool { return len(n.IRQs) > 0 }, func(n *facts.NIC) []setting.Address {
		var all []setting.Address
		for _, irq := range n.IRQs {
			if _, isQueue := QueueOf(irq.On); isQueue {
				all = append(all, n.Address(irq))
			}
		}
		return all
	}),
	Want: func(v *View, a setting.Address) Advice {
		n, advice, ok := v.nic(a)
		if !ok && v.Tier == goal.Realtime {
			return offGuestCPUs(v, a)
		}
		if !ok {
			return advice
		}
		serving := v.serving(n.Name)
		if serving == nil {
			return Skips("no CPU may serve it: guests have them all")
		}
		if v.balanced(n, a) {
			return Fine("irqbalance moves it by load: " + isIn(v.floaters()) + " not pinned, so that no CPU is a " +
				"guest's alone")
		}
		home, isQueue := v.irqHomes(n, serving)[a]
		if !isQueue {
			return Skips("not a queue's interrupt")
		}
		if cpus, known := v.cpusAt(a); known && len(cpus) == 1 && cpus[0] == home {
			return Fine(fmt.Sprintf("CPU %d serves %s: %s", home, v.sharingHome(n, home), serving.Why))
		}
		advice = onNIC(n, exact(strconv.Itoa(home), fmt.Sprintf("queue %d belongs on CPU %d, which then serves %s: %s",
			queueAt(a), home, v.sharingHome(n, home), serving.Why)))
		advice.Risk = goal.None // packets go on meanwhile, on the old CPU
		return advice
	},
}

// irqHomes returns the CPU of each interrupt of a NIC's queues, so that no CPU serves more queues than necessary. An
// interrupt stays where it is if it can, of a NIC that the goal does not keep busy on any CPU that may serve it; the
// others share CPUs with those of their queue, else go to the CPU that queue
// numbers give it, else to one that serves the fewest queues.
func (v *View) irqHomes(n *facts.NIC, s *placement.Serving) map[setting.Address]int {
	serving := s.CPUs
	if homes, known := v.homes[n.Name]; known {
		return homes
	}
	homes, served, queues := map[setting.Address]int{}, map[int]map[int]bool{}, map[int]bool{}
	for _, cpu := range slices.Concat(serving, s.Stay) {
		served[cpu] = map[int]bool{}
	}
	var all []setting.Address
	for _, irq := range n.IRQs {
		if q, isQueue := QueueOf(irq.On); isQueue {
			queues[q] = true
			all = append(all, n.Address(irq))
		}
	}
	enough := (len(queues) + len(serving) - 1) / len(serving) // queues for a CPU
	assign := func(a setting.Address, cpu int) { homes[a], served[cpu][queueAt(a)] = cpu, true }
	for _, a := range all {
		if cpus, known := v.cpusAt(a); known && len(cpus) == 1 && served[cpus[0]] != nil &&
			(served[cpus[0]][queueAt(a)] || s.Most == 0 || len(served[cpus[0]]) < enough) {
			assign(a, cpus[0])
		}
	}
	for _, a := range all {
		if _, stays := homes[a]; stays {
			continue
		}
		q := queueAt(a)
		first := serving[q%len(serving)]
		rank := func(cpu int) int {
			switch {
			case served[cpu][q]:
				return -1
			case cpu == first && len(served[cpu]) < enough:
				return 0
			}
			return 1 + len(served[cpu])
		}
		assign(a, slices.MinFunc(serving, func(x, y int) int { return rank(x) - rank(y) }))
	}
	v.homes[n.Name], v.homeOf[n.Name] = homes, served
	return homes
}

// sharingHome says how many queues of a NIC a CPU serves once each interrupt has its CPU.
func (v *View) sharingHome(n *facts.NIC, cpu int) string {
	queues := v.homeOf[n.Name][cpu]
	if len(queues) == 1 {
		return "no other queue of " + n.Name
	}
	return fmt.Sprintf("%d queues of %s", len(queues), n.Name)
}

// queueAt returns the queue number of an interrupt's address.
func queueAt(a setting.Address) int {
	name := a.Rest()
	queue, _ := QueueOf(name[:max(0, strings.LastIndexByte(name, '/'))])
	return queue
}

// PlacedByKernel reports, by the name of an interrupt's handler, whether it cannot be moved. Newer kernels show that in
// the mode of the interrupt's affinity file (facts.IRQ.Managed).
func PlacedByKernel(handler string) bool { return placedByKernel.MatchString(handler) }
