package knob

import (
	"fmt"
	"regexp"
	"strconv"

	"mpps/internal/datapath"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

// placedByKernel are the names of interrupts that drivers let the kernel spread over all CPUs (PCI_IRQ_AFFINITY): queues of
// NVMe, virtio disks and RAID controllers. Kernels before Linux commit eb29369fa543 do not show that in the file's mode,
// and the timer, which belongs to one CPU.
var placedByKernel = regexp.MustCompile(`^(nvme\d+q[1-9]\d*|virtio\d+-(req|request)(\.\d+)?|megasas\d*-msix\d+|mpt3sas\d*-msix\d+|smartpqi|aacraid|hpsa\d*-msix\d+|qla2xxx.*|timer|cascade)$`)

var rtIRQAffinity = &Knob{
	ID: "rt.irq_affinity", Title: "Interrupts stay off the guests' CPUs", Stage: datapath.Realtime, Risk: goal.None,
	After: []string{"nic.irqbalance", "nic.irq_affinity"}, Tiers: realtime(),
	Doc: Doc{
		Want:   "the host's CPUs, for every interrupt that can be moved",
		Why:    "Each interrupt that lands on a guest's CPU takes the vCPU out of the guest for some microseconds, and pollutes its caches. All that can be moved go to the host's own CPUs, and new ones are asked for there.",
		Cost:   "The host's CPUs do all of that work: with one of them, disks and network wait for each other.",
		Verify: "/proc/interrupts: the columns of the guests' CPUs stand still except for LOC, RES and the KVM rows.",
		Traps: []string{
			"To CPU 0, as the old advice has it, is right only where CPU 0 is the whole host: the housekeeping CPUs share the work better.",
			"Writing the affinity of managed interrupts (NVMe and other queues that the kernel spreads) answers EIO: they are left alone. isolcpus=managed_irq keeps them off isolated CPUs.",
			"A mask does not spread: x86 delivers to one CPU of it.",
			"irqbalance puts them back unless it knows the banned CPUs, or does not run.",
			"NICs that carry guests' packets are placed by nic.irq_affinity, one queue to a CPU.",
		},
		Sources: []Source{
			{"EIO", "kernel/irq/proc.c, write_irq_affinity"},
			{"where new ones go", "Documentation/core-api/irq/irq-affinity.rst, default_smp_affinity"},
			{"managed interrupts and isolation", "Documentation/admin-guide/kernel-parameters.txt, isolcpus=managed_irq"},
			{"all interrupts to CPU 0", "founding experience"},
		},
	},
	Where: func(h *facts.Host) []setting.Address {
		all := []setting.Address{setting.Of(setting.IRQCPUs, "default")}
		if h.Housekeeping != nil {
			for _, irq := range h.Housekeeping.IRQs {
				all = append(all, setting.Of(setting.IRQCPUs, strconv.Itoa(irq.Number), irq.On))
			}
		}
		for _, n := range h.NICs {
			for _, irq := range n.IRQs {
				if _, isQueue := QueueOf(irq.On); !isQueue {
					all = append(all, n.Address(irq))
				}
			}
		}
		return all
	},
	Want: func(v *View, a setting.Address) Advice {
		if a.Kind == setting.IRQCPUs && placedByKernel.MatchString(a.Rest()) {
			return Skips("the kernel places it itself")
		}
		return v.offQuiet(a)
	},
}

// offQuiet is advice that an interrupt does not go to the guests' CPUs.
func (v *View) offQuiet(a setting.Address) Advice {
	quiet, loud, advice, ok := v.split()
	if !ok {
		return advice
	}
	if v.avoids(a, quiet) {
		return Fine("it goes to the host's CPUs")
	}
	advice = Wants(setting.Exact(loud.String()), fmt.Sprintf("it may interrupt the guests' CPUs %s", quiet)).At(Medium)
	advice.Risk = goal.None
	return advice
}
