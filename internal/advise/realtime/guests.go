package realtime

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/advise/knob"
	"mpps/internal/model/setting"
)

var (
	guestUnpinned = &Kind{"guest.vcpu_unpinned", Guests, "A vCPU has no CPU of its own", knob.High,
		"it runs wherever the scheduler has room, and never on an isolated CPU by itself", "domain.vcpupin"}
	guestOutside = &Kind{"guest.vcpu_outside", Guests, "A vCPU runs outside of the quiet CPUs", knob.High,
		"on a CPU of the host everything else runs too", "domain.vcpupin"}
	guestWide = &Kind{"guest.vcpu_wide", Guests, "A vCPU may use several CPUs", knob.Medium,
		"isolated CPUs are not balanced: the vCPU stays where it woke last, two of them may meet on one while " +
			"another is idle", "domain.vcpupin"}
	guestShared = &Kind{"guest.cpu_shared", Guests, "Two vCPUs have one CPU", knob.High,
		"they take turns: while one runs, the other waits", "domain.vcpupin"}
	guestEmulator = &Kind{"guest.emulator", Guests, "QEMU's own threads may run there", knob.High,
		"the emulator answers the monitor, draws screens and does disk work: none of it may come between a vCPU and " +
			"its CPU", "domain.emulatorpin"}
	guestIOThread = &Kind{"guest.iothread", Guests, "An I/O thread may run there", knob.High,
		"an I/O thread polls or sleeps on the guest's disks, and takes the CPU from the vCPU each time",
		"domain.iothreadpin"}
	guestSched = &Kind{"guest.vcpusched", Guests, "Its vCPUs are ordinary threads", knob.Low,
		"without a realtime priority any kernel thread of the CPU shares it with the vCPU; with it they must have a " +
			"higher one", "domain.vcpusched"}
	guestLivePin = &Kind{"guest.live_pin", Guests, "A thread runs elsewhere than its definition says", knob.High,
		"what was planned is not what runs: somebody moved the thread, or the guest was started before",
		"domain.vcpupin"}
	guestLiveSched = &Kind{"guest.live_sched", Guests, "A vCPU's priority is not that of its definition", knob.Medium,
		"a vCPU with another priority than planned starves the kernel's threads, or is pushed aside by them",
		"domain.vcpusched"}
	guestVhost = &Kind{"guest.vhost", Guests, "A vhost thread may run there", knob.High,
		"a vhost thread carries the guest's packets: under load it takes the whole CPU", "vhost.threads"}
	guestWorker = &Kind{"guest.worker", Guests, "A thread of QEMU may run there", knob.High,
		"emulator, workers and I/O threads take the CPU from the vCPU for as long as their work lasts",
		"domain.emulatorpin"}
)

// guests judges the guests that the CPUs are for, and those that are in their way.
func guests(v *view) {
	v.claims()
	for _, g := range v.guests {
		if g.why != "" && g.f.Managed {
			v.unsure(g.object(""), g.why)
		}
		if g.realtime && g.defined {
			v.definition(g)
			v.memory(g)
		}
		v.live(g)
	}
	v.pool()
}

// claims finds CPUs that several vCPUs have. Of guests of which one is off it is milder: they cannot both run.
func (v *view) claims() {
	type claim struct {
		g *guest
		n int
	}
	by := map[int][]claim{}
	for _, g := range v.guests {
		for _, c := range g.vcpus {
			for _, cpu := range c.pin.And(v.s.CPUs) {
				by[cpu] = append(by[cpu], claim{g, c.number})
			}
		}
	}
	for _, cpu := range v.s.CPUs {
		if len(by[cpu]) < 2 {
			continue
		}
		var names []string
		running, same := 0, true
		for _, c := range by[cpu] {
			names = append(names, fmt.Sprintf("%s vcpu %d", c.g.f.Name, c.n))
			if c.g.active() {
				running++
			}
			same = same && c.g == by[cpu][0].g
		}
		f := v.add(guestShared, cpuObject(cpu), setting.CPUs(cpu),
			fmt.Sprintf("%s have it", strings.Join(names[:min(len(names), 6)], ", ")),
			"virsh vcpupin GUEST VCPU CPU --config --live, one CPU each; mpps place finds them")
		if f.with("vcpus", float64(len(names))); running < 2 && !same {
			f.at(knob.Medium)
		}
	}
}

