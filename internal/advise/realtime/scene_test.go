package realtime

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// scene is a generated host whose realtime CPUs are consistent until something is planted.
type scene struct {
	r      *rand.Rand
	h      *facts.Host
	quiet  setting.CPUSet // should be
	house  setting.CPUSet
	guests []*guestScene
	args   map[string]string // of the running kernel
	next   map[string]string // of the next boot
	smt    int
	tid    int
	taken  map[string]bool // what a contradiction was planted in
}

// guestScene is one guest of a scene.
type guestScene struct {
	name     string
	node     int
	running  bool
	vcpus    []vcpuScene
	emulator setting.CPUSet
	io       []setting.CPUSet
	vhost    []setting.CPUSet
	memory   string // nodes
	mode     string
	page     uint64 // bytes
	kib      uint64
	huge     bool
	locked   bool
	held     setting.CPUSet // CPUs of its own threads that run, where not those of emulator
	groups   map[string]setting.CPUSet
}

type vcpuScene struct {
	pin, live    setting.CPUSet
	fifo         bool
	priority     int
	livePriority int
}

// newScene generates a consistent host.
func newScene(seed uint64) *scene {
	r := rand.New(rand.NewPCG(seed, 20))
	s := &scene{r: r, h: &facts.Host{Name: "made-up", AsRoot: true, Readings: facts.Readings{}},
		args: map[string]string{}, next: map[string]string{}, taken: map[string]bool{}, tid: 1000}
	nodes, cores := 1+r.IntN(4), 3+r.IntN(6)
	s.smt = 1 + r.IntN(2)
	s.topology(nodes, cores, r.IntN(2) == 0)
	for node := range nodes {
		for _, core := range s.cores(node) {
			// The first core of a node is the host's, the second the guests': the others as it falls.
			if i := slices.Index(s.coreNumbers(node), s.core(core[0])); i == 0 || i > 1 && r.IntN(3) == 0 {
				s.house = s.house.Or(core)
			} else {
				s.quiet = s.quiet.Or(core)
			}
		}
	}
	s.kernel()
	for node := range nodes {
		s.guestsOf(node)
	}
	if s.r.IntN(4) == 0 {
		s.h.Storage = []facts.Storage{{Name: "ceph-osd", Count: len(s.h.Topology.Nodes[0].CPUs.And(s.house)), Node: 0}}
	}
	s.interrupts()
	s.groups()
	s.observe()
	return s
}

func (s *scene) topology(nodes, cores int, adjacent bool) {
	t := &s.h.Topology
	total := nodes * cores
	for cpu := range total * s.smt {
		core := cpu % total
		if adjacent {
			core = cpu / s.smt
		}
		siblings := setting.CPUSet{}
		for k := range s.smt {
			if adjacent {
				siblings = siblings.Or(setting.CPUs(core*s.smt + k))
			} else {
				siblings = siblings.Or(setting.CPUs(core + k*total))
			}
		}
		t.CPUs = append(t.CPUs, facts.CPU{ID: cpu, Online: true, Core: core, Siblings: siblings, Node: core / cores,
			L3: -1})
		t.Online = append(t.Online, cpu)
	}
	for node := range nodes {
		n := facts.Node{ID: node, Hugepages: []facts.Hugepages{{Size: 2 << 20}, {Size: 1 << 30}}}
		for _, c := range t.CPUs {
			if c.Node == node {
				n.CPUs = append(n.CPUs, c.ID)
			}
		}
		t.Nodes = append(t.Nodes, n)
	}
}

func (s *scene) core(cpu int) int {
	c, _ := s.h.Topology.CPU(cpu)
	return c.Core
}

// coreNumbers returns the cores of a node, sorted.
func (s *scene) coreNumbers(node int) (all []int) {
	for _, core := range s.cores(node) {
		all = append(all, s.core(core[0]))
	}
	return all
}

// cores returns the CPUs of each core of a node.
func (s *scene) cores(node int) (all []setting.CPUSet) {
	for _, c := range s.h.Topology.CPUs {
		if c.Node == node && c.Siblings[0] == c.ID {
			all = append(all, c.Siblings)
		}
	}
	return all
}

