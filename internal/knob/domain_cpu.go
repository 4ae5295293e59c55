package knob

import (
	"strconv"
	"strings"

	"mpps/internal/datapath"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

var domainCPUModel = &Knob{
	ID: "domain.cpu_model", Title: "The guest sees the host's own processor", Stage: datapath.Domain, Risk: goal.GuestRestart,
	Tiers: pinned(),
	Doc: Doc{
		Want: "host-passthrough with cache passthrough; on AMD with QEMU before 3.1 host-model",
		Why: "host-passthrough gives the guest every instruction and the true model, so that its kernel and libraries take their fast ways (checksums, memory copies, crypto) and its mitigations fit the processor. " +
			"<cache mode='passthrough'/> shows it the real caches, which size its data structures.",
		Cost:   "Live migration only between hosts with the same processor, microcode and nearly the same kernel.",
		Verify: "In the guest: lscpu shows the host's model name, flags and L3.",
		Traps: []string{
			"AMD with QEMU before 3.1: host-passthrough without topoext shows a topology that is wrong, and caches that do not fit it; host-model is right there.",
			"libvirt's default, without <cpu>, is qemu64 or kvm64: no AVX, no AES, no x2APIC flag.",
			"<cache mode='passthrough'/> is accepted with host-passthrough only.",
			"migratable='on', the default, hides flags that cannot be migrated, invtsc among them: a guest that must keep time by TSC needs it off or asks for invtsc.",
		},
		Sources: []Source{
			{"modes and cache", "libvirt formatdomain, \"CPU model and topology\""},
			{"topoext with QEMU 3.1", "QEMU target/i386/cpu.c, TOPOEXT of -cpu host"},
			{"host-passthrough with cache passthrough; host-model on AMD with QEMU below 3.1", "founding measurements"},
		},
	},
	Where: eachGuest(managed, inDefinition("cpu/mode", "cpu/cache.mode")),
	Want: func(v *View, a setting.Address) Advice {
		g, advice, ok := v.guest(a)
		if !ok {
			return advice
		}
		if emulated(g) {
			return Skips("its processor is emulated (domain type qemu): there is none to pass through")
		}
		old, known := v.oldQEMU(3, 1)
		if v.Topology.Vendor == "AuthenticAMD" || v.KVM.Vendor == "kvm_amd" {
			if known && old {
				if a.Rest() == "cpu/cache.mode" {
					return Skips("with QEMU before 3.1 on AMD the guest is not shown the real caches")
				}
				return Wants(setting.Any("host-model", "custom"), "QEMU before 3.1 shows a wrong topology with host-passthrough on AMD").At(Medium).restart(g.Name)
			}
		}
		if a.Rest() == "cpu/mode" {
			return Wants(setting.Any("host-passthrough", "maximum"), "the guest does without instructions that this processor has").At(Medium).restart(g.Name).
				warn("it can then be migrated live only to hosts with the same processor")
		}
		if mode := v.Readings.At(setting.Of(setting.Domain, g.Name, "cpu/mode")); mode.State == setting.Known && mode.Value == "custom" {
			return Skips("only with host-passthrough: cpu/mode comes first")
		}
		return Wants(setting.Any("passthrough", "emulate"), "the guest sizes its data structures by caches that are not those of this processor").At(Info).restart(g.Name)
	},
}

// emulated tells whether a guest's definition says that it runs without KVM.
func emulated(g *facts.Guest) bool {
	_, tag, found := strings.Cut(g.Definition, "<domain")
	tag, _, _ = strings.Cut(tag, ">")
	return found && (strings.Contains(tag, "type='qemu'") || strings.Contains(tag, `type="qemu"`))
}

// oldQEMU tells whether QEMU is older than a version, and whether that is known.
func (v *View) oldQEMU(major, minor int) (old, known bool) {
	parts := strings.SplitN(v.KVM.QEMU, ".", 3)
	if len(parts) < 2 {
		return false, false
	}
	is, err := strconv.Atoi(parts[0])
	if err != nil {
		return false, false
	}
	sub, err := strconv.Atoi(parts[1])
	if err != nil {
		return false, false
	}
	return is < major || is == major && sub < minor, true
}

// hypervFeatures are the enlightenments that cost nothing, in the order in which they need each other: synthetic timers
// need the synthetic interrupt controller, which needs the vCPU index, and the reference clock.
var hypervFeatures = []string{
	"clock/timer/hypervclock.present", "features/hyperv/relaxed.state", "features/hyperv/vapic.state", "features/hyperv/vpindex.state",
	"features/hyperv/runtime.state", "features/hyperv/synic.state", "features/hyperv/stimer.state",
}

var domainHyperV = &Knob{
	ID: "domain.hyperv", Title: "Windows guests get the enlightenments of Hyper-V", Stage: datapath.Domain, Risk: goal.GuestRestart,
	Tiers: pinned(),
	Doc: Doc{
		Want: "on, for Windows guests",
		Why: "Windows knows how to be a guest of Hyper-V: it reads the time from a page, ends interrupts by a word in memory and leaves out watchdogs. Without these it reads a timer device and leaves the guest for each, thousands of times a second. " +
			"hypervclock alone takes most of an idle Windows guest's load away.",
		Cost:   "Software that refuses to run in virtual machines sees one; for that, <kvm><hidden state='on'/> and <vendor_id> exist, and are set where somebody asks for them.",
		Verify: "virsh dumpxml NAME: features/hyperv; exits in perf kvm stat fall (port I/O to the ACPI timer, 0x608, vanishes).",
		Traps: []string{
			"stimer without synic, vpindex and hypervclock is refused at the guest's start: they are set in that order.",
			"Linux guests use kvmclock and their own paravirtual interrupts: the enlightenments bring them nothing.",
			"Changed hardware can make Windows ask for activation.",
			"vapic and synic keep AMD's AVIC and Intel's APICv from working unless hv-avic is given, with QEMU from 6.2 on.",
		},
		Sources: []Source{
			{"enlightenments and what they need", "QEMU docs/system/i386/hyperv.rst"},
			{"elements", "libvirt formatdomain, \"Hypervisor features\" and \"Time keeping\""},
			{"for Windows guests; hidden state where asked", "founding experience"},
		},
	},
	Where: eachGuest(func(g *facts.Guest) bool { return managed(g) && windows(g) }, inDefinition(hypervFeatures...)),
	Want: func(v *View, a setting.Address) Advice {
		g, advice, ok := v.guest(a)
		if !ok {
			return advice
		}
		if emulated(g) {
			return Skips("its processor is emulated (domain type qemu): only KVM has these")
		}
		value := "on"
		if strings.HasSuffix(a.Path, ".present") {
			value = "yes"
		}
		return Wants(setting.Exact(value), "Windows reads timers and ends interrupts by leaving the guest, which this saves").At(Medium).restart(g.Name)
	},
}

var domainKVMClock = &Knob{
	ID: "domain.kvmclock", Title: "The guest keeps time by the processor's own counter", Stage: datapath.Domain, Risk: goal.GuestRestart,
	After: []string{"domain.invtsc"}, Tiers: tiers(goal.Realtime),
	Doc: Doc{
		Want:   "not present for realtime, where the host's clock is the TSC",
		Why:    "Without kvmclock the guest takes the TSC as its clock: one instruction, no page that the host updates, no correction that stops all vCPUs (kvm.kvmclock_periodic_sync).",
		Cost:   "The guest's clock no longer follows the host's: it needs chrony or PTP of its own. After live migration to a host with another TSC frequency time runs wrong unless the processor scales it.",
		Verify: "In the guest: /sys/devices/system/clocksource/clocksource0/current_clocksource says tsc. If it says hpet or acpi_pm the change has made it worse: put kvmclock back.",
		Traps: []string{
			"The guest takes the TSC only if it believes it: with migratable CPU models invtsc is hidden, and the kernel may mark the TSC unstable and fall back to hpet or acpi_pm, each read of which leaves the guest.",
			"kvmclock present='no' is for realtime guests: for others kvmclock is good, and its vDSO reads nearly as fast.",
			"tsc=reliable in the guest keeps its watchdog from throwing the TSC out (boot.tsc tells the softer way).",
		},
		Sources: []Source{
			{"timer element", "libvirt formatdomain, \"Time keeping\""},
			{"when Linux trusts the TSC", "arch/x86/kernel/tsc.c, unsynchronized_tsc, check_system_tsc_reliable"},
			{"off for realtime; check that the guest falls back to tsc", "founding experience"},
		},
	},
	Where: eachGuest(managed, inDefinition("clock/timer/kvmclock.present")),
	Want: func(v *View, a setting.Address) Advice {
		g, advice, ok := v.guest(a)
		if !ok {
			return advice
		}
		if windows(g) || emulated(g) {
			return Skips("a guest of Windows, or without KVM, does not use kvmclock")
		}
		if v.Kernel.Clocksource != "" && v.Kernel.Clocksource != "tsc" {
			return Skips("the host itself does not trust its TSC (clocksource " + v.Kernel.Clocksource + "): the guest would fall back to a slow clock")
		}
		return Wants(setting.Exact("no"), "the host's corrections of the guest's clock stop its vCPUs").At(Low).restart(g.Name).
			warn("look in the guest afterwards that its clock source is tsc, not hpet or acpi_pm")
	},
}
