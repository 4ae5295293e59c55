package knob

import (
	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// Hyper-V's synthetic interrupt controller, the timers that need it, and hv-avic, which lets it work beside the
// processor's own delivery of interrupts.
const (
	hypervAVIC   = "features/hyperv/avic.state"
	hypervSynIC  = "features/hyperv/synic.state"
	hypervSTimer = "features/hyperv/stimer.state"
)

// hypervFeatures are the Hyper-V enlightenments that cost nothing, in order of dependency: synthetic timers need the
// synthetic interrupt controller, which needs the vCPU index, and the reference clock.
var hypervFeatures = []string{
	"clock/timer/hypervclock.present", "features/hyperv/relaxed.state", "features/hyperv/vapic.state",
	"features/hyperv/vpindex.state", "features/hyperv/runtime.state", hypervAVIC, hypervSynIC, hypervSTimer,
}

var domainHyperV = &Knob{
	ID: "domain.hyperv", Title: "Windows guests get the enlightenments of Hyper-V", Limit: onX86,
	Parts: map[string]Limit{
		"features/hyperv/vpindex.state": hypervSince("2.5"), "features/hyperv/runtime.state": hypervSince("2.5"),
		hypervSynIC: hypervSince("2.6"), hypervSTimer: hypervSince("2.6"),
	},
	Stage: datapath.Domain, Risk: goal.GuestRestart, Tiers: pinned(),
	Where: eachGuest(func(g *facts.Guest) bool { return managed(g) && windows(g) },
		eachInDefinition(hypervFeatures...)),
	Want: forGuest(func(v *View, g *facts.Guest, a setting.Address) Advice {
		if emulated(g) {
			return Skips("its processor is emulated (domain type qemu): only KVM has these")
		}
		value := "on"
		switch a.Rest() {
		case "clock/timer/hypervclock.present":
			value = "yes"
		case hypervAVIC:
			if advice, ok := v.canHaveHyperVAVIC(); !ok {
				return advice
			}
		case hypervSynIC, hypervSTimer:
			if delivers, known := v.deliversInterrupts(); !known || delivers {
				if advice, ok := v.canHaveHyperVAVIC(); !ok {
					return beforeSynIC(advice)
				}
			}
		}
		return exact(value, "Windows reads timers and ends interrupts by leaving the guest, which this "+
			"saves").At(Medium).restart(g.Name)
	}),
}

// hypervSince is the limit of an enlightenment that came to libvirt with 1.3.3: with an older QEMU the guest does not
// start.
func hypervSince(qemu string) Limit {
	return Limit{Arch: []string{facts.X86}, Libvirt: "1.3.3", QEMU: qemu}
}

// canHaveHyperVAVIC reports whether hv-avic can and should be given; otherwise it returns why not.
func (v *View) canHaveHyperVAVIC() (Advice, bool) {
	old, known := v.oldQEMU(6, 2)
	_, _, knownLibvirt := version(v.KVM.Libvirt)
	switch delivers, told := v.deliversInterrupts(); {
	case !told:
		return Unsure(deliveryUnknown), false
	case !delivers:
		return Skips(noDelivery), false
	case !known || !knownLibvirt:
		return Unsure("it needs QEMU 6.2 and libvirt 8.10, and which are here is not known"), false
	case old || !since(v.KVM.Libvirt, 8, 10):
		return Skips("it needs QEMU 6.2 and libvirt 8.10"), false
	}
	return Advice{}, true
}

// beforeSynIC is advice on SynIC and its timers where hv-avic is not to be had: they stay as they are, because SynIC
// alone has Windows end interrupts in a way that switches AVIC and APICv off.
func beforeSynIC(noAVIC Advice) Advice {
	if noAVIC.Unsure != "" {
		return noAVIC
	}
	return Fine("as somebody chose: SynIC without hv-avic (QEMU 6.2, libvirt 8.10) keeps the processor from " +
		"delivering interrupts, and Windows without synthetic timers reads an emulated one")
}
