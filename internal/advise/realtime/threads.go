package realtime

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

var (
	threadUser = &Kind{"threads.user_ran", Threads, "Another program ran there", knob.High,
		"while it ran the vCPU waited, or had its caches emptied", ""}
	threadKernel = &Kind{"threads.kernel_ran", Threads, "A kernel thread that may run anywhere ran there", knob.Medium,
		"it could have run on a CPU of the host: while it ran here the vCPU waited", "rt.kthreads"}
	threadBound = &Kind{"threads.bound_ran", Threads, "A kernel thread of this CPU ran often", knob.Low,
		"each time it runs the vCPU leaves the guest; it cannot be moved, only what gives it work can be stopped", ""}
	threadUserMay = &Kind{"threads.user_may", Threads, "Other programs may run there", knob.Medium,
		"they did not while this was watched; nothing keeps them away", ""}
	threadKernelMay = &Kind{"threads.kernel_may", Threads, "Kernel threads may run there that need not", knob.Low,
		"they did not while this was watched; nothing keeps them away", "rt.kthreads"}
	threadPriority = &Kind{"threads.priority", Threads, "A kernel thread has no higher priority than the vCPU",
		knob.Medium,
		"behind a vCPU that never sleeps it never runs: timers, RCU and softirqs wait, until the kernel reports a " +
			"stall", "rt.ksoftirqd"}
	threadUnseen = &Kind{"threads.unseen", Threads, "Something ran there that was not seen", knob.Low,
		"threads that lived too short to be seen, or that were moved there and back, came onto the CPU", ""}
)

// Rates from which on something is worth a finding, per second.
const (
	boundOften = 2.0   // a kernel thread of the CPU itself; vmstat comes once a second
	boundMuch  = 100.0 // then it is worse
	unseenMany = 10.0
)

// grouped is from how many objects of one kind on they are one finding.
const grouped = 8

// who is what a thread is to the guests.
type who struct {
	of       string // "guest rt1 vcpu 0", "kernel", "user"
	expected bool   // it is what the CPUs are for
	guest    bool
	vcpu     bool
}

// owners tells for each thread of guests whose it is.
func (v *view) owners() func(facts.ThreadRun) who {
	by, processes := map[int]who{}, map[int]string{}
	for _, g := range v.guests {
		if g.f.PID != 0 {
			processes[g.f.PID] = g.f.Name
		}
		for _, t := range g.f.Threads {
			w := who{of: g.object(strings.TrimSpace(t.Role)), guest: true}
			if t.Role == "vcpu" {
				w = who{of: g.vcpuObject(t.Index), guest: true, vcpu: true, expected: g.realtime}
			}
			by[t.TID] = w
		}
	}
	return func(t facts.ThreadRun) who {
		if w, known := by[t.TID]; known {
			return w
		}
		if name, known := processes[t.PID]; known {
			return who{of: "guest " + name + " worker", guest: true}
		}
		if t.Kernel {
			return who{of: "kernel"}
		}
		return who{of: "user"}
	}
}

// ranThere reports whether a thread ran on the CPUs: it ran, and has no others or was on one of them last.
func (v *view) ranThere(t facts.ThreadRun) bool {
	within := len(t.Affinity) > 0 && len(t.Affinity.Minus(v.s.CPUs)) == 0
	return (t.RunNS > 0 || t.Switches > 0) && (within || v.s.CPUs.Has(t.CPU))
}

// bound reports whether a thread is the kernel's own on one CPU.
func bound(t facts.ThreadRun) bool { return t.Kernel && t.Fixed && len(t.Affinity) == 1 }

func threadObject(t facts.ThreadRun) string { return fmt.Sprintf("thread %s (%d)", t.Comm, t.TID) }

