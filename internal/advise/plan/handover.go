package plan

import (
	"fmt"

	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// Handed is a value of a guest's definition that only the guest's platform can change: it regenerates the definition at
// the next start of the guest, and whatever else was written into it is lost.
type Handed struct {
	ID       string          `json:"id"`
	Guest    string          `json:"guest"`
	Address  setting.Address `json:"address"`
	Setting  string          `json:"setting"` // path in the definition
	From     setting.Reading `json:"from"`
	Value    setting.Reading `json:"value"` // what it should be
	Why      string          `json:"why"`
	Platform facts.Platform  `json:"platform"`
	SetBy    string          `json:"set_by"`       // who sets it, for people
	Effect   string          `json:"takes_effect"` // when it takes effect, for people
	Severity knob.Severity   `json:"severity"`
	Title    string          `json:"title"`
}

// IsPlatforms reports whether an address is of a guest whose platform regenerates its definition: what is written there
// lasts until then at most.
func IsPlatforms(h *facts.Host, a setting.Address) bool {
	if !IsGuests(a) {
		return false
	}
	g := guestNamed(h, a.Object())
	return g != nil && g.Rewrites()
}

// IsGuests reports whether an address is of a guest's definition or of its process, and not of what runs inside it.
func IsGuests(a setting.Address) bool {
	switch a.Kind {
	case setting.Domain, setting.DomainLive, setting.DomainDevice, setting.ThreadAffinity:
		return true
	}
	return false
}

// asPlatforms gives a change of the running guest of a platform the risk and the duration that it has there.
func asPlatforms(h *facts.Host, c Change) Change {
	if c.Address.Kind != setting.Domain && IsPlatforms(h, c.Address) {
		c.Lasts = setting.UntilPlatform
		if worse(goal.Platform, c.Risk) {
			c.Risk = goal.Platform
		}
	}
	return c
}

// handOver moves changes of definitions that a platform regenerates to Handover.
func (p *Plan) handOver(h *facts.Host) {
	var own []Change
	for _, c := range p.Changes {
		if c.Address.Kind != setting.Domain || !IsPlatforms(h, c.Address) {
			own = append(own, c)
			continue
		}
		g := guestNamed(h, c.Address.Object())
		p.Handover = append(p.Handover, Handed{
			ID: c.ID, Guest: g.Name, Address: c.Address, Setting: c.Address.Rest(), From: c.From, Value: c.To,
			Why: c.Because, Platform: g.Platform(), SetBy: g.Owner.String(),
			Effect: fmt.Sprintf("when %s next starts the guest", g.Platform().Title()), Severity: c.Severity,
			Title: c.Title,
		})
	}
	if len(p.Handover) > 0 {
		p.Changes = append([]Change{}, own...)
	}
}
