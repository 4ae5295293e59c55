// Package plan turns findings into an ordered list of changes that an operator can approve: from, to, why, at what
// risk, how long it lasts and what must be restarted. A plan is complete data; its reasons are for people and drive
// nothing. It has a digest of the facts it was made from, and is refused once it no longer fits the host.
package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"mpps/internal/advise/audit"
	"mpps/internal/advise/knob"
	"mpps/internal/advise/placement"
	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// Schema is the version of the plan format.
const Schema = "mpps.plan/1"

// Plan is what is to be changed.
type Plan struct {
	Schema  string     `json:"schema"`
	Digest  string     `json:"digest"` // see digest.go
	Host    string     `json:"host"`
	Made    time.Time  `json:"made"` // when the facts were taken
	Goal    goal.Goal  `json:"goal"`
	Tier    goal.Tier  `json:"tier"`
	Why     string     `json:"tier_why"`
	Role    facts.Role `json:"role,omitempty"` // what the machine is
	Changes []Change   `json:"changes"`        // in the order in which they are made
	Consent []Change   `json:"consent_needed"` // wanted, but the goal does not allow their risk
	Skipped []Skipped  `json:"skipped"`        // off, but mpps cannot change it now
	// what only the platforms of guests can change
	Handover   []Handed     `json:"handover,omitempty"`
	Restarts   []Restart    `json:"restarts"`   // what must happen before some changes take effect
	Phases     []Phase      `json:"phases"`     // when changes take effect, in the order of the work
	Notes      []string     `json:"notes"`      // what the plan cannot achieve, in sentences
	Later      []Later      `json:"later"`      // what can be planned only after these changes
	Management []Management `json:"management"` // NICs that are the operator's way in
	Identity   []Part       `json:"identity"`   // what the host was when the plan was made
	// counter increases that changes were decided by, without those of 0; nil if counters were not watched
	Watched *facts.Interval `json:"watched,omitempty"`

	Asked bool `json:"-"` // made of named changes: not judged, and not reviewed
}

// Change is one value to be written.
type Change struct {
	ID      string          `json:"id"`
	Address setting.Address `json:"address"`
	From    setting.Reading `json:"from"`
	To      setting.Reading `json:"to"`
	Want    setting.Want    `json:"want"` // what the value read back must satisfy
	Risk    goal.Risk       `json:"risk"`
	Lasts   setting.Lasting `json:"lasts"`
	Kept    string          `json:"kept,omitempty"` // what makes it last: a file, the service that puts it back
	// the guest that it is kept for; empty: whichever has the device
	For      string         `json:"for,omitempty"`
	Forget   bool           `json:"forget,omitempty"` // it is not to last: what kept it is removed
	Owners   []string       `json:"owners,omitempty"` // who else sets it, and who wins
	Needs    setting.Needs  `json:"needs"`            // what must happen before it takes effect
	Because  string         `json:"because"`
	Severity knob.Severity  `json:"severity"`
	Title    string         `json:"title"`
	Stage    datapath.Stage `json:"stage"`
	Warning  string         `json:"warning,omitempty"`
	Rules    []string       `json:"rules,omitempty"` // that stop matching
	Trial    bool           `json:"-"`               // only a measurement can show that it is better: see MakeTrials
	// rules of the placement that the change makes worse
	GivesWay []placement.GivesWay `json:"gives_way,omitempty"`
}

// Skipped is a finding that is off and not planned.
type Skipped struct {
	ID      string          `json:"id"`
	Address setting.Address `json:"address"`
	Found   string          `json:"found"`
	Wanted  string          `json:"wanted"`
	Why     string          `json:"why"`
}

// Restart is the changes that wait for one event.
type Restart struct {
	What      setting.Needs     `json:"what"` // "restart of guest vm1"
	Addresses []setting.Address `json:"addresses"`
}

// Later is what can be planned only once something else has happened.
type Later struct {
	After string   `json:"after"`
	IDs   []string `json:"ids"`
	Why   string   `json:"why"`
}

// Management is a NIC that is the operator's way in.
type Management struct {
	NIC     string `json:"nic"`
	Why     string `json:"why"`
	Touched bool   `json:"touched"` // the plan changes something on it, at whatever risk
}

// Make plans for a goal, with advice adjusted unless adjust is nil. It refuses goals that contradict themselves and
// catalogues whose order has a cycle.
func Make(h *facts.Host, g goal.Goal, catalogue []*knob.Knob, adjust audit.Adjust) (*Plan, error) {
	if err := g.Check(); err != nil {
		return nil, err
	}
	return From(h, g, audit.RunWith(h, g, catalogue, adjust), catalogue)
}

// MakeTrials plans as Make does, and adds what only a measurement can show to be better (knob.Trial): tune tries it.
func MakeTrials(h *facts.Host, g goal.Goal, catalogue []*knob.Knob, adjust audit.Adjust) (*Plan, error) {
	if err := g.Check(); err != nil {
		return nil, err
	}
	return From(h, g, audit.RunWith(h, g, catalogue, adjust).WithTrials(), catalogue)
}

