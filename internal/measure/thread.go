package measure

import (
	"cmp"
	"maps"
	"slices"
)

// Role is what a thread does for the packets.
type Role string

// The roles, in the order of output.
const (
	Vhost Role = "vhost" // vhost workers: kernel threads, since Linux 6.4 threads of QEMU
	VCPU  Role = "vcpu"  // a guest's CPUs
	// other threads of QEMU: the main loop, which carries packets if vhost does not, and I/O threads
	Emulator  Role = "emulator"
	KSoftIRQ  Role = "ksoftirqd" // the kernel's threads for softirqs that come faster than they are handled
	Pktgen    Role = "pktgen"    // the kernel's generator
	Ourselves Role = "mpps"      // this program: generator, receiver and the rest
)

var roles = []Role{Vhost, VCPU, Emulator, KSoftIRQ, Pktgen, Ourselves}

// Thread identifies a thread during its life. The kernel reuses the numbers of threads that have ended.
type Thread struct {
	PID, TID int // TID 0: all threads of the process, including those that have ended
	Role     Role
	Guest    string // empty: none
	Name     string // as the kernel has it: "vhost-4711", "CPU 0/KVM"
}

// ThreadTime is how long a thread has run and has waited for a CPU since its start, in nanoseconds.
//
// It comes from /proc/PID/task/TID/schedstat (Documentation/scheduler/sched-stats.rst), exact up to the last tick for a
// running thread and complete once it sleeps. Softirqs handled while a thread is on the CPU count as its time, even for
// other traffic, unless the kernel is built with CONFIG_IRQ_TIME_ACCOUNTING (update_rq_clock_task in
// kernel/sched/core.c). A vCPU's time includes the time in the guest. So thread times and the columns of /proc/stat do
// not add up: they are two views of the same time.
type ThreadTime struct {
	Ran, Waited uint64
}

// ThreadTimes are the relevant threads at one moment; nil if unknown.
type ThreadTimes map[Thread]ThreadTime

// ThreadUse is what the threads of one role and guest used during a trial.
type ThreadUse struct {
	Role    Role    `json:"role"`
	Guest   string  `json:"guest,omitempty"`    // QEMU's name for it, or the number of its process
	Threads int     `json:"threads"`            // number of threads
	Seconds float64 `json:"seconds"`            // time that they ran, including guest time and softirqs in their context
	Waited  float64 `json:"waited_s,omitempty"` // seconds runnable without a CPU

	Busiest        string  `json:"busiest,omitempty"` // the thread that ran longest, if there are several
	BusiestSeconds float64 `json:"busiest_s,omitempty"`

	NsPerUnit float64 `json:"ns_per_unit"` // per packet received, transaction or byte
}

// threadUse returns what was used between two readings. A thread that is new in the second reading started at 0. A
// thread that has ended is left out, because its last times are unknown.
func threadUse(before, after ThreadTimes, n uint64) []ThreadUse {
	groups := map[threadGroup]*ThreadUse{}
	for t, b := range after {
		key := threadGroup{t.Role, t.Guest}
		u := groups[key]
		if u == nil {
			u = &ThreadUse{Role: t.Role, Guest: t.Guest}
			groups[key] = u
		}
		a := before[t]
		ran := float64(minus(b.Ran, a.Ran)) / 1e9
		u.Threads++
		u.Seconds, u.Waited = u.Seconds+ran, u.Waited+float64(minus(b.Waited, a.Waited))/1e9
		if ran > u.BusiestSeconds || ran == u.BusiestSeconds && ran > 0 && t.Name < u.Busiest {
			u.Busiest, u.BusiestSeconds = t.Name, ran
		}
	}
	var all []ThreadUse
	for _, u := range groups {
		if u.Guest != "" && u.Seconds == 0 && u.Waited == 0 { // an idle guest: there may be many
			continue
		}
		if u.Threads == 1 {
			u.Busiest, u.BusiestSeconds = "", 0
		}
		if n > 0 {
			u.NsPerUnit = u.Seconds * 1e9 / float64(n)
		}
		all = append(all, *u)
	}
	slices.SortFunc(all, func(a, b ThreadUse) int {
		return threadGroup{a.Role, a.Guest}.compare(threadGroup{b.Role, b.Guest})
	})
	return all
}

