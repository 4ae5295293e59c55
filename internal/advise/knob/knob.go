// Package knob is the catalogue: every value that can hold a packet back, what it should be for a goal, and why. A knob
// is a declaration: it names addresses and wanted values and never touches the machine.
package knob

import (
	"slices"

	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// Knob is one entry of the catalogue. Its ID is its name in outputs, plans, journals and documentation, and is never
// reused for something else. Its prose stands on its page, docs/knobs/ID.md.
type Knob struct {
	ID    string
	Title string
	Stage datapath.Stage
	Risk  goal.Risk   // the worst that a change can do
	After []string    // IDs of knobs that must be applied earlier where both change
	Tiers []goal.Tier // tiers in which it has an opinion; empty means all above default
	Check bool        // judged and explained, never written
	Asked bool        // written only where the site file asks for a value
	Most  int64       // the most that mpps writes, even if a site file asks for more; 0 if kernel or driver bounds it

	// Where lists the addresses that the knob speaks of, from the inventory alone, before any value is read.
	Where func(h *facts.Host) []setting.Address
	// Want gives the knob's opinion of one of these addresses. It may look at everything that is known of the host, and
	// answers the same for the same facts and goal.
	Want func(v *View, a setting.Address) Advice
}

// Speaks reports whether the knob has an opinion in a tier.
func (k *Knob) Speaks(t goal.Tier) bool {
	if len(k.Tiers) == 0 {
		return t != goal.Default
	}
	return slices.Contains(k.Tiers, t)
}

// Doc is the prose of a knob: everything that `mpps explain` and the documentation page show.
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
//   - Because alone: whatever stands there is good, and why;
//   - Skip: the knob does not apply here, and why;
//   - Unsure: it cannot be judged, and what would tell;
//   - nothing: no opinion for this goal.
type Advice struct {
	Want     *setting.Want
	Because  string
	Skip     string
	Unsure   string
	Severity Severity         // of a finding, when the reading does not meet Want; zero means Medium
	Risk     goal.Risk        // when it differs from the knob's own
	Needs    setting.Needs    // what must happen before the change takes effect
	Warning  string           // for people: what this change stops or opens
	Rules    []string         // rules that would stop matching, shown before consent is asked for
	Default  string           // what an absent value stands for, where the kernel, QEMU or libvirt has a default
	Found    *setting.Reading // what a check worked out from the inventory, in place of a reading
	Site     string           // reason of the site file, where it put its wish in place of the knob's
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
	for i := Info; i <= Critical; i++ {
		if severityNames[i] == string(b) {
			*s = i
		}
	}
	return nil
}

// Wants is advice with a wanted value.
func Wants(w setting.Want, because string) Advice { return Advice{Want: &w, Because: because} }

// Fine is advice that whatever stands there is good.
func Fine(because string) Advice { return Advice{Because: because} }

// Skips is advice that the knob does not apply.
func Skips(why string) Advice { return Advice{Skip: why} }

// Unsure is advice that nothing can be said, and what would tell.
func Unsure(why string) Advice { return Advice{Unsure: why} }

// NoOpinion is advice of a knob without an opinion for this goal.
func NoOpinion() Advice { return Advice{} }

// At sets the severity of advice.
func (a Advice) At(s Severity) Advice { a.Severity = s; return a }

// restart marks advice that takes effect when the guest is restarted.
func (a Advice) restart(guest string) Advice { a.Needs = setting.RestartOf(guest); return a }

// warn adds a warning.
func (a Advice) warn(text string) Advice { a.Warning = text; return a }

// otherwise names what an absent value stands for.
func (a Advice) otherwise(value string) Advice { a.Default = value; return a }