// definition judges the pins of one guest.
func (v *view) definition(g *guest) {
	cpus := v.s.CPUs
	var ordinary []string
	for _, c := range g.quiet() {
		object := g.vcpuObject(c.number)
		set := fmt.Sprintf("virsh vcpupin %s %d CPU %s, with a CPU of %s", g.f.Name, c.number, g.now(), cpus)
		switch outside := c.pin.Minus(cpus); {
		case len(c.pin) == 0:
			v.add(guestUnpinned, object, cpus, "its definition has no pin for it", set)
		case len(outside) > 0:
			v.add(guestOutside, object, outside, fmt.Sprintf("it is pinned to %s, of which %s are not among %s", c.pin,
				outside, cpus), set).with("cpus", float64(len(outside)))
		case len(c.pin) > 1:
			v.add(guestWide, object, c.pin, fmt.Sprintf("it is pinned to %d CPUs: %s", len(c.pin), c.pin),
				set).with("cpus", float64(len(c.pin)))
		}
		if !c.scheduled() && len(c.pin.And(cpus)) > 0 {
			ordinary = append(ordinary, fmt.Sprint(c.number))
		}
	}
	for _, c := range g.vcpus { // the others may be anywhere, but not half here
		if in := c.pin.And(cpus); g.scheduled() && !c.scheduled() && len(in) > 0 {
			v.add(guestSched, g.vcpuObject(c.number), in, fmt.Sprintf("it is pinned to %s without a realtime "+
				"priority, others of the guest have one", c.pin),
				fmt.Sprintf("<vcpusched vcpus='%d' scheduler='fifo' priority='1'/>, or a pin among %s", c.number,
					v.away()))
		}
	}
	if len(ordinary) > 0 {
		v.add(guestSched, g.object(""), g.claims(), fmt.Sprintf("vCPUs %s have no realtime priority",
			strings.Join(ordinary, ",")),
			fmt.Sprintf("<vcpusched vcpus='%s' scheduler='fifo' priority='1'/> in the definition's cputune",
				strings.Join(ordinary, ",")))
	}
	v.helper(g, guestEmulator, "emulator", g.d.EmulatorPin, fmt.Sprintf("virsh emulatorpin %s %s %s", g.f.Name,
		v.away(), g.now()))
	pins := map[int]string{}
	for _, p := range g.d.IOThreadPins {
		pins[p.ID] = p.CPUs
	}
	for n := 1; n <= min(g.d.IOThreads, maxVCPUs); n++ {
		v.helper(g, guestIOThread, fmt.Sprintf("iothread %d", n), pins[n], fmt.Sprintf("virsh iothreadpin %s %d %s %s",
			g.f.Name, n, v.away(), g.now()))
	}
}

// helper judges the pin of a thread that must stay off the CPUs. Without one libvirt lets it run on all CPUs that are
// online, in newer versions (commit da95bcb6b2d9) on all that are not isolated, and with strict memory on all CPUs of
// its node, isolated or not (src/qemu/qemu_process.c, qemuProcessInitCpuAffinity): of a guest that runs its thread
// tells.
func (v *view) helper(g *guest, k *Kind, part, pin, do string) {
	set := pinned(pin)
	if len(set) == 0 {
		set = pinned(g.d.VCPUs.Set)
	}
	if len(set) == 0 {
		role, number, _ := strings.Cut(part, " ")
		now := g.thread(role, number)
		switch in := now.And(v.s.CPUs); {
		case len(in) > 0:
			v.add(k, g.object(part), in, fmt.Sprintf(
				"it has no pin, and now it may run on %s, of which %s should be quiet", now, in), do).with("cpus",
				float64(len(in)))
		case len(now) > 0:
			v.add(k, g.object(part), v.s.CPUs, fmt.Sprintf("it has no pin; now it may run on %s, at the next start "+
				"where libvirt lets it", now), do).at(knob.Low)
		default:
			v.add(k, g.object(part), v.s.CPUs,
				"it has no pin: at its start it gets all CPUs of its node, or of the host", do).at(knob.Medium)
		}
		return
	}
	if in := set.And(v.s.CPUs); len(in) > 0 {
		v.add(k, g.object(part), in, fmt.Sprintf("it is pinned to %s, of which %s should be quiet", set, in),
			do).with("cpus", float64(len(in)))
	}
}

