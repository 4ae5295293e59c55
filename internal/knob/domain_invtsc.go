package knob

import (
	"mpps/internal/datapath"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

var domainInvTSC = &Knob{
	ID: "domain.invtsc", Stage: datapath.Domain, Risk: goal.GuestRestart,
	After: []string{"domain.cpu_model"}, Tiers: tiers(goal.Realtime),
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
