package knob

import (
	"fmt"
	"strings"

	"mpps/internal/facts"
	"mpps/internal/setting"
)

// Needs is what must happen before a change of an address takes effect, as far as its kind alone tells.
func Needs(a setting.Address) setting.Needs {
	if a.Kind.AtBoot() {
		return setting.Reboot()
	}
	return setting.Needs{}
}

// bootArgument is the address of a kernel argument.
func bootArgument(name string) setting.Address { return setting.Of(setting.KernelArg, name) }

// bootArguments lists addresses of kernel arguments.
func bootArguments(names ...string) func(*facts.Host) []setting.Address {
	all := make([]setting.Address, len(names))
	for i, name := range names {
		all[i] = bootArgument(name)
	}
	return fixed(all...)
}

// running is the reading that an argument's address would have on the command line of the running kernel.
func (v *View) running(a setting.Address) setting.Reading {
	if v.Kernel.CommandLine == "" {
		return setting.CouldNotTell("the running kernel's command line is not known")
	}
	return setting.ParseCommandLine(v.Kernel.CommandLine).Get(a.Path)
}

// runningArgument is the value of an argument of the running kernel.
func (v *View) runningArgument(name string) (string, bool) {
	r := v.running(bootArgument(name))
	return r.Value, r.State == setting.Known
}

// boots is advice that the kernel gets an argument at the next boot. Where it will, and the running kernel has not got it,
// that is said.
func (v *View) boots(a setting.Address, want setting.Want, because string) Advice {
	advice := Wants(want, because)
	advice.Needs = setting.Reboot()
	if want.Met(v.Readings.At(a)) {
		if running := v.running(a); running.State != setting.Unknown && !want.Met(running) {
			advice.Because = v.waits(a, running)
		}
	}
	return advice
}

// bootsFine is advice that what the kernel gets at the next boot is good.
func (v *View) bootsFine(a setting.Address, because string) Advice {
	if running := v.running(a); running.State != setting.Unknown && !running.Same(v.Readings.At(a)) {
		because = v.waits(a, running) + "; " + because
	}
	return Fine(because)
}

func (v *View) waits(a setting.Address, running setting.Reading) string {
	return fmt.Sprintf("waiting for a reboot: the running kernel has %s %s", strings.ReplaceAll(a.Path, "+", " and "), running)
}

// bootSources are facts that all kernel arguments share.
var bootWritten = Source{"how it is written", "grub-mkconfig (Debian: /etc/default/grub.d), grubby(8), kernel-install(8)"}

// bootTrap is what holds for all kernel arguments that mpps writes.
const bootTrap = "mpps writes it for the next boot and never reboots: until then 'mpps status' says that it waits. The boot loader's old files are kept below /var/lib/mpps/boot."

// version is the major and minor number of a kernel's release.
func version(release string) (major, minor int, ok bool) {
	n, err := fmt.Sscanf(release, "%d.%d", &major, &minor)
	return major, minor, err == nil && n == 2 && major >= 0 && minor >= 0
}

// since tells whether a release is of a version or later. A release that cannot be read is taken for a new one.
func since(release string, major, minor int) bool {
	x, y, ok := version(release)
	return !ok || x > major || x == major && y >= minor
}
