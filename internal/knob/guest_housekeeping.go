package knob

import (
	"mpps/internal/datapath"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

// ofHost makes a knob about the inside of guests from one about a host: the same values are wanted there, at the addresses
// that they have in the guest, by the same advice on what was seen of the guest.
func ofHost(k *Knob, id string) *Knob {
	return &Knob{
		ID: id, Stage: datapath.Guest, Risk: k.Risk, Tiers: k.Tiers,
		Where: eachGuest(func(g *facts.Guest) bool { return seenInside(g) != nil }, func(g *facts.Guest) []setting.Address {
			var all []setting.Address
			for _, inner := range k.Where(seenInside(g)) {
				if a := setting.In(g.Name, inner); settable(a) {
					all = append(all, a)
				}
			}
			return all
		}),
		Want: func(v *View, a setting.Address) Advice {
			in, advice, ok := v.within(a, "how it works")
			if !ok {
				return advice
			}
			inner, err := a.Inner()
			if err != nil {
				return Unsure(err.Error())
			}
			return k.Want(in, inner)
		},
	}
}

// settable tells whether a value can be set inside a guest.
func settable(a setting.Address) bool {
	_, err := a.Inner()
	return err == nil
}

var (
	guestTimerMigration = ofHost(rtTimerMigration, "guest.timer_migration")
	guestSwap           = ofHost(rtSwap, "guest.swap")
	guestWatchdog       = ofHost(rtWatchdog, "guest.watchdog")
	guestThrottling     = ofHost(rtThrottling, "guest.throttling")
)

var guestKSM = &Knob{
	ID: "guest.ksm", Stage: datapath.Guest, Risk: goal.None, Tiers: realtime(),
	Where: eachGuest(func(g *facts.Guest) bool {
		in := seenInside(g)
		return in != nil && in.Housekeeping != nil && in.Housekeeping.KSM != nil
	}, func(g *facts.Guest) []setting.Address {
		return []setting.Address{setting.In(g.Name, setting.Of(setting.Sysfs, "kernel/mm/ksm/run"))}
	}),
	Want: func(v *View, a setting.Address) Advice {
		if _, advice, ok := v.within(a, "whether it merges pages"); !ok {
			return advice
		}
		return Wants(setting.Any("2", "0"), "the first write to a merged page stops the writer while it is copied").At(Low)
	},
}
