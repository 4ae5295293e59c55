// Package knob is the catalogue: every value that can hold a packet back, what it should be for a goal, and why. A knob
// is a declaration: it names addresses and wanted values and never touches the machine.
package knob

import (
	"slices"

	"mpps/internal/advise/placement"
	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// Knob is one entry of the catalogue. Its ID names it in output, plans, journals and documentation and is never reused.
// Its prose is on its page, docs/knobs/ID.md.
type Knob struct {
	ID    string
	Title string
	Stage datapath.Stage
	Risk  goal.Risk   // the worst that a change can do
	After []string    // IDs of knobs whose changes come first
	Tiers []goal.Tier // tiers in which it has an opinion; empty means all above default
	Check bool        // judged and explained, never written
	Asked bool        // written only where the site file asks for a value
	Most  int64       // the most that mpps writes, even if a site file asks for more; 0: no limit here

	Limit                  // the machines that have it
	Parts map[string]Limit // those that have one of its addresses: by its path, or what follows the object in it

	// Where lists the addresses that the knob is about, from the inventory alone: it runs before any value is read.
	Where func(h *facts.Host) []setting.Address
	// Want returns the advice for one of these addresses. It may use everything known about the host and is pure: the
	// same facts and goal give the same advice.
	Want func(v *View, a setting.Address) Advice
}

// AppliesTo reports whether the knob has an opinion in a tier.
func (k *Knob) AppliesTo(t goal.Tier) bool {
	if len(k.Tiers) == 0 {
		return t != goal.Default
	}
	return slices.Contains(k.Tiers, t)
}

// Doc is the prose of a knob: what `mpps explain` and its page show.
type Doc struct {
	Want    string   `json:"want"`   // what it should be, and when
	Why     string   `json:"why"`    // what the value does on the packet path, and when it matters
	Cost    string   `json:"cost"`   // what is given up
	Verify  string   `json:"verify"` // how a person sees that it worked
	Traps   []string `json:"traps"`  // old advice that is wrong, driver quirks, misspellings that people search for
	Sources []Source `json:"sources"`
}

// Source is where a fact comes from.
type Source struct {
	Fact  string `json:"fact"`  // what it supports
	Where string `json:"where"` // kernel file or commit, RFC section, driver, QEMU source, measured experience
}

// Advice is a knob's opinion of one address. It is one of these:
//   - Want is set (with Because): the value should be this;
//   - Because alone: any value is fine, and why;
//   - Skip: the knob does not apply here, and why;
//   - Unsure: it cannot be judged, and what would tell;
//   - nothing: no opinion for this goal.
type Advice struct {
	Want     *setting.Want
	Because  string
	Skip     string
	Unsure   string
	Severity Severity             // of a finding, when the reading does not meet Want; zero means Medium
	Risk     goal.Risk            // when it differs from the knob's own
	Needs    setting.Needs        // what must happen before the change takes effect
	Warning  string               // for people: what this change stops or opens
	Rules    []string             // firewall rules that would stop matching, shown before asking for consent
	GivesWay []placement.GivesWay // rules of the placement that the change makes worse
	Default  string               // what an absent value stands for, where the kernel, QEMU or libvirt has a default
	Found    *setting.Reading     // what a check worked out from the inventory, in place of a reading
	Site     string               // reason from the site file, if that overrides the knob
	Trial    *Trial               // beside "any value is fine": what a measurement may show to be better
}

// Trial is a value that may be better on this host, which only a measurement can show: tune tries it, and no plan for a
// goal has it.
type Trial struct {
	Want    setting.Want `json:"want"`
	Because string       `json:"because"`
}

// Severity orders findings.
type Severity int

// The severities, mildest first.
const (
	Info Severity = iota + 1
	Low
	Medium
	High
	Critical
)

var severityNames = [...]string{Info: "info", Low: "low", Medium: "medium", High: "high", Critical: "critical"}

// Severities lists the severities' names, mildest first.
func Severities() []string { return severityNames[Info:] }

// String is the severity's name as it stands in JSON.
func (s Severity) String() string {
	if s < Info || s > Critical {
		return "medium"
	}
	return severityNames[s]
}

// MarshalText writes the severity's name.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a severity's name; an unknown one is Medium.
func (s *Severity) UnmarshalText(b []byte) error {
	*s = Medium
	if i := slices.Index(Severities(), string(b)); i >= 0 {
		*s = Info + Severity(i)
	}
	return nil
}

// Wants is advice to have a value.
func Wants(w setting.Want, because string) Advice { return Advice{Want: &w, Because: because} }

// exact is advice to have exactly this value.
func exact(value, because string) Advice { return Wants(setting.Exact(value), because) }

// always returns a Want that gives the same advice everywhere.
func always(advice Advice) func(*View, setting.Address) Advice {
	return func(*View, setting.Address) Advice { return advice }
}

// Fine is advice that any value is fine.
func Fine(because string) Advice { return Advice{Because: because} }

// Skips is advice that the knob does not apply.
func Skips(why string) Advice { return Advice{Skip: why} }

// Unsure is advice that the value cannot be judged, and what would tell.
func Unsure(why string) Advice { return Advice{Unsure: why} }

// trying adds a value for tune to try.
func (a Advice) trying(w setting.Want, because string) Advice { a.Trial = &Trial{w, because}; return a }

// NoOpinion is the advice of a knob that says nothing for this goal.
func NoOpinion() Advice { return Advice{} }

// At sets the severity of advice.
func (a Advice) At(s Severity) Advice { a.Severity = s; return a }

// restart marks advice that takes effect when the guest is next started.
func (a Advice) restart(guest string) Advice { a.Needs = setting.RestartOf(guest); return a }

// warn adds a warning.
func (a Advice) warn(text string) Advice { a.Warning = text; return a }

// byDefault sets what an absent value stands for.
func (a Advice) byDefault(value string) Advice { a.Default = value; return a }
