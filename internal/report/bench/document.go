// Package bench makes the page of measurements: what was compared, how it came out, and what was changed for it.
package bench

import (
	"slices"
	"time"

	"mpps/internal/facts"
	"mpps/internal/measure"
	"mpps/internal/measure/wakeup"
	"mpps/internal/report"
)

// Document is everything that one page shows. Whatever is empty is left out of the page.
type Document struct {
	Schema   string             `json:"schema"` // mpps.report/1
	Title    string             `json:"title"`
	Made     time.Time          `json:"made"`
	Version  string             `json:"mpps"`
	Seconds  float64            `json:"seconds,omitempty"` // how long the work took that is reported on
	Host     HostLine           `json:"host"`
	Goal     string             `json:"goal,omitempty"`
	Path     []Stop             `json:"path"`
	Series   []Series           `json:"series"` // in the order in which they were measured
	Compared *Compared          `json:"compared,omitempty"`
	Modes    []Modes            `json:"modes,omitempty"`
	Rates    []Rates            `json:"rates,omitempty"`
	Wakeups  []Wakeups          `json:"wakeups,omitempty"`
	Changes  []report.ChangeRow `json:"changes"`
	Refused  []report.ChangeRow `json:"not_changed"` // what the plan left out, and why
	Rollback *RollbackRow       `json:"rollback,omitempty"`
	Warnings []report.Warning   `json:"warnings"`
	Method   []string           `json:"method"` // sentences
}

// DocumentSchema is the version of the data embedded in a page.
const DocumentSchema = "mpps.report/1"

// HostLine is which host was measured.
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

// Stop is one station of the drawn packet path.
type Stop struct {
	Stage   string `json:"stage"`
	Name    string `json:"name"`
	Before  string `json:"before"`
	After   string `json:"after,omitempty"` // empty: as before
	Packets uint64 `json:"packets"`         // that passed in the last series that changed it; 0: not known
	Lost    uint64 `json:"lost"`            // seen to be lost here before
}

// Changed reports whether the station differs after the changes.
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

// RollbackRow is the proof that everything was put back.
type RollbackRow struct {
	Identical   bool     `json:"identical"`
	Compared    int      `json:"settings_compared"`
	Differences []string `json:"differences"`
	Seconds     float64  `json:"seconds"`
}

// Wakeups is a measurement of wake-up latency. What the host counted meanwhile is left out: the file has it.
type Wakeups struct {
	Label string       `json:"label"` // before, after
	File  *wakeup.File `json:"file"`
}

// Modes is one quantity measured in several modes of a NIC: a group of bars for each mode.
type Modes struct {
	Title  string    `json:"title"`            // "TCP stream", "TCP transactions", "packets of 64 bytes"
	Unit   string    `json:"unit"`             // of the values: "bit/s", "transaction/s", "packet/s"
	Note   string    `json:"note,omitempty"`   // a sentence for people
	Native string    `json:"native,omitempty"` // the mode that is 100 %; empty: none, the bars are values
	Bars   []ModeBar `json:"bars"`
}

// ModeBar is one mode.
type ModeBar struct {
	Mode  string  `json:"mode"` // "e1000", "vhost-net", "native"
	Value float64 `json:"value"`
	Lo    float64 `json:"lo"` // of the value's interval
	Hi    float64 `json:"hi"`
	N     int     `json:"n"` // trials
	// Percent is the value as percent of native's, with its interval; 0 where there is no native.
	Percent   float64 `json:"percent_of_native,omitempty"`
	PercentLo float64 `json:"percent_lo,omitempty"`
	PercentHi float64 `json:"percent_hi,omitempty"`
	// CPUIdle is the share of the host's CPU time that was left, 0–100; nil where it is not known.
	CPUIdle *Percentage `json:"cpu_idle,omitempty"`
	Same    bool        `json:"no_difference,omitempty"` // from native, that is significant
	Missing string      `json:"missing,omitempty"`       // why there is no value: "the kernel has no vhost_net"
	Caveat  string      `json:"caveat,omitempty"`        // what to know of the value: "limited by the generator"
}

// Percentage is a share with its interval, 0–100. Lo and Hi are equal where there is none.
type Percentage struct {
	Value float64 `json:"value"`
	Lo    float64 `json:"lo"`
	Hi    float64 `json:"hi"`
}

// Rates is what a search found: the highest rates without loss and within a loss.
type Rates struct {
	Label   string      `json:"label"`
	NDR     *RateBounds `json:"ndr,omitempty"` // no loss
	PDR     *RateBounds `json:"pdr,omitempty"` // no more loss than PDRLoss
	PDRLoss float64     `json:"pdr_loss_ratio,omitempty"`
	Floor   float64     `json:"loss_floor_ratio,omitempty"` // least loss of any rate, 0–1; more than 0: no NDR
	Trials  []RateTrial `json:"trials,omitempty"`
	Caveat  string      `json:"caveat,omitempty"`
}

// RateBounds are the relevant bounds of a goal, in packets per second. An UpperPPS of 0 says that none was found: the
// rate is at least the lower one.
type RateBounds struct {
	LowerPPS      float64 `json:"lower_pps"`
	UpperPPS      float64 `json:"upper_pps"`
	ThroughputPPS float64 `json:"throughput_pps,omitempty"` // conditional throughput at the lower bound
}

// RateTrial is one trial of a search.
type RateTrial struct {
	OfferedPPS float64 `json:"offered_pps"`
	LossRatio  float64 `json:"loss_ratio"` // 0–1
	Seconds    float64 `json:"seconds"`
}

// Warn adds a caveat unless it is there already.
func (d *Document) Warn(w report.Warning) {
	if !slices.Contains(d.Warnings, w) {
		d.Warnings = append(d.Warnings, w)
	}
}
