package plan

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// realtimeHost is a host of 24 CPUs as it was installed, with a guest that is to be realtime and another one.
func realtimeHost() *facts.Host {
	h := &facts.Host{
		Name: "h", AsRoot: true, Readings: facts.Readings{},
		Kernel: facts.Kernel{Release: "6.12.48+deb13-amd64", Version: "#1 SMP PREEMPT_DYNAMIC Debian 6.12.48-1",
			Clocksource: "tsc", CommandLine: "root=/dev/sda1 ro quiet"},
		KVM: facts.KVM{Loaded: true, Vendor: "kvm_intel", QEMU: "10.0.2"},
		Guests: []facts.Guest{
			{Name: "rt1", UUID: "u", Managed: true, State: "running", VCPUs: 4, MaxVCPUs: 4, Memory: 4 << 30,
				Definition: "<domain type='kvm'><name>rt1</name><vcpu>4</vcpu></domain>"},
			{Name: "web", UUID: "w", Managed: true, State: "running", VCPUs: 2, MaxVCPUs: 2, Memory: 1 << 30,
				Definition: "<domain type='kvm'><name>web</name><vcpu>2</vcpu></domain>"},
		},
		Housekeeping: &facts.Housekeeping{Available: 32 << 30,
			Swap: []facts.SwapArea{{Name: "/dev/sda2", Size: 1 << 30}}, KSM: &facts.KSM{Run: 1}},
		Power: facts.Power{IdleDriver: "intel_idle", ScalingDriver: "intel_pstate",
			IdleStates: []facts.IdleState{{Name: "C6", Latency: 133, CPUs: 24}}},
	}
	h.Topology.Vendor = "GenuineIntel"
	var all []int
	for id := range 24 {
		h.Topology.CPUs = append(h.Topology.CPUs, facts.CPU{ID: id, Online: true, Core: id, Siblings: setting.CPUs(id)})
		all = append(all, id)
		for _, kind := range []string{"ksoftirqd", "ktimers"} {
			h.Housekeeping.Threads = append(h.Housekeeping.Threads,
				facts.KernelThread{Name: kind + "/" + setting.CPUs(id).String()})
		}
	}
	h.Topology.Online = setting.CPUs(all...)
	h.Topology.Nodes = []facts.Node{{ID: 0, CPUs: h.Topology.Online, Memory: 64 << 30, Free: 48 << 30}}
	for _, a := range knob.Addresses(h, knob.Catalogue()) {
		h.Readings[a] = setting.Missing("not there")
		switch {
		case a.Kind == setting.ThreadSched:
			h.Readings[a] = setting.Value("SCHED_OTHER")
		case strings.HasSuffix(a.Path, "pm_qos_resume_latency_us"):
			h.Readings[a] = setting.Value("0")
		case strings.HasSuffix(a.Path, "scaling_governor"):
			h.Readings[a] = setting.Value("powersave")
		case strings.Contains(a.Path, "fair_server"):
			h.Readings[a] = setting.Value("50000000")
		}
	}
	for at, value := range map[string]string{
		"kernel-arg:quiet": setting.Flag, "irq-cpus:default": "0-23", "thread-cpus:kernel": "0-23",
		"swap:dev/sda2": "on", "ksm:run": "1",
		"sysctl:kernel.sched_rt_runtime_us": "950000", "sysctl:kernel.sched_rt_period_us": "1000000",
		"sysctl:kernel.watchdog_cpumask": "0-23",
		"sysctl:vm.stat_interval":        "1", "sysctl:vm.compact_unevictable_allowed": "1",
		"sysctl:vm.compaction_proactiveness": "20",
		"sysfs:kernel/rcu_normal":            "0", "sysfs:kernel/rcu_expedited": "0",
		"sysfs-cpus:devices/virtual/workqueue/cpumask":              "0-23",
		"sysfs:devices/system/machinecheck/machinecheck0/ignore_ce": "0", "sysfs:kernel/tracing/tracing_on": "1",
		"sysfs:devices/system/clocksource/clocksource0/current_clocksource": "tsc",
		"sysfs:kernel/mm/transparent_hugepage/defrag":                       "always",
		"module-param:kvm/lapic_timer_advance":                              "Y", "module-param:kvm/nx_huge_pages": "Y",
		"module-param:kvm/kvmclock_periodic_sync": "Y",
	} {
		a, err := setting.ParseAddress(at)
		if err != nil {
			panic(err)
		}
		h.Readings[a] = setting.Value(value)
	}
	h.Readings[setting.Of(setting.ModuleParam, "kvm", "kvmclock_periodic_sync")] = setting.Reading{State: setting.Known,
		Value: "Y", ReadOnly: true, Why: "read when kvm is loaded"}
	return h
}

