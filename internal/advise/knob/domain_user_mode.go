package knob

import (
	"cmp"
	"strings"

	"mpps/internal/model/datapath"
	"mpps/internal/model/goal"
	"mpps/internal/model/reach"
	"mpps/internal/model/setting"
)

var domainUserMode = &Knob{
	ID: "domain.user_mode", Title: "No guest's NIC is in user mode",
	Stage: datapath.Domain, Risk: goal.GuestRestart, Tiers: viaKernel(), Check: true,
	Where: eachGuest(anyGuest, guestFact("user-mode")),
	Want: func(v *View, a setting.Address) Advice {
		g := v.guests[a.Object()]
		if g == nil || !v.Goal.ForGuest(g.Name) {
			return Skips("the goal is for guest " + v.Goal.Guest)
		}
		if v.Goal.Guest == "" && !g.Active() {
			return Skips(g.Name + " does not run")
		}
		if g.Managed && g.Definition == "" && len(g.NICs()) == 0 {
			return Unsure("its definition could not be seen")
		}
		var found []string
		for _, p := range v.paths.Of(g.Name) {
			if p.Has(reach.UserMode) {
				found = append(found, p.MAC)
			}
		}
		return fact(cmp.Or(strings.Join(found, ", "), "none"), exact("none",
			"one process turns each packet into system calls on sockets, for all queues, without tap and vhost").
			At(Critical))
	},
}
