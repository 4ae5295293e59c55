// Package realtime judges whether CPUs that are set aside for realtime guests are really theirs: whether all that says
// which CPU is for what agrees (kernel, interrupts, control groups, definitions, threads), and what took time there
// while mpps watched. It sees facts and an observation, never the machine. docs/realtime.md says what is checked and
// why.
package realtime

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// Scope is what is judged: the CPUs that should be quiet.
type Scope struct {
	CPUs setting.CPUSet `json:"cpus"`
	// who says so: "--cpus", "the pins of guest rt1", "isolcpus, nohz_full"
	From  string `json:"from"`
	Guest string `json:"guest,omitempty"` // the one guest that they are for, where the user named it
}

// Family says what a finding is about.
type Family string

// The families, in the order of docs/realtime.md.
const (
	Lists        Family = "lists"        // lists of CPUs that must agree
	Guests       Family = "guests"       // definitions, and threads of guests that run
	Threads      Family = "threads"      // what runs or may run there
	Interrupts   Family = "interrupts"   // what interrupts there
	Kernel       Family = "kernel"       // the kernel's own work
	Cgroups      Family = "cgroups"      // control groups that hold or pull threads
	Housekeeping Family = "housekeeping" // the CPUs that are left for the host
)

// Kind is one thing that can be wrong.
type Kind struct {
	ID       string        `json:"id"` // stable: programs may rely on it
	Family   Family        `json:"family"`
	Title    string        `json:"title"`
	Severity knob.Severity `json:"severity"` // the usual one; a finding may be milder
	Why      string        `json:"why"`      // it matters
	Knob     string        `json:"knob"`     // that mends it, empty where none does
}

// Finding is one contradiction, or one intruder.
type Finding struct {
	ID string `json:"id"` // of its kind
	// "isolcpus", "cpu 20", "guest rt1 vcpu 0", "irq 45 nvme0q1", "thread kworker/3:1 (812)"
	Object   string             `json:"object"`
	CPUs     setting.CPUSet     `json:"cpus"` // that it concerns
	Severity knob.Severity      `json:"severity"`
	Found    string             `json:"found"`   // with its numbers
	Numbers  map[string]float64 `json:"numbers"` // the same for programs: seconds, run_ms, switches, per_second …
	Why      string             `json:"why"`
	Do       string             `json:"do"`       // the command or setting that mends it, or why nothing can
	Knob     string             `json:"knob"`     // of the catalogue, which sets it; empty where none does
	Mendable bool               `json:"mendable"` // false: the kernel offers no way
}

// Unjudged is what could not be judged, and why. It is never a finding.
type Unjudged struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// State is the answer in one word.
type State string

// The states.
const (
	Consistent   State = "consistent"   // nothing contradicts
	Contradicted State = "contradicted" // there are findings
	NotIsolated  State = "not-isolated" // there is no CPU to judge
)

// Report is what a check found.
type Report struct {
	State    State          `json:"state"`
	Verdict  string         `json:"verdict"` // in one sentence
	Scope    Scope          `json:"scope"`
	House    setting.CPUSet `json:"housekeeping"` // CPUs that are left for the host
	Guests   []string       `json:"guests"`       // whose vCPUs are on the CPUs
	Findings []Finding      `json:"findings"`     // worst first
	Unjudged []Unjudged     `json:"unjudged"`
	Seconds  float64        `json:"seconds"`  // watched; 0: nobody did
	Watching float64        `json:"watch_ms"` // CPU time that it took
	Ran      []Ran          `json:"ran"`      // on the CPUs, longest first
}

// Ran is one thread that ran on the CPUs within the interval.
type Ran struct {
	Thread   string         `json:"thread"` // name and number
	Of       string         `json:"of"`     // guest rt1 vcpu 0, guest rt1 vhost, kernel, user
	CPU      int            `json:"cpu"`    // the last one
	Affinity setting.CPUSet `json:"affinity"`
	RunMS    float64        `json:"run_ms"` // on all CPUs together, where it may use several
	Switches uint64         `json:"switches"`
	Policy   string         `json:"policy"`
	Expected bool           `json:"expected"` // it is what the CPU is for
}

// AtLeast are the findings of a severity or a worse one.
func (r *Report) AtLeast(worst knob.Severity) []Finding {
	var found []Finding
	for _, f := range r.Findings {
		if f.Severity >= worst {
			found = append(found, f)
		}
	}
	return found
}

// Check judges the CPUs of a scope by the facts of their host and, where somebody watched, by what was seen. It is
// pure: the same facts give the same report.
func Check(h *facts.Host, o *facts.Observation, s Scope) *Report {
	v := newView(h, o, s)
	r := &Report{Scope: v.s, House: v.house}
	if len(v.s.CPUs) == 0 {
		r.State, r.Verdict = NotIsolated, "no CPU is set aside for realtime: none is isolated or without a tick, no "+
			"guest has pinned vCPUs with a realtime priority, and none was named"
		return r
	}
	for _, judge := range []func(*view){lists, guests, threads, interrupts, kernelWork, cgroups, housekeeping} {
		judge(v)
	}
	slices.SortStableFunc(v.found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(order(a.ID), order(b.ID)))
	})
	r.Findings, r.Unjudged, r.Ran = v.found, v.unjudged, v.ran()
	for _, g := range v.guests {
		if g.realtime {
			r.Guests = append(r.Guests, g.f.Name)
		}
	}
	if o != nil && v.o != nil {
		r.Seconds, r.Watching = o.Seconds, o.CostMS
	}
	r.State, r.Verdict = v.verdict()
	return r
}

// verdict is the answer in one word and in one sentence.
func (v *view) verdict() (State, string) {
	cpus := named(v.s.CPUs)
	tail := ""
	if len(v.unjudged) > 0 {
		tail = fmt.Sprintf("; %s could not be judged", counted(len(v.unjudged), "thing"))
	}
	if v.o == nil {
		tail += "; nobody watched what runs there"
	}
	if len(v.found) == 0 {
		return Consistent, fmt.Sprintf("nothing contradicts that %s should be quiet (%s)%s", cpus, v.s.From, tail)
	}
	var parts []string
	for severity := knob.Critical; severity >= knob.Info; severity-- {
		n := 0
		for _, f := range v.found {
			if f.Severity == severity {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, severity))
		}
	}
	return Contradicted, fmt.Sprintf("%s (%s): %s, %s%s", cpus, v.s.From, contradictions(len(v.found)),
		strings.Join(parts, ", "), tail)
}

func contradictions(n int) string {
	if n == 1 {
		return "1 contradiction or intruder"
	}
	return fmt.Sprintf("%d contradictions and intruders", n)
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
