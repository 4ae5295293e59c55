package realtime

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

var (
	irqCame    = kind("irq.came")
	irqAimed   = kind("irq.aimed")
	irqMay     = kind("irq.may")
	irqDefault = kind("irq.default")
	irqTick    = kind("irq.tick")
	irqCalls   = kind("irq.calls")
	irqNMI     = kind("irq.nmi")
)

// Rates above which interrupts are worth a finding, per second.
const (
	tickRate  = 20.0 // with a tick at least 100, without one about 1
	callsRate = 10.0
	wakeRate  = 100.0 // vCPU kicks are RES interrupts too
	cameRate  = 1.0   // of a device: from here on High
)

// judgeInterrupts judges what interrupts the quiet CPUs.
func judgeInterrupts(v *view) {
	cpus := v.s.CPUs
	v.addOverlap(irqDefault, "default_smp_affinity", "it has", v.cpuSet(setting.Of(setting.IRQCPUs, "default")),
		fmt.Sprintf("echo %s > /proc/irq/default_smp_affinity; irqaffinity=%s at boot", v.houseMask(), v.houseList()))
	fired := map[int]bool{}
	if v.o != nil {
		for _, r := range v.o.IRQs {
			if r.Number >= 0 {
				fired[r.Number] = v.judgeDeviceIRQ(r) || fired[r.Number]
			}
		}
		v.judgeLocalIRQs()
	}
	var may []facts.IRQ
	for _, irq := range v.irqs {
		if fired[irq.Number] {
			continue
		}
		aimed, in := irq.Effective.And(cpus), irq.Affinity.And(cpus)
		object := fmt.Sprintf("irq %d %s", irq.Number, irq.Name)
		switch {
		case len(aimed) > 0 && placedByKernel(irq):
			v.add(irqAimed, object, aimed, fmt.Sprintf("it goes to CPU %s", aimed),
				"").at(knob.Low).unfixable(managedWhy)
		case len(aimed) > 0:
			v.add(irqAimed, object, aimed, fmt.Sprintf("it goes to CPU %s", aimed), v.moveIRQCommand(irq.Number))
		case len(in) > 0 && !placedByKernel(irq):
			may = append(may, irq)
		}
	}
	v.addMayIRQ(may)
}

const managedWhy = "nothing can move it: the kernel places it itself, and writing its affinity answers EIO; " +
	"isolcpus=managed_irq at boot keeps it off as long as its mask has another CPU, and fewer queues of the device " +
	"make that so"

// moveIRQCommand returns the command that moves an interrupt to the CPUs of the host.
func (v *view) moveIRQCommand(n int) string {
	return fmt.Sprintf("echo %s > /proc/irq/%d/smp_affinity_list; rt.irq_affinity does it for all, and irqbalance "+
		"must leave it alone", v.houseList(), n)
}

// interruptsOf returns the interrupts of all devices, sorted by number.
func interruptsOf(h *facts.Host) []facts.IRQ {
	var all []facts.IRQ
	if h.Housekeeping != nil {
		all = append(all, h.Housekeeping.IRQs...)
	}
	for _, n := range h.NICs {
		all = append(all, n.IRQs...)
	}
	slices.SortStableFunc(all, func(a, b facts.IRQ) int { return a.Number - b.Number })
	return all
}

// placedByKernel reports whether an interrupt cannot be moved, by its file or, on kernels that do not show that, by its
// name.
func placedByKernel(irq facts.IRQ) bool { return irq.Managed || knob.PlacedByKernel(irq.Name) }

// judgeDeviceIRQ judges an interrupt that fired, and reports whether it fired on the quiet CPUs.
func (v *view) judgeDeviceIRQ(r facts.IRQRun) bool {
	var n uint64
	var on []int
	for _, cpu := range v.s.CPUs {
		if r.Counts[cpu] > 0 {
			n, on = n+r.Counts[cpu], append(on, cpu)
		}
	}
	if n == 0 {
		return false
	}
	rate := v.perSecond(n)
	irq := facts.IRQ{Number: r.Number, Name: r.Name}
	if i, known := slices.BinarySearchFunc(v.irqs, r.Number,
		func(irq facts.IRQ, n int) int { return irq.Number - n }); known {
		irq = v.irqs[i]
	}
	f := v.add(irqCame, fmt.Sprintf("irq %d %s", r.Number, irq.Name), setting.CPUs(on...),
		fmt.Sprintf("it came %s in %.1f s to %s", words.Count(int(n), "time"), v.o.Seconds,
			setting.CPUs(on...).Words()), v.moveIRQCommand(r.Number)).with("count", float64(n)).with("per_second", rate)
	if rate < cameRate {
		f.at(knob.Medium)
	}
	switch {
	case placedByKernel(irq):
		f.unfixable(managedWhy)
	case strings.HasPrefix(irq.Name, "vfio-"):
		f.at(knob.Low).Why = "it is of a device that a guest has: on its vCPU's own CPU it disturbs nobody else, but " +
			"the vCPU"
	}
	return true
}

