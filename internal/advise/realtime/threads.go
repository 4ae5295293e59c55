package realtime

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

var (
	threadUser      = kind("threads.user_ran")
	threadKernel    = kind("threads.kernel_ran")
	threadBound     = kind("threads.bound_ran")
	threadUserMay   = kind("threads.user_may")
	threadKernelMay = kind("threads.kernel_may")
	threadPriority  = kind("threads.priority")
	threadUnseen    = kind("threads.unseen")
)

// Rates above which threads are worth a finding, per second.
const (
	boundOften = 2.0   // a per-CPU kernel thread; vmstat alone comes once a second
	boundMuch  = 100.0 // of them: Medium
	unseenMany = 10.0
)

// maxSingly is the most objects of one kind that get a finding each.
const maxSingly = 8

// owner is who a thread belongs to.
type owner struct {
	of       string // "guest rt1 vcpu 0", "kernel", "user"
	expected bool   // a vCPU that the quiet CPUs are for
	guest    bool
	vcpu     bool
}

// ownerOf returns a function that finds the owner of a thread.
func (v *view) ownerOf() func(facts.ThreadRun) owner {
	by, processes := map[int]owner{}, map[int]string{}
	for _, g := range v.guests {
		if g.f.PID != 0 {
			processes[g.f.PID] = g.f.Name
		}
		for _, t := range g.f.Threads {
			w := owner{of: g.object(strings.TrimSpace(t.Role)), guest: true}
			if t.Role == "vcpu" {
				w = owner{of: g.vcpuObject(t.Index), guest: true, vcpu: true, expected: g.realtime}
			}
			by[t.TID] = w
		}
	}
	return func(t facts.ThreadRun) owner {
		if w, known := by[t.TID]; known {
			return w
		}
		if name, known := processes[t.PID]; known {
			return owner{of: "guest " + name + " worker", guest: true}
		}
		if t.Kernel {
			return owner{of: "kernel"}
		}
		return owner{of: "user"}
	}
}

// ranThere reports whether a thread ran on the quiet CPUs: it ran, and may use no others or used one of them last.
func (v *view) ranThere(t facts.ThreadRun) bool {
	within := len(t.Affinity) > 0 && len(t.Affinity.Minus(v.s.CPUs)) == 0
	return (t.RunNS > 0 || t.Switches > 0) && (within || v.s.CPUs.Has(t.CPU))
}

// bound reports whether a thread is a per-CPU kernel thread.
func bound(t facts.ThreadRun) bool { return t.Kernel && t.Fixed && len(t.Affinity) == 1 }

func threadObject(t facts.ThreadRun) string { return fmt.Sprintf("thread %s (%d)", t.Comm, t.TID) }

// judgeThreads judges what ran on the quiet CPUs and what may run there.
func judgeThreads(v *view) {
	v.judgePriorities()
	if v.o == nil {
		v.addUnjudged("what runs on the CPUs", "nobody watched")
		return
	}
	for _, u := range v.o.Unseen {
		v.addUnjudged(u.What, u.Why)
	}
	if rest := v.s.CPUs.And(v.h.Topology.Online).Minus(v.o.CPUs); len(rest) > 0 {
		v.addUnjudged("what runs on "+rest.Words(), "watched: CPUs "+words.Or(v.o.CPUs.String()))
	}
	of := v.ownerOf()
	var mayUser, mayKernel []facts.ThreadRun
	for _, t := range v.o.Threads {
		w := of(t)
		switch in := t.Affinity.And(v.s.CPUs); {
		case w.expected:
		case v.ranThere(t) && bound(t):
			v.judgeBoundThread(t)
		case v.ranThere(t):
			v.addIntruder(t, w)
		// threads of guests are judged by judgeGuests, rcuo threads by judgeKernel
		case len(in) == 0 || bound(t) || w.guest || t.Kernel && strings.HasPrefix(t.Comm, "rcuo"):
		case t.Kernel:
			mayKernel = append(mayKernel, t)
		default:
			mayUser = append(mayUser, t)
		}
	}
	v.addMayRun(threadUserMay, "user threads", mayUser, v.o.Omitted, func(t facts.ThreadRun) string {
		return fmt.Sprintf("taskset -pc %s %d; for a service CPUAffinity= or AllowedCPUs= in its unit", v.houseList(),
			t.TID)
	})
	v.addMayRun(threadKernelMay, "kernel threads", mayKernel, 0, v.moveKernelThread)
	v.judgeUnseen()
}

// moveKernelThread returns how to move a kernel thread away.
func (v *view) moveKernelThread(t facts.ThreadRun) string {
	switch {
	case strings.HasPrefix(t.Comm, "kworker/u"):
		return "the mask of unbound workqueues (rt.workqueue) moves them"
	case strings.HasPrefix(t.Comm, "irq/"):
		return "it goes with its interrupt (rt.irq_affinity)"
	}
	return fmt.Sprintf("taskset -pc %s %d, or all of them at once with rt.kthreads; nohz_full at boot keeps them off "+
		"by itself", v.houseList(), t.TID)
}

