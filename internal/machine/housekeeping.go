package machine

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/machine/cpu"
	"mpps/internal/machine/irq"
	"mpps/internal/machine/kernel"
	"mpps/internal/machine/threads"
	"mpps/internal/machine/trust"
	"mpps/internal/machine/vf"
	"mpps/internal/model/facts"
)

// readHousekeeping reads what else the host does with its CPUs and memory. The network must have been read before:
// NICs' interrupts are left out here.
func (m *Machine) readHousekeeping(_ context.Context, h *facts.Host) {
	meminfoText, _ := m.Read("proc/meminfo")
	h.Housekeeping = &facts.Housekeeping{
		Swap: kernel.SwapAreas(m.Tree, h), Available: cpu.Meminfo(meminfoText, "MemAvailable:"),
		KSM:     kernel.PageMerging(m.Tree),
		Threads: m.kernelThreads(), IRQs: m.hostIRQs(h), VFFiles: vf.Files(m.Tree),
	}
}

// perCPUThreads are the names, before the slash, of the kernel threads for softirqs, timers and RCU. rcuc and rcub
// exist only with RCU_BOOST (PREEMPT_RT has it), ktimers only with PREEMPT_RT (kernel/softirq.c, timer_threads). rcuop
// and rcuog, which are not listed, exist only for CPUs of rcu_nocbs.
var perCPUThreads = []string{"ksoftirqd", "ktimers", "rcuc", "rcub"}

// kernelThreads returns these threads, sorted by PID.
func (m *Machine) kernelThreads() []facts.KernelThread {
	found := []facts.KernelThread{}
	for _, t := range trust.KernelThreads(m.Tree, trust.Processes(m.Tree), func(name string) bool {
		kind, _, numbered := strings.Cut(name, "/")
		return numbered && slices.Contains(perCPUThreads, kind)
	}) {
		found = append(found, facts.KernelThread{Name: t.Comm, PID: t.TID, Policy: threads.PolicyName(t.Policy),
			Priority: t.Priority})
	}
	return found
}

// hostIRQs returns the interrupts that have a handler and belong to no NIC.
func (m *Machine) hostIRQs(h *facts.Host) []facts.IRQ {
	taken := map[int]bool{}
	for _, n := range h.NICs {
		for _, irq := range n.IRQs {
			taken[irq.Number] = true
		}
	}
	text, err := m.Read("proc/interrupts")
	if err != nil {
		return []facts.IRQ{}
	}
	found := []facts.IRQ{}
	dir := m.Folder("proc/irq")
	defer dir.Close()
	for _, row := range irq.ParseInterrupts(text) {
		if len(row.Actions) == 0 || taken[row.Number] {
			continue
		}
		number := strconv.Itoa(row.Number)
		found = append(found, facts.IRQ{
			Number: row.Number, Name: row.Actions[0], On: row.Actions[0], Count: row.Count(),
			Affinity:  irq.ListFile(dir, number+"/smp_affinity_list"),
			Effective: irq.ListFile(dir, number+"/effective_affinity_list"),
			Managed:   m.Live() && irq.Unwritable(dir, number+"/smp_affinity_list"),
		})
	}
	return found
}
