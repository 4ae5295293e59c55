package knob

import (
	"regexp"
	"strings"

	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

var domainCPUModel = &Knob{
	ID: "domain.cpu_model", Title: "The guest sees the host's own processor",
	Parts: map[string]Limit{"cpu/cache.mode": {Arch: []string{facts.X86}, Libvirt: "3.3", QEMU: "2.8"}},
	Stage: datapath.Domain, Risk: goal.GuestRestart, Tiers: pinned(),
	Where: eachGuest(managed, eachInDefinition("cpu/mode", "cpu/cache.mode")),
	Want: forGuest(func(v *View, g *facts.Guest, a setting.Address) Advice {
		if emulated(g) {
			return Skips("its processor is emulated (domain type qemu): there is none to pass through")
		}
		mode, model := v.cpuMode(g.Name)
		old, known := v.oldQEMU(3, 1)
		if v.Topology.Vendor == "AuthenticAMD" || v.KVM.Vendor == "kvm_amd" {
			switch {
			case !known || !old:
			case a.Rest() == "cpu/cache.mode":
				return Skips("with QEMU before 3.1 on AMD the guest is not shown the real caches")
			case mode == "custom":
				return Fine("a named model: QEMU before 3.1 shows a wrong topology only with host-passthrough on AMD")
			default:
				return exact("host-model", "QEMU before 3.1 shows a wrong topology with host-passthrough on AMD").
					At(Medium).restart(g.Name)
			}
		}
		kept := v.Tier == goal.Standard && mode == "custom" && !bareModel.MatchString(model)
		switch {
		case a.Rest() != "cpu/mode":
			// The cache mode follows the planned cpu/mode: see plan's dropCacheModes for one that the site file keeps.
		case kept:
			return Fine("somebody chose the model " + model + ", as for migration among several generations of " +
				"processors: the target can do without what this one has besides")
		default:
			good := setting.Any("host-passthrough", "maximum", "host-model")
			if v.Tier == goal.Realtime { // invtsc and hint-dedicated need it
				good = setting.Any("host-passthrough", "maximum")
			}
			return Wants(good, "the guest does without instructions that this processor has").At(Medium).
				restart(g.Name).warn("it can then be migrated live only to hosts with the same processor")
		}
		if kept || mode == "host-model" && v.Tier != goal.Realtime {
			return Skips("only with host-passthrough: the guest's cpu/mode is " + mode)
		}
		return Wants(setting.Any("passthrough", "emulate"), "the guest sizes its data structures by caches that are "+
			"not those of this processor").At(Info).restart(g.Name)
	}),
}

// bareModel matches QEMU's models that no processor had: they are what a definition without a model gets.
var bareModel = regexp.MustCompile(`^(qemu|kvm)(32|64)$|^cpu64-|^$`)

// cpuMode returns the mode of a guest's CPU, and for a custom one the name of its model.
func (v *View) cpuMode(guest string) (mode, model string) {
	r := v.Readings.At(setting.Of(setting.Domain, guest, "cpu/mode"))
	mode, rest, _ := strings.Cut(r.Value, " ")
	for word := range strings.FieldsSeq(rest) {
		if name, is := strings.CutPrefix(word, "model="); is {
			model = name
		}
	}
	return mode, model
}

// emulated reports whether a guest's definition runs it without KVM (domain type qemu).
func emulated(g *facts.Guest) bool {
	_, tag, found := strings.Cut(g.Definition, "<domain")
	tag, _, _ = strings.Cut(tag, ">")
	return found && (strings.Contains(tag, "type='qemu'") || strings.Contains(tag, `type="qemu"`))
}

// oldQEMU reports whether QEMU is older than a version, and whether its version is known.
func (v *View) oldQEMU(major, minor int) (old, known bool) {
	_, _, known = version(v.KVM.QEMU)
	return known && !since(v.KVM.QEMU, major, minor), known
}

var domainKVMClock = &Knob{
	ID: "domain.kvmclock", Title: "The guest keeps time by the processor's own counter",
	Limit: onX86,
	Stage: datapath.Domain, Risk: goal.GuestRestart, After: []string{"domain.invtsc"}, Tiers: tiers(goal.Realtime),
	Where: eachGuest(managed, eachInDefinition("clock/timer/kvmclock.present")),
	Want: forGuest(func(v *View, g *facts.Guest, a setting.Address) Advice {
		if windows(g) || emulated(g) {
			return Skips("a guest of Windows, or without KVM, does not use kvmclock")
		}
		if v.Kernel.Clocksource != "" && v.Kernel.Clocksource != "tsc" {
			return Skips("the host itself does not trust its TSC " +
				"(clocksource " + v.Kernel.Clocksource + "): the guest would fall back to a slow clock")
		}
		return exact("no", "the host's corrections of the guest's clock stop its vCPUs").At(Low).restart(g.Name).
			warn("look in the guest afterwards that its clock source is tsc, not hpet or acpi_pm")
	}),
}

var domainInvTSC = &Knob{
	ID: "domain.invtsc", Title: "The guest is shown that its TSC never stops",
	Limit: Limit{Arch: []string{facts.X86}, Libvirt: "6.5"},
	Stage: datapath.Domain, Risk: goal.GuestRestart, After: []string{"domain.cpu_model"}, Tiers: tiers(goal.Realtime),
	Where: eachGuest(managed, eachInDefinition("cpu/migratable")),
	Want: forGuest(func(v *View, g *facts.Guest, a setting.Address) Advice {
		switch {
		case emulated(g):
			return Skips("its processor is emulated (domain type qemu)")
		case v.Kernel.Clocksource != "" && v.Kernel.Clocksource != "tsc":
			return Skips("the host itself does not trust its TSC (clocksource " + v.Kernel.Clocksource + ")")
		}
		if advice, ok := v.hasHostCPU(g.Name); !ok {
			return advice
		}
		return exact("off", "the guest is not told that its TSC never stops, and may take a clock that is read "+
			"outside the guest").At(Low).restart(g.Name).byDefault("on").warn("it cannot be migrated live any more")
	}),
}

// hasHostCPU reports whether a guest has the host's own CPU model (host-passthrough), without which libvirt refuses
// some values. These are planned only once it has: a site may leave domain.cpu_model alone.
func (v *View) hasHostCPU(guest string) (Advice, bool) {
	mode := v.Readings.At(setting.Of(setting.Domain, guest, "cpu/mode"))
	if mode.State == setting.Known && (mode.Value == "host-passthrough" || mode.Value == "maximum") {
		return Advice{}, true
	}
	return Skips("only with host-passthrough: cpu/mode comes first (domain.cpu_model)"), false
}