// newPlan returns a plan of no changes.
func newPlan(h *facts.Host, g goal.Goal) *Plan {
	return &Plan{
		Schema: Schema, Host: h.Name, Made: h.Taken, Goal: g, Tier: g.Tier(), Identity: identity(h),
		Changes: []Change{}, Consent: []Change{}, Skipped: []Skipped{}, Restarts: []Restart{}, Later: []Later{},
		Management: []Management{}, Phases: []Phase{}, Notes: []string{}, Watched: h.Interval.Counted(),
	}
}

// From makes a plan from a report of the same facts.
func From(h *facts.Host, g goal.Goal, report audit.Report, catalogue []*knob.Knob) (*Plan, error) {
	order, err := Order(catalogue)
	if err != nil {
		return nil, err
	}
	p := newPlan(h, g)
	p.Tier, p.Why, p.Role, p.Notes = report.Tier, report.Why, report.Role, limitNotes(report)
	if note := knob.WireNote(h, g); note != "" && !report.Role.Declined() {
		p.Notes = append(p.Notes, note)
	}
	for _, f := range report.InState(audit.Off) {
		c := asPlatforms(h, newChange(f))
		switch {
		case f.Blocked != "":
			p.Skipped = append(p.Skipped, Skipped{ID: f.ID, Address: f.Address, Found: f.Found, Wanted: f.Wanted,
				Why: f.Blocked})
		case !g.Consents(c.Risk):
			p.Consent = append(p.Consent, c)
		default:
			p.Changes = append(p.Changes, c)
		}
	}
	positions := addressPositions(h, catalogue, slices.Concat(p.Changes, p.Consent))
	place := func(c Change) int { return order[c.ID]<<32 | positions[spot{c.ID, c.Address}] }
	byPlace := func(a, b Change) int { return place(a) - place(b) }
	slices.SortStableFunc(p.Changes, byPlace)
	slices.SortStableFunc(p.Consent, byPlace)
	slices.SortStableFunc(p.Skipped, func(a, b Skipped) int { return order[a.ID] - order[b.ID] })

	p.postpone()
	p.dropCacheModes(h)
	p.dropOutsideEmulator(h)
	p.dropUnpooled(h, report)
	p.dropRefusedRT(h, report)
	p.handOver(h)
	p.addAfterBoot(h, catalogue)
	p.finish(h)
	p.addByHand(report)
	p.Seal()
	return p, nil
}

// finish adds what follows from the changes: restarts, and the NICs that are the operator's way in.
func (p *Plan) finish(h *facts.Host) {
	for _, c := range p.Changes {
		p.addRestart(c)
	}
	for _, n := range h.NICs {
		if n.Management != "" {
			touched := slices.ContainsFunc(p.Changes, func(c Change) bool { return c.Address.Device() == n.Name })
			p.Management = append(p.Management, Management{NIC: n.Name, Why: n.Management, Touched: touched})
		}
	}
}

// skip moves the changes for which why returns a reason to Skipped.
func (p *Plan) skip(why func(c Change) string) {
	p.Changes = slices.DeleteFunc(p.Changes, func(c Change) bool {
		text := why(c)
		if text != "" {
			p.Skipped = append(p.Skipped, Skipped{c.ID, c.Address, c.From.String(), c.To.String(), text})
		}
		return text != ""
	})
}

// dropCacheModes skips the cache mode of each guest whose named CPU model stays, for example because the site file says
// so: libvirt accepts a cache mode only with host-passthrough.
func (p *Plan) dropCacheModes(h *facts.Host) {
	changed := map[setting.Address]bool{}
	for _, c := range p.Changes {
		changed[c.Address] = true
	}
	p.skip(func(c Change) string {
		if c.Address.Kind != setting.Domain || c.Address.Rest() != "cpu/cache.mode" {
			return ""
		}
		mode := setting.Of(setting.Domain, c.Address.Object(), "cpu/mode")
		if now, _, _ := strings.Cut(h.Readings.At(mode).Value, " "); now != "custom" || changed[mode] {
			return ""
		}
		return "the guest keeps its cpu/mode, and libvirt accepts a cache mode only with host-passthrough"
	})
}

type spot struct {
	id string
	a  setting.Address
}

// addressPositions returns the position of each address in the list of its knob, which is the order within a knob. Only
// knobs with changes are asked.
func addressPositions(h *facts.Host, catalogue []*knob.Knob, some []Change) map[spot]int {
	changed := map[string]bool{}
	for _, c := range some {
		changed[c.ID] = true
	}
	at := map[spot]int{}
	for _, k := range catalogue {
		if !changed[k.ID] {
			continue
		}
		for i, a := range k.Where(h) {
			at[spot{k.ID, a}] = i
		}
	}
	return at
}