// threads judges what ran, and what may run.
func threads(v *view) {
	v.priorities()
	if v.o == nil {
		v.unsure("what runs on the CPUs", "nobody watched")
		return
	}
	for _, u := range v.o.Unseen {
		v.unsure(u.What, u.Why)
	}
	if rest := v.s.CPUs.And(v.h.Topology.Online).Minus(v.o.CPUs); len(rest) > 0 {
		v.unsure("what runs on "+named(rest), "watched: CPUs "+none(v.o.CPUs))
	}
	of := v.owners()
	var mayUser, mayKernel []facts.ThreadRun
	for _, t := range v.o.Threads {
		w := of(t)
		switch in := t.Affinity.And(v.s.CPUs); {
		case w.expected:
		case v.ranThere(t) && bound(t):
			v.boundRan(t)
		case v.ranThere(t):
			v.intruder(t, w)
		// guests' are judged by their definitions, rcuo with the kernel's own work
		case len(in) == 0 || bound(t) || w.guest || strings.HasPrefix(t.Comm, "rcuo"):
		case t.Kernel:
			mayKernel = append(mayKernel, t)
		default:
			mayUser = append(mayUser, t)
		}
	}
	v.may(threadUserMay, "user threads", mayUser, v.o.Omitted, func(t facts.ThreadRun) string {
		return fmt.Sprintf("taskset -pc %s %d; for a service CPUAffinity= or AllowedCPUs= in its unit", v.away(), t.TID)
	})
	v.may(threadKernelMay, "kernel threads", mayKernel, 0, v.moveKernel)
	v.unseenRuns()
}

// moveKernel is what moves a kernel thread away.
func (v *view) moveKernel(t facts.ThreadRun) string {
	switch {
	case strings.HasPrefix(t.Comm, "kworker/u"):
		return "the mask of unbound workqueues (rt.workqueue) moves them"
	case strings.HasPrefix(t.Comm, "irq/"):
		return "it goes with its interrupt (rt.irq_affinity)"
	}
	return fmt.Sprintf("taskset -pc %s %d, or all of them at once with rt.kthreads; nohz_full at boot keeps them off "+
		"by itself", v.away(), t.TID)
}

// moved names the knob that moves a kernel thread.
func (f *Finding) moved(t facts.ThreadRun) *Finding {
	switch {
	case !t.Kernel:
	case strings.HasPrefix(t.Comm, "kworker/u"):
		f.Knob = "rt.workqueue"
	case strings.HasPrefix(t.Comm, "irq/"):
		f.Knob = "rt.irq_affinity"
	}
	return f
}

// intruder is a thread that ran there and should not.
func (v *view) intruder(t facts.ThreadRun, w who) {
	k, do := threadUser, fmt.Sprintf("taskset -pc %s %d; for a service CPUAffinity= in its unit", v.away(), t.TID)
	switch {
	case t.Kernel && !w.guest:
		k, do = threadKernel, v.moveKernel(t)
	case w.vcpu:
		do = "pin the guest's vCPUs elsewhere: mpps place finds CPUs"
	case w.guest:
		do = fmt.Sprintf("virsh emulatorpin GUEST %s --config --live; vhost threads are placed by vhost.threads",
			v.away())
	}
	on := fmt.Sprintf("on CPU %d", t.CPU)
	if len(t.Affinity.Minus(v.s.CPUs)) > 0 {
		on = fmt.Sprintf("last on CPU %d of the %s that it may use", t.CPU, t.Affinity)
	}
	fresh := ""
	if t.New {
		fresh = ", and was started meanwhile"
	}
	whose := ""
	if w.guest {
		whose = " (" + w.of + ")"
	}
	v.add(k, threadObject(t), v.s.CPUs.And(setting.CPUs(t.CPU)), fmt.Sprintf("it ran %.1f ms of %.1f s in %s, %s%s%s",
		ms(t.RunNS), v.o.Seconds, counted(int(t.Switches), "turn"), on, fresh, whose), do).moved(t).
		with("run_ms", ms(t.RunNS)).with("switches", float64(t.Switches)).with("seconds", v.o.Seconds)
}

// causes are what gives a CPU's own kernel threads work.
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

// boundRan is a kernel thread of the CPU itself that ran.
func (v *view) boundRan(t facts.ThreadRun) {
	rate := float64(t.Switches) / max(v.o.Seconds, 0.001)
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
		ms(t.RunNS), v.o.Seconds, counted(int(t.Switches), "turn"), rate), "").hopeless(why).
		with("run_ms", ms(t.RunNS)).with("switches", float64(t.Switches)).with("per_second", rate)
	if rate >= boundMuch {
		f.at(knob.Medium)
	}
}

