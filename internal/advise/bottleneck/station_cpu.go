package bottleneck

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/facts"
)

// least is the share of a CPU below which a thread beside the path is not shown.
const least = 0.05

func (b *stations) cpu(n int) (facts.CPULoad, bool) {
	for _, c := range b.load.CPUs {
		if c.CPU == n {
			return c, true
		}
	}
	return facts.CPULoad{}, false
}

// softirqs adds the CPUs that took packets from NICs or backlogs, as one station.
func (b *stations) softirqs() {
	s, cpus := station("softirq", ""), 0
	for _, n := range b.load.Softnet {
		if n.Processed == 0 && n.Dropped == 0 && n.BacklogLen == 0 {
			continue
		}
		p := station("softirq", fmt.Sprintf("CPU %d", n.CPU))
		p.In = b.rate(n.Processed)
		s.In = max(s.In, 0) + p.In
		if c, known := b.cpu(n.CPU); known {
			p.Use, p.Of = c.Softirq+c.IRQ, p.Name
			if c.Steal >= 0.05 {
				p.Waits = append(p.Waits, Evidence{What: "stolen by the hypervisor", Value: c.Steal, Unit: "share",
					Source: "/proc/stat"})
			}
			if p.Use > s.Use {
				s.Use, s.Of = p.Use, p.Name
			}
		}
		b.lost(&p, "backlog full", n.Dropped, true)
		b.lost(&p, "flow limit", n.FlowLimit, false) // dropped has them too (enqueue_to_backlog in net/core/dev.c)
		if n.Squeezed > 0 {
			p.Waits = append(p.Waits, Evidence{What: "out of budget or time", Value: b.rate(n.Squeezed),
				Unit: "times/s", Source: "/proc/net/softnet_stat"})
		}
		if n.BacklogLen > 0 {
			p.Waits = append(p.Waits, Evidence{What: "backlog", Value: float64(n.BacklogLen), Unit: "packets",
				Source: "/proc/net/softnet_stat"})
		}
		s.Loss += p.Loss
		s.Parts = append(s.Parts, p)
		cpus++
	}
	for _, role := range []string{"ksoftirqd", "napi"} {
		for i := range b.load.Threads {
			if t := &b.load.Threads[i]; t.Role == role && t.Ran >= 0.01 {
				s.Parts = append(s.Parts, b.thread("softirq", t))
			}
		}
	}
	s.Name = some(cpus, "CPU")
	b.together(s)
}

// together adds a station that is made of its parts; where it is one only, that one.
func (b *stations) together(s Station) {
	switch len(s.Parts) {
	case 0:
	case 1:
		b.all = append(b.all, s.Parts[0])
	default:
		b.all = append(b.all, s)
	}
}

// profiled adds stages that only a profile of CPU time shows.
func (b *stations) profiled(stages ...string) {
	for _, stage := range stages {
		s := station(stage, stage)
		b.spent(&s, stage)
		if s.Use >= 0.005 {
			b.all = append(b.all, s)
		}
	}
}

// spent is what a stage takes of the CPU that spends most on it, with one part for each CPU.
func (b *stations) spent(s *Station, stage string) {
	by := map[int]float64{}
	symbols := map[int]string{}
	var cpus []int
	for _, p := range b.load.Profile {
		if p.Stage != stage {
			continue
		}
		if _, seen := by[p.CPU]; !seen {
			cpus = append(cpus, p.CPU)
			symbols[p.CPU] = p.Symbol
		}
		by[p.CPU] += p.Share
	}
	slices.Sort(cpus)
	for _, cpu := range cpus {
		p := station(stage, fmt.Sprintf("CPU %d", cpu))
		p.Use, p.Of = by[cpu], strings.TrimSuffix(fmt.Sprintf("CPU %d, %s", cpu, symbols[cpu]), ", ")
		if p.Use > s.Use {
			s.Use, s.Of = p.Use, p.Of
		}
		s.Parts = append(s.Parts, p)
	}
	if len(s.Parts) == 1 { // it says no more
		s.Parts = nil
	}
}

// threads adds those of a role as one station whose use is that of the busiest.
func (b *stations) threads(role, guest string, mine func(*facts.ThreadLoad) bool) {
	s := station(role, "")
	s.Guest = guest
	for i := range b.load.Threads {
		if t := &b.load.Threads[i]; t.Role == role && mine(t) {
			p := b.thread(role, t)
			p.Guest = guest
			if p.Use > s.Use {
				s.Use, s.Of = p.Use, p.Of
			}
			s.Parts = append(s.Parts, p)
		}
	}
	noun := "thread"
	if role == "vcpu" {
		noun = "vCPU"
	}
	s.Name = some(len(s.Parts), noun)
	b.together(s)
}

// thread is one of the path. What a vCPU polls for wake-ups is no work.
func (b *stations) thread(stage string, t *facts.ThreadLoad) Station {
	s := station(stage, label(t))
	s.Guest = t.Guest
	s.Use, s.Of = max(0, t.Ran-t.HaltPoll), fmt.Sprintf("CPU %d", t.CPU)
	if t.Quota > 0 {
		s.Of += fmt.Sprintf(", quota %.2g", t.Quota)
	}
	if t.Waited >= 0.01 {
		s.Waits = append(s.Waits, Evidence{What: "no CPU", Value: t.Waited, Unit: "share", Source: "schedstat"})
	}
	if t.Throttle >= 0.01 {
		s.Waits = append(s.Waits, Evidence{What: "held back by its quota", Value: t.Throttle, Unit: "share",
			Source: "cpu.stat"})
	}
	if t.HaltPoll >= 0.05 {
		s.Of += fmt.Sprintf(", polls %.0f %%", t.HaltPoll*100)
	}
	for _, d := range b.load.Delays {
		if d.TID == t.TID && d.P99 >= 100 {
			e := Evidence{What: "99 % of wake-ups within", Value: d.P99, Unit: "us", Source: "sched_wakeup"}
			if d.Over != "" {
				e.What = "behind " + d.Over
			}
			s.Waits = append(s.Waits, e)
		}
	}
	return s
}

// beside adds what else runs where the path does: it takes what the path needs.
func (b *stations) beside() {
	on := map[int]bool{}
	for _, t := range b.load.Threads {
		if t.Role == "vhost" || t.Role == "vcpu" || t.Role == "ksoftirqd" || t.Role == "napi" {
			on[t.CPU] = true
		}
	}
	for _, n := range b.load.Softnet {
		on[n.CPU] = on[n.CPU] || n.Processed > 0
	}
	s := station("beside", "")
	for i := range b.load.Threads {
		if t := &b.load.Threads[i]; (t.Role == "other" || t.Role == "pktgen" || t.Role == "mpps") && t.Ran >= least &&
			on[t.CPU] {
			p := b.thread("beside", t)
			p.Waits = nil // that it waits is good for the path
			if p.Use > s.Use {
				s.Use, s.Of = p.Use, p.Of
			}
			s.Parts = append(s.Parts, p)
		}
	}
	slices.SortStableFunc(s.Parts, func(a, b Station) int { return cmp.Compare(b.Use, a.Use) })
	s.Name = some(len(s.Parts), "thread")
	b.together(s)
}
