package bottleneck

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/facts"
)

// minBeside is the share of a CPU below which a thread off the path is not shown.
const minBeside = 0.05

func (b *stations) cpu(n int) *facts.CPULoad {
	return facts.Find(b.load.CPUs, func(c *facts.CPULoad) bool { return c.CPU == n })
}

// addSoftirqs adds the CPUs that took packets from NICs or backlogs, as one station.
func (b *stations) addSoftirqs() {
	s := station("softirq", "")
	for _, n := range b.load.Softnet {
		if n.Processed == 0 && n.Dropped == 0 && n.BacklogLen == 0 {
			continue
		}
		p := station("softirq", cpuName(n.CPU))
		p.In = b.rate(n.Processed)
		s.In = max(s.In, 0) + p.In
		if c := b.cpu(n.CPU); c != nil {
			p.Use, p.Of = c.Softirq+c.IRQ, p.Name
			if c.Steal >= 0.05 {
				p.wait("stolen by the hypervisor", c.Steal, "share", "/proc/stat")
			}
		}
		b.addLost(&p, "backlog full", n.Dropped, true)
		b.addLost(&p, "flow limit", n.FlowLimit, false) // dropped has them too (enqueue_to_backlog in net/core/dev.c)
		if n.Squeezed > 0 {
			p.wait("out of budget or time", b.rate(n.Squeezed), "times/s", "/proc/net/softnet_stat")
		}
		if n.BacklogLen > 0 {
			p.wait("backlog", float64(n.BacklogLen), "packets", "/proc/net/softnet_stat")
		}
		s.Loss += p.Loss
		s.add(p)
	}
	s.Name = count(len(s.Parts), "CPU")
	for _, role := range []string{"ksoftirqd", "napi"} {
		for t := range facts.Each(b.load.Threads) {
			if t.Role == role && t.Ran >= 0.01 {
				s.Parts = append(s.Parts, b.thread("softirq", t))
			}
		}
	}
	b.addGrouped(s)
}

// addGrouped adds a station with its parts, or its only part instead.
func (b *stations) addGrouped(s Station) {
	switch len(s.Parts) {
	case 0:
	case 1:
		b.all = append(b.all, s.Parts[0])
	default:
		b.all = append(b.all, s)
	}
}

// addProfiled adds stages that only a profile of CPU time shows.
func (b *stations) addProfiled(stages ...string) {
	for _, stage := range stages {
		s := station(stage, stage)
		b.addProfile(&s, stage)
		if s.Use >= 0.005 {
			b.all = append(b.all, s)
		}
	}
}

// addProfile adds what a stage takes of each CPU, one part for each; a single part adds nothing and is left out.
func (b *stations) addProfile(s *Station, stage string) {
	by := map[int]float64{}
	symbols := map[int]string{}
	var cpus []int
	for _, e := range b.load.Profile {
		if e.Stage != stage {
			continue
		}
		if _, seen := by[e.CPU]; !seen {
			cpus = append(cpus, e.CPU)
			symbols[e.CPU] = e.Symbol
		}
		by[e.CPU] += e.Share
	}
	slices.Sort(cpus)
	for _, cpu := range cpus {
		p := station(stage, cpuName(cpu))
		p.Use, p.Of = by[cpu], strings.TrimSuffix(fmt.Sprintf("CPU %d, %s", cpu, symbols[cpu]), ", ")
		s.add(p)
	}
	if len(s.Parts) == 1 {
		s.Parts = nil
	}
}

// addThreads adds the threads of a role as one station.
func (b *stations) addThreads(role, guest string, wanted func(*facts.ThreadLoad) bool) {
	s := station(role, "")
	s.Guest = guest
	for t := range facts.Each(b.load.Threads) {
		if t.Role == role && wanted(t) {
			p := b.thread(role, t)
			p.Guest = guest
			s.add(p)
		}
	}
	noun := "thread"
	if role == "vcpu" {
		noun = "vCPU"
	}
	s.Name = count(len(s.Parts), noun)
	b.addGrouped(s)
}

// thread returns the station of one thread. Halt polling does not count as use.
func (b *stations) thread(stage string, t *facts.ThreadLoad) Station {
	s := station(stage, label(t))
	s.Guest = t.Guest
	s.Use, s.Of = effective(t), cpuName(t.CPU)
	if t.Quota > 0 {
		s.Of += fmt.Sprintf(", quota %.2g", t.Quota)
	}
	if t.Waited >= 0.01 {
		s.wait("no CPU", t.Waited, "share", "schedstat")
	}
	if t.Throttle >= 0.01 {
		s.wait("held back by its quota", t.Throttle, "share", "cpu.stat")
	}
	if t.HaltPoll >= 0.05 {
		s.Of += fmt.Sprintf(", polls %.0f %%", t.HaltPoll*100)
	}
	for _, d := range b.load.Delays {
		if d.TID == t.TID && d.P99 >= 100 {
			what := "99 % of wake-ups within"
			if d.Over != "" {
				what = "behind " + d.Over
			}
			s.wait(what, d.P99, "us", "sched_wakeup")
		}
	}
	return s
}

// addBeside adds other threads that run on the path's CPUs, where they take time from it.
func (b *stations) addBeside() {
	on := map[int]bool{}
	for _, t := range b.load.Threads {
		if t.Role == "vhost" || t.Role == "vcpu" || t.Role == "ksoftirqd" || t.Role == "napi" {
			on[t.CPU] = true
		}
	}
	for _, n := range b.load.Softnet {
		on[n.CPU] = on[n.CPU] || n.Processed > 0
	}
	polls := map[int]bool{}
	if b.load.Polled != nil {
		for _, p := range b.load.Polled.PMDs {
			if t := pmdThread(b.host, b.load, p.CPU); t != nil {
				on[p.CPU], polls[t.TID] = true, true
			}
		}
	}
	s := station("beside", "")
	for t := range facts.Each(b.load.Threads) {
		if (t.Role == "other" || t.Role == "pktgen" || t.Role == "mpps") && t.Ran >= minBeside && on[t.CPU] &&
			!polls[t.TID] {
			p := b.thread("beside", t)
			p.Waits = nil // its waiting does the path good
			s.add(p)
		}
	}
	slices.SortStableFunc(s.Parts, func(a, b Station) int { return cmp.Compare(b.Use, a.Use) })
	s.Name = count(len(s.Parts), "thread")
	b.addGrouped(s)
}