// may says which threads may run there: each where they are few, otherwise together.
func (v *view) may(k *Kind, together string, list []facts.ThreadRun, more int, do func(facts.ThreadRun) string) {
	if len(list) == 0 && more == 0 {
		return
	}
	if len(list) <= grouped && more == 0 {
		for _, t := range list {
			in := t.Affinity.And(v.s.CPUs)
			v.add(k, threadObject(t), in, fmt.Sprintf("it may run on %s, of which %s should be quiet", t.Affinity, in),
				do(t)).moved(t).with("cpus", float64(len(in)))
		}
		return
	}
	names, in := map[string]int{}, setting.CPUSet{}
	for _, t := range list {
		names[t.Comm]++
		in = in.Or(t.Affinity.And(v.s.CPUs))
	}
	most := make([]string, 0, len(names))
	for name := range names {
		most = append(most, name)
	}
	slices.SortFunc(most, func(a, b string) int { return cmp.Or(names[b]-names[a], strings.Compare(a, b)) })
	for i, name := range most {
		if names[name] > 1 {
			most[i] = fmt.Sprintf("%s (%d)", name, names[name])
		}
	}
	text := strings.Join(most[:min(len(most), 6)], ", ")
	if len(most) > 6 {
		text += " …"
	}
	example := facts.ThreadRun{}
	if len(list) > 0 {
		example = list[0]
	}
	v.add(k, together, in, fmt.Sprintf("%d of them: %s", len(list)+more, text), "each of them: "+do(example)+
		"; isolcpus and nohz_full at boot keep all off").
		with("threads", float64(len(list)+more))
}

// unseenRuns compares how often something came onto each CPU with the threads that were seen.
func (v *view) unseenRuns() {
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
		v.unsure("threads that came to "+named(uncounted)+" and were gone before the end",
			"the kernel does not count what comes onto a CPU (no /proc/schedstat: CONFIG_SCHEDSTATS)")
	}
}

// priorities judges kernel threads that must come before the vCPU of their CPU.
func (v *view) priorities() {
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
			if t.Role == "vcpu" && len(t.Affinity) == 1 && (t.Policy == "SCHED_FIFO" || t.Policy == "SCHED_RR") {
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
		v.unsure("priorities of kernel threads", "none was seen")
	}
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		kind, number, _ := strings.Cut(name, "/")
		var cpu int
		if _, err := fmt.Sscanf(number, "%d", &cpu); err != nil {
			continue
		}
		than, cpus := vcpus[cpu], setting.CPUs(cpu)
		id := "rt." + kind
		switch kind {
		case "ksoftirqd", "rcuc", "ktimers":
		case "rcub": // numbered by group of CPUs
			than, cpus = highest, v.s.CPUs
		default:
			continue
		}
		t := all[name]
		realtime := t.Policy == "SCHED_FIFO" || t.Policy == "SCHED_RR"
		if than == 0 || realtime && t.Priority > than {
			continue
		}
		f := v.add(threadPriority, "thread "+name, cpus, fmt.Sprintf("it has %s, the vCPU SCHED_FIFO %d",
			sched(t.Policy, t.Priority), than), fmt.Sprintf("chrt --fifo -p %d %d", than+1, t.PID))
		f.with("priority", float64(t.Priority)).with("vcpu_priority", float64(than)).Knob = id
	}
}

// ran lists what ran on the CPUs, longest first.
func (v *view) ran() []Ran {
	if v.o == nil {
		return nil
	}
	of := v.owners()
	var all []Ran
	for _, t := range v.o.Threads {
		if !v.ranThere(t) {
			continue
		}
		w := of(t)
		all = append(all, Ran{
			Thread: fmt.Sprintf("%s (%d)", t.Comm, t.TID), Of: w.of, CPU: t.CPU, Affinity: t.Affinity,
			RunMS: ms(t.RunNS), Switches: t.Switches,
			Policy: sched(t.Policy, t.Priority), Expected: w.expected || bound(t) &&
				float64(t.Switches)/max(v.o.Seconds, 0.001) <= boundOften,
		})
	}
	slices.SortStableFunc(all, func(a, b Ran) int {
		return cmp.Or(cmp.Compare(b.RunMS, a.RunMS),
			cmp.Compare(b.Switches, a.Switches))
	})
	return all[:min(len(all), mostRan)]
}

// mostRan bounds how many threads a report lists.
const mostRan = 256

func ms(ns uint64) float64 { return float64(ns) / 1e6 }
