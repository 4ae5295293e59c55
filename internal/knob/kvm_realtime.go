package knob

import (
	"strings"

	"mpps/internal/datapath"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

var kvmPLEGap = &Knob{
	ID: "kvm.ple_gap", Title: "A spinning vCPU is not thrown out", Stage: datapath.KVM, Risk: goal.GuestRestart,
	Tiers: tiers(goal.Realtime),
	Doc: Doc{
		Want: "0 for realtime; on AMD pause_filter_count 0",
		Why: "The processor leaves a guest that executes PAUSE many times close together (ple_gap cycles apart), on the guess that it waits for a lock whose holder is not running. " +
			"With a CPU for each vCPU the holder always runs: the exit, some microseconds long, only delays the guest, a polling one (DPDK, idle=poll) again and again.",
		Cost:   "Overcommitted guests on the same host burn their time slices in spin locks.",
		Verify: "/sys/module/kvm_intel/parameters/ple_gap is 0; PAUSE exits in perf kvm stat vanish.",
		Traps: []string{
			"A load-time parameter of kvm_intel: the module must be loaded anew with all guests shut down (modprobe.d: options kvm_intel ple_gap=0).",
			"AMD's counterpart is pause_filter_count of kvm_amd, which is 0 to switch it off.",
			"ple_window alone does not switch it off, it only makes exits rarer, and grows and shrinks by itself.",
		},
		Sources: []Source{
			{"0 switches it off; read at load", "arch/x86/kvm/vmx/vmx.c, module_param(ple_gap, uint, 0444)"},
			{"AMD", "arch/x86/kvm/svm/svm.c, module_param(pause_filter_count, ushort, 0444)"},
			{"0 for realtime", "founding experience; TuneD, realtime-virtual-host"},
		},
	},
	Where: func(h *facts.Host) []setting.Address {
		switch h.KVM.Vendor {
		case "kvm_intel":
			return []setting.Address{setting.Of(setting.ModuleParam, "kvm_intel", "ple_gap")}
		case "kvm_amd":
			return []setting.Address{setting.Of(setting.ModuleParam, "kvm_amd", "pause_filter_count")}
		}
		return nil
	},
	Want: func(v *View, a setting.Address) Advice {
		return Wants(setting.Exact("0"), "a guest that polls is thrown out every few thousand cycles on the guess that it waits for somebody").At(Low)
	},
}

var kvmClockSync = &Knob{
	ID: "kvm.kvmclock_periodic_sync", Title: "No periodic correction of the guests' clock", Stage: datapath.KVM, Risk: goal.GuestRestart,
	Tiers: tiers(goal.Realtime),
	Doc: Doc{
		Want: "N for realtime",
		Why: "Every five minutes KVM updates the clock pages of all guests so that their kvmclock follows the host's NTP corrections. The update interrupts every vCPU of every guest. " +
			"A guest that keeps time by TSC does not look at the page.",
		Cost:   "Guests on kvmclock drift from the host's corrected time until they correct themselves (chrony, PTP).",
		Verify: "/sys/module/kvm/parameters/kvmclock_periodic_sync is N; no spike every 300 s in a long cyclictest.",
		Traps: []string{
			"A load-time parameter of the module kvm: all guests down, modprobe -r kvm_intel kvm, then again.",
			"A ten-minute latency test sees it twice: a short one misses it.",
		},
		Sources: []Source{
			{"every 300 s", "arch/x86/kvm/x86.c, KVMCLOCK_SYNC_PERIOD, kvmclock_sync_fn"},
			{"read at load", "arch/x86/kvm/x86.c, module_param(kvmclock_periodic_sync, bool, 0444)"},
			{"off for realtime", "founding experience"},
		},
	},
	Where: fixed(setting.Of(setting.ModuleParam, "kvm", "kvmclock_periodic_sync")),
	Want: func(v *View, a setting.Address) Advice {
		return Wants(setting.Any("N", "0"), "every five minutes all vCPUs are interrupted to correct a clock that a guest on TSC does not use").At(Low)
	},
}

var kvmNXHugePages = &Knob{
	ID: "kvm.nx_huge_pages", Title: "Huge pages of guests stay whole", Stage: datapath.KVM, Risk: goal.Security,
	Tiers: tiers(goal.Realtime),
	Doc: Doc{
		Want: "N for realtime; on processors that are affected only with consent",
		Why: "On Intel processors with the iTLB multihit erratum KVM maps huge pages not executable and splits one at the guest's first instruction fetch from it; a worker thread puts them together again over time. " +
			"Splitting and mending stop the guest for a moment, and code runs from small pages.",
		Cost:   "On affected processors a guest can hang the whole host on purpose (a machine check). Never with guests of others.",
		Verify: "/sys/module/kvm/parameters/nx_huge_pages is N; nx_lpage_splits in /sys/kernel/debug/kvm stays 0.",
		Traps: []string{
			"auto is the default and means off where the processor is not affected: look at itlb_multihit among the vulnerabilities first. There is then nothing to gain.",
			"A change concerns guests from their next start; until then their pages stay as they are mapped, except that the recovery worker's period counts at once.",
			"\"never\" can only be said at load time, and then bars every later change.",
			"nx_huge_pages_recovery_ratio=0 is the milder choice: split pages stay split, and the worker that mends them never runs.",
		},
		Sources: []Source{
			{"erratum and mitigation", "Documentation/admin-guide/hw-vuln/multihit.rst"},
			{"writable at run time, new for each virtual machine", "arch/x86/kvm/mmu/mmu.c, nx_huge_pages_ops, set_nx_huge_pages"},
			{"with consent for realtime", "founding experience"},
		},
	},
	Where: fixed(setting.Of(setting.ModuleParam, "kvm", "nx_huge_pages")),
	Want: func(v *View, a setting.Address) Advice {
		state, told := v.Kernel.Vulnerabilities["itlb_multihit"]
		reading := v.Readings.At(a)
		if told && strings.HasPrefix(state, "Not affected") && reading.State == setting.Known && reading.Value != "Y" {
			return Fine("the processor is not affected by iTLB multihit, and huge pages stay whole")
		}
		because := "huge pages are split when the guest runs code from them, and mended by a worker"
		if told {
			because += " (itlb_multihit: " + state + ")"
		}
		advice := Wants(setting.Any("N", "never"), because).At(Low)
		if told && strings.HasPrefix(state, "Not affected") {
			advice.Risk = goal.None
			return advice
		}
		return advice.warn("a guest can then hang this host on purpose, if its processor has the erratum")
	},
}
