package report

import (
	"fmt"
	"slices"
	"time"

	"mpps/internal/facts"
	"mpps/internal/measure"
	"mpps/internal/plan"
)

// Document is everything that one HTML report shows. Whatever is empty is left out of the page.
type Document struct {
	Schema   string       `json:"schema"` // mpps.report/1
	Title    string       `json:"title"`
	Made     time.Time    `json:"made"`
	Version  string       `json:"mpps"`
	Seconds  float64      `json:"seconds,omitempty"` // how long the work took that is reported on
	Host     HostLine     `json:"host"`
	Goal     string       `json:"goal,omitempty"`
	Path     []Stop       `json:"path"`
	Series   []Series     `json:"series"` // in the order in which they were measured
	Compared *Compared    `json:"compared,omitempty"`
	Modes    []Modes      `json:"modes,omitempty"`
	Rates    []Rates      `json:"rates,omitempty"`
	Wakeups  []Wakeups    `json:"wakeups,omitempty"`
	Changes  []ChangeRow  `json:"changes"`
	Refused  []ChangeRow  `json:"not_changed"` // what the plan left out, and why
	Rollback *RollbackRow `json:"rollback,omitempty"`
	Warnings []Caveat     `json:"warnings"`
	Method   []string     `json:"method"` // sentences
}

// DocumentSchema is the version of the data embedded in a report.
const DocumentSchema = "mpps.report/1"

// HostLine is who was measured.
type HostLine struct {
	Name     string `json:"name"`
	Kernel   string `json:"kernel"`
	CPU      string `json:"cpu_model"`
	CPUs     int    `json:"cpus"`
	Nodes    int    `json:"numa_nodes"`
	Memory   uint64 `json:"memory_bytes"`
	Emulated bool   `json:"emulated"`
	Virtual  string `json:"virtual,omitempty"`
}

// Stop is one station of the drawn packet path.
type Stop struct {
	Stage   string `json:"stage"`
	Name    string `json:"name"`
	Before  string `json:"before"`
	After   string `json:"after,omitempty"` // empty: as before
	Packets uint64 `json:"packets"`         // that passed in the last series that changed it; 0: not known
	Lost    uint64 `json:"lost"`            // seen to be lost here before
}

// Changed tells whether the station is another one after the changes.
func (s Stop) Changed() bool { return s.After != "" && s.After != s.Before }

// Series is one set of samples of the same thing.
type Series struct {
	Label string       `json:"label"` // before, after, rolled back
	Run   *measure.Run `json:"run"`
	RR    *measure.Run `json:"rr,omitempty"` // transactions measured in the same state
}

// Compared is the verdict over two series.
type Compared struct {
	From       string              `json:"from"`
	To         string              `json:"to"`
	Kind       measure.Kind        `json:"kind,omitempty"` // of the throughput; empty: pps
	Throughput measure.Comparison  `json:"throughput"`
	RoundTrips *measure.Comparison `json:"round_trips,omitempty"`
	Cost       *measure.Comparison `json:"cpu_ns_per_unit,omitempty"` // of the throughput's unit
}

// ChangeRow is one change in words.
type ChangeRow struct {
	ID      string `json:"id"`
	Title   string `json:"title"`
	Stage   string `json:"stage"`
	Address string `json:"address"`
	From    string `json:"from"`
	To      string `json:"to"`
	Because string `json:"because"`
	Risk    string `json:"risk,omitempty"`
	Lasts   string `json:"lasts,omitempty"`
	Needs   string `json:"needs,omitempty"`
	Undo    string `json:"undo,omitempty"`
}

// RollbackRow is the proof that everything was put back.
type RollbackRow struct {
	Identical   bool     `json:"identical"`
	Compared    int      `json:"settings_compared"`
	Differences []string `json:"differences"`
	Seconds     float64  `json:"seconds"`
}

// HostOf is the line of a host.
func HostOf(h *facts.Host) HostLine {
	line := HostLine{
		Name: h.Name, Kernel: h.Kernel.Release, CPU: h.Topology.Model, CPUs: h.Topology.Counts.CPUsOnline,
		Nodes: h.Topology.Counts.NUMANodes, Emulated: h.Emulated, Virtual: h.Virtual,
	}
	for _, n := range h.Topology.Nodes {
		line.Memory += n.Memory
	}
	return line
}

// Rows are planned changes in words.
func Rows(changes []plan.Change) []ChangeRow {
	rows := make([]ChangeRow, 0, len(changes))
	for _, c := range changes {
		rows = append(rows, ChangeRow{
			ID: c.ID, Title: c.Title, Stage: c.Stage.String(), Address: c.Address.String(), From: shown(c.From.String()), To: shown(c.To.String()),
			Because: c.Because, Risk: string(c.Risk), Lasts: string(c.Lasts), Needs: c.Needs.String(), Undo: "mpps rollback",
		})
	}
	return rows
}

// SkippedRows are what a plan left alone, with the reason: values that cannot be set, and risks nobody consented to.
func SkippedRows(p *plan.Plan) []ChangeRow {
	var rows []ChangeRow
	for _, s := range p.Skipped {
		rows = append(rows, ChangeRow{ID: s.ID, Title: s.ID, Address: s.Address.String(), From: s.Found, To: s.Wanted, Because: s.Why})
	}
	for _, c := range p.Consent {
		row := Rows([]plan.Change{c})[0]
		row.Because = fmt.Sprintf("needs --consent %s: %s", c.Risk, c.Because)
		rows = append(rows, row)
	}
	return rows
}

// Warn adds a caveat unless one of the same code and text is there.
func (d *Document) Warn(w Warning) {
	if c := (Caveat{w, w.Hint}); !slices.Contains(d.Warnings, c) {
		d.Warnings = append(d.Warnings, c)
	}
}

// Verdict is the document's first sentence.
func Verdict(d *Document) string { return headlineOf(d) }