// setKnob sets the knob that moves a kernel thread, if it is not that of the kind.
func (f *Finding) setKnob(t facts.ThreadRun) *Finding {
	switch {
	case !t.Kernel:
	case strings.HasPrefix(t.Comm, "kworker/u"):
		f.Knob = "rt.workqueue"
	case strings.HasPrefix(t.Comm, "irq/"):
		f.Knob = "rt.irq_affinity"
	}
	return f
}

// addIntruder adds a finding for a thread that ran on the quiet CPUs and should not have.
func (v *view) addIntruder(t facts.ThreadRun, w owner) {
	k, do := threadUser, fmt.Sprintf("taskset -pc %s %d; for a service CPUAffinity= in its unit", v.houseList(), t.TID)
	switch {
	case t.Kernel && !w.guest:
		k, do = threadKernel, v.moveKernelThread(t)
	case w.vcpu:
		do = "pin the guest's vCPUs elsewhere: mpps place finds CPUs"
	case w.guest:
		do = fmt.Sprintf("virsh emulatorpin GUEST %s --config --live; vhost threads are placed by vhost.threads",
			v.houseList())
	}
	on := words.Either(len(t.Affinity.Minus(v.s.CPUs)) > 0,
		fmt.Sprintf("last on CPU %d of the %s that it may use", t.CPU, t.Affinity), fmt.Sprintf("on CPU %d", t.CPU))
	if t.New {
		on += ", and was started meanwhile"
	}
	if w.guest {
		on += " (" + w.of + ")"
	}
	v.add(k, threadObject(t), v.s.CPUs.And(setting.CPUs(t.CPU)), fmt.Sprintf("it ran %.1f ms of %.1f s in %s, %s",
		milliseconds(t.RunNS), v.o.Seconds, words.Count(int(t.Switches), "turn"), on), do).setKnob(t).
		with("run_ms", milliseconds(t.RunNS)).with("switches", float64(t.Switches)).with("seconds", v.o.Seconds)
}

// causes are the sources of work of per-CPU kernel threads.
var causes = []struct{ prefix, why string }{
	{"ksoftirqd", "nothing can move it: timers, network and RCU of this CPU give it work; interrupts and vhost " +
		"threads elsewhere, and rcu_nocbs, take that away"},
	{"ktimers", "nothing can move it: timers that were set on this CPU run in it; what sets them must run elsewhere"},
	{"rcuc", "nothing can move it: RCU's callbacks of this CPU run in it; rcu_nocbs takes them away at the next boot"},
	{"kworker", "nothing can move it: work that was asked for on this CPU runs in it; vm.stat_interval=10 makes the " +
		"commonest rarer, and trace-cmd record -e workqueue:workqueue_execute_start names the rest"},
	{"migration", "nothing can move it: somebody changes CPUs of threads, or stops all CPUs for a moment (code " +
		"patching, CPU hotplug)"},
	{"cpuhp", "nothing can move it: CPUs are switched on and off"},
}

// judgeBoundThread judges a per-CPU kernel thread that ran.
func (v *view) judgeBoundThread(t facts.ThreadRun) {
	rate := v.perSecond(t.Switches)
	if rate <= boundOften {
		return
	}
	why := "nothing can move it: it is the kernel's own on this CPU"
	for _, c := range causes {
		if strings.HasPrefix(t.Comm, c.prefix) {
			why = c.why
		}
	}
	f := v.add(threadBound, threadObject(t), t.Affinity, fmt.Sprintf("it ran %.1f ms of %.1f s in %s, %.1f a second",
		milliseconds(t.RunNS), v.o.Seconds, words.Count(int(t.Switches), "turn"), rate), "").unfixable(why).
		with("run_ms", milliseconds(t.RunNS)).with("switches", float64(t.Switches)).with("per_second", rate)
	if rate >= boundMuch {
		f.at(knob.Medium)
	}
}

// addMayRun adds findings for threads that may run on the quiet CPUs: one each, or one named together for many. more is
// the number of further threads that are not in the list.
func (v *view) addMayRun(k *Kind, together string, list []facts.ThreadRun, more int, do func(facts.ThreadRun) string) {
	if len(list) == 0 && more == 0 {
		return
	}
	if len(list) <= maxSingly && more == 0 {
		for _, t := range list {
			v.addOverlap(k, threadObject(t), "it may run on", t.Affinity, do(t)).setKnob(t).withCPUs()
		}
		return
	}
	names, in := map[string]int{}, setting.CPUSet{}
	for _, t := range list {
		names[t.Comm]++
		in = in.Or(t.Affinity.And(v.s.CPUs))
	}
	most := slices.SortedFunc(maps.Keys(names), func(a, b string) int {
		return cmp.Or(names[b]-names[a], strings.Compare(a, b))
	})
	for i, name := range most {
		if names[name] > 1 {
			most[i] = fmt.Sprintf("%s (%d)", name, names[name])
		}
	}
	text := strings.Join(most[:min(len(most), 6)], ", ") + words.If(len(most) > 6, " …")
	example := append(list, facts.ThreadRun{})[0]
	v.add(k, together, in, fmt.Sprintf("%d of them: %s", len(list)+more, text), "each of them: "+do(example)+
		"; isolcpus and nohz_full at boot keep all off").with("threads", float64(len(list)+more))
}