func (s *scene) kernel() {
	t := &s.h.Topology
	t.Isolated, t.NohzFull = slices.Clone(s.quiet), slices.Clone(s.quiet)
	s.args["isolcpus"] = "managed_irq,domain," + s.quiet.String()
	s.args["nohz_full"] = s.quiet.String()
	switch s.r.IntN(3) {
	case 0:
		s.args["rcu_nocbs"] = s.quiet.String()
	case 1:
		s.args["rcu_nocbs"] = "all"
	}
	if s.r.IntN(2) == 0 {
		s.args["irqaffinity"] = s.house.String()
	}
	for name, value := range s.args {
		s.next[name] = value
	}
	set := func(a setting.Address, value string) { s.h.Readings[a] = setting.Value(value) }
	set(setting.Of(setting.IRQCPUs, "default"), s.house.String())
	set(setting.Of(setting.SysfsCPUs, "devices/virtual/workqueue/cpumask"), s.house.String())
	set(setting.Of(setting.Sysctl, "kernel.watchdog"), fmt.Sprint(s.r.IntN(2)))
	set(setting.Of(setting.Sysctl, "kernel.watchdog_cpumask"), s.house.String())
	set(setting.Of(setting.Sysctl, "kernel.timer_migration"), "1")
	set(setting.Of(setting.Sysctl, "kernel.sched_rt_runtime_us"), "-1")
	s.h.Kernel.Realtime = s.r.IntN(2) == 0
	s.h.Housekeeping = &facts.Housekeeping{}
	for _, c := range t.CPUs {
		kinds := map[string]int{"ksoftirqd": 2}
		if s.h.Kernel.Realtime {
			kinds["rcuc"] = 3
		}
		for _, kind := range []string{"ksoftirqd", "rcuc"} {
			if p := kinds[kind]; p > 0 {
				thread := facts.KernelThread{Name: fmt.Sprintf("%s/%d", kind, c.ID), PID: s.newTID(),
					Policy: "SCHED_OTHER"}
				if s.quiet.Has(c.ID) {
					thread.Policy, thread.Priority = "SCHED_FIFO", p
				}
				s.h.Housekeeping.Threads = append(s.h.Housekeeping.Threads, thread)
			}
		}
	}
	s.h.Isolation = &facts.Isolation{}
	switch s.r.IntN(4) {
	case 0:
		s.h.Services = []facts.Service{{Name: "irqbalance"}}
	case 1:
		s.h.Services = []facts.Service{{Name: "irqbalance", Running: true, PID: 900}}
		s.h.Isolation.IRQBalance = &facts.IRQBalance{From: "/etc/default/irqbalance"}
	case 2:
		s.h.Services = []facts.Service{{Name: "irqbalance", Running: true, PID: 900}}
		s.h.Isolation.IRQBalance = &facts.IRQBalance{Configured: true, Banned: s.quiet, From: "/etc/default/irqbalance"}
	}
}

func (s *scene) newTID() int { s.tid++; return s.tid }

// guestsOf gives the quiet CPUs of a node to guests and adds an ordinary guest.
func (s *scene) guestsOf(node int) {
	n := &s.h.Topology.Nodes[node]
	free, house := n.CPUs.And(s.quiet), n.CPUs.And(s.house)
	for len(free) > 0 && len(s.guests) < 12 {
		take := 1 + s.r.IntN(len(free))
		g := &guestScene{
			name: fmt.Sprintf("rt%d", len(s.guests)), node: node, running: s.r.IntN(4) > 0, emulator: house,
			memory: fmt.Sprint(node), mode: "strict",
			page: []uint64{2 << 20, 1 << 30}[s.r.IntN(2)], kib: uint64(1+s.r.IntN(8)) << 20, huge: true, locked: true,
			groups: map[string]setting.CPUSet{},
		}
		for _, cpu := range free[:take] {
			g.vcpus = append(g.vcpus, vcpuScene{pin: setting.CPUs(cpu), fifo: true, priority: 1})
		}
		if s.r.IntN(3) == 0 { // one that keeps the guest's own house
			g.vcpus = append(g.vcpus, vcpuScene{pin: house})
		}
		for range s.r.IntN(3) {
			g.io = append(g.io, house)
		}
		for range s.r.IntN(3) {
			g.vhost = append(g.vhost, house)
		}
		for i := range n.Hugepages {
			if p := &n.Hugepages[i]; p.Size == g.page {
				need := (g.kib<<10 + g.page - 1) / g.page
				p.Total += need
				if !g.running {
					p.Free += need
				}
			}
		}
		s.guests, free = append(s.guests, g), free[take:]
	}
	for range 2 { // keep the number of helpers in bounds
		s.trim()
	}
}