// addMayIRQ adds findings for interrupts that may be placed on the quiet CPUs: one each, or one for all of many.
func (v *view) addMayIRQ(list []facts.IRQ) {
	if len(list) <= maxSingly {
		for _, irq := range list {
			in := irq.Affinity.And(v.s.CPUs)
			v.add(irqMay, fmt.Sprintf("irq %d %s", irq.Number, irq.Name), in,
				fmt.Sprintf("its mask is %s, of which %s should be quiet; now it goes to %s", irq.Affinity, in,
					words.Or(irq.Effective.String())), v.moveIRQCommand(irq.Number))
		}
		return
	}
	var names []string
	in := setting.CPUSet{}
	for _, irq := range list {
		names, in = append(names, fmt.Sprintf("%d %s", irq.Number, irq.Name)), in.Or(irq.Affinity.And(v.s.CPUs))
	}
	v.add(irqMay, "interrupts", in, fmt.Sprintf("%d of them: %s …", len(list), strings.Join(names[:6], ", ")),
		fmt.Sprintf("mpps plan moves all of them (rt.irq_affinity) to CPUs %s", v.houseList())).with("interrupts",
		float64(len(list)))
}

// judgeLocalIRQs judges the rows of /proc/interrupts without a device: LOC, CAL, TLB, RES, NMI, MCP.
func (v *view) judgeLocalIRQs() {
	rows := map[string]map[int]uint64{}
	for _, r := range v.o.IRQs {
		if r.Number < 0 {
			rows[r.Name] = r.Counts
		}
	}
	for _, cpu := range v.s.CPUs.And(v.o.CPUs) {
		add := func(k *Kind, found, do string) *Finding {
			return v.add(k, cpuObject(cpu), setting.CPUs(cpu), found, do)
		}
		rate := func(name string) float64 { return v.perSecond(rows[name][cpu]) }
		if loc := rate("LOC"); loc > tickRate && v.h.Topology.NohzFull.Has(cpu) {
			f := add(irqTick, fmt.Sprintf("LOC came %.0f times a second", loc), "one thread alone on the CPU stops "+
				"the tick; timers that the guest sets fire here as well").with("per_second", loc)
			if v.alone(cpu) {
				f.at(knob.Low).Why = "one thread alone has this CPU: these are most likely the guest's own timers, " +
					"each of which takes the vCPU out of the guest"
			}
		}
		if calls := rate("CAL") + rate("TLB"); calls > callsRate {
			add(irqCalls, fmt.Sprintf("CAL came %.0f, TLB %.0f times a second", rate("CAL"), rate("TLB")),
				"trace-cmd record -M MASK -e csd:csd_function_entry names the functions; programs with threads on "+
					"these CPUs flush each other's translations").with("per_second", calls)
		}
		if res := rate("RES"); res > wakeRate {
			add(irqCalls, fmt.Sprintf("RES came %.0f times a second: threads are woken there from elsewhere", res),
				"disks and network of the guest kick its vCPU so; on an otherwise quiet guest look who wakes whom: "+
					"trace-cmd record -e sched:sched_waking").with("per_second", res)
		}
		if n := rows["NMI"][cpu] + rows["MCP"][cpu]; n > 0 {
			add(irqNMI, fmt.Sprintf("NMI came %d times, machine check polls %d times in %.1f s", rows["NMI"][cpu],
				rows["MCP"][cpu], v.o.Seconds), "kernel.watchdog_cpumask without this CPU (rt.watchdog), no perf "+
				"record -a; mce=ignore_ce ends the polls").with("count", float64(n))
		}
	}
}

// perSecond returns the rate of what was counted while the CPUs were watched.
func (v *view) perSecond(n uint64) float64 { return float64(n) / max(v.o.Seconds, 0.001) }

// alone reports whether at most one thread ran on a CPU, not counting its per-CPU kernel threads.
func (v *view) alone(cpu int) bool {
	n := facts.Count(v.o.Threads, func(t facts.ThreadRun) bool {
		return t.CPU == cpu && (t.RunNS > 0 || t.Switches > 0) && !bound(t)
	})
	return n <= 1
}
