package acceptance

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"mpps/internal/model/setting"
	"mpps/internal/strictjson"
)

// Schema is the version of the report's format.
const Schema = "mpps.acceptance-report/1"

// Report is everything that was run on one machine, in order of the start. It is written after each step, so that a run
// continues where it was after a restart, a reboot or a kill.
type Report struct {
	Schema  string   `json:"schema"`
	Version string   `json:"mpps"`
	Machine *Machine `json:"machine"` // at the start of the last run
	Runs    []*Run   `json:"runs"`
}

// RunState is the state of a run.
type RunState string

const (
	Running RunState = "running" // or it was killed
	Waiting RunState = "waiting" // for a restart, a reboot or an agent
	Done    RunState = "done"
	Failed  RunState = "failed"
	Lacking RunState = "lacking" // a prerequisite is missing: nothing was run
)

// Run is one run of an experiment.
type Run struct {
	Name      string     `json:"name"`
	Title     string     `json:"title"`
	Founding  string     `json:"founding"`
	State     RunState   `json:"state"`
	Why       string     `json:"why,omitempty"` // why it waits or failed
	Hint      string     `json:"hint,omitempty"`
	Started   time.Time  `json:"started"`
	Seconds   float64    `json:"seconds"` // of its steps, without waiting
	Machine   *Machine   `json:"machine"` // when it ended or stopped
	Inputs    Inputs     `json:"inputs"`
	Checks    []Check    `json:"checks"`
	Steps     []StepDone `json:"steps"`
	Owes      Owed       `json:"owes"`
	Restarted bool       `json:"restarted"` // guest or host were restarted during the run
	// Standing are the transactions that were applied and not rolled back, oldest first.
	Standing []string `json:"standing"`
	Figures  []Judged `json:"figures"`
	Notes    []string `json:"notes"`
}

// StepDone is a step and its result.
type StepDone struct {
	Step
	State   StepState `json:"state"`
	Ran     []string  `json:"ran,omitempty"` // commands as run, if Argv does not have them (Undo)
	Started time.Time `json:"started"`
	Seconds float64   `json:"seconds"`
	Code    int       `json:"exit_code"`
	File    string    `json:"file,omitempty"`    // its answer, in the run's directory
	Answer  []string  `json:"answer,omitempty"`  // in words
	Problem string    `json:"problem,omitempty"` // its error
	Waited  *Waited   `json:"waited,omitempty"`
}

// StepState is the state of a step.
type StepState string

const (
	Pending StepState = "pending"
	Ended   StepState = "done"
	Skipped StepState = "skipped"
	Broke   StepState = "failed"
)

// Waited is the state of the machine when a step started to wait.
type Waited struct {
	BootID string `json:"boot_id"`
	PID    int    `json:"guest_pid"` // 0: it was not running
}

// Owed is what the changes so far wait for.
type Owed struct {
	Restart []string `json:"restart"` // of guests: "restart of guest vm1"
	Boot    bool     `json:"reboot"`
}

// Add adds what a change waits for: see knob.Needs.
func (o *Owed) Add(needs setting.Needs) {
	switch {
	case needs.Kind == setting.HostReboot:
		o.Boot = true
	case !needs.IsZero() && !slices.Contains(o.Restart, needs.String()):
		o.Restart = append(o.Restart, needs.String())
	}
}

// Begin returns a run with its steps, none of them done.
func (e *Experiment) Begin(in Inputs, now time.Time) *Run {
	r := &Run{Name: e.Name, Title: e.Title, Founding: e.Founding, State: Running, Started: now.UTC(), Inputs: in,
		Owes: Owed{Restart: []string{}}, Checks: []Check{}, Steps: []StepDone{}, Standing: []string{},
		Figures: []Judged{}, Notes: []string{}}
	for _, s := range e.Steps(in) {
		r.Steps = append(r.Steps, StepDone{Step: s, State: Pending})
	}
	return r
}

