// Package acceptance is the protocol by which a person repeats the founding experiments on hardware of their own: what
// must be there, which commands of mpps are run in which order, what the founding experiment had, and how what came out
// compares. One file an experiment. It is pure: it names commands and judges results, and runs nothing.
package acceptance

import "time"

// Experiment is one founding experiment.
type Experiment struct {
	Name     string
	Title    string
	Founding string        // what it was then: machine, load, outcome
	Takes    time.Duration // with the defaults, restarts left out
	Wants    []string      // machines, cabling and the like, as sentences
	Needs    []Need        // what is looked at before anything is run
	Steps    func(Inputs) []Step
	Figures  func(Inputs) []Figure
	NoLab    string // why the lab cannot run it; empty: it can
}

// All lists the experiments in the order in which they are done on a machine: none spoils the next.
func All() []*Experiment {
	return []*Experiment{throughput, queues, sriov, modes, realtime}
}

// Names are the experiments' names.
func Names() []string {
	var names []string
	for _, e := range All() {
		names = append(names, e.Name)
	}
	return names
}

// Find is the experiment of a name; nil where there is none.
func Find(name string) *Experiment {
	for _, e := range All() {
		if e.Name == name {
			return e
		}
	}
	return nil
}

// Phase is the part of an experiment that a step belongs to.
type Phase string

// The phases, in their order.
const (
	Look   Phase = "look"   // reads, and changes nothing
	Before Phase = "before" // measures what is found
	Mend   Phase = "mend"   // changes the machine, as a transaction
	Wait   Phase = "wait"   // for something that mpps never does by itself
	After  Phase = "after"  // measures again
	Undo   Phase = "undo"   // puts back what Mend changed
)

// Gives is what a step's answer is.
type Gives string

// What answers are.
const (
	Nothing  Gives = ""         // nothing that is judged
	GivesRun Gives = "run"      // measure.Run
	Searched Gives = "search"   // measure.Search
	Campaign Gives = "modes"    // measure.Modes
	Planned  Gives = "plan"     // plan.Plan
	Applied  Gives = "tx"       // a transaction, to be put back in the end
	Wakeups  Gives = "wake-ups" // what mpps latency answers
)

// For is what a step waits for.
type For string

// What is waited for.
const (
	Restart For = "restart" // of the guest, by the person
	Boot    For = "boot"    // of the host, by the person
	Answer  For = "answer"  // of the agent of Step.At
)

// When is the condition of a step.
type When string

// The conditions. Owed is what the changes so far wait for.
const (
	Always    When = ""
	IfRestart When = "restart owed"
	IfBoot    When = "reboot owed"
	// the guest or the host was started anew on the way: what exists only since then can be planned
	Restarted When = "restarted"
)

// Step is one step of an experiment: a command of mpps, or something to wait for.
type Step struct {
	ID    string `json:"id"`
	Phase Phase  `json:"phase"`
	Does  string `json:"does"` // what for, as a sentence without a full stop
	// behind "mpps"; none where it waits, or where only what was applied tells (Undo)
	Argv []string `json:"argv,omitempty"`
	// Again goes on with it where it was interrupted, once Kept is there.
	Again []string `json:"again,omitempty"`
	Kept  string   `json:"kept,omitempty"`
	// Beside is a command that makes load while the step runs: what is watched must have packets to see.
	Beside []string `json:"beside,omitempty"`
	Gives  Gives    `json:"gives,omitempty"`
	For    For      `json:"for,omitempty"`
	At     string   `json:"at,omitempty"` // HOST:PORT that must answer
	When   When     `json:"when,omitempty"`
	Codes  []int    `json:"codes,omitempty"` // exit codes beside 0 that are an answer too
}

// Changes reports whether the step changes the machine.
func (s *Step) Changes() bool { return s.Phase == Mend && s.Gives == Applied || s.Phase == Undo }

// Condition is what a step depends on, in words; empty where it is always done.
func (s *Step) Condition() string {
	switch s.When {
	case IfRestart:
		return "only if a change waits for the guest"
	case IfBoot:
		return "only if a change waits for a reboot"
	case Restarted:
		return "only after a restart"
	}
	return ""
}

// limited is the exit code of a measurement that generator or receiver limited: a result, and judged as such.
const limited = 5