// realtimeGoal is mpps plan --latency 20us --cpus 20-23 --guest rt1.
func realtimeGoal() goal.Goal {
	return goal.Goal{Latency: 20 * time.Microsecond, CPUs: setting.CPUs(20, 21, 22, 23), Guest: "rt1"}
}

// TestRealtime: from one goal everything that section 1 of the founding experiment set by hand, with the right values.
func TestRealtime(t *testing.T) {
	p := must.Get(Make(realtimeHost(), realtimeGoal(), knob.Catalogue(), nil))(t)
	want := map[string]string{
		"kernel-arg:isolcpus": "managed_irq,domain,20-23", "kernel-arg:nohz_full": "20-23",
		"kernel-arg:rcu_nocbs":   "20-23",
		"kernel-arg:irqaffinity": "0-19", "kernel-arg:skew_tick": "1", "kernel-arg:quiet": "absent",
		"kernel-arg:tsc":                  "nowatchdog",
		"kernel-arg:hugepagesz+hugepages": "", "kernel-arg:pcie_aspm.policy": "performance",
		"domain:rt1/vcpupin/0": "20", "domain:rt1/vcpupin/3": "23", "domain:rt1/emulatorpin": "",
		"domain:rt1/vcpusched/1-3":              "fifo:1",
		"domain:rt1/memoryBacking/nosharepages": "yes",
		"domain:rt1/features/pmu.state":         "off", "domain:rt1/clock/timer/kvmclock.present": "no",
		"domain:rt1/cpu/mode": "host-passthrough",
		"swap:dev/sda2":       "off", "ksm:run": "0", "sysctl:kernel.watchdog_cpumask": "0-19",
		"thread-sched:ksoftirqd/20": "SCHED_FIFO 2", "thread-sched:ktimers/23": "SCHED_FIFO 2",
		"sysctl:kernel.sched_rt_runtime_us": "-1", "sysfs:kernel/debug/sched/fair_server/cpu22/runtime": "0",
		"irq-cpus:default": "0-19",
		"sysfs-cpus:devices/virtual/workqueue/cpumask": "0-19", "thread-cpus:kernel": "0-19",
		"sysctl:vm.stat_interval": "10",
		"sysfs:kernel/rcu_normal": "1", "sysctl:vm.compact_unevictable_allowed": "0",
		"sysctl:vm.compaction_proactiveness":          "0",
		"sysfs:kernel/mm/transparent_hugepage/defrag": "madvise", "sysfs:kernel/tracing/tracing_on": "0",
		"sysfs:devices/system/cpu/cpu21/power/pm_qos_resume_latency_us": "2",
		"sysfs:devices/system/cpu/cpu5/cpufreq/scaling_governor":        "performance",
	}
	found := map[string]string{}
	for _, c := range p.Changes {
		found[c.Address.String()] = c.To.String()
		must.Hold(t, !strings.HasPrefix(c.Address.Path, "web/"), "another guest is touched: %s", c.Address)
	}
	for _, name := range []string{"idle", "processor.max_cstate", "intel_idle.max_cstate", "intel_pstate"} {
		if value, planned := found["kernel-arg:"+name]; planned {
			t.Errorf("%s=%s is planned for the whole host: cpu.latency does it for the guest's CPUs", name, value)
		}
	}
	for _, at := range slices.Sorted(maps.Keys(want)) {
		switch value, planned := found[at]; {
		case !planned:
			t.Errorf("%s is not planned", at)
		case want[at] != "" && value != want[at]:
			t.Errorf("%s is to be %s; expected %s", at, value, want[at])
		}
	}
	for _, at := range []string{
		"sysctl:kernel.sched_rt_period_us", "sysfs:kernel/rcu_expedited", "thread-sched:ksoftirqd/3",
		"sysctl:kernel.timer_migration", "domain:rt1/vcpusched/0",
		"domain:rt1/memoryBacking/hugepages", "domain:rt1/memoryBacking/locked", // with the pool, after the boot
		"sysfs:kernel/debug/sched/fair_server/cpu3/runtime", "kernel-arg:pcie_aspm", "kernel-arg:mitigations",
		"sysfs:devices/system/cpu/cpu5/power/pm_qos_resume_latency_us",
	} {
		if value, planned := found[at]; planned {
			t.Errorf("%s is planned, to be %s", at, value)
		}
	}
	must.Hold(t, slices.ContainsFunc(p.Later, func(l Later) bool { return slices.Contains(l.IDs, "domain.invtsc") }),
		"what is planned later: %+v", p.Later)
	h := realtimeHost()
	h.Readings[setting.Of(setting.Domain, "rt1", "cpu/mode")] = setting.Value("host-passthrough")
	h.Readings[setting.Of(setting.Domain, "rt1", "cpu/migratable")] = setting.Value("on")
	later, err := Make(h, realtimeGoal(), knob.Catalogue(), nil)
	if err != nil || !slices.Contains(ids(later.Changes), "domain.invtsc") ||
		!slices.Contains(ids(later.Changes), "domain.dedicated") {
		t.Errorf("with host-passthrough: %v, %v", ids(later.Changes), err)
	}
	consent := map[string]goal.Risk{}
	for _, c := range p.Consent {
		consent[c.Address.String()] = c.Risk
	}
	for _, at := range []string{"kernel-arg:mce", "sysfs:devices/system/machinecheck/machinecheck0/ignore_ce"} {
		must.Equal(t, consent[at], goal.Data, "%s asks for consent", at)
	}
}

