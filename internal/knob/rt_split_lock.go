package knob

import (
	"mpps/internal/datapath"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

var rtSplitLock = &Knob{
	ID: "rt.split_lock", Title: "A guest is not put to sleep for a split lock", Stage: datapath.Realtime, Risk: goal.Security, Tiers: realtime(),
	Doc: Doc{
		Want: "0, with consent, for realtime",
		Why: "A locked instruction whose operand lies across two cache lines stops all CPUs' memory for about a microsecond. Intel's newer processors report it, and the kernel punishes whoever does it: the thread sleeps for 10 ms, and only one of all may go on at a time. " +
			"A vCPU is such a thread: a single such instruction of anything in the guest, an old library or a game's copy protection, is a hole of 10 ms and more.",
		Cost:   "A program or a guest that does it all the time slows the whole host down unpunished: never with guests of others.",
		Verify: "sysctl kernel.split_lock_mitigate is 0; dmesg still names who does it (\"x86/split lock detection: … took a split_lock trap\").",
		Traps: []string{
			"split_lock_detect=off on the command line takes the message away too, and needs a reboot; it is the wider of the two.",
			"Mend the program where it is the realtime work's own: a split lock costs every CPU of the host its time, with or without punishment.",
			"split_lock_detect=fatal kills QEMU for what its guest does.",
			"Where the processor does not report them (no split_lock_detect in /proc/cpuinfo) the value is there and does nothing.",
		},
		Sources: []Source{
			{"the punishment (5.19), and the switch (6.2)", "kernel commits b041b525dab9 (x86/split_lock: Make life miserable for split lockers) and 727209376f49 (x86/split_lock: Add sysctl to control the misery mode); arch/x86/kernel/cpu/bus_lock.c, split_lock_warn, sysctl_sld_mitigate; Documentation/admin-guide/sysctl/kernel.rst, split_lock_mitigate"},
			{"of a guest's locks too", "arch/x86/kvm/vmx/vmx.c, handle_exception_nmi; handle_guest_split_lock"},
		},
	},
	Where: fixed(setting.Of(setting.Sysctl, "kernel.split_lock_mitigate")),
	Want: func(v *View, a setting.Address) Advice {
		return Wants(setting.Exact("0"), "one split lock in the guest puts its vCPU to sleep for 10 ms").At(Low).
			warn("a guest that takes split locks on purpose slows the whole host down")
	},
}
