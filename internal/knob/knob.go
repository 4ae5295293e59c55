// Package knob is the catalogue: every value that can hold a packet back, what it should be for a goal, and why. A knob
// is a declaration: it names addresses and wanted values and never touches the machine.
package knob

import (
	"mpps/internal/datapath"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

// Knob is one entry of the catalogue. Its ID is its name in outputs, plans, journals and documentation, and is never
// reused for something else.
type Knob struct {
	ID    string
	Title string
	Stage datapath.Stage
	Risk  goal.Risk   // the worst that a change of it can do
	After []string    // IDs of knobs that must be applied earlier where both change
	Tiers []goal.Tier // tiers in which it has an opinion; empty means all above default
	Doc   Doc

	// Where lists the addresses that the knob speaks of, from the inventory alone, before any value is read.
	Where func(h *facts.Host) []setting.Address
	// Want gives the knob's opinion of one of these addresses. It may look at all facts, and answers the same for the
	// same facts.
	Want func(h *facts.Host, g goal.Goal, a setting.Address) Advice
}

// Doc is the prose of a knob: everything that `mpps explain` and the documentation page show.
type Doc struct {
	Why     string   // what the value does on the packet path, and when it matters
	Cost    string   // what is given up
	Verify  string   // how a person sees that it worked
	Traps   []string // old advice that is wrong, driver quirks, misspellings that people search for
	Sources []Source
}

// Source is where a fact comes from.
type Source struct {
	Fact  string // what it supports
	Where string // kernel file or commit, RFC section, driver, QEMU source, measured experience
}

// Advice is a knob's opinion of one address. Exactly one of three holds: Want is set (with Because), Skip is set (the
// knob does not apply here, and why), or both are empty (no opinion for this goal).
type Advice struct {
	Want     *setting.Want
	Because  string
	Skip     string
	Severity Severity  // of a finding, when the reading does not meet Want; zero means Medium
	Risk     goal.Risk // when it differs from the knob's own
	Needs    string    // what must happen before the change takes effect: "restart of guest vm1", "" for at once
	Warning  string    // for people: what this change stops or opens
	Rules    []string  // rules that would stop matching, shown before consent is asked for
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

// Skips is advice that the knob does not apply.
func Skips(why string) Advice { return Advice{Skip: why} }

// NoOpinion is advice of a knob that does not care for this goal.
func NoOpinion() Advice { return Advice{} }