// TestRealtimePhases: what needs what, in the order in which a person goes about it; and what a kernel without
// PREEMPT_RT cannot do is said, while everything else is planned.
func TestRealtimePhases(t *testing.T) {
	h := realtimeHost()
	p := must.Get(Make(h, realtimeGoal(), knob.Catalogue(), nil))(t)
	var names []string
	total := 0
	in := map[string]Phase{}
	for _, f := range p.Phases {
		names, total, in[f.What] = append(names, f.Name), total+f.Changes, f
	}
	if got := strings.Join(slices.Compact(names), " "); got != "firmware reboot guest-restart now" ||
		total != len(p.Changes) {
		t.Errorf("phases %s with %d changes of %d", got, total, len(p.Changes))
	}
	for what, c := range map[string]struct{ ids, byHand, unseen []string }{
		inFirmware: {nil, nil, []string{"firmware.patrol_scrub", "firmware.c1e"}},
		"reboot of the host": {[]string{"boot.isolcpus", "boot.irqaffinity", "boot.hugepages", "boot.tsc"},
			[]string{"kernel.realtime"}, nil},
		"restart of guest rt1": {[]string{"domain.vcpusched", "domain.nosharepages"}, nil, nil},
		kvmReload:              {nil, []string{"kvm.kvmclock_periodic_sync"}, nil},
		atOnce:                 {[]string{"rt.kthreads", "rt.throttling", "cpu.governor"}, nil, nil},
	} {
		f := in[what]
		for _, ids := range [][2][]string{{c.ids, f.IDs}, {c.byHand, f.ByHand}, {c.unseen, f.Unseen}} {
			for _, id := range ids[0] {
				must.Hold(t, slices.Contains(ids[1], id), "%s: no %s in %v", what, id, ids[1])
			}
		}
	}
	must.Hold(t, len(p.Notes) == 1 && strings.Contains(p.Notes[0], "not a realtime one") &&
		strings.Contains(p.Notes[0], "PREEMPT_DYNAMIC"), "notes %q", p.Notes)
	again, err := Make(h, realtimeGoal(), knob.Catalogue(), nil)
	must.Hold(t, err == nil && len(again.Phases) == len(p.Phases),
		"another plan of the same has %d phases, %v", len(again.Phases), err)
	p.Seal()
	must.Hold(t, len(p.Phases) == len(again.Phases) && p.Phases[1].Changes == again.Phases[1].Changes,
		"sealed again: %+v", p.Phases)
	h.Kernel.Realtime = true
	if p, err = Make(h, realtimeGoal(), knob.Catalogue(), nil); err != nil || len(p.Notes) != 0 ||
		slices.Contains(p.Phases[1].ByHand, "kernel.realtime") {
		t.Errorf("on a realtime kernel: %q, %v", p.Notes, err)
	}
}