// live compares the threads of a guest that runs with its definition and with the CPUs.
func (v *view) live(g *guest) {
	if g.active() && len(g.f.Threads) == 0 && g.realtime {
		v.unsure("threads of "+g.object(""), "they were not seen")
	}
	for i := range g.f.Threads {
		t := &g.f.Threads[i]
		in := t.Affinity.And(v.s.CPUs)
		switch t.Role {
		case "vcpu":
			v.liveVCPU(g, t.Index, t.Affinity, t.Policy, t.Priority)
		case "vhost":
			if len(in) > 0 {
				v.add(guestVhost, g.object(fmt.Sprintf("vhost %d (%d)", t.Index, t.TID)), in,
					fmt.Sprintf("it may run on %s, of which %s should be quiet", t.Affinity, in),
					fmt.Sprintf("taskset -pc %s %d; mpps places them and keeps them there (vhost.threads)", v.away(),
						t.TID)).with("cpus", float64(len(in)))
			}
		default:
			if len(in) > 0 && !v.meant(g, t.Role, t.Index, t.Affinity) {
				v.add(guestWorker, g.object(fmt.Sprintf("thread %s (%d)", t.Comm, t.TID)), in,
					fmt.Sprintf("it may run on %s, of which %s should be quiet", t.Affinity, in),
					fmt.Sprintf("virsh emulatorpin %s %s --live", g.f.Name, v.away())).with("cpus", float64(len(in)))
			}
		}
	}
}

// meant reports whether the definition itself puts a helper where it is, which is said once, of the definition.
func (v *view) meant(g *guest, role string, index int, affinity setting.CPUSet) bool {
	if !g.realtime || !g.defined {
		return false
	}
	pin := g.d.EmulatorPin
	if role == "iothread" {
		pin = ""
		for _, p := range g.d.IOThreadPins {
			if p.ID == index {
				pin = p.CPUs
			}
		}
	}
	set := pinned(pin)
	if len(set) == 0 {
		set = pinned(g.d.VCPUs.Set)
	}
	return len(set) == 0 || set.And(v.h.Topology.Online).Equal(affinity)
}

// liveVCPU judges the thread of one vCPU.
func (v *view) liveVCPU(g *guest, n int, affinity setting.CPUSet, policy string, priority int) {
	object := g.vcpuObject(n)
	if len(affinity) == 0 {
		if g.realtime {
			v.unsure("CPUs of "+object, "they could not be read")
		}
		return
	}
	if !g.realtime || n < 0 || n >= len(g.vcpus) {
		if in := affinity.And(v.s.CPUs); len(in) > 0 && len(g.pins().And(in)) == 0 &&
			len(affinity.Minus(v.s.CPUs)) > 0 {
			v.add(guestWorker, object, in,
				fmt.Sprintf("a vCPU of another guest may run on %s, of which %s should be quiet", affinity, in),
				fmt.Sprintf("virsh vcpupin %s %d %s --config --live", g.f.Name, n, v.away())).at(knob.High)
		}
		return
	}
	c := g.vcpus[n]
	if want := c.pin.And(v.h.Topology.Online); len(want) > 0 && !want.Equal(affinity) {
		v.add(guestLivePin, object, affinity.Or(want), fmt.Sprintf("it may run on %s, its definition says %s", affinity,
			c.pin),
			fmt.Sprintf("virsh vcpupin %s %d %s --live", g.f.Name, n, c.pin)).with("cpus", float64(len(affinity)))
	}
	if policy == "" || !slices.Contains([]string{"SCHED_OTHER", "SCHED_FIFO", "SCHED_RR", "SCHED_BATCH", "SCHED_IDLE"},
		policy) {
		return
	}
	want := c.policy
	if want == "" {
		want = "SCHED_OTHER"
	}
	if policy != want || c.scheduled() && priority != c.priority {
		v.add(guestLiveSched, object, affinity, fmt.Sprintf("it runs with %s, its definition says %s",
			sched(policy, priority), sched(want, c.priority)),
			fmt.Sprintf("chrt %s -p %d TID, or restart the guest: libvirt sets it at its start", chrtFlag(want),
				c.priority)).with("priority", float64(priority))
	}
}

func sched(policy string, priority int) string {
	if policy == "SCHED_FIFO" || policy == "SCHED_RR" {
		return fmt.Sprintf("%s %d", policy, priority)
	}
	return policy
}

func chrtFlag(policy string) string {
	if word := strings.ToLower(strings.TrimPrefix(policy, "SCHED_")); word != "" {
		return "--" + word
	}
	return "--other"
}
