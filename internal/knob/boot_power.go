package knob

import (
	"fmt"
	"time"

	"mpps/internal/datapath"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

// pollBelow is the wake-up latency below which polling is worth its power: a halt that the processor ends by itself
// (C1) takes about 2 µs, and the kernel's way out of idle as much again.
const pollBelow = 20 * time.Microsecond

var bootIdle = &Knob{
	ID: "boot.idle", Title: "Idle CPUs poll", Stage: datapath.Kernel, Risk: goal.Reboot, Tiers: tiers(goal.Realtime),
	Doc: Doc{
		Want:   "poll for wake-ups within 20 µs; else as it is",
		Why:    "With idle=poll a CPU that has nothing to do runs in a loop and sees new work at once: no C-state, no interrupt to wake it up.",
		Cost:   "Each CPU draws its full power all the time. Turbo of the busy cores drops, since no core leaves them any; and with SMT a polling thread takes half of its sibling's core.",
		Verify: "/sys/devices/system/cpu/cpuidle/current_driver is none; turbostat shows Busy% 100 on idle CPUs.",
		Traps: []string{
			"cpu.latency (each CPU's pm_qos_resume_latency_us) does the same at run time, can be taken back, and is enough above 20 µs.",
			"Never with SMT on: see firmware.smt.",
			"kvm.halt_poll_ns should be 0 where the guest polls itself (idle=poll in the guest).",
			"idle=halt and idle=nomwait are other things.",
			bootTrap,
		},
		Sources: []Source{
			{"idle=", "Documentation/admin-guide/kernel-parameters.txt; arch/x86/kernel/process.c, idle_setup"},
			bootWritten,
		},
	},
	Where: bootArguments("idle"),
	Want: func(v *View, a setting.Address) Advice {
		next := v.Readings.At(a)
		if v.Goal.Latency > pollBelow && !setting.Exact("poll").Met(next) {
			return v.bootsFine(a, fmt.Sprintf("a wake-up within %v does not need polling: cpu.latency is enough, and can be taken back", v.Goal.Latency))
		}
		advice := v.boots(a, setting.Exact("poll"), "waking a CPU up takes a good part of the target")
		advice.Warning = "all CPUs draw full power, and turbo drops"
		if v.Topology.SMT == "on" {
			advice.Warning += "; SMT is on: a polling thread takes half of its sibling's core"
		}
		return advice
	},
}

var bootPstate = &Knob{
	ID: "boot.pstate", Title: "The clock is set by a plain driver", Stage: datapath.Kernel, Risk: goal.Reboot, Tiers: tiers(goal.Realtime),
	Doc: Doc{
		Want:   "disable on Intel, for realtime",
		Why:    "intel_pstate chooses the clock by its own algorithm, or leaves the choice to the processor (HWP). With intel_pstate=disable acpi-cpufreq takes over, whose performance governor sets one clock and leaves it there.",
		Cost:   "No HWP; the highest turbo steps can be out of reach, since acpi-cpufreq knows turbo as one state only.",
		Verify: "scaling_driver is acpi-cpufreq; turbostat's Bzy_MHz does not move.",
		Traps: []string{
			"With the performance governor in active mode intel_pstate holds the highest clock too: measure before giving HWP up.",
			"Where the firmware hides P-states from ACPI there is then no cpufreq at all: the clock is what the firmware chose.",
			"intel_pstate=passive keeps the driver and lets the kernel's governors work.",
			bootTrap,
		},
		Sources: []Source{
			{"values", "Documentation/admin-guide/pm/intel_pstate.rst"},
			{"intel_pstate=disable for realtime", "founding measurements"},
			bootWritten,
		},
	},
	Where: bootArguments("intel_pstate"),
	Want: func(v *View, a setting.Address) Advice {
		switch driver := v.Power.ScalingDriver; {
		case maker(v.Host) == "amd":
			return Skips("a driver for Intel's processors")
		case setting.Exact("disable").Met(v.Readings.At(a)):
			return v.boots(a, setting.Exact("disable"), "the plain driver is chosen")
		case maker(v.Host) == "":
			return Unsure("the processors' maker is not known")
		case driver == "":
			return v.bootsFine(a, "no cpufreq here: the clock is the firmware's or the hypervisor's business")
		case driver != "intel_pstate" && driver != "intel_cpufreq":
			return v.bootsFine(a, "the clock is set by "+driver)
		}
		return v.boots(a, setting.Exact("disable"), v.Power.ScalingDriver+" moves the clock by itself").At(Low)
	},
}

var bootCstate = &Knob{
	ID: "boot.cstate", Title: "No idle state deeper than C1", Stage: datapath.Kernel, Risk: goal.Reboot, Tiers: tiers(goal.Realtime),
	Doc: Doc{
		Want:   "processor.max_cstate=1, and on Intel intel_idle.max_cstate=0, for realtime",
		Why:    "Each deeper C-state takes longer to wake up from: C1 about 2 µs, C1E 10, C3 30 to 80, C6 up to 200. processor.max_cstate=1 keeps the ACPI driver at C1, and intel_idle.max_cstate=0 makes it the one in charge on Intel.",
		Cost:   "Power; turbo of single busy cores drops.",
		Verify: "cpupower idle-info: driver acpi_idle, states POLL and C1.",
		Traps: []string{
			"intel_idle ignores processor.max_cstate: without intel_idle.max_cstate=0 the other does nothing on Intel.",
			"intel_idle.max_cstate=0 alone switches to acpi_idle, which goes as deep as ACPI lists.",
			"cpu.latency does the same at run time.",
			bootTrap,
		},
		Sources: []Source{
			{"intel_idle.max_cstate=0 falls back on acpi_idle", "Documentation/admin-guide/kernel-parameters.txt; drivers/idle/intel_idle.c, intel_idle_init"},
			{"processor.max_cstate", "drivers/acpi/processor_idle.c, max_cstate"},
			bootWritten,
		},
	},
	Where: bootArguments("processor.max_cstate", "intel_idle.max_cstate"),
	Want: func(v *View, a setting.Address) Advice {
		if value, told := v.runningArgument("idle"); told && value == "poll" && v.Readings.At(bootArgument("idle")).Value == "poll" {
			return v.bootsFine(a, "idle=poll: no C-state is entered")
		}
		if a.Path == "processor.max_cstate" {
			return v.boots(a, setting.Any("1", "0"), "the kernel enters states that take longer to leave than the target")
		}
		switch maker(v.Host) {
		case "amd":
			return Skips("a driver for Intel's processors")
		case "":
			return Unsure("the processors' maker is not known")
		}
		return v.boots(a, setting.Exact("0"), "intel_idle has its own list of states and ignores processor.max_cstate")
	},
}

var bootASPM = &Knob{
	ID: "boot.aspm", Title: "PCIe links do not sleep", Stage: datapath.Kernel, Risk: goal.Reboot,
	Tiers: tiers(goal.Aggressive, goal.Passthrough, goal.Realtime),
	Doc: Doc{
		Want:   "pcie_aspm.policy=performance, and no pcie_aspm=off",
		Why:    "With active state power management a link goes to L0s or L1 when nothing crosses it for some microseconds, and the next packet waits until it is back: 1 to 100 µs. pcie_aspm.policy=performance makes the kernel switch it off on all links.",
		Cost:   "A few watts.",
		Verify: "/sys/module/pcie_aspm/parameters/policy shows [performance]; lspci -vv: LnkCtl says ASPM Disabled.",
		Traps: []string{
			"pcie_asmp=off, found in old instructions, is a misspelling of pcie_aspm that the kernel ignores silently: boot.lint finds it.",
			"pcie_aspm=off is not what is meant either: it tells the kernel to leave alone what the firmware set up, be it on or off, and pcie_aspm.policy is then refused.",
			"At run time 'echo performance > /sys/module/pcie_aspm/parameters/policy' does the same, where the firmware gave control to the kernel.",
			"Where the firmware keeps control (FADT, _OSC) the kernel touches nothing: switch ASPM off in the setup.",
			bootTrap,
		},
		Sources: []Source{
			{"off leaves the firmware's configuration", "Documentation/admin-guide/kernel-parameters.txt, pcie_aspm"},
			{"policy, and that off refuses it", "drivers/pci/pcie/aspm.c, pcie_aspm_set_policy, pcie_aspm_disable"},
			{"pcie_asmp=off", "founding measurements"},
			bootWritten,
		},
	},
	Where: bootArguments("pcie_aspm.policy", "pcie_aspm"),
	Want: func(v *View, a setting.Address) Advice {
		if a.Path == "pcie_aspm" {
			if v.Readings.At(a).Value == "off" {
				return v.boots(a, setting.NotThere(), "pcie_aspm=off leaves what the firmware set up, and takes pcie_aspm.policy out of force").At(Low)
			}
			return v.bootsFine(a, "the kernel looks after link states")
		}
		return v.boots(a, setting.Exact("performance"), "a link that sleeps between packets makes the next one wait").At(Low)
	},
}

var bootTSC = &Knob{
	ID: "boot.tsc", Title: "The TSC is trusted as it is", Stage: datapath.Kernel, Risk: goal.Reboot, Tiers: tiers(goal.Realtime),
	Doc: Doc{
		Want: "nowatchdog or reliable where the TSC is the clocksource already, for realtime",
		Why: "Every half second a watchdog compares the TSC with the HPET or the ACPI timer, on one CPU after the other: a timer interrupt on each, isolated ones too, and a slow read of the other clock. " +
			"And once in a while it takes a good TSC for a bad one under load, and all clocks become slow.",
		Cost:   "A TSC that does go wrong is no longer noticed: time runs wrong instead.",
		Verify: "current_clocksource is tsc; the kernel's log does not speak of a watchdog.",
		Traps: []string{
			"tsc=reliable takes all checks away, at boot too; tsc=nowatchdog is softer: it takes away only the watchdog. Only where the TSC is the clocksource already.",
			"From 5.17 on the watchdog is off by itself on machines with up to two sockets and TSC_ADJUST (b50db7095fe0).",
			"In a guest the clocksource may be kvm-clock: domain.kvmclock.",
			bootTrap,
		},
		Sources: []Source{
			{"reliable, nowatchdog", "Documentation/admin-guide/kernel-parameters.txt, tsc; arch/x86/kernel/tsc.c, tsc_setup"},
			{"watchdog on each CPU in turn", "kernel/time/clocksource.c, clocksource_watchdog"},
			bootWritten,
		},
	},
	Where: bootArguments("tsc"),
	Want: func(v *View, a setting.Address) Advice {
		switch v.Kernel.Clocksource {
		case "":
			return Unsure("the clocksource is not known")
		case "tsc":
			return v.boots(a, setting.Any("nowatchdog", "reliable"), "a watchdog interrupts each CPU in turn").At(Low)
		}
		return Skips("the clocksource is " + v.Kernel.Clocksource + ": the kernel does not trust the TSC here, and neither should anybody else")
	},
}

var bootMCE = &Knob{
	ID: "boot.mce", Title: "Machine checks are not looked for", Stage: datapath.Kernel, Risk: goal.Data, Tiers: tiers(goal.Realtime),
	Doc: Doc{
		Want:   "ignore_ce (or off, where somebody chose it), with consent, for realtime",
		Why:    "The kernel asks every CPU every few minutes for errors that the hardware corrected, by a timer that isolated CPUs have too, and handles interrupts for them (CMCI). With mce=ignore_ce it does neither, and still handles errors that cannot be corrected.",
		Cost:   "Hardware faults are hidden: failing memory goes on until an error can no longer be corrected. Only with --consent data.",
		Verify: "/sys/devices/system/machinecheck/machinecheck0/ignore_ce is 1; MCP in /proc/interrupts stands still.",
		Traps: []string{
			"mce=off is the old advice and more than is wanted: an error that cannot be corrected then stops or resets the host without a word. It is left where it stands, and never planned.",
			"check_interval in /sys/devices/system/machinecheck/machinecheckN sets the polling to 0 at run time.",
			bootTrap,
		},
		Sources: []Source{
			{"values", "Documentation/arch/x86/x86_64/boot-options.rst; arch/x86/kernel/cpu/mce/core.c, mcheck_enable"},
			{"mce=off for realtime guests", "founding measurements"},
			bootWritten,
		},
	},
	Where: bootArguments("mce"),
	Want: func(v *View, a setting.Address) Advice {
		if v.Readings.At(a).Value == "ignore_ce" {
			return v.bootsFine(a, "corrected errors are not looked for, others are still handled")
		}
		advice := v.boots(a, setting.Any("ignore_ce", "off"), "a timer asks each CPU for corrected errors, isolated ones too").At(Info)
		advice.Warning = "hides hardware faults that were corrected; what cannot be corrected is still handled"
		return advice
	},
}

var bootQuiet = &Knob{
	ID: "boot.quiet", Title: "The boot shows its messages", Stage: datapath.Kernel, Risk: goal.Reboot,
	Tiers: tiers(goal.Aggressive, goal.Passthrough, goal.Realtime),
	Doc: Doc{
		Want:   "neither quiet nor rhgb",
		Why:    "With rhgb quiet nothing of the boot is on the console. After a change of kernel arguments that is where a host says what went wrong: an argument that it does not know, huge pages that it did not get, an IOMMU that is off.",
		Cost:   "Messages on the console; on a slow serial console they delay the boot by seconds.",
		Verify: "/proc/cmdline has neither quiet nor rhgb.",
		Traps: []string{
			"It makes no packet faster.",
			"rhgb (Fedora, RHEL) and splash (Ubuntu) are for plymouth, not for the kernel.",
			bootTrap,
		},
		Sources: []Source{
			{"quiet", "Documentation/admin-guide/kernel-parameters.txt; init/main.c, quiet_kernel"},
			{"rhgb quiet dropped in all setups", "founding measurements"},
			bootWritten,
		},
	},
	Where: bootArguments("quiet", "rhgb"),
	Want: func(v *View, a setting.Address) Advice {
		return v.boots(a, setting.NotThere(), "the console does not show what went wrong in a boot").At(Info)
	},
}
