package measure

import (
	"cmp"
	"maps"
	"slices"
)

// Role is what a thread does for the packets.
type Role string

// The roles, in the order in which they are told.
const (
	Vhost Role = "vhost" // vhost workers: threads of QEMU, before Linux 6.4 of the kernel
	VCPU  Role = "vcpu"  // a guest's CPUs
	// QEMU's other threads: its main loop, which carries packets where vhost does not, and I/O threads
	Emulator  Role = "emulator"
	KSoftIRQ  Role = "ksoftirqd" // the kernel's, for softirqs that come faster than they are worked off
	Pktgen    Role = "pktgen"    // the kernel's generator
	Ourselves Role = "mpps"      // this program: generator, receiver and everything else of it
)

var roles = []Role{Vhost, VCPU, Emulator, KSoftIRQ, Pktgen, Ourselves}

// Thread names a thread as long as it lives. The numbers of one that has ended are given away again.
type Thread struct {
	PID, TID int // TID 0: all threads of the process, those that have ended too
	Role     Role
	Guest    string // empty: none
	Name     string // as the kernel has it: "vhost-4711", "CPU 0/KVM"
}

// ThreadTime is how long a thread has run and waited for a CPU since it began, in nanoseconds.
//
// It is from /proc/PID/task/TID/schedstat (Documentation/scheduler/sched-stats.rst): exact to the last tick of a thread
// that runs just then, and whole once it sleeps. Softirqs that are worked off while a thread is on the CPU count as its
// time, also those of others' packets, unless the kernel is built with CONFIG_IRQ_TIME_ACCOUNTING (update_rq_clock_task
// in kernel/sched/core.c); and of a vCPU the time in the guest counts too. So the sums of threads and the columns of
// /proc/stat do not add up: they are two views of the same time.
type ThreadTime struct {
	Ran, Waited uint64
}

// ThreadTimes are the threads that matter at one moment; nil where they are not known.
type ThreadTimes map[Thread]ThreadTime

// ThreadUse is what the threads of one role and guest used during a trial.
type ThreadUse struct {
	Role    Role    `json:"role"`
	Guest   string  `json:"guest,omitempty"`    // QEMU's name of it, or its process's number
	Threads int     `json:"threads"`            // that there were
	Seconds float64 `json:"seconds"`            // that they ran, guest time and softirqs in their context included
	Waited  float64 `json:"waited_s,omitempty"` // seconds that they were ready to run and had no CPU; not known of mpps

	Busiest        string  `json:"busiest,omitempty"` // the thread that ran longest, of several
	BusiestSeconds float64 `json:"busiest_s,omitempty"`

	NsPerUnit float64 `json:"ns_per_unit"` // per packet received, transaction or byte
}

// threadUse is what was used between two readings. A thread that is new at the second one began at 0; one that has
// ended is left out, as what it used at last is not known.
func threadUse(before, after ThreadTimes, n uint64) []ThreadUse {
	type group struct {
		role  Role
		guest string
	}
	groups := map[group]*ThreadUse{}
	for t, b := range after {
		key := group{t.Role, t.Guest}
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
		if u.Guest != "" && u.Seconds == 0 && u.Waited == 0 { // a guest that stood still: there may be many
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
		return cmp.Or(cmp.Compare(slices.Index(roles, a.Role), slices.Index(roles, b.Role)),
			cmp.Compare(a.Guest, b.Guest))
	})
	return all
}

// ThreadCost is what threads of one role and guest cost over the trials of a run.
type ThreadCost struct {
	Role    Role
	Guest   string
	Threads int      // the most that there were
	Each    Estimate // nanoseconds per packet, transaction or byte
	CPUs    Estimate // how many CPUs they kept busy
	Busiest Estimate // … and how much of one the busiest thread did
	Waited  Estimate // CPUs that they would have kept busy besides, had they had them
}

// ThreadCosts are the medians over the samples, in the order of roles; groups that ran less than a thousandth of a CPU
// are left out. Empty where threads are not known.
func (r *Run) ThreadCosts() []ThreadCost {
	type values struct{ each, cpus, busiest, waited []float64 }
	costs, of := map[ThreadUse]*ThreadCost{}, map[ThreadUse]*values{}
	for _, s := range r.Samples {
		if len(s.CPU) == 0 || s.CPU[0].Seconds <= 0 {
			continue
		}
		long := s.CPU[0].Seconds
		for _, u := range s.Threads {
			key := ThreadUse{Role: u.Role, Guest: u.Guest}
			if costs[key] == nil {
				costs[key], of[key] = &ThreadCost{Role: u.Role, Guest: u.Guest}, &values{}
			}
			c, v := costs[key], of[key]
			c.Threads = max(c.Threads, u.Threads)
			busiest := u.BusiestSeconds
			if u.Threads == 1 {
				busiest = u.Seconds
			}
			v.each, v.cpus = append(v.each, u.NsPerUnit), append(v.cpus, u.Seconds/long)
			v.busiest, v.waited = append(v.busiest, busiest/long), append(v.waited, u.Waited/long)
		}
	}
	var all []ThreadCost
	for key := range maps.Keys(costs) {
		c, v := costs[key], of[key]
		c.Each, c.CPUs, c.Busiest, c.Waited = Median(v.each), Median(v.cpus), Median(v.busiest), Median(v.waited)
		if c.CPUs.Value >= 0.001 {
			all = append(all, *c)
		}
	}
	slices.SortFunc(all, func(a, b ThreadCost) int {
		return cmp.Or(cmp.Compare(slices.Index(roles, a.Role), slices.Index(roles, b.Role)),
			cmp.Compare(a.Guest, b.Guest))
	})
	return all
}

// CPUPart is one way in which the near machine's CPUs spent their time, for each packet, transaction or byte.
type CPUPart struct {
	Name string // user, system, softirq, irq or guest
	Each Estimate
}

// CPUParts splits CPUNsPerUnit up: nanoseconds of each by the columns of /proc/stat, medians over the samples. Parts
// that are 0 throughout are left out.
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
