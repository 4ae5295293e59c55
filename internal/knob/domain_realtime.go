package knob

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/datapath"
	"mpps/internal/domain"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

// maxVCPUs is more than KVM gives a guest (KVM_MAX_VCPUS).
const maxVCPUs = 4096

// realtimeVCPUs are the vCPUs of a guest that its realtime work runs on: those that its own kernel isolates, where that was seen,
// else all but vCPU 0, on which every guest's kernel boots and keeps house. A guest of one vCPU has none.
func realtimeVCPUs(g *facts.Guest) (set setting.CPUSet, why string) {
	all := setting.CPUSet{}
	for n := range min(g.VCPUs, maxVCPUs) {
		all = append(all, n)
	}
	if in := seenInside(g); in != nil && len(in.Topology.Isolated) > 0 {
		return in.Topology.Isolated.And(all), "its own kernel isolates vCPUs " + in.Topology.Isolated.String()
	}
	return all.Minus(setting.CPUs(bootCPU)), "its kernel keeps house on vCPU 0"
}

// schedGroup is vCPUs that have a scheduler together in a guest's definition. libvirt writes all that have the same as one
// (src/conf/domain_conf.c, virDomainFormatSchedDef).
type schedGroup struct {
	vcpus setting.CPUSet
	ahead bool // a realtime policy: it runs before everything ordinary
}

func schedGroups(g *facts.Guest) (groups []schedGroup) {
	if !strings.Contains(g.Definition, "<vcpusched") {
		return nil
	}
	doc, err := domain.Parse([]byte(g.Definition))
	if err != nil {
		return nil
	}
	for _, s := range doc.Guest().Sched {
		if set, err := setting.ParseCPUs(s.VCPUs); err == nil && len(set) > 0 {
			groups = append(groups, schedGroup{set, s.Policy == "fifo" || s.Policy == "rr"})
		}
	}
	return groups
}

// vcpuScheds are the groups of a definition, and last the realtime vCPUs where they are none of them.
func vcpuScheds(g *facts.Guest) (sets []setting.CPUSet) {
	realtime, _ := realtimeVCPUs(g)
	for _, group := range schedGroups(g) {
		sets = append(sets, group.vcpus)
	}
	if g.VCPUs == 1 {
		realtime = setting.CPUs(bootCPU) // to say why it has none
	}
	if len(realtime) > 0 && !slices.ContainsFunc(sets, realtime.Equal) {
		sets = append(sets, realtime)
	}
	return sets
}

// groupsRefuse says why a guest with a realtime priority does not start.
const groupsRefuse = "this kernel gives each control group a share of realtime of its own (CONFIG_RT_GROUP_SCHED), and libvirt's new groups have none"

// GroupsRefuse tells whether the kernel now answers EPERM to a realtime priority in a group that libvirt has made: such groups begin
// with a share of 0, which the kernel looks at only while realtime threads as a whole have a limit.
func (v *View) GroupsRefuse() bool {
	return v.Kernel.RTGroups == facts.Yes && v.Readings.At(rtRuntime).Value != noLimit
}

// vcpuPriority is that of realtime vCPUs: the lowest, below ksoftirqd (2) and RCU's threads (3).
const vcpuPriority = "fifo:1"