// trim removes vhost and I/O threads if the host has few CPUs.
func (s *scene) trim() {
	helpers := 0
	for _, g := range s.guests {
		if helpers += len(g.vhost) + len(g.io); helpers > helpersPerCPU*len(s.house) {
			g.vhost, g.io = nil, nil
		}
	}
}

func (s *scene) interrupts() {
	for i := range 2 + s.r.IntN(12) {
		cpu := s.house[s.r.IntN(len(s.house))]
		s.h.Housekeeping.IRQs = append(s.h.Housekeeping.IRQs, facts.IRQ{
			Number: 30 + i, Name: fmt.Sprintf("device%d", i), Affinity: s.house, Effective: setting.CPUs(cpu),
		})
	}
	for i := range s.r.IntN(4) { // spread over all CPUs by the kernel, kept off by managed_irq
		s.h.Housekeeping.IRQs = append(s.h.Housekeeping.IRQs, facts.IRQ{
			Number: 60 + i, Name: fmt.Sprintf("nvme0q%d", i+1), Affinity: s.h.Topology.Online,
			Effective: setting.CPUs(s.house[0]), Managed: s.r.IntN(2) == 0,
		})
	}
}

func (s *scene) groups() {
	i := s.h.Isolation
	i.Cgroups = []facts.Cgroup{{Path: "machine.slice", Effective: s.h.Topology.Online},
		{Path: "system.slice", Effective: s.h.Topology.Online}}
	if s.r.IntN(2) == 0 {
		i.Cgroups[1].CPUs, i.Cgroups[1].Effective = s.house, s.house
	}
}

// observe generates an observation of five quiet seconds.
func (s *scene) observe() {
	o := &facts.Observation{Seconds: 5, CPUs: s.quiet, CostMS: 10, Looked: 300}
	counts := map[int]uint64{}
	for _, cpu := range s.h.Topology.Online {
		t := facts.CPUTime{CPU: cpu, Busy: float64(s.r.IntN(3000)), Switches: int64(s.r.IntN(5000))}
		if s.quiet.Has(cpu) {
			t.Switches = int64(s.r.IntN(20))
			counts[cpu] = uint64(s.r.IntN(50))
			o.Threads = append(o.Threads, facts.ThreadRun{
				TID: s.newTID(), PID: s.tid, Comm: fmt.Sprintf("kworker/%d:1-mm_percpu_wq", cpu), Kernel: true,
				Fixed: true, Affinity: setting.CPUs(cpu), CPU: cpu,
				Policy: "SCHED_OTHER", RunNS: 40_000, Switches: uint64(s.r.IntN(8)),
			})
		}
		o.Times = append(o.Times, t)
	}
	o.IRQs = []facts.IRQRun{{Number: -1, Name: "LOC", Counts: counts}}
	s.h.Observed = o
}

// facts renders the scene: command line, guests with their definitions, threads and groups.
func (s *scene) facts() *facts.Host {
	var words []string
	for _, name := range bootLists {
		if value, given := s.args[name]; given {
			words = append(words, name+"="+value)
		}
		a := setting.Of(setting.KernelArg, name)
		if _, said := s.h.Readings[a]; said {
			continue
		}
		if value, given := s.next[name]; given {
			s.h.Readings[a] = setting.Value(value)
		} else {
			s.h.Readings[a] = setting.Missing("not on the command line")
		}
	}
	s.h.Kernel.CommandLine = "ro " + strings.Join(words, " ")
	for i, g := range s.guests {
		s.h.Guests = append(s.h.Guests, s.guest(g, 5000+100*i))
	}
	return s.h
}

