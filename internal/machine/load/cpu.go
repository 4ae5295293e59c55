package load

import (
	"mpps/internal/machine/cpu"
	"mpps/internal/model/facts"
)

// cpusBetween returns where the time of CPUs went between two readings, as shares of the time that the kernel
// accounted. If it accounted nothing, the CPU counts as idle. That happens only within 10 ms or to offline CPUs: the
// idle time of a stopped tick is updated when the file is read (kernel/time/tick-sched.c, get_cpu_idle_time_us).
func cpusBetween(before, after map[int]cpu.Times, order []int) []facts.CPULoad {
	all := []facts.CPULoad{}
	for _, cpu := range order {
		a, was := before[cpu]
		b, is := after[cpu]
		if !was || !is {
			continue
		}
		grown := func(a, b uint64) float64 { // some, such as iowait, can run backwards
			if b < a {
				return 0
			}
			return float64(b - a)
		}
		guest := grown(a.Guest, b.Guest)
		l := facts.CPULoad{
			CPU: cpu, User: max(grown(a.User, b.User)-guest, 0), System: grown(a.System, b.System),
			Softirq: grown(a.SoftIRQ, b.SoftIRQ),
			IRQ:     grown(a.IRQ, b.IRQ), Guest: guest, Steal: grown(a.Steal, b.Steal), Idle: grown(a.Idle, b.Idle),
		}
		total := l.Busy() + l.Steal + l.Idle
		if total == 0 {
			l.Idle, total = 1, 1
		}
		for _, part := range []*float64{&l.User, &l.System, &l.Softirq, &l.IRQ, &l.Guest, &l.Steal, &l.Idle} {
			*part /= total
		}
		all = append(all, l)
	}
	return all
}