// Renew replaces the steps of a run that was read from a file by those of its experiment: they are commands that are
// run without a question, and the file may say anything. It leaves out what is not needed with Keep. It returns false
// if the file has others, such as those of another version.
func (r *Run) Renew() bool {
	steps := Find(r.Name).Steps(r.Inputs)
	if len(steps) > len(r.Steps) {
		return false
	}
	for i, s := range steps {
		if r.Steps[i].ID != s.ID || strings.Contains(r.Steps[i].File, "/") {
			return false
		}
		r.Steps[i].Step = s
	}
	r.Steps = r.Steps[:len(steps)]
	return true
}

// Next returns the next step, nil if there is none. It skips steps whose condition does not hold.
func (r *Run) Next() *StepDone {
	for i := range r.Steps {
		s := &r.Steps[i]
		if s.State == Ended || s.State == Skipped {
			continue
		}
		if s.State == Pending && !r.due(s) {
			s.State = Skipped
			continue
		}
		return s
	}
	return nil
}

func (r *Run) due(s *StepDone) bool {
	switch s.When {
	case IfRestart:
		return len(r.Owes.Restart) > 0
	case IfBoot:
		// What follows the reboot comes after the step that waited for it.
		return r.Owes.Boot || s.For != Boot && r.waited(Boot)
	case Restarted:
		return r.Restarted
	}
	if s.Phase == Undo {
		return len(r.Standing) > 0
	}
	return true
}

// waited reports whether the run has waited for something of this kind.
func (r *Run) waited(kind For) bool {
	return slices.ContainsFunc(r.Steps, func(s StepDone) bool { return s.For == kind && s.State == Ended })
}

// Over reports whether what a step waits for has happened, and if not, what to do.
func (s *StepDone) Over(now Waited, answers error) (bool, string) {
	switch s.For {
	case Boot:
		if now.BootID == s.Waited.BootID {
			return false, "reboot the host and start the guest"
		}
	case Restart:
		if now.PID == 0 {
			return false, "start the guest"
		}
		if now.PID == s.Waited.PID && now.BootID == s.Waited.BootID {
			return false, "shut the guest down and start it: a reboot from inside keeps its old definition"
		}
	case Answer:
		if answers != nil {
			return false, "nobody answers at " + s.At + " (" + answers.Error() + "): give the guest's new interface " +
				"that address, and start 'mpps agent' there"
		}
	}
	return true, ""
}

// Pass ends a wait.
func (r *Run) Pass(s *StepDone) {
	s.State = Ended
	switch s.For {
	case Boot: // which restarts guests too
		r.Owes, r.Restarted = Owed{Restart: []string{}}, true
	case Restart:
		r.Owes.Restart, r.Restarted = []string{}, true
	}
}

// Judge computes the figures.
func (r *Run) Judge(o *Outcomes) {
	e := Find(r.Name)
	r.Figures = []Judged{}
	if e == nil || r.Machine == nil {
		return
	}
	o.Short = r.Inputs.Short
	for _, f := range e.Figures(r.Inputs) {
		r.Figures = append(r.Figures, Judge(f, o, r.Machine, r.Inputs))
	}
}

// Last returns the last run of an experiment, nil if there is none.
func (p *Report) Last(name string) *Run {
	for _, r := range slices.Backward(p.Runs) {
		if r.Name == name {
			return r
		}
	}
	return nil
}

// Unfinished reports whether a run can continue.
func (r *Run) Unfinished() bool { return r != nil && r.State != Done && r.State != Lacking }

// ErrNotAReport is wrapped by every error about the content of a report file.
var ErrNotAReport = errors.New("not a report of mpps acceptance")

// maxReport is the largest report, in bytes; answers have their own files.
const maxReport = 16 << 20

// Decode reads a report.
func Decode(reader io.Reader) (*Report, error) {
	text, err := io.ReadAll(io.LimitReader(reader, maxReport+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxReport {
		return nil, fmt.Errorf("%w: larger than %d MiB", ErrNotAReport, maxReport>>20)
	}
	p := &Report{}
	if err := strictjson.Unmarshal(text, p); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotAReport, err)
	}
	if p.Schema != Schema {
		return nil, fmt.Errorf("%w: found schema %q, expected %q", ErrNotAReport, p.Schema, Schema)
	}
	for i, r := range p.Runs {
		if r == nil || Find(r.Name) == nil {
			return nil, fmt.Errorf("%w: run %d is of no known experiment", ErrNotAReport, i+1)
		}
	}
	return p, nil
}
