package plan

import (
	"slices"

	"mpps/internal/audit"
	"mpps/internal/facts"
	"mpps/internal/knob"
	"mpps/internal/setting"
)

// unpooled takes huge pages out of the definitions of guests for which no pool has room, where this plan makes none and none is made by
// the next boot either: such a guest would not start again. What a person asked for in the site file stays.
func (p *Plan) unpooled(h *facts.Host, report audit.Report) {
	made := slices.ContainsFunc(p.Changes, func(c Change) bool { return c.ID == poolKnob && c.Address == poolArgument }) ||
		slices.ContainsFunc(report.Findings, func(f audit.Finding) bool {
			return f.ID == poolKnob && f.Address == poolArgument && f.State == audit.OK
		})
	if made {
		return
	}
	v := knob.Look(h, p.Goal)
	p.Changes = slices.DeleteFunc(p.Changes, func(c Change) bool {
		if c.ID != "domain.hugepages" {
			return false
		}
		at := slices.IndexFunc(h.Guests, func(g facts.Guest) bool { return g.Name == c.Address.Object() })
		asked := slices.ContainsFunc(report.Findings, func(f audit.Finding) bool { return f.ID == c.ID && f.Address == c.Address && f.Site != "" })
		if at < 0 || asked || v.PoolHolds(&h.Guests[at]) {
			return false
		}
		p.Skipped = append(p.Skipped, Skipped{
			ID: c.ID, Address: c.Address, Found: c.From.String(), Wanted: c.To.String(),
			Why: "no pool of huge pages has room for its memory, and boot.hugepages makes none ('mpps audit' says why): it would not start again",
		})
		return true
	})
}

const poolKnob = "boot.hugepages"

var poolArgument = setting.Of(setting.KernelArg, "hugepagesz+hugepages")
