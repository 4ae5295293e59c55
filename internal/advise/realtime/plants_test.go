package realtime

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// take reserves a part of the scene for one contradiction.
func (s *scene) take(what string) bool {
	if s.taken[what] {
		return false
	}
	s.taken[what] = true
	return true
}

// any returns a quiet CPU on which nothing was planted yet.
func (s *scene) any() (int, bool) {
	for _, i := range s.r.Perm(len(s.quiet)) {
		if cpu := s.quiet[i]; s.take(fmt.Sprintf("cpu %d", cpu)) {
			return cpu, true
		}
	}
	return 0, false
}

// some returns a guest in which nothing was planted yet.
func (s *scene) some(fits func(*guestScene) bool) *guestScene {
	for _, i := range s.r.Perm(len(s.guests)) {
		if g := s.guests[i]; fits(g) && s.take("guest "+g.name) {
			return g
		}
	}
	return nil
}

func whichever(*guestScene) bool                         { return true }
func runs(g *guestScene) bool                            { return g.running }
func (s *scene) houseCPU() int                           { return s.house[s.r.IntN(len(s.house))] }
func without(set setting.CPUSet, cpu int) setting.CPUSet { return set.Minus(setting.CPUs(cpu)) }

// inGuest plants in a guest that fits.
func inGuest(fits func(*guestScene) bool, plant func(*scene, *guestScene) string) func(*scene) string {
	return func(s *scene) string {
		if g := s.some(fits); g != nil {
			return plant(s, g)
		}
		return ""
	}
}

// once plants in a part of the scene in which nothing was planted yet.
func once(part string, plant func(*scene) string) func(*scene) string {
	return func(s *scene) string {
		if s.take(part) {
			return plant(s)
		}
		return ""
	}
}

// boot gives an argument of this boot and the next a value, and returns its name.
func (s *scene) boot(name, value string) string {
	s.args[name], s.next[name] = value, value
	return name
}

