package knob

import (
	"mpps/internal/model/datapath"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

var bootTSC = &Knob{
	ID: "boot.tsc", Title: "The TSC is trusted as it is",
	Limit: onX86,
	Stage: datapath.Kernel, Risk: goal.Reboot, Tiers: tiers(goal.Realtime),
	Where: bootArguments("tsc"),
	Want: func(v *View, a setting.Address) Advice {
		switch v.Kernel.Clocksource {
		case "":
			return Unsure("the clocksource is not known")
		case "tsc":
			return v.judgeTSC(a)
		}
		return Skips("the clocksource is " + v.Kernel.Clocksource + ": the kernel does not trust the TSC here, and " +
			"neither should anybody else")
	},
}

// judgeTSC judges the watchdog of a TSC that is the clocksource. The kernel switches it off by itself where the TSC
// runs at a constant rate in every state, cannot be written unnoticed, and few packages share it
// (arch/x86/kernel/tsc.c, check_system_tsc_reliable): at first on two NUMA nodes, since 6.6 on four, since 6.11 on
// four packages.
func (v *View) judgeTSC(a setting.Address) Advice {
	packages, nodes := v.Topology.Counts.Packages, v.Topology.Counts.NUMANodes
	most := 2
	if since(v.Kernel.Release, 6, 6) {
		most = 4
	}
	few := nodes > 0 && nodes <= most || since(v.Kernel.Release, 6, 11) && packages > 0 && packages <= 4
	flagged := v.Topology.Processor.Has
	given := setting.Any("nowatchdog", "reliable").Met(v.Readings.At(a))
	switch {
	case !given && flagged("tsc_reliable"):
		return v.fineAtBoot(a, "the kernel trusts this TSC by itself")
	case !given && few && since(v.Kernel.Release, 5, 17) && flagged("constant_tsc", "nonstop_tsc", "tsc_adjust"):
		return v.fineAtBoot(a, "the kernel does not watch this TSC: it is constant, does not stop, and has TSC_ADJUST")
	case !given && packages > 4:
		return v.fineAtBoot(a, "more than four packages share the TSC, and the kernel watches it for good reason")
	}
	return v.atBoot(a, v.unwatched(), "a watchdog interrupts each CPU in turn").At(Low).
		warn("a TSC that goes wrong is no longer noticed: the time is wrong instead")
}

// unwatched returns the values of tsc= that end the watchdog, the one to write first. Kernels before 5.2 ignore
// nowatchdog silently (arch/x86/kernel/tsc.c, tsc_setup); those of EL 8 may have it.
func (v *View) unwatched() setting.Want {
	switch {
	case since(v.Kernel.Release, 5, 2):
		return setting.Any("nowatchdog", "reliable")
	case enterprise.MatchString(v.Kernel.Release):
		return setting.Any("reliable", "nowatchdog")
	}
	return setting.Exact("reliable")
}
