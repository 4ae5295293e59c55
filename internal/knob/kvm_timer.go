package knob

import (
	"strings"

	"mpps/internal/datapath"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

var kvmTimerAdvance = &Knob{
	ID: "kvm.timer_advance", Title: "A guest's timer is set off early", Stage: datapath.KVM, Risk: goal.GuestRestart, Tiers: tiers(goal.Realtime),
	Doc: Doc{
		Want: "Y, or lapic_timer_advance_ns -1 before Linux 6.10",
		Why: "Between the moment when a guest's timer is due and the guest's handling of it lies the way back into the guest, a few microseconds. KVM lets the host's timer go off earlier by that much and waits for the rest inside the kernel. " +
			"How much is learned for each vCPU while it runs.",
		Cost:   "The host's CPU spins for the rest, up to some microseconds for each timer.",
		Verify: "/sys/module/kvm/parameters/lapic_timer_advance is Y (lapic_timer_advance_ns -1); lapic_timer_advance_ns of a vCPU in /sys/kernel/debug/kvm/PID-*/vcpu* shows what was learned.",
		Traps: []string{
			"A value in nanoseconds measured once with tscdeadline_latency.flat, as old TuneD profiles wrote it, fits one processor at one clock. Since 5.1 KVM learns it (-1), since 6.10 no other value can be given; TuneD has dropped its own.",
			"The boolean is a load-time parameter: all guests shut down, then modprobe.d: options kvm lapic_timer_advance=1. lapic_timer_advance_ns counts for guests that are started afterwards.",
			"It is for the TSC-deadline timer: a guest that has none (tsc-deadline hidden) has no use of it.",
			"The gain is 3 or 4 µs: it does nothing about a worst case of hundreds.",
		},
		Sources: []Source{
			{"what it does, and -1", "arch/x86/kvm/lapic.c, __kvm_wait_lapic_expire, adjust_lapic_timer_advance; kernel commit c3941d9e0ccd (KVM: lapic: Allow user to disable adaptive tuning of timer advancement)"},
			{"a boolean, read only", "kernel commit 89a58812c48d (KVM: x86: Drop support for hand tuning APIC timer advancement from userspace)"},
			{"3 or 4 µs, and dropped", "TuneD pull request 288"},
		},
	},
	Where: fixed(setting.Of(setting.ModuleParam, "kvm", "lapic_timer_advance"), setting.Of(setting.ModuleParam, "kvm", "lapic_timer_advance_ns")),
	Want: func(v *View, a setting.Address) Advice {
		const late = "each of the guest's timers comes late by the way back into the guest"
		if strings.HasSuffix(a.Path, "_ns") {
			switch n, known := number(v.Readings.At(a)); {
			case known && n > 0:
				return Fine("somebody has measured it; since 5.1 the kernel learns it by itself (-1)")
			case known && n == 0 && !since(v.Kernel.Release, 5, 1):
				return Unsure("this kernel does not learn it by itself: measure it with tscdeadline_latency, or take a newer kernel")
			}
			return Wants(setting.Exact("-1"), late).At(Low)
		}
		return Wants(setting.Any("Y", "1"), late).At(Low)
	},
}