// plants has a function for each kind that plants a contradiction in a scene and returns the object of the finding. If
// the scene has no place for it, it does nothing and returns an empty object.
var plants = map[*Kind]func(*scene) string{
	listsIsolcpus: func(s *scene) string {
		cpu, ok := s.any()
		if !ok || !s.take("isolcpus") || len(s.quiet) < 2 {
			return ""
		}
		s.h.Topology.Isolated = without(s.quiet, cpu)
		return s.boot("isolcpus", "managed_irq,domain,"+without(s.quiet, cpu).String())
	},
	listsNohzFull: func(s *scene) string {
		cpu, ok := s.any()
		if !ok || !s.take("nohz_full") || len(s.quiet) < 2 {
			return ""
		}
		s.h.Topology.NohzFull = without(s.quiet, cpu)
		return s.boot("nohz_full", without(s.quiet, cpu).String())
	},
	listsRCU: func(s *scene) string {
		if len(s.quiet) < 2 || !s.take("rcu_nocbs") {
			return ""
		}
		return s.boot("rcu_nocbs", s.quiet[1:].String())
	},
	listsManaged: once("isolcpus", func(s *scene) string { return s.boot("isolcpus", s.quiet.String()) }),
	listsSpare: func(s *scene) string {
		if len(s.house) < 2 || !s.take("isolcpus") {
			return ""
		}
		cpu := s.house[len(s.house)-1]
		s.h.Topology.Isolated = s.quiet.Or(setting.CPUs(cpu))
		return s.boot("isolcpus", "managed_irq,domain,"+s.h.Topology.Isolated.String())
	},
	listsIgnored: once("nohz_full", func(s *scene) string {
		s.h.Topology.NohzFull = setting.CPUSet{}
		return "nohz_full"
	}),
	listsMalformed: once("isolcpus", func(s *scene) string {
		return s.boot("isolcpus", "managed_irq,"+s.quiet.String()+",x")
	}),
	listsBootCPU: once("nohz_full", func(s *scene) string {
		s.boot("nohz_full", s.quiet.Or(setting.CPUs(0)).String())
		return "cpu 0"
	}),
	listsNoSuch: func(s *scene) string {
		name := []string{"nohz_full", "isolcpus"}[s.r.IntN(2)]
		if !s.take(name) {
			return ""
		}
		return s.boot(name, strings.TrimSuffix(s.args[name], ",")+",4000")
	},
	listsOffline: func(s *scene) string {
		cpu, ok := s.any()
		for _, g := range s.guests { // nothing else of its guest could be seen then
			for _, c := range g.vcpus {
				ok = ok && (!c.pin.Has(cpu) || s.take("guest "+g.name))
			}
		}
		if !ok {
			return ""
		}
		i, _ := s.h.Topology.Index(cpu)
		s.h.Topology.CPUs[i].Online = false
		s.h.Topology.Online = without(s.h.Topology.Online, cpu)
		return fmt.Sprintf("cpu %d", cpu)
	},
	listsIRQAffinity: once("irqaffinity", func(s *scene) string {
		return s.boot("irqaffinity", s.house.Or(s.quiet[:1]).String())
	}),
	listsNextBoot: func(s *scene) string {
		name := bootLists[s.r.IntN(len(bootLists))]
		if !s.take(name) {
			return ""
		}
		if _, given := s.args[name]; given && s.r.IntN(2) == 0 {
			delete(s.next, name)
		} else {
			s.next[name] = s.quiet[:1].Or(setting.CPUs(0)).String()
		}
		if s.next[name] == s.args[name] {
			return ""
		}
		return name
	},
	listsBalancer: func(s *scene) string {
		s.h.Services = []facts.Service{{Name: "irqbalance", Running: true, PID: 900}}
		s.h.Isolation.IRQBalance = &facts.IRQBalance{Configured: true, Banned: s.quiet[1:], From: "/etc/sysconfig/irqbalance"}
		return "irqbalance"
	},
	listsPartition: func(s *scene) string {
		path := "mine.slice"
		s.h.Isolation.Cgroups = append(s.h.Isolation.Cgroups,
			facts.Cgroup{Path: path, CPUs: s.quiet, Partition: "isolated invalid (Cpu list in cpuset.cpus not " +
				"exclusive)"})
		return path
	},
	listsSibling: func(s *scene) string {
		if s.smt < 2 || len(s.quiet) < 3 || !s.take("scope") {
			return ""
		}
		cpu, ok := s.any()
		if !ok {
			return ""
		}
		s.quiet = without(s.quiet, cpu)
		s.house = s.house.Or(setting.CPUs(cpu))
		return fmt.Sprintf("cpu %d", cpu)
	},

	guestUnpinned: inGuest(whichever, func(s *scene, g *guestScene) string {
		g.vcpus[0].pin = nil
		return "guest " + g.name + " vcpu 0"
	}),
	guestOutside: inGuest(whichever, func(s *scene, g *guestScene) string {
		if g.vcpus[0].pin = setting.CPUs(s.houseCPU()); s.r.IntN(2) == 0 {
			g.vcpus[0].pin = g.vcpus[0].pin.Or(s.quiet[:1]) // only half of it
		}
		return "guest " + g.name + " vcpu 0"
	}),
	guestWide: inGuest(whichever, func(s *scene, g *guestScene) string {
		if len(s.quiet) < 2 {
			return ""
		}
		g.vcpus[0].pin = s.quiet[:2]
		return "guest " + g.name + " vcpu 0"
	}),
	guestShared: func(s *scene) string {
		a, b := s.some(whichever), s.some(whichever)
		if a == nil || b == nil {
			return ""
		}
		b.vcpus[0].pin = a.vcpus[0].pin
		return "cpu " + a.vcpus[0].pin.String()
	},
	guestEmulator: inGuest(whichever, func(s *scene, g *guestScene) string {
		if g.emulator = nil; s.r.IntN(2) == 0 {
			g.emulator = s.house.Or(s.quiet[:1])
		}
		return "guest " + g.name + " emulator"
	}),
	guestIOThread: inGuest(func(g *guestScene) bool { return len(g.io) > 0 }, func(s *scene, g *guestScene) string {
		if g.io[0] = nil; s.r.IntN(2) == 0 {
			g.io[0] = s.quiet[:1]
		}
		return "guest " + g.name + " iothread 1"
	}),
	guestSched: inGuest(whichever, func(s *scene, g *guestScene) string {
		for i := range g.vcpus {
			g.vcpus[i].fifo = false
		}
		return "guest " + g.name
	}),
	guestLivePin: inGuest(runs, func(s *scene, g *guestScene) string {
		g.vcpus[0].live = s.house
		return "guest " + g.name + " vcpu 0"
	}),
	guestLiveSched: inGuest(runs, func(s *scene, g *guestScene) string {
		g.vcpus[0].livePriority = 50
		return "guest " + g.name + " vcpu 0"
	}),
	guestVhost: inGuest(func(g *guestScene) bool {
		return g.running && len(g.vhost) > 0
	}, func(s *scene, g *guestScene) string {
		g.vhost[0] = s.h.Topology.Online
		pid := 5000 + 100*slices.Index(s.guests, g)
		return fmt.Sprintf("guest %s vhost 0 (%d)", g.name, pid+1+len(g.vcpus)+len(g.io))
	}),
	guestWorker: inGuest(runs, func(s *scene, g *guestScene) string {
		if g.held = s.house.Or(s.quiet[:1]); g.held.Equal(g.emulator) {
			return "" // CPUs of the host became quiet ones
		}
		return fmt.Sprintf("guest %s thread emulator (%d)", g.name, 5000+100*slices.Index(s.guests, g))
	}),
	guestNode: inGuest(whichever, func(s *scene, g *guestScene) string {
		if len(s.h.Topology.Nodes) < 2 {
			return ""
		}
		g.memory = fmt.Sprint((g.node + 1) % len(s.h.Topology.Nodes))
		return "guest " + g.name + " memory"
	}),
	guestSpread: func(s *scene) string {
		if len(s.h.Topology.Nodes) < 2 {
			return ""
		}
		g := s.some(whichever)
		if g == nil {
			return ""
		}
		other := s.h.Topology.Nodes[(g.node+1)%len(s.h.Topology.Nodes)].CPUs.And(s.quiet)
		g.vcpus = append(g.vcpus, vcpuScene{pin: other[:1], fifo: true, priority: 1})
		g.memory = ""
		return "guest " + g.name
	},
	guestStrict: inGuest(whichever, func(s *scene, g *guestScene) string {
		if len(s.h.Topology.Nodes) < 2 {
			return ""
		}
		if g.mode = "preferred"; s.r.IntN(2) == 0 {
			g.memory = ""
		}
		return "guest " + g.name + " memory"
	}),
	guestPages: inGuest(whichever, func(s *scene, g *guestScene) string {
		g.huge = false
		return "guest " + g.name + " memory"
	}),
	guestPagesShort: inGuest(whichever, func(s *scene, g *guestScene) string {
		if !s.take(fmt.Sprintf("pages %d", g.node)) {
			return ""
		}
		for i, p := range s.h.Topology.Nodes[g.node].Hugepages {
			if p.Size == g.page {
				s.h.Topology.Nodes[g.node].Hugepages[i].Total = 1
				s.h.Topology.Nodes[g.node].Hugepages[i].Free = 0
				g.kib = 2 * g.page >> 10
			}
		}
		return fmt.Sprintf("node %d pages of %d kB", g.node, g.page>>10)
	}),
	guestLocked: inGuest(whichever, func(s *scene, g *guestScene) string {
		g.locked = false
		return "guest " + g.name + " memory"
	}),

	threadUser: func(s *scene) string {
		return s.thread(facts.ThreadRun{Comm: "dd", Affinity: s.h.Topology.Online, RunNS: 12e6, Switches: 40})
	},
	threadKernel: func(s *scene) string {
		return s.thread(facts.ThreadRun{Comm: "kworker/u16:3", Kernel: true, Fixed: true, Affinity: s.h.Topology.Online,
			RunNS: 1e6, Switches: 4})
	},
	threadBound: func(s *scene) string {
		return s.thread(facts.ThreadRun{Comm: "ktimers/9", Kernel: true, Fixed: true, RunNS: 3e6, Switches: 400})
	},
	threadUserMay: func(s *scene) string {
		return s.thread(facts.ThreadRun{Comm: "sshd", Affinity: s.h.Topology.Online, CPU: s.house[0]})
	},
	threadKernelMay: func(s *scene) string {
		return s.thread(facts.ThreadRun{Comm: "kswapd0", Kernel: true, Affinity: s.h.Topology.Online, CPU: s.house[0]})
	},
	threadPriority: inGuest(whichever, func(s *scene, g *guestScene) string {
		name := "ksoftirqd/" + g.vcpus[0].pin.String()
		for i := range s.h.Housekeeping.Threads {
			if t := &s.h.Housekeeping.Threads[i]; t.Name == name {
				t.Policy, t.Priority = "SCHED_FIFO", 1
			}
		}
		return "thread " + name
	}),
	threadUnseen: func(s *scene) string {
		cpu, ok := s.any()
		if !ok {
			return ""
		}
		for i := range s.h.Observed.Times {
			if s.h.Observed.Times[i].CPU == cpu {
				s.h.Observed.Times[i].Switches = 9000
			}
		}
		return fmt.Sprintf("cpu %d", cpu)
	},

	irqCame: once("irq 0", func(s *scene) string {
		irq := s.h.Housekeeping.IRQs[0]
		s.h.Observed.IRQs = append(s.h.Observed.IRQs, facts.IRQRun{Number: irq.Number, Name: irq.Name,
			Counts: map[int]uint64{s.quiet[0]: 7}})
		return fmt.Sprintf("irq %d %s", irq.Number, irq.Name)
	}),
	irqAimed: once("irq 1", func(s *scene) string {
		irq := &s.h.Housekeeping.IRQs[1]
		irq.Affinity, irq.Effective = s.quiet, s.quiet[:1]
		return fmt.Sprintf("irq %d %s", irq.Number, irq.Name)
	}),
	irqMay: once("irq 1", func(s *scene) string {
		irq := &s.h.Housekeeping.IRQs[1]
		irq.Affinity = s.h.Topology.Online
		return fmt.Sprintf("irq %d %s", irq.Number, irq.Name)
	}),
	irqDefault: func(s *scene) string {
		s.h.Readings[setting.Of(setting.IRQCPUs, "default")] = setting.Value(s.house.Or(s.quiet).String())
		return "default_smp_affinity"
	},
	irqTick: func(s *scene) string {
		cpu, ok := s.any()
		if !ok || !s.h.Topology.NohzFull.Has(cpu) || s.taken["nohz_full"] || !s.take("nohz_full") {
			return ""
		}
		s.h.Observed.IRQs[0].Counts[cpu] = 5 * 250
		return fmt.Sprintf("cpu %d", cpu)
	},
	irqCalls: func(s *scene) string { return s.own("CAL", 600) },
	irqNMI:   func(s *scene) string { return s.own("NMI", 2) },

	kernelWorkqueue: func(s *scene) string {
		s.h.Readings[setting.Of(setting.SysfsCPUs, "devices/virtual/workqueue/cpumask")] = setting.Value(
			s.h.Topology.Online.String())
		return "workqueue cpumask"
	},
	kernelWatchdog: func(s *scene) string {
		s.h.Readings[setting.Of(setting.Sysctl, "kernel.watchdog")] = setting.Value("1")
		s.h.Readings[setting.Of(setting.Sysctl, "kernel.watchdog_cpumask")] = setting.Value(s.quiet[:1].String())
		return "kernel.watchdog_cpumask"
	},
	kernelRCU: func(s *scene) string {
		s.thread(facts.ThreadRun{Comm: "rcuop/3", Kernel: true, Affinity: s.h.Topology.Online, CPU: s.house[0]})
		return "rcuo threads"
	},
	kernelTimers: func(s *scene) string {
		s.h.Readings[setting.Of(setting.Sysctl, "kernel.timer_migration")] = setting.Value("0")
		return "kernel.timer_migration"
	},
	kernelThrottling: func(s *scene) string {
		if s.some(func(g *guestScene) bool { return g.vcpus[0].fifo }) == nil {
			return ""
		}
		s.h.Readings[setting.Of(setting.Sysctl, "kernel.sched_rt_runtime_us")] = setting.Value("950000")
		return "kernel.sched_rt_runtime_us"
	},

	cgroupPulls: inGuest(runs, func(s *scene, g *guestScene) string {
		g.groups["vcpu0"] = s.house
		return "machine.slice/" + g.name + ".scope/libvirt/vcpu0"
	}),
	cgroupNarrow: func(s *scene) string {
		if len(s.guests) == 0 || !s.take("machine.slice") || s.some(whichever) == nil {
			return ""
		}
		s.h.Isolation.Cgroups[0].CPUs, s.h.Isolation.Cgroups[0].Effective = s.house, s.house
		return "machine.slice"
	},
	cgroupHelper: inGuest(runs, func(s *scene, g *guestScene) string {
		g.groups["emulator"] = s.h.Topology.Online
		return "machine.slice/" + g.name + ".scope/libvirt/emulator"
	}),
	cgroupHost: func(s *scene) string {
		s.h.Isolation.Cgroups[1].CPUs = s.house.Or(s.quiet[:1])
		return "system.slice"
	},

	houseNone: once("scope", func(s *scene) string {
		s.quiet, s.house = s.h.Topology.Online, s.house[:1]
		return "housekeeping"
	}),
	houseCore: func(s *scene) string {
		if s.smt < 2 || !s.take("scope") {
			return ""
		}
		for _, cpu := range s.house {
			if c, _ := s.h.Topology.CPU(cpu); c.Siblings[0] == cpu {
				s.quiet = s.quiet.Or(c.Siblings[1:])
			}
		}
		return "housekeeping"
	},
	houseNode: func(s *scene) string {
		if len(s.h.Topology.Nodes) < 2 || !s.take("scope") {
			return ""
		}
		s.quiet = s.quiet.Or(s.h.Topology.Nodes[1].CPUs)
		return "node 1"
	},
	houseBusy: once("scope", func(s *scene) string {
		for i := range s.h.Observed.Times {
			if s.house.Has(s.h.Observed.Times[i].CPU) {
				s.h.Observed.Times[i].Busy = 4900
			}
		}
		return "housekeeping"
	}),
	houseVectors: once("scope", func(s *scene) string {
		for i := range vectors*len(s.house) + 1 {
			s.h.Housekeeping.IRQs = append(s.h.Housekeeping.IRQs,
				facts.IRQ{Number: 1000 + i, Name: fmt.Sprintf("many-%d", i), Affinity: s.house, Effective: s.house[:1]})
		}
		return "housekeeping"
	}),
	houseStorage: func(s *scene) string {
		s.h.Storage = append(s.h.Storage, facts.Storage{Name: "ceph-osd", Count: len(s.house) + 1, Node: 0})
		return "node 0 ceph-osd"
	},
	houseHelpers: inGuest(runs, func(s *scene, g *guestScene) string {
		if !s.take("scope") {
			return ""
		}
		for range helpersPerCPU*len(s.house) + 1 {
			g.vhost = append(g.vhost, s.house)
		}
		return "housekeeping"
	}),
}

// thread adds a thread to the observation.
func (s *scene) thread(t facts.ThreadRun) string {
	cpu, ok := s.any()
	if !ok {
		return ""
	}
	t.TID, t.Policy = s.newTID(), "SCHED_OTHER"
	t.PID = t.TID
	if t.Affinity == nil {
		t.Affinity = setting.CPUs(cpu)
	}
	if t.RunNS > 0 {
		t.CPU = cpu
		for i := range s.h.Observed.Times {
			if s.h.Observed.Times[i].CPU == cpu {
				s.h.Observed.Times[i].Switches += int64(t.Switches)
			}
		}
	}
	s.h.Observed.Threads = append(s.h.Observed.Threads, t)
	return fmt.Sprintf("thread %s (%d)", t.Comm, t.TID)
}

// own adds a row of local interrupts to the observation.
func (s *scene) own(name string, n uint64) string {
	cpu, ok := s.any()
	if !ok {
		return ""
	}
	s.h.Observed.IRQs = append(s.h.Observed.IRQs, facts.IRQRun{Number: -1, Name: name, Counts: map[int]uint64{cpu: n}})
	return fmt.Sprintf("cpu %d", cpu)
}
