package knob

import (
	"strings"

	"mpps/internal/datapath"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

var rtMCE = &Knob{
	ID: "rt.mce", Title: "Corrected hardware errors are not looked for", Stage: datapath.Realtime, Risk: goal.Data, Tiers: realtime(),
	Doc: Doc{
		Want: "ignore_ce 1, with consent; check_interval as it is",
		Why: "Every five minutes by default, and more often once errors were found, a timer on each CPU reads all of its machine check banks for errors that the hardware has corrected: tens of microseconds on isolated CPUs too. " +
			"Processors that report them by interrupt (CMCI) interrupt the CPU for each. ignore_ce=1 stops both at run time and can be taken back; errors that cannot be corrected are handled as before.",
		Cost:   "Memory that begins to fail is not noticed before it fails: corrected errors are its warning. Only with --consent data.",
		Verify: "/sys/devices/system/machinecheck/machinecheck0/ignore_ce is 1; MCP in /proc/interrupts stands still.",
		Traps: []string{
			"mce=off is the old advice and far more than is wanted: it takes away the handling of errors that cannot be corrected too, and a fault then resets the host without a word. ignore_ce does what is meant, without a reboot (boot.mce).",
			"The files of all CPUs are one value: machinecheck0 speaks for all.",
			"check_interval=0 is the milder choice: no polling, while CMCI still reports. {id: rt.mce, address: \"sysfs:devices/system/machinecheck/machinecheck0/check_interval\", want: 0, reason: …} in the site file asks for it.",
			"rasdaemon and mcelog see nothing any more, and say nothing about that.",
			"Errors that the firmware handles first (firmware.enhanced_error_containment, SMIs) still stop all CPUs, for much longer.",
		},
		Sources: []Source{
			{"timer, interval, ignore_ce and CMCI", "arch/x86/kernel/cpu/mce/core.c, mce_timer_fn, set_ignore_ce, store_int_with_restart"},
			{"files", "Documentation/ABI/testing/sysfs-mce; Documentation/arch/x86/x86_64/machinecheck.rst"},
			{"ignore_ce 1 on realtime hosts", "TuneD, profiles/realtime/tuned.conf"},
			{"mce=off", "founding measurements"},
		},
	},
	Where: fixed(setting.Of(setting.Sysfs, "devices/system/machinecheck/machinecheck0/ignore_ce"), setting.Of(setting.Sysfs, "devices/system/machinecheck/machinecheck0/check_interval")),
	Want: func(v *View, a setting.Address) Advice {
		if strings.HasSuffix(a.Path, "check_interval") {
			return Fine("ignore_ce stops the polling too; 0 here is the milder choice")
		}
		return Wants(setting.Exact("1"), "a timer reads each CPU's error banks every few minutes, isolated CPUs' too").At(Low).
			warn("memory that begins to fail is no longer noticed by its corrected errors")
	},
}