func newChange(f audit.Finding) Change {
	return Change{
		ID: f.ID, Address: f.Address, From: f.Reading, To: f.Want.Target(), Want: *f.Want, Risk: f.Risk,
		Lasts: setting.Kinds[f.Address.Kind].Lasts, Needs: f.Needs, Because: f.Why, Severity: f.Severity,
		Trial: f.Trial != nil,
		Title: f.Title, Stage: f.Stage, Warning: f.Warning, Rules: f.Rules,
		GivesWay: f.GivesWay,
	}
}

// postpone removes what other changes of this plan make meaningless: a new number of channels renumbers the interrupts
// and queues of a NIC, and the vhost threads of new queues exist only once the guest runs with them.
func (p *Plan) postpone() {
	resized := map[string]string{} // by device: the knob that changes its number of queues
	var guests []string
	for _, c := range p.Changes {
		if c.ID == "nic.channels" || c.ID == "guest.channels" {
			resized[queueOwner(c.Address)] = c.ID
		}
		if c.ID == "domain.queues" || c.ID == "domain.nic_model" || c.ID == "domain.backend" {
			addID(&guests, c.Address.Object())
		}
	}
	dropped := map[string][]string{}
	for nic, id := range resized {
		if id == "nic.channels" { // its queues may be right now, and others then
			dropped[nic] = []string{"nic.irq_affinity", "nic.xps"}
		}
	}
	p.Changes = slices.DeleteFunc(p.Changes, func(c Change) bool {
		byQueue := c.ID == "nic.irq_affinity" || c.ID == "nic.xps" || c.ID == "nic.rps" || c.ID == "guest.xps" ||
			c.ID == "guest.irqbalance"
		nic := queueOwner(c.Address)
		if !byQueue || resized[nic] == "" {
			return false
		}
		if !slices.Contains(dropped[nic], c.ID) {
			dropped[nic] = append(dropped[nic], c.ID)
		}
		return true
	})
	for _, nic := range slices.Sorted(maps.Keys(dropped)) {
		p.Later = append(p.Later, Later{After: "this plan", IDs: dropped[nic],
			Why: fmt.Sprintf("%s gives %s other interrupts and queues: plan again afterwards", resized[nic], nic)})
	}
	for _, c := range p.Changes {
		if p.Tier == goal.Realtime && c.ID == "domain.cpu_model" && strings.HasSuffix(c.Address.Path, "/cpu/mode") {
			p.Later = append(p.Later, Later{After: "this plan", IDs: []string{"domain.invtsc", "domain.dedicated"},
				Why: "libvirt takes these beside host-passthrough only: plan again afterwards, before guest " +
					c.Address.Object() + " is restarted"})
		}
	}
	for _, guest := range guests {
		p.Later = append(p.Later, Later{After: setting.RestartOf(guest).String(), IDs: []string{"vhost.threads"},
			Why: "the vhost threads of its new queues exist only then: plan again afterwards"})
	}
}

// queueOwner returns the device that a value of a queue or an interrupt belongs to; inside a guest "eth0 of vm1".
func queueOwner(a setting.Address) string {
	if inner, err := a.Inner(); err == nil {
		return queueOwner(inner) + " of " + a.Object()
	}
	return cmp.Or(a.Device(), a.Object())
}

func (p *Plan) addRestart(c Change) {
	if c.Needs.IsZero() {
		return
	}
	for i := range p.Restarts {
		if p.Restarts[i].What == c.Needs {
			p.Restarts[i].Addresses = append(p.Restarts[i].Addresses, c.Address)
			return
		}
	}
	p.Restarts = append(p.Restarts, Restart{What: c.Needs, Addresses: []setting.Address{c.Address}})
}

// Seal updates phases and digest after changes were added or removed.
func (p *Plan) Seal() {
	p.arrangePhases()
	p.Digest = p.digest()
}

// Risks reports whether a change has a risk.
func (p *Plan) Risks(risk goal.Risk) bool {
	return slices.ContainsFunc(p.Changes, func(c Change) bool { return c.Risk == risk })
}

// SameChanges reports whether another plan, which may be nil, writes the same values at the same risk. What is found
// there may differ.
func (p *Plan) SameChanges(o *Plan) bool {
	return o != nil && slices.EqualFunc(p.Changes, o.Changes, func(a, b Change) bool {
		return a.ID == b.ID && a.Address == b.Address && a.To == b.To && a.Risk == b.Risk
	})
}

// Same reports whether another change writes the same value for the same knob, makes it last alike, and is not riskier
// than this one says.
func (c Change) Same(o Change) bool {
	c.To.Why = o.To.Why // prose
	return !worse(o.Risk, c.Risk) && c.ID == o.ID && c.Address == o.Address && c.To == o.To && c.Want.Op == o.Want.Op &&
		c.Want.Value == o.Want.Value && slices.Equal(c.Want.Set, o.Want.Set) && c.For == o.For && c.Forget == o.Forget
}

// Empty reports whether there is nothing to change.
func (p *Plan) Empty() bool { return len(p.Changes) == 0 }
