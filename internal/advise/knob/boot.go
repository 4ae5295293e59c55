package knob

import (
	"fmt"
	"strings"
	"time"

	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// Needs returns what must happen before a change of an address takes effect, as far as its kind tells.
func Needs(a setting.Address) setting.Needs {
	if a.Kind.AtBoot() {
		return setting.Reboot()
	}
	return setting.Needs{}
}

func bootArgument(name string) setting.Address { return setting.Of(setting.KernelArg, name) }

func bootArguments(names ...string) func(*facts.Host) []setting.Address {
	all := make([]setting.Address, len(names))
	for i, name := range names {
		all[i] = bootArgument(name)
	}
	return fixed(all...)
}

// runningReading returns what the command line of the running kernel says at the address of a kernel argument.
func (v *View) runningReading(a setting.Address) setting.Reading {
	if v.Kernel.CommandLine == "" {
		return setting.CouldNotTell("the running kernel's command line is not known")
	}
	return setting.ParseCommandLine(v.Kernel.CommandLine).Get(a.Path)
}

// runningArgument returns the value of an argument of the running kernel; false if it is not given.
func (v *View) runningArgument(name string) (string, bool) {
	r := v.runningReading(bootArgument(name))
	return r.Value, r.State == setting.Known
}

// atBoot is advice on a kernel argument for the next boot. If only the running kernel lacks the value, it says so.
func (v *View) atBoot(a setting.Address, want setting.Want, because string) Advice {
	advice := Wants(want, because)
	advice.Needs = setting.Reboot()
	if want.Met(v.Readings.At(a)) {
		if running := v.runningReading(a); running.State != setting.Unknown && !want.Met(running) {
			advice.Because = v.pendingReboot(a, running)
		}
	}
	return advice
}

// fineAtBoot is advice that the argument of the next boot is fine.
func (v *View) fineAtBoot(a setting.Address, because string) Advice {
	if running := v.runningReading(a); running.State != setting.Unknown && !running.Same(v.Readings.At(a)) {
		because = v.pendingReboot(a, running) + "; " + because
	}
	return Fine(because)
}

func (v *View) pendingReboot(a setting.Address, running setting.Reading) string {
	return fmt.Sprintf("waiting for a reboot: the running kernel has %s %s", strings.ReplaceAll(a.Path, "+", " and "),
		running)
}

// version returns the major and minor number of a kernel release.
func version(release string) (major, minor int, ok bool) {
	n, err := fmt.Sscanf(release, "%d.%d", &major, &minor)
	return major, minor, err == nil && n == 2 && major >= 0 && minor >= 0
}

// since reports whether a release is at least a version. A release that cannot be parsed counts as new.
func since(release string, major, minor int) bool {
	x, y, ok := version(release)
	return !ok || x > major || x == major && y >= minor
}

const unmapped = "every buffer of the host's own NICs is mapped and unmapped"

var bootIOMMU = &Knob{
	ID: "boot.iommu", Title: "IOMMU on, and out of the host's own way",
	Parts: map[string]Limit{"iommu": onX86, "intel_iommu": onIntel, "iommu.passthrough": onARM64},
	Stage: datapath.Kernel, Risk: goal.Reboot, After: []string{"firmware.vt_d"}, Tiers: tiers(goal.Passthrough),
	Where: bootArguments("iommu", "intel_iommu", "iommu.passthrough"),
	Want: func(v *View, a setting.Address) Advice {
		if a.Path == "iommu.passthrough" {
			if v.Firmware.Groups == 0 {
				return Unsure("the kernel uses no IOMMU here, or its groups cannot be seen: iommu_groups is empty")
			}
			return v.atBoot(a, setting.Any("1", "y", "Y", "on"), unmapped).At(Medium)
		}
		if a.Path == "iommu" {
			if value, given := v.runningArgument("iommu.passthrough"); given && value == "1" {
				return v.fineAtBoot(a, "iommu.passthrough=1 is the same")
			}
			return v.atBoot(a, setting.Exact("pt"), unmapped).At(Medium)
		}
		if next := v.Readings.At(a); next.State == setting.Absent && v.Firmware.Groups > 0 {
			if _, given := v.runningArgument("intel_iommu"); !given {
				return v.fineAtBoot(a, "the running kernel uses the IOMMU by itself")
			}
		}
		return v.atBoot(a, setting.Any("on", "on,sm_on", "sm_on,on"),
			"the kernel does not use Intel's IOMMU unless it is told to").At(Critical)
	},
}

// pollBelow is the wake-up latency below which polling is worth its power: leaving a halt that the processor ends by
// itself (C1) takes about 2 µs, and the way out of the kernel's idle loop as much again.
const pollBelow = 20 * time.Microsecond

var bootIdle = &Knob{
	ID: "boot.idle", Title: "Idle CPUs poll", Stage: datapath.Kernel, Risk: goal.Reboot, Tiers: tiers(goal.Realtime),
	Limit: onX86,
	Where: bootArguments("idle"),
	Want: func(v *View, a setting.Address) Advice {
		next := v.Readings.At(a)
		if v.Goal.Latency > pollBelow && !setting.Exact("poll").Met(next) {
			return v.fineAtBoot(a, fmt.Sprintf("a wake-up within %v does not need polling: cpu.latency is enough, and "+
				"can be taken back", v.Goal.Latency))
		}
		advice := v.atBoot(a, setting.Exact("poll"), "waking a CPU up takes a good part of the target")
		advice.Warning = "all CPUs draw full power, and turbo drops"
		if v.Topology.SMT == "on" {
			advice.Warning += "; SMT is on: a polling thread takes half of its sibling's core"
		}
		return advice
	},
}

var bootPstate = &Knob{
	ID: "boot.pstate", Title: "The clock is set by a plain driver",
	Limit: onIntel,
	Stage: datapath.Kernel, Risk: goal.Reboot, Tiers: tiers(goal.Realtime),
	Where: bootArguments("intel_pstate"),
	Want: func(v *View, a setting.Address) Advice {
		switch driver := v.Power.ScalingDriver; {
		case setting.Exact("disable").Met(v.Readings.At(a)):
			return v.atBoot(a, setting.Exact("disable"), "the plain driver is chosen")
		case driver == "":
			return v.fineAtBoot(a, "no cpufreq here: the clock is the firmware's or the hypervisor's business")
		case driver != "intel_pstate" && driver != "intel_cpufreq":
			return v.fineAtBoot(a, "the clock is set by "+driver)
		}
		return v.atBoot(a, setting.Exact("disable"), v.Power.ScalingDriver+" moves the clock by itself").At(Low)
	},
}

var bootCstate = &Knob{
	ID: "boot.cstate", Title: "No idle state deeper than C1",
	Limit: onX86, Parts: map[string]Limit{"intel_idle.max_cstate": onIntel},
	Stage: datapath.Kernel, Risk: goal.Reboot, Tiers: tiers(goal.Realtime),
	Where: bootArguments("processor.max_cstate", "intel_idle.max_cstate"),
	Want: func(v *View, a setting.Address) Advice {
		now, _ := v.runningArgument("idle")
		if next := v.Readings.At(bootArgument("idle")); now == "poll" && next.Value == "poll" {
			return v.fineAtBoot(a, "idle=poll: no C-state is entered")
		}
		if a.Path == "processor.max_cstate" {
			return v.atBoot(a, setting.Any("1", "0"),
				"the kernel enters states that take longer to leave than the target")
		}
		return v.atBoot(a, setting.Exact("0"), "intel_idle has its own list of states and ignores processor.max_cstate")
	},
}

var bootASPM = &Knob{
	ID: "boot.aspm", Title: "PCIe links do not sleep",
	Stage: datapath.Kernel, Risk: goal.Reboot, Tiers: tiers(goal.Aggressive, goal.Passthrough, goal.Realtime),
	Where: bootArguments("pcie_aspm.policy", "pcie_aspm"),
	Want: func(v *View, a setting.Address) Advice {
		if a.Path == "pcie_aspm" {
			if v.Readings.At(a).Value == "off" {
				return v.atBoot(a, setting.NotThere(),
					"pcie_aspm=off leaves what the firmware set up, and takes pcie_aspm.policy out of force").At(Low)
			}
			return v.fineAtBoot(a, "the kernel looks after link states")
		}
		return v.atBoot(a, setting.Exact("performance"),
			"a link that sleeps between packets makes the next one wait").At(Low)
	},
}

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
			return v.atBoot(a, setting.Any("nowatchdog", "reliable"), "a watchdog interrupts each CPU in turn").At(Low)
		}
		return Skips("the clocksource is " + v.Kernel.Clocksource + ": the kernel does not trust the TSC here, and " +
			"neither should anybody else")
	},
}

var bootMCE = &Knob{
	ID: "boot.mce", Title: "Machine checks are not looked for",
	Limit: onX86,
	Stage: datapath.Kernel, Risk: goal.Data, Tiers: tiers(goal.Realtime),
	Where: bootArguments("mce"),
	Want: func(v *View, a setting.Address) Advice {
		if v.Readings.At(a).Value == "ignore_ce" {
			return v.fineAtBoot(a, "corrected errors are not looked for, others are still handled")
		}
		advice := v.atBoot(a, setting.Any("ignore_ce", "off"),
			"a timer asks each CPU for corrected errors, isolated ones too").At(Info)
		advice.Warning = "hides hardware faults that were corrected; what cannot be corrected is still handled"
		return advice
	},
}

var bootQuiet = &Knob{
	ID: "boot.quiet", Title: "The boot shows its messages",
	Stage: datapath.Kernel, Risk: goal.Reboot, Tiers: tiers(goal.Aggressive, goal.Passthrough, goal.Realtime),
	Where: bootArguments("quiet", "rhgb"),
	Want: func(v *View, a setting.Address) Advice {
		return v.atBoot(a, setting.NotThere(), "the console does not show what went wrong in a boot").At(Info)
	},
}
