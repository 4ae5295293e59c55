package knob

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

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
		serving := v.Placement().NIC(n.Name)
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
		want := min(len(serving.CPUs), most)
		return onNIC(n, Wants(setting.Least(int64(want)), fmt.Sprintf("%s may serve it (%s); the driver has at most %s",
			Count(len(serving.CPUs), "CPU"), serving.Why, Count(most, "queue"))))
	}),
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
	Want:  always(exact("stopped", "it moves interrupts that are placed one by one, onto guests' CPUs too")),
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
		serving := v.Placement().NIC(n.Name)
		if serving == nil {
			return Skips("no CPU may serve it: guests have them all")
		}
		name := a.Rest()
		queue, isQueue := QueueOf(name[:max(0, strings.LastIndexByte(name, '/'))])
		if !isQueue {
			return Skips("not a queue's interrupt")
		}
		want := serving.CPUs[queue%len(serving.CPUs)]
		if cpus, known := v.cpusAt(a); known {
			if len(cpus) == 1 && slices.Contains(serving.CPUs, cpus[0]) && v.alone(n, queue, cpus[0],
				len(serving.CPUs)) {
				return Fine(fmt.Sprintf("CPU %d has it to itself as far as there are enough: %s", cpus[0], serving.Why))
			}
		}
		advice = onNIC(n,
			exact(strconv.Itoa(want), fmt.Sprintf("queue %d belongs on a CPU of its own: %s", queue, serving.Why)))
		advice.Risk = goal.None // packets go on meanwhile, on the old CPU
		return advice
	},
}

// alone reports whether a CPU serves no more queues of a NIC than necessary.
func (v *View) alone(n *facts.NIC, queue, cpu, serving int) bool {
	load, ok := v.irqLoad[n.Name]
	if !ok {
		load = map[int]map[int]bool{}
		for _, irq := range n.IRQs {
			q, isQueue := QueueOf(irq.On)
			cpus, known := v.cpusAt(n.Address(irq))
			if !isQueue || !known || len(cpus) != 1 {
				continue
			}
			if load[cpus[0]] == nil {
				load[cpus[0]] = map[int]bool{}
			}
			load[cpus[0]][q] = true
		}
		v.irqLoad[n.Name] = load
	}
	queues := map[int]bool{}
	for _, on := range load {
		for q := range on {
			queues[q] = true
		}
	}
	return len(load[cpu]) <= max(1, (len(queues)+serving-1)/serving)
}

// PlacedByKernel reports, by the name of an interrupt's handler, whether it cannot be moved. Newer kernels show that in
// the mode of the interrupt's affinity file (facts.IRQ.Managed).
func PlacedByKernel(handler string) bool { return placedByKernel.MatchString(handler) }