// judgeUnseen compares the context switches of each quiet CPU with those of the threads that were seen.
func (v *view) judgeUnseen() {
	seen, uncounted := map[int]int64{}, setting.CPUSet{}
	for _, t := range v.o.Threads {
		seen[t.CPU] += int64(t.Switches)
	}
	for _, cpu := range v.s.CPUs.And(v.o.CPUs).And(v.h.Topology.Online) {
		t, there := v.o.Time(cpu)
		if !there || t.Switches < 0 {
			uncounted = uncounted.Or(setting.CPUs(cpu))
			continue
		}
		rate := float64(t.Switches-seen[cpu]) / max(v.o.Seconds, 0.001)
		if rate > unseenMany {
			v.add(threadUnseen, cpuObject(cpu), setting.CPUs(cpu),
				fmt.Sprintf("threads came onto it %d times in %.1f s, those that were seen %d times", t.Switches,
					v.o.Seconds, seen[cpu]),
				fmt.Sprintf("perf sched record -C %d -- sleep 5, then perf sched map, names them", cpu)).with(
				"per_second", rate).with("switches", float64(t.Switches))
		}
	}
	if len(uncounted) > 0 {
		v.addUnjudged("threads that came to "+uncounted.Words()+" and were gone before the end",
			"the kernel does not count what comes onto a CPU (no /proc/schedstat: CONFIG_SCHEDSTATS)")
	}
}

// judgePriorities judges kernel threads that need a higher priority than the vCPU on their CPU.
func (v *view) judgePriorities() {
	vcpus, highest := map[int]int{}, 0
	take := func(cpus setting.CPUSet, priority int) {
		for _, cpu := range cpus.And(v.s.CPUs) {
			vcpus[cpu] = max(vcpus[cpu], priority)
			highest = max(highest, vcpus[cpu])
		}
	}
	for _, g := range v.guests {
		for _, c := range g.vcpus {
			if c.scheduled() {
				take(c.pin, c.priority)
			}
		}
		for _, t := range g.f.Threads {
			if t.Role == "vcpu" && len(t.Affinity) == 1 && realtimePolicy(t.Policy) {
				take(t.Affinity, t.Priority)
			}
		}
	}
	if highest == 0 {
		return
	}
	all := map[string]facts.KernelThread{}
	if v.h.Housekeeping != nil {
		for _, t := range v.h.Housekeeping.Threads {
			all[t.Name] = t
		}
	}
	if v.o != nil {
		for _, t := range v.o.Threads {
			if t.Kernel {
				all[t.Comm] = facts.KernelThread{Name: t.Comm, PID: t.TID, Policy: t.Policy, Priority: t.Priority}
			}
		}
	}
	if len(all) == 0 {
		v.addUnjudged("priorities of kernel threads", "none was seen")
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		kind, number, _ := strings.Cut(name, "/")
		var cpu int
		if _, err := fmt.Sscanf(number, "%d", &cpu); err != nil {
			continue
		}
		than, cpus := vcpus[cpu], setting.CPUs(cpu)
		switch kind {
		case "ksoftirqd", "rcuc", "ktimers":
		case "rcub": // the number is that of a leaf rcu_node, not of a CPU
			than, cpus = highest, v.s.CPUs
		default:
			continue
		}
		t := all[name]
		if than == 0 || realtimePolicy(t.Policy) && t.Priority > than {
			continue
		}
		f := v.add(threadPriority, "thread "+name, cpus, fmt.Sprintf("it has %s, the vCPU SCHED_FIFO %d",
			schedText(t.Policy, t.Priority), than), fmt.Sprintf("chrt --fifo -p %d %d", than+1, t.PID))
		f.with("priority", float64(t.Priority)).with("vcpu_priority", float64(than)).Knob = "rt." + kind
	}
}

// ranThreads returns the threads that ran on the quiet CPUs, longest first, at most maxRan.
func (v *view) ranThreads() []Ran {
	if v.o == nil {
		return nil
	}
	of := v.ownerOf()
	var all []Ran
	for _, t := range v.o.Threads {
		if !v.ranThere(t) {
			continue
		}
		w := of(t)
		all = append(all, Ran{
			Thread: fmt.Sprintf("%s (%d)", t.Comm, t.TID), Of: w.of, CPU: t.CPU, Affinity: t.Affinity,
			RunMS: milliseconds(t.RunNS), Switches: t.Switches, Policy: schedText(t.Policy, t.Priority),
			Expected: w.expected || bound(t) && v.perSecond(t.Switches) <= boundOften,
		})
	}
	slices.SortStableFunc(all, func(a, b Ran) int {
		return cmp.Or(cmp.Compare(b.RunMS, a.RunMS), cmp.Compare(b.Switches, a.Switches))
	})
	return all[:min(len(all), maxRan)]
}

// maxRan bounds the threads in a report.
const maxRan = 256

func milliseconds(ns uint64) float64 { return float64(ns) / 1e6 }
