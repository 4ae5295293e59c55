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
	ID: "boot.irqaffinity", Title: "Interrupts begin on the host's CPUs", Stage: datapath.Kernel, Risk: goal.Reboot, After: []string{"boot.isolcpus"},
	Tiers: tiers(goal.Realtime),
	Doc: Doc{
		Want: "the CPUs that are not isolated, for realtime",
		Why: "An interrupt that a driver asks for may go to every CPU unless something says otherwise, and drivers ask for them early in the boot, before anybody can write default_smp_affinity. " +
			"irqaffinity= gives that default from the first interrupt on: nothing has to be moved off the isolated CPUs afterwards, and nothing lands there when a device is plugged later.",
		Cost:   "The host's CPUs serve all interrupts that the kernel does not place by itself.",
		Verify: "/proc/irq/default_smp_affinity is the mask of these CPUs after the boot; the isolated CPUs' columns of /proc/interrupts stand still.",
		Traps: []string{
			"isolcpus does not do it: its flag domain concerns the scheduler only, and managed_irq only interrupts that the kernel manages by itself (queues of NVMe and of some NICs).",
			"The kernel adds the CPU that it boots on, whatever is given.",
			"irqaffinity is the complement of isolcpus. Lists that overlap are the commonest contradiction of hand-made command lines: mpps writes both from the same CPUs.",
			"irqbalance spreads them over all CPUs again unless it knows which are isolated: nic.irqbalance.",
			"rt.irq_affinity is the same at run time, for interrupts that there are already.",
			bootTrap,
		},
		Sources: []Source{
			{"default of new interrupts; the boot CPU is added", "kernel/irq/irqdesc.c, irq_affinity_setup; Documentation/admin-guide/kernel-parameters.txt, irqaffinity"},
			{"managed_irq concerns managed interrupts alone", "kernel/irq/manage.c, irq_do_set_affinity; Documentation/admin-guide/kernel-parameters.txt, isolcpus"},
			bootWritten,
		},
	},
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
	ID: "boot.skew_tick", Title: "The CPUs' ticks do not come at the same moment", Stage: datapath.Kernel, Risk: goal.Reboot, Tiers: tiers(goal.Realtime),
	Doc: Doc{
		Want: "1 for realtime",
		Why: "All CPUs' ticks come at the same moment by default, and all of them then want the same locks: of the time, of RCU, of the load figures. A CPU waits for the others in a row, with interrupts off, as long as there are CPUs. " +
			"skew_tick=1 spreads the ticks over the period.",
		Cost:   "CPUs that sleep wake up one after the other instead of together: a little power.",
		Verify: "cat /proc/cmdline; in a trace of timer:hrtimer_expire_entry ticks of different CPUs are apart.",
		Traps: []string{
			"It counts for the CPUs that still have a tick, the host's: with nohz_full the isolated ones have none while one task runs, and have one whenever a second appears.",
			"It is not nohz=off and not skew of the clock: no time goes wrong.",
			bootTrap,
		},
		Sources: []Source{
			{"what it does", "kernel/time/tick-sched.c, skew_tick, tick_setup_sched_timer; Documentation/admin-guide/kernel-parameters.txt, skew_tick"},
			{"1 on realtime systems of many CPUs", "Red Hat Enterprise Linux for Real Time, Optimizing RHEL for Real Time, skew_tick"},
			bootWritten,
		},
	},
	Where: bootArguments("skew_tick"),
	Want: func(v *View, a setting.Address) Advice {
		return v.boots(a, setting.Exact("1"), "all CPUs' ticks come at once and wait for each other's locks").At(Low)
	},
}

var kernelClocksource = &Knob{
	ID: "kernel.clocksource", Title: "Time is read from the processor", Stage: datapath.Kernel, Risk: goal.Reboot, Check: true, Tiers: tiers(goal.Realtime),
	Doc: Doc{
		Want: "tsc",
		Why: "Every timer and every wake-up reads the clock. From the TSC that is some 20 ns; hpet and acpi_pm are read over a bus in about a microsecond each, one CPU after the other. " +
			"And KVM gives its guests a clock of their own (kvmclock's master clock, TSC scaling) only where the host itself keeps time by TSC.",
		Cost:   "None: the kernel takes the TSC by itself unless it found it wanting.",
		Verify: "/sys/devices/system/clocksource/clocksource0/current_clocksource is tsc; dmesg says why it is not (\"Marking clocksource 'tsc' as unstable\").",
		Traps: []string{
			"clocksource=tsc and tsc=reliable do not mend a TSC that the kernel threw out for good reason: cores drift apart, and time jumps. Look for a BIOS that writes the TSC (SMM), and update it.",
			"A TSC thrown out under heavy load, with a message of a read-back delay, was a victim of the watchdog: tsc=nowatchdog (boot.tsc).",
			"clocksource=hpet is old advice for machines before 2008, and left over on many command lines.",
			"PREEMPT_RT kernels refuse to load KVM without a constant TSC (\"kvm: RT requires X86_FEATURE_CONSTANT_TSC\").",
		},
		Sources: []Source{
			{"costs and checks", "arch/x86/kernel/tsc.c, check_system_tsc_reliable, mark_tsc_unstable; kernel/time/clocksource.c"},
			{"master clock", "arch/x86/kvm/x86.c, pvclock_update_vm_gtod_copy; Documentation/virt/kvm/x86/timekeeping.rst"},
			{"constant TSC for KVM on realtime kernels", "arch/x86/kvm/x86.c, kvm_x86_vendor_init"},
		},
	},
	Where: fixed(setting.Of(setting.Sysfs, "devices/system/clocksource/clocksource0/current_clocksource")),
	Want: func(v *View, a setting.Address) Advice {
		if v.inGuest() {
			return Skips("the clock of a virtual machine: guest.realtime speaks of it")
		}
		return Wants(setting.Exact("tsc"), "every wake-up reads the clock, and others than the TSC cost about a microsecond each time").At(High)
	},
}
