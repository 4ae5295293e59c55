// Package realtime judges whether the CPUs set aside for realtime guests are quiet: whether kernel, interrupts, control
// groups, guest definitions and threads agree on them, and what ran there while mpps watched. It uses facts and an
// observation, never the machine. docs/realtime.md has the list of checks and the reasons.
package realtime

import (
	"cmp"
	"fmt"
	"slices"

	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

// Scope is the CPUs that should be quiet.
type Scope struct {
	CPUs  setting.CPUSet `json:"cpus"`
	From  string         `json:"from"`            // source: "--cpus", "the pins of guest rt1", "isolcpus, nohz_full"
	Guest string         `json:"guest,omitempty"` // the guest that the user named; empty: none
}

// Family is the subject of a finding.
type Family string

// The families, in the order of docs/realtime.md.
const (
	Lists        Family = "lists"        // lists of CPUs that must agree
	Guests       Family = "guests"       // definitions, and threads of running guests
	Threads      Family = "threads"      // what runs or may run on the CPUs
	Interrupts   Family = "interrupts"   // what interrupts the CPUs
	Kernel       Family = "kernel"       // the kernel's own work
	Cgroups      Family = "cgroups"      // control groups that confine or pull threads
	Housekeeping Family = "housekeeping" // the CPUs left for the host
)

// Kind is one thing that can be wrong.
type Kind struct {
	ID       string        `json:"id"` // stable: programs may rely on it
	Family   Family        `json:"family"`
	Title    string        `json:"title"`
	Severity knob.Severity `json:"severity"` // usual one; a finding may have another
	Why      string        `json:"why"`      // it matters
	Knob     string        `json:"knob"`     // that fixes it; empty: none
}

// Finding is one contradiction, or one intruder.
type Finding struct {
	ID string `json:"id"` // of its kind
	// "isolcpus", "cpu 20", "guest rt1 vcpu 0", "irq 45 nvme0q1", "thread kworker/3:1 (812)"
	Object   string             `json:"object"`
	CPUs     setting.CPUSet     `json:"cpus"` // affected
	Severity knob.Severity      `json:"severity"`
	Found    string             `json:"found"`   // in words, with numbers
	Numbers  map[string]float64 `json:"numbers"` // for programs: seconds, run_ms, switches, per_second …
	Why      string             `json:"why"`     // it matters
	Do       string             `json:"do"`      // command or setting that fixes it, or why nothing can
	Knob     string             `json:"knob"`    // of the catalogue that fixes it; empty: none
	Mendable bool               `json:"mendable"`
}

// Unjudged is something that could not be judged, and why. It is never a finding.
type Unjudged struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// State is the result of a check.
type State string

// The states.
const (
	Consistent   State = "consistent"   // no findings
	Contradicted State = "contradicted" // findings
	NotIsolated  State = "not-isolated" // no CPU to judge
)

// Report is the result of a check.
type Report struct {
	State    State          `json:"state"`
	Verdict  string         `json:"verdict"` // in one sentence
	Scope    Scope          `json:"scope"`
	House    setting.CPUSet `json:"housekeeping"` // online CPUs left for the host
	Guests   []string       `json:"guests"`       // that the CPUs are for
	Findings []Finding      `json:"findings"`     // worst first
	Unjudged []Unjudged     `json:"unjudged"`
	Seconds  float64        `json:"seconds"`  // observed; 0: not at all
	Watching float64        `json:"watch_ms"` // CPU time of observing
	Ran      []Ran          `json:"ran"`      // on the CPUs, longest first
}

// Ran is one thread that ran on the CPUs while they were watched.
type Ran struct {
	Thread   string         `json:"thread"` // name and TID
	Of       string         `json:"of"`     // guest rt1 vcpu 0, guest rt1 vhost, kernel, user
	CPU      int            `json:"cpu"`    // last one
	Affinity setting.CPUSet `json:"affinity"`
	RunMS    float64        `json:"run_ms"` // on all CPUs that it may use
	Switches uint64         `json:"switches"`
	Policy   string         `json:"policy"`
	Expected bool           `json:"expected"` // it belongs there
}

// AtLeast returns the findings of a severity or a worse one.
func (r *Report) AtLeast(severity knob.Severity) []Finding {
	return facts.Where(r.Findings, func(f Finding) bool { return f.Severity >= severity })
}

// Check judges the CPUs of a scope by the facts of the host and an observation (nil: none). It is pure: the same facts
// give the same report.
func Check(h *facts.Host, o *facts.Observation, s Scope) *Report {
	v := newView(h, o, s)
	r := &Report{Scope: v.s, House: v.house}
	if len(v.s.CPUs) == 0 {
		r.State, r.Verdict = NotIsolated, "no CPU is set aside for realtime: none is isolated or without a tick, no "+
			"guest has pinned vCPUs with a realtime priority, and none was named"
		return r
	}
	for _, judge := range []func(*view){judgeLists, judgeGuests, judgeThreads, judgeInterrupts, judgeKernel,
		judgeCgroups, judgeHousekeeping} {
		judge(v)
	}
	slices.SortStableFunc(v.findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(order(a.ID), order(b.ID)))
	})
	r.Findings, r.Unjudged, r.Ran = v.findings, v.unjudged, v.ranThreads()
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

// verdict returns the state and the sentence for it.
func (v *view) verdict() (State, string) {
	cpus := v.s.CPUs.Words()
	tail := words.If(len(v.unjudged) > 0, "; %s could not be judged", words.Count(len(v.unjudged), "thing")) +
		words.If(v.o == nil, "; nobody watched what runs there")
	if len(v.findings) == 0 {
		return Consistent, fmt.Sprintf("nothing contradicts that %s should be quiet (%s)%s", cpus, v.s.From, tail)
	}
	var parts []string
	for severity := knob.Critical; severity >= knob.Info; severity-- {
		n := facts.Count(v.findings, func(f Finding) bool { return f.Severity == severity })
		parts = append(parts, words.If(n > 0, "%d %s", n, severity))
	}
	what := words.Count(len(v.findings), "contradiction or intruder", "contradictions and intruders")
	return Contradicted, fmt.Sprintf("%s (%s): %s, %s%s", cpus, v.s.From, what, words.Join(", ", parts...), tail)
}