// threadGroup is the threads of one role and guest.
type threadGroup struct {
	role  Role
	guest string
}

// compare orders by role, then by guest.
func (g threadGroup) compare(h threadGroup) int {
	return cmp.Or(cmp.Compare(slices.Index(roles, g.role), slices.Index(roles, h.role)), cmp.Compare(g.guest, h.guest))
}

// ThreadCost is what the threads of one role and guest cost over the trials of a run.
type ThreadCost struct {
	Role    Role
	Guest   string
	Threads int      // the most at once
	Each    Estimate // nanoseconds per packet, transaction or byte
	CPUs    Estimate // CPUs kept busy
	Busiest Estimate // CPUs kept busy by the busiest thread
	Waited  Estimate // more CPUs that they would have used if they had had them
}

// ThreadCosts returns medians over the samples, in the order of roles. It leaves out groups that ran less than a
// thousandth of a CPU. It is empty if threads are unknown.
func (r *Run) ThreadCosts() []ThreadCost {
	type values struct {
		threads                     int
		each, cpus, busiest, waited []float64
	}
	groups := map[threadGroup]*values{}
	for _, s := range r.Samples {
		if len(s.CPU) == 0 || s.CPU[0].Seconds <= 0 {
			continue
		}
		seconds := s.CPU[0].Seconds
		for _, u := range s.Threads {
			v := groups[threadGroup{u.Role, u.Guest}]
			if v == nil {
				v = &values{}
				groups[threadGroup{u.Role, u.Guest}] = v
			}
			v.threads = max(v.threads, u.Threads)
			busiest := u.BusiestSeconds
			if u.Threads == 1 {
				busiest = u.Seconds
			}
			v.each, v.cpus = append(v.each, u.NsPerUnit), append(v.cpus, u.Seconds/seconds)
			v.busiest, v.waited = append(v.busiest, busiest/seconds), append(v.waited, u.Waited/seconds)
		}
	}
	var all []ThreadCost
	for _, g := range slices.SortedFunc(maps.Keys(groups), threadGroup.compare) {
		v := groups[g]
		c := ThreadCost{Role: g.role, Guest: g.guest, Threads: v.threads, Each: Median(v.each), CPUs: Median(v.cpus),
			Busiest: Median(v.busiest), Waited: Median(v.waited)}
		if c.CPUs.Value >= 0.001 {
			all = append(all, c)
		}
	}
	return all
}

// CPUPart is one way in which the near machine's CPUs spent their time, per packet, transaction or byte.
type CPUPart struct {
	Name string // user, system, softirq, irq or guest
	Each Estimate
}

// CPUParts splits up CPUNsPerUnit by the columns of /proc/stat: nanoseconds, medians over the samples. It leaves out
// parts that are always 0.
func (r *Run) CPUParts() []CPUPart {
	var all []CPUPart
	for _, part := range []struct {
		name string
		of   func(CPUUse) float64
	}{
		{"user", func(u CPUUse) float64 { return u.User + u.Nice }},
		{"system", func(u CPUUse) float64 { return u.System }},
		{"softirq", func(u CPUUse) float64 { return u.SoftIRQ }}, {"irq", func(u CPUUse) float64 { return u.IRQ }},
		{"guest", func(u CPUUse) float64 { return u.Guest }},
	} {
		var values []float64
		var sum float64
		for _, s := range r.Samples {
			if len(s.CPU) == 0 || s.CPUNsPerUnit == 0 {
				continue
			}
			if busy := s.CPU[0].Busy(); busy > 0 {
				v := s.CPUNsPerUnit * part.of(s.CPU[0].Total()) / busy
				values, sum = append(values, v), sum+v
			}
		}
		if sum > 0 {
			all = append(all, CPUPart{part.name, Median(values)})
		}
	}
	return all
}
