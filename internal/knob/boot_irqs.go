package knob

import (
	"fmt"

	"mpps/internal/datapath"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

// isolatedNext are the CPUs that are isolated from the next boot on: those that the three lists agree on, where all of the guests' CPUs
// are among them, else the guests' CPUs.
func (v *View) isolatedNext() setting.CPUSet {
	set, _ := v.dedicated()
	if next := v.Readings.At(bootArgument("isolcpus")); next.State == setting.Known {
		if _, cpus, ok := (isolation{}).parse(v, next.Value); ok && len(set.Minus(cpus)) == 0 && v.agree(cpus) {
			return cpus
		}
	}
	return set
}

var bootIRQAffinity = &Knob{
	ID: "boot.irqaffinity", Stage: datapath.Kernel, Risk: goal.Reboot, After: []string{"boot.isolcpus"},
	Tiers: tiers(goal.Realtime),
	Where: bootArguments("irqaffinity"),
	Want: func(v *View, a setting.Address) Advice {
		quiet := v.isolatedNext()
		loud := v.Topology.Online.Minus(quiet)
		switch {
		case len(quiet) == 0:
			return Unsure("the guests' CPUs are not known: name them with --cpus, or the guest with --guest")
		case len(loud) == 0:
			return Unsure("no CPU is left for the host, or the CPUs that are online are not known")
		}
		if next := v.Readings.At(a); next.State == setting.Known {
			if cpus, err := setting.ParseCPUs(next.Value); err == nil && len(cpus) > 0 && len(cpus.And(quiet)) == 0 {
				return v.bootsFine(a, fmt.Sprintf("none of the isolated CPUs %s is among them", quiet))
			}
		}
		return v.boots(a, setting.Exact(loud.String()), fmt.Sprintf("interrupts may begin on the isolated CPUs %s", quiet)).At(Medium)
	},
}

var bootSkewTick = &Knob{
	ID: "boot.skew_tick", Stage: datapath.Kernel, Risk: goal.Reboot, Tiers: tiers(goal.Realtime),
	Where: bootArguments("skew_tick"),
	Want: func(v *View, a setting.Address) Advice {
		return v.boots(a, setting.Exact("1"), "all CPUs' ticks come at once and wait for each other's locks").At(Low)
	},
}

var kernelClocksource = &Knob{
	ID: "kernel.clocksource", Stage: datapath.Kernel, Risk: goal.Reboot, Check: true, Tiers: tiers(goal.Realtime),
	Where: fixed(setting.Of(setting.Sysfs, "devices/system/clocksource/clocksource0/current_clocksource")),
	Want: func(v *View, a setting.Address) Advice {
		if v.inGuest() {
			return Skips("the clock of a virtual machine: guest.realtime speaks of it")
		}
		return Wants(setting.Exact("tsc"), "every wake-up reads the clock, and others than the TSC cost about a microsecond each time").At(High)
	},
}
