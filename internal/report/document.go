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
	Changes  []ChangeRow  `json:"changes"`
	Refused  []ChangeRow  `json:"not_changed"` // what the plan left out, and why
	Rollback *RollbackRow `json:"rollback,omitempty"`
	Warnings []Warning    `json:"warnings"`
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
	Throughput measure.Comparison  `json:"throughput"`
	RoundTrips *measure.Comparison `json:"round_trips,omitempty"`
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
			Because: c.Because, Risk: string(c.Risk), Lasts: string(c.Lasts), Needs: c.Needs, Undo: "mpps rollback",
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
	if !slices.Contains(d.Warnings, w) {
		d.Warnings = append(d.Warnings, w)
	}
}

// Verdict is the document's first sentence.
func Verdict(d *Document) string { return headlineOf(d) }

// Add puts a run into the document: packet runs as a series of their own, transactions beside the series of the same
// label.
func (d *Document) Add(label string, r *measure.Run) {
	if d.Host.Name == "" {
		d.Host = HostLine{Name: r.Host, Kernel: r.Environment.Kernel, CPU: r.Environment.CPU, CPUs: r.Environment.CPUs,
			Emulated: r.Environment.Emulated, Virtual: r.Environment.Virtual}
	}
	d.Host.Emulated = d.Host.Emulated || r.Environment.Emulated
	for _, w := range r.Warnings {
		d.Warn(Warning{Code: w.Code, Text: label + ": " + w.Text, Hint: w.Hint})
	}
	if r.Kind == measure.RR {
		for i := range d.Series {
			if d.Series[i].Label == label && d.Series[i].RR == nil {
				d.Series[i].RR = r
				return
			}
		}
		d.Series = append(d.Series, Series{Label: label, RR: r})
		return
	}
	for i := range d.Series {
		if d.Series[i].Label == label && d.Series[i].Run == nil {
			d.Series[i].Run = r
			return
		}
	}
	d.Series = append(d.Series, Series{Label: label, Run: r})
}

// AddAB adds both sides of an interleaved comparison, and its verdict where the document has none yet.
func (d *Document) AddAB(ab *measure.AB) {
	first := len(d.Series) == 0
	d.Add(ab.BeforeRun.Name, &ab.BeforeRun)
	d.Add(ab.AfterRun.Name, &ab.AfterRun)
	if first && ab.Kind != measure.RR {
		d.Compared = &Compared{From: ab.BeforeRun.Name, To: ab.AfterRun.Name, Throughput: ab.Comparison}
	}
}

// CompareFirstTwo compares the first two series, where they measured the same thing.
func (d *Document) CompareFirstTwo() {
	if len(d.Series) < 2 {
		return
	}
	a, b := d.Series[0], d.Series[1]
	if a.Run == nil || b.Run == nil || a.Run.Kind != b.Run.Kind {
		return
	}
	d.Compared = &Compared{From: a.Label, To: b.Label, Throughput: measure.Compare(a.Run.Values(), b.Run.Values())}
	if a.RR != nil && b.RR != nil {
		c := measure.Compare(a.RR.Values(), b.RR.Values())
		d.Compared.RoundTrips = &c
	}
}
