// Package acceptance is the protocol for repeating the founding experiments on one's own hardware: the prerequisites,
// the commands of mpps in order, the figures of the founding experiment, and how the new ones compare. There is one
// file per experiment. It is pure: it names commands and judges results, and runs nothing.
package acceptance

import (
	"slices"
	"time"

	"mpps/internal/model/facts"
)

// Experiment is one founding experiment.
type Experiment struct {
	Name     string
	Title    string
	Founding string        // the original: machine, load, outcome
	Takes    time.Duration // with the defaults, without restarts
	Wants    []string      // machines, cabling and the like, as sentences
	Needs    []Need        // prerequisites checked before anything runs
	Steps    func(Inputs) []Step
	Figures  func(Inputs) []Figure
	NoLab    string // why the lab cannot run it; empty: it can
}

// All lists the experiments in the order to run them on one machine: none affects a later one.
func All() []*Experiment {
	return []*Experiment{throughput, queues, sriov, modes, realtime}
}

// Names returns the experiments' names.
func Names() []string {
	return facts.Map(All(), func(e *Experiment) string { return e.Name })
}

// Find returns the experiment with a name, nil if there is none.
func Find(name string) *Experiment {
	all := All()
	i := slices.IndexFunc(all, func(e *Experiment) bool { return e.Name == name })
	if i < 0 {
		return nil
	}
	return all[i]
}

// Phase is the part of an experiment that a step belongs to.
type Phase string

// The phases, in order.
const (
	Look   Phase = "look"   // reads, and changes nothing
	Before Phase = "before" // measures the machine as it is found
	Mend   Phase = "mend"   // changes the machine, as a transaction
	Wait   Phase = "wait"   // waits for something that mpps never does by itself
	After  Phase = "after"  // measures again
	Undo   Phase = "undo"   // puts back what Mend changed
)

// Gives is the kind of a step's answer.
type Gives string

const (
	Nothing  Gives = ""         // nothing to judge
	GivesRun Gives = "run"      // measure.Run
	Searched Gives = "search"   // measure.Search
	Campaign Gives = "modes"    // measure.Modes
	Planned  Gives = "plan"     // plan.Plan
	Applied  Gives = "tx"       // a transaction, to be rolled back in the end
	Wakeups  Gives = "wake-ups" // answer of mpps latency
	Watched  Gives = "path"     // queuepath.Path
)

// For is what a step waits for.
type For string

const (
	Restart For = "restart" // of the guest, by the user
	Boot    For = "boot"    // of the host, by the user
	Answer  For = "answer"  // of the agent of Step.At
)

// When is the condition of a step.
type When string

// The conditions. Owed: some change so far waits for it.
const (
	Always    When = ""
	IfRestart When = "restart owed"
	IfBoot    When = "reboot owed"
	// the guest or the host was restarted during the run: what exists only since then can be planned
	Restarted When = "restarted"
)

// Step is one step of an experiment: a command of mpps, or a wait.
type Step struct {
	ID    string `json:"id"`
	Phase Phase  `json:"phase"`
	Does  string `json:"does"` // its purpose, as a sentence without a full stop
	// arguments of mpps; none for a wait, or if they depend on what was applied (Undo)
	Argv []string `json:"argv,omitempty"`
	// Again resumes the command after an interruption, once the file Kept exists.
	Again []string `json:"again,omitempty"`
	Kept  string   `json:"kept,omitempty"`
	// Beside is a command that makes load while the step runs: watching packets needs packets.
	Beside []string `json:"beside,omitempty"`
	Gives  Gives    `json:"gives,omitempty"`
	For    For      `json:"for,omitempty"`
	At     string   `json:"at,omitempty"` // HOST:PORT that must answer
	When   When     `json:"when,omitempty"`
	Codes  []int    `json:"codes,omitempty"` // exit codes other than 0 that still give an answer
	// Queues is how many queues of the guest's tap must carry packets while the step watches them; 0: any number.
	Queues int `json:"min_tap_queues,omitempty"`
}

// Changes reports whether the step changes the machine.
func (s *Step) Changes() bool { return s.Phase == Mend && s.Gives == Applied || s.Phase == Undo }

// Condition describes when the step is done; empty if always.
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

// limited is the exit code of a measurement that the generator or receiver limited, which is still a result.
const limited = 5
