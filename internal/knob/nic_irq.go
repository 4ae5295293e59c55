package knob

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/datapath"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

// QueueOf is the queue that an interrupt's name speaks of: the number at its end, before which common drivers write
// rx, tx, TxRx, input, output or fp ("eth0-TxRx-3", "i40e-eth0-TxRx-3", "virtio2-input.0", "mlx5_comp3@pci:…").
// Interrupts for the link, mailbox and configuration have none.
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
	ID: "nic.irqbalance", Title: "irqbalance leaves the NIC's interrupts alone", Stage: datapath.NIC, Risk: goal.None,
	Tiers: tiers(goal.Standard, goal.Aggressive, goal.Realtime),
	Doc: Doc{
		Want: "stopped",
		Why: "irqbalance moves interrupts every ten seconds by the load that it sees. It knows nothing of vCPUs and vhost threads, and puts a queue on a guest's CPU; " +
			"what was placed by hand is moved away again. With interrupts placed one by one it must not run.",
		Cost:   "Interrupts of other devices (disks) stay where they are when it stops.",
		Verify: "systemctl is-active irqbalance says inactive; smp_affinity_list of the NIC's interrupts stays as it was set.",
		Traps: []string{
			"IRQBALANCE_BANNED_CPULIST= set to nothing bans nothing, and that it is set at all switches off the automatic ban of isolated and nohz_full CPUs.",
			"IRQBALANCE_ONESHOT=1 balances once at start and still overrides what was set before.",
			"Managed interrupts (NVMe, some NICs) are moved by nobody, irqbalance included.",
		},
		Sources: []Source{
			{"banned CPUs and the automatic ban", "irqbalance cputree.c, setup_banned_cpus"},
			{"interval of 10 s", "irqbalance(1), --interval"},
		},
	},
	Where: fixed(setting.Of(setting.Service, "irqbalance")),
	Want: func(v *View, a setting.Address) Advice {
		return Wants(setting.Exact("stopped"), "it moves interrupts that are placed one by one, onto guests' CPUs too")
	},
}

var nicIRQAffinity = &Knob{
	ID: "nic.irq_affinity", Title: "A CPU for each NIC queue's interrupt", Stage: datapath.NIC, Risk: goal.None,
	After: []string{"nic.channels", "nic.ring.rx", "nic.ring.tx", "nic.irqbalance"}, Tiers: tiers(goal.Standard, goal.Aggressive, goal.Realtime),
	Doc: Doc{
		Want: "a CPU for each queue, of the NIC's node and no guest's",
		Why: "The CPU that takes a queue's interrupt does all of the host's work for its packets: driver, bridge, tap. Two queues on one CPU halve each other; a queue on a vCPU's CPU steals from the guest; " +
			"a queue on another node reads every packet over the link between the nodes.",
		Cost:   "None by itself; the interrupt follows no load any more.",
		Verify: "/proc/irq/N/effective_affinity_list; the columns of /proc/interrupts count where they should.",
		Traps: []string{
			"Setting a device up anew (ifup, a change of rings, channels or MTU) asks for its interrupts anew and may reset the affinity to the driver's hint.",
			"Writing a managed interrupt's affinity answers EIO: the kernel spreads those itself. They are skipped and said.",
			"A mask of several CPUs does not spread: x86 delivers to one CPU of it (effective_affinity).",
			"set_irq_affinity scripts start at CPU 0 whatever the NIC's node is.",
		},
		Sources: []Source{
			{"EIO of managed interrupts", "kernel/irq/proc.c, write_irq_affinity: irq_can_set_affinity_usr"},
			{"the driver's hint at setup", "kernel/irq/manage.c, __irq_apply_affinity_hint; igb_main.c, igb_request_msix"},
			{"one CPU of the mask", "arch/x86/kernel/apic/vector.c, assign_irq_vector_any_locked"},
		},
	},
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
			return v.offQuiet(a)
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
		reading := v.Readings.At(a)
		if cpus, err := setting.ParseCPUs(reading.Value); reading.State == setting.Known && err == nil {
			if len(cpus) == 1 && slices.Contains(serving.CPUs, cpus[0]) && v.alone(n, queue, cpus[0], len(serving.CPUs)) {
				return Fine(fmt.Sprintf("CPU %d has it to itself as far as there are enough: %s", cpus[0], serving.Why))
			}
		}
		advice = onNIC(n, Wants(setting.Exact(strconv.Itoa(want)), fmt.Sprintf("queue %d belongs on a CPU of its own: %s", queue, serving.Why)))
		advice.Risk = goal.None // packets go on meanwhile, on the old CPU
		return advice
	},
}

// alone tells whether a CPU serves no more queues of a NIC than it must.
func (v *View) alone(n *facts.NIC, queue, cpu, serving int) bool {
	load, ok := v.irqLoad[n.Name]
	if !ok {
		load = map[int]map[int]bool{}
		for _, irq := range n.IRQs {
			q, isQueue := QueueOf(irq.On)
			reading := v.Readings.At(n.Address(irq))
			cpus, err := setting.ParseCPUs(reading.Value)
			if !isQueue || reading.State != setting.Known || err != nil || len(cpus) != 1 {
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