func (s *scene) guest(g *guestScene, pid int) facts.Guest {
	f := facts.Guest{Name: g.name, Managed: true, State: "shut off", VCPUs: len(g.vcpus), MaxVCPUs: len(g.vcpus),
		Memory: g.kib << 10, Definition: g.xml()}
	if !g.running {
		return f
	}
	f.State, f.PID = "running", pid
	add := func(role string, index int, affinity setting.CPUSet) *facts.Thread {
		f.Threads = append(f.Threads, facts.Thread{TID: pid + len(f.Threads), Comm: role, Role: role, Index: index,
			Affinity: affinity, CPU: affinity[0], Policy: "SCHED_OTHER"})
		return &f.Threads[len(f.Threads)-1]
	}
	held := g.emulator
	if g.held != nil {
		held = g.held
	}
	if len(held) == 0 {
		held = s.h.Topology.Online
	}
	add("emulator", 0, held)
	scope := "machine.slice/" + g.name + ".scope"
	groups := []facts.Cgroup{{Path: scope, Effective: s.h.Topology.Online, Guest: g.name},
		{Path: scope + "/libvirt/emulator", Effective: held, Guest: g.name, Part: "emulator"}}
	for i, c := range g.vcpus {
		live := c.pin
		if c.live != nil {
			live = c.live
		}
		if len(live) == 0 {
			live = s.house
		}
		t := add("vcpu", i, live)
		if c.fifo {
			t.Policy, t.Priority = "SCHED_FIFO", c.priority
		}
		if c.livePriority != 0 {
			t.Policy, t.Priority = "SCHED_FIFO", c.livePriority
		}
		groups = append(groups, facts.Cgroup{Path: fmt.Sprintf("%s/libvirt/vcpu%d", scope, i), Effective: live,
			Guest: g.name, Part: fmt.Sprintf("vcpu%d", i)})
		if s.quiet.Has(live[0]) && len(live) == 1 {
			s.h.Observed.Threads = append(s.h.Observed.Threads, facts.ThreadRun{TID: t.TID, PID: pid, Comm: "CPU 0/KVM",
				Affinity: live, CPU: live[0], Policy: t.Policy, Priority: t.Priority, RunNS: 4e9, Switches: 3})
		}
	}
	for i, set := range g.io {
		if len(set) == 0 {
			set = s.h.Topology.Online
		}
		add("iothread", i+1, set)
	}
	for i, set := range g.vhost {
		add("vhost", i, set)
	}
	for i := range groups {
		if set, changed := g.groups[groups[i].Part]; changed {
			groups[i].Effective = set
		}
	}
	s.h.Isolation.Cgroups = append(s.h.Isolation.Cgroups, groups...)
	return f
}

func (g *guestScene) xml() string {
	var b strings.Builder
	fmt.Fprintf(&b, "<domain type='kvm'><name>%s</name><memory unit='KiB'>%d</memory><vcpu>%d</vcpu>", g.name, g.kib,
		len(g.vcpus))
	if len(g.io) > 0 {
		fmt.Fprintf(&b, "<iothreads>%d</iothreads>", len(g.io))
	}
	b.WriteString("<memoryBacking>")
	if g.huge {
		fmt.Fprintf(&b, "<hugepages><page size='%d' unit='KiB'/></hugepages>", g.page>>10)
	}
	if g.locked {
		b.WriteString("<locked/>")
	}
	b.WriteString("</memoryBacking><cputune>")
	for i, c := range g.vcpus {
		if len(c.pin) > 0 {
			fmt.Fprintf(&b, "<vcpupin vcpu='%d' cpuset='%s'/>", i, c.pin)
		}
		if c.fifo {
			fmt.Fprintf(&b, "<vcpusched vcpus='%d' scheduler='fifo' priority='%d'/>", i, c.priority)
		}
	}
	if len(g.emulator) > 0 {
		fmt.Fprintf(&b, "<emulatorpin cpuset='%s'/>", g.emulator)
	}
	for i, set := range g.io {
		if len(set) > 0 {
			fmt.Fprintf(&b, "<iothreadpin iothread='%d' cpuset='%s'/>", i+1, set)
		}
	}
	b.WriteString("</cputune>")
	if g.memory != "" {
		fmt.Fprintf(&b, "<numatune><memory mode='%s' nodeset='%s'/></numatune>", g.mode, g.memory)
	}
	b.WriteString("<os><type arch='x86_64'>hvm</type></os></domain>")
	return b.String()
}
