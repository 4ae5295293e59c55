package knob

import (
	"regexp"
	"strconv"

	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// placedByKernel matches the names of interrupts that the kernel itself spreads over all CPUs (PCI_IRQ_AFFINITY: queues
// of NVMe, virtio disks and RAID controllers), which kernels before commit eb29369fa543 do not show in the file's mode,
// and of the timer, which belongs to one CPU.
var placedByKernel = regexp.MustCompile(`^(nvme\d+q[1-9]\d*|virtio\d+-(req|request)(\.\d+)?|` +
	`megasas\d*-msix\d+|mpt3sas\d*-msix\d+|smartpqi|aacraid|hpsa\d*-msix\d+|qla2xxx.*|timer|cascade)$`)

var rtIRQAffinity = &Knob{
	ID: "rt.irq_affinity", Title: "Interrupts stay off the guests' CPUs",
	Stage: datapath.Realtime, Risk: goal.None, After: []string{"nic.irqbalance", "nic.irq_affinity"}, Tiers: realtime(),
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
		return offGuestCPUs(v, a)
	},
}

// offGuestCPUs keeps an interrupt off the guests' CPUs.
var offGuestCPUs = keptOff("it goes to the host's CPUs", "it may interrupt the guests' CPUs")
