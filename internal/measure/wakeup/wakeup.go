// Package wakeup is about how late a thread wakes up: what tools of a realtime kernel print, how runs are put together,
// and what on the host goes with the worst wake-ups. It reads no file and starts no program.
package wakeup

import (
	"time"

	"mpps/internal/measure"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// Schema is the version of the file.
const Schema = "mpps.latency-run/1"

// File is a measurement of wake-up latency: several runs under one load, with what the host counted meanwhile.
type File struct {
	Schema      string              `json:"schema"`
	Name        string              `json:"name,omitempty"`
	Host        string              `json:"host"`
	Guest       *Guest              `json:"guest,omitempty"` // nil: the host itself was measured
	Environment measure.Environment `json:"environment"`     // of the host
	Asked       Asked               `json:"asked"`
	Tool        Tool                `json:"tool"`
	Loads       []Load              `json:"loads"` // what ran beside it
	Started     time.Time           `json:"started"`
	Seconds     float64             `json:"seconds"`
	Partial     bool                `json:"partial,omitempty"` // ended early
	Runs        []Run               `json:"runs"`
	Total       Distribution        `json:"total"` // all runs, slices and threads together
	Worst       []Wakeup            `json:"worst"` // the longest ones, longest first
	Causes      Causes              `json:"causes"`
	Counted     *Series             `json:"counted,omitempty"` // on the host, beside the measurement
	Warnings    []measure.Warning   `json:"warnings"`
}

// Guest is the guest that was measured.
type Guest struct {
	Name     string      `json:"name"`
	Kernel   string      `json:"kernel,omitempty"`
	Realtime bool        `json:"realtime"` // its kernel is PREEMPT_RT
	VCPUs    []MeasuredV `json:"vcpus"`
}

// MeasuredV is a vCPU that was measured, and where its thread may run.
type MeasuredV struct {
	VCPU   int            `json:"vcpu"`
	Thread int            `json:"tid"`
	CPUs   setting.CPUSet `json:"cpus"` // physical ones
}

// Asked is what the measurement was asked for.
type Asked struct {
	CPUs setting.CPUSet `json:"cpus"` // of the guest, or of the host where there is no guest
	For  time.Duration  `json:"for_ns"`
	Runs int            `json:"runs"`
	// a run is measured in pieces of this length, each with its own maximum
	Slice    time.Duration `json:"slice_ns"`
	Interval time.Duration `json:"interval_ns"` // from one wake-up to the next
	Priority int           `json:"priority"`    // SCHED_FIFO
	Load     string        `json:"load"`
}

// Tool is the program that measured.
type Tool struct {
	Name    string `json:"name"` // cyclictest, timerlat, oslat, own
	Version string `json:"version,omitempty"`
	What    string `json:"what"`            // what its figures are, in words
	Exact   bool   `json:"exact,omitempty"` // it tells when long wake-ups happened; otherwise the slice is known
}

// Load is something that ran beside the measurement so that it is no idle machine's.
type Load struct {
	Where string         `json:"where"` // "host" or "guest NAME"
	What  string         `json:"what"`
	CPUs  setting.CPUSet `json:"cpus"`
	Error string         `json:"error,omitempty"` // why it did not run, or ended early
}

// Distribution are the wake-ups of a piece of time. Percentiles are not told beyond what the samples carry, and where
// one lies beyond the tool's histogram its value is the longest wake-up.
type Distribution struct {
	Latency *measure.Latency `json:"latency,omitempty"` // nil: there was no wake-up
	// Beyond counts those longer than the tool's histogram reaches; the longest of them is known, the others lie
	// between.
	Beyond uint64 `json:"beyond,omitempty"`
}

// Run is one of the runs.
type Run struct {
	Started time.Time `json:"started"`
	Seconds float64   `json:"seconds"`
	Distribution
	Threads []Thread `json:"threads"`
	Slices  []Slice  `json:"slices"`
	Worst   *Wakeup  `json:"worst,omitempty"`
	Error   string   `json:"error,omitempty"` // why it ended early
}

// Thread are the wake-ups on one CPU of a run.
type Thread struct {
	CPU int `json:"cpu"`
	Distribution
}

// Slice is a piece of a run that the tool measured in one go.
type Slice struct {
	From  time.Time `json:"from"` // by the host's clock; what lies between slices is not measured
	To    time.Time `json:"to"`
	Count uint64    `json:"count"`
	MinNs uint64    `json:"min_ns"`
	MaxNs uint64    `json:"max_ns"`
	CPU   int       `json:"cpu"` // on which the longest wake-up was

	// Trigger is the length from which on the tool told when wake-ups happened; 0: it did not. Lost is how many it had
	// no room for.
	TriggerNs uint64   `json:"trigger_ns,omitempty"`
	Lost      uint64   `json:"lost,omitempty"`
	Long      []Wakeup `json:"long,omitempty"` // the longest of them, longest first
}

// Wakeup is one long wake-up.
type Wakeup struct {
	Ns   uint64 `json:"ns"`
	Run  int    `json:"run"` // from 1
	CPU  int    `json:"cpu"`
	From Moment `json:"from"` // it happened not before
	To   Moment `json:"to"`   // and not after
	// Cause is the number in Causes.Found of what goes with it, from 1; 0: nothing that the host counts.
	Cause int `json:"cause,omitempty"`
	// Beside are counters that stood out from the rest of the time just then. They are no proof: something always does.
	Beside []Beside `json:"beside,omitempty"`
}

// Moment is a time within a run.
type Moment struct {
	At      time.Time `json:"at"`
	Seconds float64   `json:"seconds"` // since the run's start
}

// Beside is a counter that moved more than usual.
type Beside struct {
	Kind  facts.Disturbance `json:"kind"`
	Name  string            `json:"name"`
	CPU   int               `json:"cpu"`
	Delta uint64            `json:"delta"`
	Share float64           `json:"share"` // of all other windows that had as much, 0–1
}
