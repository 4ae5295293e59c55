package knob

import (
	"fmt"

	"mpps/internal/datapath"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

var domainRxQueueSize = &Knob{
	ID: "domain.rx_queue_size", Stage: datapath.Domain, Risk: goal.GuestRestart,
	After: []string{"domain.nic_model", "domain.backend"}, Tiers: viaKernel(),
	Where: eachInterface("driver.rx_queue_size"),
	Want: func(v *View, a setting.Address) Advice {
		g, i, advice, ok := v.tapped(a)
		if !ok {
			return advice
		}
		if reason, yes := spared(g, i); yes {
			return Skips(reason)
		}
		if !virtio(i.Model) {
			return Skips("an emulated NIC has none")
		}
		if i.RxQueueSize == 1024 {
			return Fine("1024 is the most")
		}
		if advice, needed := v.needsInterval(); needed {
			return advice
		}
		lost, counter := v.Interval.Counter(i.Tap, "tx_dropped")
		switch {
		case counter == "":
			return Unsure("no counters of its tap over the interval")
		case lost == 0:
			return Fine(fmt.Sprintf("its tap dropped nothing %s", v.over()))
		}
		return Wants(setting.Exact("1024"), fmt.Sprintf("its tap dropped %d packets %s for want of room in the guest's ring", lost, v.over())).At(Medium).otherwise("256").restart(g.Name)
	},
}

var domainTxQueueSize = &Knob{
	ID: "domain.tx_queue_size", Stage: datapath.Domain, Risk: goal.GuestRestart,
	After: []string{"domain.nic_model", "domain.backend"}, Tiers: viaKernel(),
	Where: eachInterface("driver.tx_queue_size"),
	Want: func(v *View, a setting.Address) Advice {
		g, i, advice, ok := v.tapped(a)
		if !ok {
			return advice
		}
		if !virtio(i.Model) {
			return Skips("an emulated NIC has none")
		}
		severity := Low
		if i.TxQueueSize > 256 {
			severity = High
		}
		fate := "QEMU before 8.1 makes it 256 without a word, newer does not start the guest"
		if old, known := v.oldQEMU(8, 1); known && old {
			fate = "this QEMU (" + v.KVM.QEMU + ") makes it 256 without a word, and 8.1 and newer does not start the guest"
		} else if known {
			fate = "this QEMU (" + v.KVM.QEMU + ") does not start the guest with more"
		}
		return Wants(setting.Exact("256"), "a tap takes no more than 256: "+fate).At(severity).otherwise("256").restart(g.Name)
	},
}

var domainCoalesce = &Knob{
	ID: "domain.coalesce", Stage: datapath.Domain, Risk: goal.GuestRestart,
	After: []string{"domain.nic_model", "domain.backend"}, Tiers: tiers(goal.Aggressive),
	Where: eachInterface("coalesce.rx.frames.max"),
	Want: func(v *View, a setting.Address) Advice {
		g, i, advice, ok := v.tapped(a)
		if !ok {
			return advice
		}
		if reason, yes := spared(g, i); yes {
			return Skips(reason)
		}
		if i.Type == "direct" {
			return Skips("a macvtap has no such batches")
		}
		if i.Coalesce >= 1 && i.Coalesce <= 64 {
			return Fine(fmt.Sprintf("batches of up to %d", i.Coalesce))
		}
		because := "the tap hands every packet over on its own"
		if i.Coalesce > 64 {
			because = "the tap caps it at 64, so more says what is not so"
		}
		return Wants(setting.Exact("32"), because).At(Low).otherwise("0").restart(g.Name)
	},
}