var domainVCPUSched = &Knob{
	ID: "domain.vcpusched", Title: "Realtime vCPUs run before everything ordinary", Stage: datapath.Domain, Risk: goal.GuestRestart,
	After: []string{"domain.vcpupin", "domain.emulatorpin"}, Tiers: realtime(),
	Doc: Doc{
		Want: "fifo:1 for the vCPUs of the realtime work; none for those on which the guest keeps house",
		Why: "A vCPU is an ordinary thread of the host: every kworker, every daemon that happens to be on its CPU takes its turn in milliseconds. With SCHED_FIFO 1 it runs before all of them, and is interrupted only by what is above it: " +
			"interrupts, ksoftirqd (2), RCU's threads (3).",
		Cost:   "A realtime vCPU that never halts leaves its CPU to nobody: that CPU must be isolated, and whatever is bound to it waits.",
		Verify: "chrt -p of the threads \"CPU n/KVM\" says SCHED_FIFO 1; virsh dumpxml NAME shows <vcpusched>.",
		Traps: []string{
			"<vcpusched vcpus='0-3'> for all vCPUs is wrong: the guest's own kernel keeps house on vCPU 0 (its boot CPU, its ticks, its kworkers), spins there now and then, and with SCHED_FIFO starves QEMU's threads that it waits for. Nova refuses a realtime guest without one ordinary vCPU for that reason.",
			"Priorities of 50 and more stand above the kernel's interrupt threads (50 on PREEMPT_RT) and stop disks and network. 1 is enough: what counts is the order, not the number.",
			"Never without a CPU of its own for each vCPU (domain.vcpupin), or two of them on one CPU stop each other for good.",
			"Throttling stops a vCPU that polls for 50 ms of each second unless it is off: rt.throttling.",
			"\"cannot set scheduler … Operation not permitted\" at the guest's start: a kernel with CONFIG_RT_GROUP_SCHED, on which libvirt's new groups have no realtime share of their own (cpu.rt_runtime_us is 0, and version 2 of control groups cannot say it at all), or a container without CAP_SYS_NICE. With kernel.sched_rt_runtime_us=-1 the kernel does not ask for the share: it is planned there only with rt.throttling. rt_group_sched=0 (Linux 6.16) switches the shares off.",
			"chrt on a running guest's threads does the same at once and is lost with the next start.",
		},
		Sources: []Source{
			{"vcpusched", "libvirt formatdomain, \"CPU Tuning\""},
			{"one vCPU at least without", "OpenStack Nova, hw:cpu_realtime_mask; KubeVirt, spec.domain.cpu.realtime.mask"},
			{"EPERM without a share, and only while there is a limit", "kernel/sched/syscalls.c, __sched_setscheduler, rt_bandwidth_enabled; kernel/sched/core.c, setup_rt_group_sched"},
			{"interrupt threads have 50", "kernel/irq/manage.c, irq_thread, sched_set_fifo"},
			{"realtime priority of vCPUs", "founding experience"},
		},
	},
	Where: eachGuest(managed, func(g *facts.Guest) []setting.Address {
		var paths []string
		for _, set := range vcpuScheds(g) {
			paths = append(paths, "vcpusched/"+set.String())
		}
		return inDefinition(paths...)(g)
	}),
	Want: func(v *View, a setting.Address) Advice {
		g, advice, ok := v.guest(a)
		if !ok {
			return advice
		}
		_, list, _ := strings.Cut(a.Rest(), "/")
		own, err := setting.ParseCPUs(list)
		realtime, why := realtimeVCPUs(g)
		switch {
		case err != nil:
			return Skips("no such vCPU")
		case emulated(g):
			return Skips("its processor is emulated (domain type qemu): no priority makes it punctual")
		case g.VCPUs < 2:
			return Skips("its only vCPU keeps house for its own kernel: give it a second one for the realtime work")
		}
		var ahead setting.CPUSet // realtime vCPUs that have a realtime policy already
		for _, group := range schedGroups(g) {
			if group.ahead && len(group.vcpus.Minus(realtime)) == 0 {
				ahead = ahead.Or(group.vcpus)
			}
		}
		policy := v.Readings.At(a).Value
		isAhead := strings.HasPrefix(policy, "fifo") || strings.HasPrefix(policy, "rr")
		switch house := own.Minus(realtime); {
		case len(house) > 0 && isAhead:
			return Wants(setting.NotThere(), fmt.Sprintf("%s: with a realtime priority there it starves QEMU's threads that it waits for", why)).At(High).restart(g.Name)
		case len(own.And(realtime)) == 0:
			return Fine("vCPUs on which the guest keeps house")
		case isAhead && (ahead.Equal(realtime) || own.Equal(realtime)):
			return Fine("they run before everything ordinary")
		case ahead.Equal(realtime):
			return Skips("each of them has a realtime policy by itself")
		case !own.Equal(realtime):
			return Wants(setting.NotThere(), fmt.Sprintf("vCPUs %s get one scheduler together", realtime)).At(Low).restart(g.Name)
		}
		advice = Wants(setting.Exact(vcpuPriority), "every ordinary thread that comes to their CPUs takes its turn; "+why).At(Medium).restart(g.Name)
		if v.GroupsRefuse() {
			return advice.warn(groupsRefuse + ": the guest starts with it only while kernel.sched_rt_runtime_us is -1 (rt.throttling)")
		}
		return advice
	},
}

var domainNoSharePages = &Knob{
	ID: "domain.nosharepages", Title: "The guest's pages are not merged with others'", Stage: datapath.Domain, Risk: goal.GuestRestart, Tiers: realtime(),
	Doc: Doc{
		Want: "nosharepages for realtime",
		Why: "QEMU offers all of a guest's memory for merging with that of others (MADV_MERGEABLE). rt.ksm stops the merging; <nosharepages/> takes this guest out of it for good, whoever starts it again, " +
			"and closes what one guest can find out about another's memory by the time that a write takes.",
		Cost:   "This guest's memory is never shared.",
		Verify: "QEMU's command line says mem-merge=off; ksm_rmap_items in /proc/PID/ksm_stat of QEMU is 0.",
		Traps: []string{
			"Memory in the pool of huge pages is never merged: there the element changes nothing, and stands for the day when somebody takes the huge pages away.",
			"echo 2 > /sys/kernel/mm/ksm/run takes apart what is merged, for all guests, and lasts until somebody writes 1.",
		},
		Sources: []Source{
			{"nosharepages", "libvirt formatdomain, \"Memory Backing\""},
			{"QEMU offers its memory", "QEMU system/physmem.c, memory_try_enable_merging; machine property mem-merge"},
		},
	},
	Where: eachGuest(managed, inDefinition("memoryBacking/nosharepages")),
	Want: func(v *View, a setting.Address) Advice {
		g, advice, ok := v.guest(a)
		if !ok {
			return advice
		}
		return Wants(setting.Exact("yes"), "should page merging be started, the first write to a merged page stops the guest").At(Low).restart(g.Name)
	},
}

