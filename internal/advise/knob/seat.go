package knob

import (
	"fmt"

	"mpps/internal/advise/placement"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
)

// seat returns a guest's place, or the advice that says why its threads get none: on a crowded host also because it
// floats and the goal does not name it. Pinned, it could not move away from the others that float over its CPUs.
func (v *View) seat(g *facts.Guest) (*placement.Placed, Advice) {
	placed := v.Placement().Guest(g.Name)
	if placed == nil {
		return nil, v.unplaced(g.Name)
	}
	if v.Goal.Guest == "" && v.crowded() && len(pinnedCPUs(g)) == 0 {
		return nil, Skips(fmt.Sprintf("%s without a place may run on any CPU: pinned, this guest could not move away "+
			"from them. Name one that needs CPUs of its own with --guest",
			Count(len(v.Placement().Refused), "guest")))
	}
	return placed, Advice{}
}

// vcpuRoom returns how many CPUs guests' vCPUs can have: all but the host's own and those of poll-mode threads.
func (v *View) vcpuRoom() int {
	return len(v.Topology.Online.Minus(v.ask().Taken)) - len(v.Placement().Housekeeping)
}

// crowded reports whether the guests that run have more vCPUs than there are CPUs for them, and some find no place:
// these float over all CPUs, those of pinned guests too.
func (v *View) crowded() bool {
	vcpus := 0
	for _, g := range v.ask().Guests {
		vcpus += g.VCPUs
	}
	return len(v.Placement().Refused) > 0 && vcpus > v.vcpuRoom()
}

// unplaced says why the placement gives a guest no CPUs.
func (v *View) unplaced(guest string) Advice {
	if left := v.Placement().LeftAlone(guest); left != nil {
		return Skips("it stays on " + left.CPUs.Words() + ": " + left.Why)
	}
	if refused := v.Placement().Refusal(guest); refused != nil {
		return Skips("no place for it: " + refused.Shortage + "; " + refused.Relax)
	}
	return Skips("no place for the guest on this host")
}

// givingWay names in advice the rules of the placement that become worse because of a guest's place.
func (v *View) givingWay(guest string, advice Advice) Advice {
	advice.GivesWay = v.Placement().GivingWay(guest)
	if len(advice.GivesWay) > 0 {
		advice.Risk = goal.Blip
	}
	return advice
}
