package realtime

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/advise/knob"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

var (
	guestUnpinned  = kind("guest.vcpu_unpinned")
	guestOutside   = kind("guest.vcpu_outside")
	guestWide      = kind("guest.vcpu_wide")
	guestShared    = kind("guest.cpu_shared")
	guestEmulator  = kind("guest.emulator")
	guestIOThread  = kind("guest.iothread")
	guestSched     = kind("guest.vcpusched")
	guestLivePin   = kind("guest.live_pin")
	guestLiveSched = kind("guest.live_sched")
	guestVhost     = kind("guest.vhost")
	guestWorker    = kind("guest.worker")
)

// judgeGuests judges the realtime guests, and other guests that use their CPUs.
func judgeGuests(v *view) {
	v.judgeShared()
	for _, g := range v.guests {
		if g.why != "" && g.f.Managed {
			v.addUnjudged(g.object(""), g.why)
		}
		if g.realtime && g.defined {
			v.judgeDefinition(g)
			v.judgeMemory(g)
		}
		v.judgeGuestThreads(g)
	}
	v.judgeHugepages()
}

// judgeShared finds CPUs that several vCPUs are pinned to. It is less severe if they belong to different guests of
// which at most one runs.
func (v *view) judgeShared() {
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

// judgeDefinition judges the pins of one guest.
func (v *view) judgeDefinition(g *guest) {
	cpus := v.s.CPUs
	var ordinary []string
	for _, c := range g.quietVCPUs() {
		object := g.vcpuObject(c.number)
		set := fmt.Sprintf("virsh vcpupin %s %d CPU %s, with a CPU of %s", word(g.f.Name), c.number,
			g.virshFlags(), cpus)
		switch outside := c.pin.Minus(cpus); {
		case len(c.pin) == 0:
			v.add(guestUnpinned, object, cpus, "its definition has no pin for it", set)
		case len(outside) > 0:
			v.add(guestOutside, object, outside, fmt.Sprintf("it is pinned to %s, of which %s are not among %s", c.pin,
				outside, cpus), set).withCPUs()
		case len(c.pin) > 1:
			v.add(guestWide, object, c.pin, fmt.Sprintf("it is pinned to %d CPUs: %s", len(c.pin), c.pin),
				set).withCPUs()
		}
		if !c.scheduled() && len(c.pin.And(cpus)) > 0 {
			ordinary = append(ordinary, fmt.Sprint(c.number))
		}
	}
	for _, c := range g.vcpus { // ordinary vCPUs may be anywhere except on quiet CPUs
		if in := c.pin.And(cpus); g.scheduled() && !c.scheduled() && len(in) > 0 {
			v.add(guestSched, g.vcpuObject(c.number), in, fmt.Sprintf("it is pinned to %s without a realtime "+
				"priority, others of the guest have one", c.pin),
				fmt.Sprintf("<vcpusched vcpus='%d' scheduler='fifo' priority='1'/>, or a pin among %s", c.number,
					v.houseList()))
		}
	}
	if len(ordinary) > 0 {
		v.add(guestSched, g.object(""), g.quietCPUs(), fmt.Sprintf("vCPUs %s have no realtime priority",
			strings.Join(ordinary, ",")),
			fmt.Sprintf("<vcpusched vcpus='%s' scheduler='fifo' priority='1'/> in the definition's cputune",
				strings.Join(ordinary, ",")))
	}
	v.judgeHelperPin(g, guestEmulator, "emulator", g.d.EmulatorPin, fmt.Sprintf("virsh emulatorpin %s %s %s",
		word(g.f.Name), v.houseList(), g.virshFlags()))
	for n := 1; n <= min(g.d.IOThreads, maxVCPUs); n++ {
		v.judgeHelperPin(g, guestIOThread, fmt.Sprintf("iothread %d", n), g.iothreadPin(n),
			fmt.Sprintf("virsh iothreadpin %s %d %s %s", word(g.f.Name), n, v.houseList(), g.virshFlags()))
	}
}

// iothreadPin returns the pin of an I/O thread as it is in the definition; empty: none.
func (g *guest) iothreadPin(n int) string {
	pin := ""
	for _, p := range g.d.IOThreadPins {
		if p.ID == n {
			pin = p.CPUs
		}
	}
	return pin
}

// helperPin returns the CPUs that a definition gives a helper thread with a pin: those of the pin, or of the guest.
func (g *guest) helperPin(pin string) setting.CPUSet {
	if set := parseSet(pin); len(set) > 0 {
		return set
	}
	return parseSet(g.d.VCPUs.Set)
}

// judgeHelperPin judges the pin of a thread that must stay off the quiet CPUs. Without a pin libvirt lets it run on all
// online CPUs, in newer versions (commit da95bcb6b2d9) on all that are not isolated, and with strict memory on all CPUs
// of its node, isolated or not (src/qemu/qemu_process.c, qemuProcessInitCpuAffinity). If the guest runs, the affinity
// of the thread decides.
func (v *view) judgeHelperPin(g *guest, k *Kind, part, pin, do string) {
	set := g.helperPin(pin)
	if len(set) > 0 {
		v.addOverlap(k, g.object(part), "it is pinned to", set, do).withCPUs()
		return
	}
	role, number, _ := strings.Cut(part, " ")
	now := g.threadAffinity(role, number)
	switch {
	case v.addOverlap(k, g.object(part), "it has no pin, and now it may run on", now, do).withCPUs() != nil:
	case len(now) > 0:
		v.add(k, g.object(part), v.s.CPUs, fmt.Sprintf("it has no pin; now it may run on %s, at the next start "+
			"where libvirt lets it", now), do).at(knob.Low)
	default:
		v.add(k, g.object(part), v.s.CPUs,
			"it has no pin: at its start it gets all CPUs of its node, or of the host", do).at(knob.Medium)
	}
}

// judgeGuestThreads compares the threads of a running guest with its definition and with the quiet CPUs.
func (v *view) judgeGuestThreads(g *guest) {
	if g.active() && len(g.f.Threads) == 0 && g.realtime {
		v.addUnjudged("threads of "+g.object(""), "they were not seen")
	}
	for i := range g.f.Threads {
		t := &g.f.Threads[i]
		switch t.Role {
		case "vcpu":
			v.judgeVCPUThread(g, t.Index, t.Affinity, t.Policy, t.Priority)
		case "vhost":
			v.addOverlap(guestVhost, g.object(fmt.Sprintf("vhost %d (%d)", t.Index, t.TID)), "it may run on",
				t.Affinity, fmt.Sprintf("taskset -pc %s %d; mpps places them and keeps them there (vhost.threads)",
					v.houseList(), t.TID)).withCPUs()
		default:
			if !v.placedByDefinition(g, t.Role, t.Index, t.Affinity) {
				v.addOverlap(guestWorker, g.object(fmt.Sprintf("thread %s (%d)", t.Comm, t.TID)), "it may run on",
					t.Affinity, fmt.Sprintf("virsh emulatorpin %s %s --live", word(g.f.Name), v.houseList())).withCPUs()
			}
		}
	}
}

// placedByDefinition reports whether a helper runs where the definition puts it. judgeDefinition has judged that.
func (v *view) placedByDefinition(g *guest, role string, index int, affinity setting.CPUSet) bool {
	if !g.realtime || !g.defined {
		return false
	}
	pin := words.Either(role == "iothread", g.iothreadPin(index), g.d.EmulatorPin)
	set := g.helperPin(pin)
	return len(set) == 0 || set.And(v.h.Topology.Online).Equal(affinity)
}

// judgeVCPUThread judges the thread of one vCPU.
func (v *view) judgeVCPUThread(g *guest, n int, affinity setting.CPUSet, policy string, priority int) {
	object := g.vcpuObject(n)
	if len(affinity) == 0 {
		if g.realtime {
			v.addUnjudged("CPUs of "+object, "they could not be read")
		}
		return
	}
	if !g.realtime || n < 0 || n >= len(g.vcpus) {
		if in := affinity.And(v.s.CPUs); len(in) > 0 && len(g.pinnedCPUs().And(in)) == 0 &&
			len(affinity.Minus(v.s.CPUs)) > 0 {
			v.add(guestWorker, object, in,
				fmt.Sprintf("a vCPU of another guest may run on %s, of which %s should be quiet", affinity, in),
				fmt.Sprintf("virsh vcpupin %s %d %s --config --live", word(g.f.Name), n, v.houseList()))
		}
		return
	}
	c := g.vcpus[n]
	if want := c.pin.And(v.h.Topology.Online); len(want) > 0 && !want.Equal(affinity) {
		v.add(guestLivePin, object, affinity.Or(want), fmt.Sprintf("it may run on %s, its definition says %s", affinity,
			c.pin),
			fmt.Sprintf("virsh vcpupin %s %d %s --live", word(g.f.Name), n, c.pin)).with("cpus", float64(len(affinity)))
	}
	if policy == "" || !slices.Contains([]string{"SCHED_OTHER", "SCHED_FIFO", "SCHED_RR", "SCHED_BATCH", "SCHED_IDLE"},
		policy) {
		return
	}
	want := cmp.Or(c.policy, "SCHED_OTHER")
	if policy != want || c.scheduled() && priority != c.priority {
		v.add(guestLiveSched, object, affinity, fmt.Sprintf("it runs with %s, its definition says %s",
			schedText(policy, priority), schedText(want, c.priority)),
			fmt.Sprintf("chrt --%s -p %d TID, or restart the guest: libvirt sets it at its start",
				strings.ToLower(strings.TrimPrefix(want, "SCHED_")), c.priority)).with("priority", float64(priority))
	}
}

// schedText is a policy, with the priority if it has one: "SCHED_FIFO 2".
func schedText(policy string, priority int) string {
	return policy + words.If(realtimePolicy(policy), " %d", priority)
}
