package lasting

import (
	"mpps/internal/advise/plan"
	"mpps/internal/advise/tuned"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

const profileChosen = "when the profile is chosen"

// tunedOwners is TuneD, as far as its profile sets the value. TuneD has sysctl.d read again behind its own settings
// (reapply_sysctl, on by default), so that the files win over it at boot.
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

// Dispute is a change of a plan that TuneD's profile has another opinion of.
type Dispute struct {
	ID      string
	Address setting.Address
	Planned string
	Tuned   string // what its profile gives; empty where TuneD works it out itself
	Option  string // of the profile that decides it
	File    string // where that option stands; empty where a plugin does it without being told
	Resets  bool   // TuneD's next start takes the planned value away
}

// Disputes are the changes of a plan that TuneD sets otherwise. At its start TuneD writes its values again, and
// sysctl.d behind them: a kernel parameter that stands there stays.
func Disputes(p *plan.Plan, h *facts.Host) []Dispute {
	if h.Lasting == nil || h.Lasting.Tuned == nil || !h.Lasting.Tuned.Running || stops(p, "tuned") {
		return nil
	}
	var all []Dispute
	for _, c := range p.Changes {
		set, does := tuned.Lookup(h.Lasting.Tuned, c.Address)
		if !does || Of(c.ID) || agrees(set, c) {
			continue
		}
		if set.Value == "" && !c.Address.Kind.AtBoot() && placedBy(c.Address) &&
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

// agrees reports whether TuneD gives what a change is to give.
func agrees(s tuned.Set, c plan.Change) bool {
	return s.Value != "" && c.Want.Met(setting.Value(s.Value))
}

// placedBy reports whether TuneD moves such a value off its isolated cores, and otherwise leaves it where it is.
func placedBy(a setting.Address) bool {
	switch a.Kind {
	case setting.IRQAffinity, setting.IRQCPUs, setting.ThreadAffinity, setting.ThreadCPUs:
		return true
	}
	return false
}

// keepsOff reports whether a change leaves TuneD's isolated cores alone.
func keepsOff(h *facts.Host, c plan.Change) bool {
	isolated, err := setting.ParseCPUs(h.Lasting.Tuned.Variables["isolated_cores"])
	to, bad := setting.ParseCPUs(c.To.Value)
	return err == nil && bad == nil && len(to.And(isolated)) == 0
}

// stops reports whether a plan stops a service.
func stops(p *plan.Plan, name string) bool {
	for _, c := range p.Changes {
		if c.Address == setting.Of(setting.Service, name) && c.To.Value == "stopped" {
			return true
		}
	}
	return false
}

// leaveToTuned marks the changes whose value TuneD gives too at each of its starts: nothing else has to keep them.
// Coalescing is kept all the same: a TuneD that does not know all that 'ethtool -c' prints sets none of it
// (redhat-performance/tuned#819).
func leaveToTuned(p *plan.Plan, h *facts.Host) {
	if h.Lasting == nil || h.Lasting.Tuned == nil || !h.Lasting.Tuned.Running || stops(p, "tuned") {
		return
	}
	for i := range p.Changes {
		c := &p.Changes[i]
		if set, does := tuned.Lookup(h.Lasting.Tuned, c.Address); does && c.Kept == "" &&
			c.Address.Kind != setting.NICCoalesce && !Of(c.ID) && ways[c.Address.Kind] != byItself && agrees(set, *c) {
			c.Kept, c.Lasts = "TuneD profile "+h.Lasting.Tuned.Profile+", which gives the same", setting.AcrossReboot
		}
	}
}
