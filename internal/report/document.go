package report

import (
	"time"

	"mpps/internal/measure"
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
	From, To   string
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
