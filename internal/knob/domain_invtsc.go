package knob

import (
	"mpps/internal/datapath"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

var domainInvTSC = &Knob{
	ID: "domain.invtsc", Title: "The guest is shown that its TSC never stops", Stage: datapath.Domain, Risk: goal.GuestRestart,
	After: []string{"domain.cpu_model"}, Tiers: tiers(goal.Realtime),
	Doc: Doc{
		Want: "migratable='off' beside host-passthrough, for realtime",
		Why: "A guest takes the TSC for its clock only where the processor says that it runs on at any clock and in any idle state (invtsc, the flags constant_tsc and nonstop_tsc). " +
			"libvirt's host-passthrough is migratable by default, and hides what cannot follow a guest to another host: invtsc first of all. Without it and without kvmclock a guest may end on acpi_pm, each read of which leaves the guest.",
		Cost:   "No live migration, or only by hand to a host whose TSC has the same frequency.",
		Verify: "In the guest: constant_tsc and nonstop_tsc in /proc/cpuinfo; current_clocksource is tsc.",
		Traps: []string{
			"domain.kvmclock without this is what makes \"kvmclock present='no'\" a bad advice on some hosts: the guest falls back to hpet or acpi_pm.",
			"<feature policy='require' name='invtsc'/> does the same with other CPU modes, and on kernels and QEMUs that can scale the TSC the guest is still not migratable unless <timer name='tsc' frequency='…'/> stands there too.",
			"libvirt before 6.5 does not know the attribute, and drops it without a word.",
			"In the guest tsc=reliable makes the kernel believe a TSC of which it was told nothing: the flag is the better way.",
		},
		Sources: []Source{
			{"migratable", "libvirt formatdomain, \"CPU model and topology\"; QEMU target/i386/cpu.c, CPUID_APM_INVTSC in unmigratable_flags"},
			{"when Linux trusts the TSC", "arch/x86/kernel/tsc.c, unsynchronized_tsc, init_tsc_clocksource; arch/x86/kernel/kvm.c, kvmclock's rating below an invariant TSC"},
		},
	},
	Where: eachGuest(managed, inDefinition("cpu/migratable")),
	Want: func(v *View, a setting.Address) Advice {
		g, advice, ok := v.guest(a)
		switch {
		case !ok:
			return advice
		case emulated(g):
			return Skips("its processor is emulated (domain type qemu)")
		case v.Kernel.Clocksource != "" && v.Kernel.Clocksource != "tsc":
			return Skips("the host itself does not trust its TSC (clocksource " + v.Kernel.Clocksource + ")")
		}
		if advice, ok := v.hostsOwn(g.Name); !ok {
			return advice
		}
		return Wants(setting.Exact("off"), "the guest is not told that its TSC never stops, and may take a clock that is read outside the guest").At(Medium).restart(g.Name).otherwise("on").
			warn("it cannot be migrated live any more")
	},
}

// hostsOwn tells whether a guest's definition has the host's own processor, beside which alone libvirt takes some values. They are
// planned once it stands there: a site may leave domain.cpu_model alone.
func (v *View) hostsOwn(guest string) (Advice, bool) {
	mode := v.Readings.At(setting.Of(setting.Domain, guest, "cpu/mode"))
	if mode.State == setting.Known && (mode.Value == "host-passthrough" || mode.Value == "maximum") {
		return Advice{}, true
	}
	return Skips("only with host-passthrough: cpu/mode comes first (domain.cpu_model)"), false
}
