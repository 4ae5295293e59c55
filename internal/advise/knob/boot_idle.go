package knob

import (
	"fmt"
	"time"

	"mpps/internal/model/datapath"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// pollBelow is the wake-up latency below which a host whose cores run one thread each may poll on all CPUs: leaving a
// halt (C1) takes about 2 µs, and the way out of the kernel's idle loop as much again.
const pollBelow = 20 * time.Microsecond

var bootIdle = &Knob{
	ID: "boot.idle", Title: "Idle CPUs do not poll on the whole host", Stage: datapath.Kernel, Risk: goal.Reboot,
	Limit: onX86, Tiers: tiers(goal.Aggressive, goal.Passthrough, goal.Realtime),
	Where: bootArguments("idle"),
	Want: func(v *View, a setting.Address) Advice {
		if next := v.Readings.At(a); !setting.Exact("poll").Met(next) {
			return v.fineAtBoot(a, "idle CPUs may sleep; cpu.latency keeps the guests' out of slow states, and can be "+
				"taken back")
		}
		on, known := v.smt()
		switch {
		case !known:
			return Unsure("whether cores run two threads is not known: a CPU that polls takes half of its sibling's " +
				"core")
		case on:
			return v.atBoot(a, setting.NotThere(), "SMT is on: each idle CPU that polls takes half of its sibling's "+
				"core, and all of the turbo; cpu.latency does it for the guests' CPUs alone").At(Medium)
		case v.Tier == goal.Realtime && v.Goal.Latency <= pollBelow:
			return v.fineAtBoot(a, "cores run one thread each, and the target leaves little time to wake up")
		}
		return v.atBoot(a, setting.NotThere(), "every CPU of the host draws full power, and busy ones reach less "+
			"turbo; cpu.latency does it for the guests' CPUs alone").At(Low)
	},
}

// smt reports whether cores run more than one thread now, and whether that is known.
func (v *View) smt() (on, known bool) {
	for _, c := range v.Topology.CPUs {
		if n := len(c.Siblings.And(v.Topology.Online)); c.Online && n > 0 {
			on, known = on || n > 1, true
		}
	}
	switch v.Topology.SMT {
	case "off", "forceoff", "notsupported":
		return false, true
	case "on":
		return on || !known, true
	}
	return on, known
}

var bootPstate = &Knob{
	ID: "boot.pstate", Title: "The clock's driver is the kernel's choice",
	Stage: datapath.Kernel, Risk: goal.Reboot, Tiers: tiers(goal.Realtime), Check: true,
	Limit: onIntel,
	Where: bootArguments("intel_pstate"),
	Want: func(v *View, a setting.Address) Advice {
		next, driver := v.Readings.At(a), v.Power.ScalingDriver
		running, _ := v.runningArgument("intel_pstate")
		intel := driver == "intel_pstate" || driver == "intel_cpufreq"
		switch {
		case !setting.Exact("disable").Met(next) && intel:
			return v.fineAtBoot(a, driver+" holds the highest clock with the governor performance (cpu.governor, "+
				"cpu.epp)")
		case !setting.Exact("disable").Met(next) && driver == "":
			return v.fineAtBoot(a, "no cpufreq here: the clock is the firmware's or the hypervisor's business")
		case !setting.Exact("disable").Met(next):
			return v.fineAtBoot(a, "the clock is set by "+driver)
		case running == "disable" && intel:
			return v.atBoot(a, setting.NotThere(), "the firmware switched HWP on, and the kernel then ignores "+
				"disable: "+driver+" sets the clock all the same").At(Info)
		}
		return v.fineAtBoot(a, "the plain driver is chosen; its governor performance holds one clock too")
	},
}

var bootCstate = &Knob{
	ID: "boot.cstate", Title: "No idle state deeper than C1, where the kernel cannot limit it for single CPUs",
	Stage: datapath.Kernel, Risk: goal.Reboot, Tiers: tiers(goal.Realtime),
	Limit: onX86, Parts: map[string]Limit{"intel_idle.max_cstate": onIntel},
	Where: bootArguments("processor.max_cstate", "intel_idle.max_cstate"),
	Want: func(v *View, a setting.Address) Advice {
		now, _ := v.runningArgument("idle")
		next := v.Readings.At(a)
		switch {
		case now == "poll" && v.Readings.At(bootArgument("idle")).Value == "poll":
			return v.fineAtBoot(a, "idle=poll: no C-state is entered")
		case next.Value == "1", next.Value == "0" && v.halts():
			return v.fineAtBoot(a, "no CPU of the host goes deeper than C1; cpu.latency does it for the guests' CPUs "+
				"alone")
		case !v.lacksLatencyFiles():
			return v.fineAtBoot(a, "cpu.latency keeps the guests' CPUs out of slow states while the host runs, and "+
				"can be taken back")
		}
		return v.atBoot(a, setting.Exact("1"), "the kernel enters states that take longer to leave than the target, "+
			"and cannot limit that for single CPUs")
	},
}

// halts reports whether acpi_idle enters nothing deeper than C1 from the next boot on. It takes a limit of 0 for 1
// (drivers/acpi/processor_idle.c, acpi_processor_setup_cpuidle_cx), intel_idle leaves the choice to it with 0.
func (v *View) halts() bool {
	return setting.Any("1", "0").Met(v.Readings.At(bootArgument("processor.max_cstate")))
}

// lacksLatencyFiles reports whether this kernel has no wake-up limit for single CPUs (before 4.11).
func (v *View) lacksLatencyFiles() bool {
	for _, c := range v.Topology.CPUs {
		file := setting.Of(setting.Sysfs, fmt.Sprintf(latencyFile, c.ID))
		if c.Online && v.Readings.At(file).State == setting.Absent {
			return true
		}
	}
	return false
}
