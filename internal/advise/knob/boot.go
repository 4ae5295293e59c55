package knob

import (
	"fmt"
	"strings"

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

var bootASPM = &Knob{
	ID: "boot.aspm", Title: "PCIe links do not sleep",
	Stage: datapath.Kernel, Risk: goal.Reboot, Tiers: tiers(goal.Aggressive, goal.Passthrough, goal.Realtime),
	Where: bootArguments("pcie_aspm.policy", "pcie_aspm"),
	Want: func(v *View, a setting.Address) Advice {
		if v.inGuest() {
			return Skips("a virtual machine (" + v.Virtual + ") has no links of its own")
		}
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
