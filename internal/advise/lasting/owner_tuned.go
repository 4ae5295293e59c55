package lasting

import (
	"mpps/internal/advise/plan"
	"mpps/internal/advise/tuned"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"slices"
)

const profileChosen = "when the profile is chosen"

// tunedOwners returns TuneD if its profile sets the value. TuneD applies sysctl.d again after its own settings
// (reapply_sysctl, on by default), so the files win over it at boot.
func tunedOwners(l *facts.Lasting, a setting.Address) []Owner {
	if l.Tuned == nil || !l.Tuned.Running {
		return nil
	}
	set, does := tuned.Lookup(l.Tuned, a)
	if !does {
		return nil
	}
	owner := Owner{Who: "TuneD profile " + l.Tuned.Profile, Value: set.Value, When: profileChosen}
	if set.AtBoot {
		owner.When = "when the boot menu is written"
	}
	return []Owner{owner}
}

// Dispute is a change of a plan that TuneD's profile sets to something else.
type Dispute struct {
	ID      string
	Address setting.Address
	Planned string
	Tuned   string // the value of its profile; empty if TuneD computes it
	Option  string // the option of the profile that sets it
	File    string // where that option is; empty if a plugin does it by default
	Resets  bool   // TuneD's next start replaces the planned value
}

// Disputes returns the changes of a plan that TuneD sets to something else. When it starts, TuneD writes its values and
// then applies sysctl.d again: a kernel parameter in a file there stays.
func Disputes(p *plan.Plan, h *facts.Host) []Dispute {
	if h.Lasting == nil || h.Lasting.Tuned == nil || !h.Lasting.Tuned.Running || stops(p, "tuned") {
		return nil
	}
	var all []Dispute
	for _, c := range p.Changes {
		set, does := tuned.Lookup(h.Lasting.Tuned, c.Address)
		if !does || MakesLast(c.ID) || agrees(set, c) {
			continue
		}
		if set.Value == "" && !c.Address.Kind.AtBoot() && tunedMoves(c.Address) &&
			h.Lasting.Tuned.Variables["isolated_cores"] != "" && keepsOff(h, c) {
			continue // TuneD would leave it where it is
		}
		kept := c.Address.Kind == setting.Sysctl && h.Lasting.Tuned.Reapplies && c.Lasts == setting.AcrossReboot
		all = append(all, Dispute{
			ID: c.ID, Address: c.Address, Planned: c.To.String(), Tuned: set.Value, Option: set.Option, File: set.File,
			Resets: !kept,
		})
	}
	return all
}

// agrees reports whether TuneD sets what a change wants.
func agrees(s tuned.Set, c plan.Change) bool {
	return s.Value != "" && c.Want.Met(setting.Value(s.Value))
}

// tunedMoves reports whether TuneD only moves values of this kind off its isolated cores and otherwise leaves them as
// they are.
func tunedMoves(a setting.Address) bool {
	return slices.Contains([]setting.Kind{setting.IRQAffinity, setting.IRQCPUs, setting.ThreadAffinity,
		setting.ThreadCPUs}, a.Kind)
}

// keepsOff reports whether a change leaves TuneD's isolated cores alone.
func keepsOff(h *facts.Host, c plan.Change) bool {
	isolated, err := setting.ParseCPUs(h.Lasting.Tuned.Variables["isolated_cores"])
	to, bad := setting.ParseCPUs(c.To.Value)
	return err == nil && bad == nil && len(to.And(isolated)) == 0
}

// stops reports whether a plan stops a service.
func stops(p *plan.Plan, name string) bool {
	return slices.ContainsFunc(p.Changes, func(c plan.Change) bool {
		return c.Address == setting.Of(setting.Service, name) && c.To.Value == "stopped"
	})
}

// leaveToTuned marks the changes whose value TuneD sets at each start as well: nothing else has to keep them.
// Coalescing is kept all the same: a TuneD that does not know everything 'ethtool -c' prints sets none of it
// (redhat-performance/tuned#819).
func leaveToTuned(p *plan.Plan, h *facts.Host) {
	if h.Lasting == nil || h.Lasting.Tuned == nil || !h.Lasting.Tuned.Running || stops(p, "tuned") {
		return
	}
	for i := range p.Changes {
		c := &p.Changes[i]
		if set, does := tuned.Lookup(h.Lasting.Tuned, c.Address); does && c.Kept == "" &&
			c.Address.Kind != setting.NICCoalesce && !MakesLast(c.ID) && ways[c.Address.Kind] != byItself &&
			agrees(set, *c) {
			c.Kept, c.Lasts = "TuneD profile "+h.Lasting.Tuned.Profile+", which gives the same", setting.AcrossReboot
		}
	}
}
