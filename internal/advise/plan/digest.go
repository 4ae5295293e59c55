package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// Part is one thing that identifies the host that a plan was made for.
type Part struct {
	Name string `json:"name"` // "kernel", "nic eth0", "guest vm1"
	Is   string `json:"is"`
}

// identity returns what a plan relies on besides the values that it changes: the host, its kernel and CPUs, NICs, and
// guests with their sizes. Counters, states and links are left out because they change by themselves.
func identity(h *facts.Host) []Part {
	parts := []Part{
		{"host", h.Name},
		{"kernel", h.Kernel.Release},
		{"CPUs online", h.Topology.Online.String()},
		{"NUMA nodes", fmt.Sprint(len(h.Topology.Nodes))},
	}
	for _, n := range h.NICs {
		parts = append(parts, Part{"nic " + n.Name, strings.TrimSpace(n.Driver + " " + n.MAC)})
	}
	for _, g := range h.Guests {
		parts = append(parts, Part{"guest " + g.Name, fmt.Sprintf("%s, %d vCPUs", g.UUID, g.VCPUs)})
	}
	return parts
}

// digest returns a SHA-256 over everything that apply acts on and the operator agreed to: schema, goal, identity, the
// way in, and of each change the address, what was found, what is written, risk, what it needs to take effect and the
// rules that stop matching. Reasons are not part of it.
func (p *Plan) digest() string {
	type item struct {
		ID      string
		Address setting.Address
		From    setting.Reading
		To      setting.Reading
		Want    setting.Want
		Risk    goal.Risk
		Needs   setting.Needs
		Rules   []string
	}
	basis := struct {
		Schema     string
		Goal       goal.Goal
		Identity   []Part
		Management []Management
		Changes    []item
		Consent    []item
	}{Schema: p.Schema, Goal: p.Goal, Identity: p.Identity, Management: p.Management}
	items := func(changes []Change) (all []item) {
		for _, c := range changes {
			all = append(all, item{c.ID, c.Address, bare(c.From), bare(c.To), c.Want, c.Risk, c.Needs,
				append([]string(nil), c.Rules...)})
		}
		return all
	}
	basis.Changes, basis.Consent = items(p.Changes), items(p.Consent)
	text, err := json.Marshal(basis)
	if err != nil { // cannot happen with these types
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// bare returns a reading reduced to what comparisons use.
func bare(r setting.Reading) setting.Reading {
	if r.State != setting.Known {
		return setting.Reading{State: r.State}
	}
	return setting.Reading{State: r.State, Value: r.Value}
}

// Stale is the error of a plan that no longer fits the host.
type Stale struct {
	Changed []Difference
}

// Difference is one thing that changed since the plan was made.
type Difference struct {
	What string `json:"what"` // an address, or a part of the identity
	Then string `json:"then"`
	Now  string `json:"now"`
}

// Error names up to five differences.
func (s *Stale) Error() string {
	var named []string
	for _, d := range s.Changed[:min(5, len(s.Changed))] {
		named = append(named, fmt.Sprintf("%s was %s and is %s", d.What, d.Then, d.Now))
	}
	if more := len(s.Changed) - len(named); more > 0 {
		named = append(named, fmt.Sprintf("and %d more", more))
	}
	return "plan is stale: " + strings.Join(named, "; ")
}

// Hint says what to do.
func (s *Stale) Hint() string { return "make a new plan from what the host is now: mpps plan -o FILE" }

// Check compares a plan with a host that has fresh readings of the plan's Addresses. It returns a *Stale that names
// every difference, or nil.
func Check(p *Plan, h *facts.Host) error {
	stale := &Stale{}
	differs := func(what, then, now string) { stale.Changed = append(stale.Changed, Difference{what, then, now}) }
	now := map[string]string{}
	parts := identity(h)
	for _, part := range parts {
		now[part.Name] = part.Is
	}
	for _, part := range p.Identity {
		is, there := now[part.Name]
		switch {
		case !there:
			differs(part.Name, part.Is, "gone")
		case is != part.Is:
			differs(part.Name, part.Is, is)
		}
	}
	for _, part := range parts {
		if !slices.ContainsFunc(p.Identity, func(old Part) bool { return old.Name == part.Name }) {
			differs(part.Name, "not there", part.Is)
		}
	}
	for _, g := range h.Guests {
		if g.Migrates() && slices.ContainsFunc(p.Changes, func(c Change) bool { return c.Address.Guest() == g.Name }) {
			differs("job of guest "+g.Name, "none", g.Job+": plan again when that is over, on the host where it runs")
		}
	}
	for _, c := range p.Changes {
		if found := h.Readings.At(c.Address); !found.Same(c.From) {
			differs(c.Address.String(), c.Address.Brief(c.From), c.Address.BriefWhy(found))
		}
	}
	if len(stale.Changed) > 0 {
		return stale
	}
	return nil
}

// Addresses returns what must be read before Check.
func (p *Plan) Addresses() []setting.Address {
	all := make([]setting.Address, len(p.Changes))
	for i, c := range p.Changes {
		all[i] = c.Address
	}
	return all
}