// featureKnob is a switch among a guest's features; libvirt takes those that are ofHost beside the host's own processor only.
func featureKnob(id, title, path, value, because string, ofHost bool, doc Doc) *Knob {
	return &Knob{
		ID: id, Title: title, Stage: datapath.Domain, Risk: goal.GuestRestart, After: []string{"domain.cpu_model"}, Tiers: realtime(), Doc: doc,
		Where: eachGuest(managed, inDefinition(path)),
		Want: func(v *View, a setting.Address) Advice {
			g, advice, ok := v.guest(a)
			switch {
			case !ok:
				return advice
			case emulated(g):
				return Skips("its processor is emulated (domain type qemu): only KVM has this")
			}
			if advice, ok := v.hostsOwn(g.Name); ofHost && !ok {
				return advice
			}
			return Wants(setting.Exact(value), because).At(Low).restart(g.Name)
		},
	}
}

var domainPMU = featureKnob("domain.pmu", "The guest has no performance counters", "features/pmu.state", "off", "counters are exchanged at entries and exits, and each overflow is an interrupt and an exit", false, Doc{
	Want: "off for realtime",
	Why: "With a virtual PMU KVM keeps the guest's performance counters as events of the host's perf: they are started, stopped and read as the guest writes them, each write is an exit, and each overflow an NMI on the host and an interrupt in the guest. " +
		"A guest whose kernel finds counters also starts its NMI watchdog on one, which goes off for ever.",
	Cost:   "No hardware events for perf in the guest.",
	Verify: "In the guest: dmesg says that there is no PMU driver, software events only; perf stat shows <not supported>.",
	Traps: []string{
		"libvirt's default is QEMU's: with host-passthrough the PMU is on.",
		"On processors whose PMU cannot be virtualised (hybrid cores) it is off already.",
		"cyclictest and oslat need none; rtla and perf in the guest count less. Measure first, then switch it off.",
	},
	Sources: []Source{
		{"pmu", "libvirt formatdomain, \"Hypervisor features\""},
		{"events of the host's perf", "arch/x86/kvm/pmu.c, pmc_reprogram_counter; Documentation/admin-guide/lockup-watchdogs.rst"},
		{"off for realtime guests", "KubeVirt, spec.domain.cpu.realtime; libvirt KB, \"Real time guests\""},
	},
})

var domainDedicated = featureKnob("domain.dedicated", "The guest knows that its vCPUs have CPUs of their own", "features/kvm/hint-dedicated.state", "on", "its kernel takes the ways that are made for shared CPUs", true, Doc{
	Want: "on for realtime, where each vCPU has a CPU",
	Why: "A Linux guest under KVM does not know whether its vCPUs run: it gives up a spin lock early and halts, and asks the host to flush other vCPUs' TLBs. <hint-dedicated state='on'/> (KVM_HINTS_REALTIME) tells it that they always do: " +
		"it spins as a kernel on its own hardware does, without exits, and its idle loop polls for a while before it halts (cpuidle-haltpoll).",
	Cost:   "On a host that is overcommitted after all a vCPU spins for a lock whose holder does not run.",
	Verify: "In the guest: dmesg says \"PV qspinlocks disabled with KVM_HINTS_REALTIME hints\"; /sys/devices/system/cpu/cpuidle/current_driver is haltpoll.",
	Traps: []string{
		"libvirt takes it with host-passthrough only (\"kvm-hint-dedicated=on is only applicable for cpu host-passthrough\"): domain.cpu_model comes first.",
		"The name of the hint has nothing to do with priorities: it does not make a vCPU realtime (domain.vcpusched).",
		"<kvm><hidden state='on'/>, which hides KVM for some drivers, hides the hint too.",
		"haltpoll in the guest makes halt_poll_ns of the host idle, and keeps the CPU busy while it polls; with idle=poll in the guest there is nothing left for it to do.",
	},
	Sources: []Source{
		{"hint-dedicated", "libvirt formatdomain, \"Hypervisor features\"; QEMU docs/system/i386, kvm-hint-dedicated"},
		{"what a guest does with it", "arch/x86/kernel/kvm.c, kvm_spinlock_init, pv_tlb_flush_supported; drivers/cpuidle/cpuidle-haltpoll.c, haltpoll_want; Documentation/virt/kvm/x86/cpuid.rst"},
	},
})
