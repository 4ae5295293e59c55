// Package wakeup is about how late threads wake up: it parses the output of realtime tools, merges runs, and finds what
// on the host coincides with the worst wake-ups. It reads no files and starts no programs.
package wakeup

import (
	"time"

	"mpps/internal/measure"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// Schema is the version of the file format.
const Schema = "mpps.latency-run/1"

// File is a measurement of wake-up latency: several runs under one load, and what the host counted at the same time.
type File struct {
	Schema      string              `json:"schema"`
	Name        string              `json:"name,omitempty"`
	Host        string              `json:"host"`
	Guest       *Guest              `json:"guest,omitempty"` // nil: the host itself was measured
	Environment measure.Environment `json:"environment"`     // of the host
	Asked       Asked               `json:"asked"`
	Tool        Tool                `json:"tool"`
	Loads       []Load              `json:"loads"` // what ran at the same time
	Started     time.Time           `json:"started"`
	Seconds     float64             `json:"seconds"`
	Partial     bool                `json:"partial,omitempty"` // ended early
	Runs        []Run               `json:"runs"`
	Total       Distribution        `json:"total"` // all runs, slices and threads together
	Worst       []Wakeup            `json:"worst"` // the longest wake-ups, longest first
	Causes      Causes              `json:"causes"`
	Counted     *Series             `json:"counted,omitempty"` // on the host, during the measurement
	Warnings    []measure.Warning   `json:"warnings"`
}

// Guest is the measured guest.
type Guest struct {
	Name     string      `json:"name"`
	Kernel   string      `json:"kernel,omitempty"`
	Realtime bool        `json:"realtime"` // its kernel is PREEMPT_RT
	VCPUs    []MeasuredV `json:"vcpus"`
}

// MeasuredV is a measured vCPU, and where its thread may run.
type MeasuredV struct {
	VCPU   int            `json:"vcpu"`
	Thread int            `json:"tid"`
	CPUs   setting.CPUSet `json:"cpus"` // physical CPUs
}

// Asked is the requested measurement.
type Asked struct {
	CPUs setting.CPUSet `json:"cpus"` // of the guest, or of the host without one
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
	Name    string `json:"name"` // cyclictest, timerlat, oslat, own; imported also osnoise
	Version string `json:"version,omitempty"`
	What    string `json:"what"`            // what its figures mean
	Exact   bool   `json:"exact,omitempty"` // it reports when long wake-ups happened; otherwise only the slice is known
}

// Load is a load during the measurement, so that the machine is not idle.
type Load struct {
	Where string         `json:"where"` // "host" or "guest NAME"
	What  string         `json:"what"`
	CPUs  setting.CPUSet `json:"cpus"`
	Error string         `json:"error,omitempty"` // why it did not run, or ended early
}

// Distribution holds the wake-ups of some time. It has only the percentiles that the number of samples supports. One
// beyond the tool's histogram has the value of the longest wake-up.
type Distribution struct {
	Latency *measure.Latency `json:"latency,omitempty"` // nil: no wake-ups
	// Beyond counts wake-ups beyond the tool's histogram. Only the longest of them is known exactly.
	Beyond uint64 `json:"beyond,omitempty"`

	width float64 // of joined buckets, as a share of their length; 0: none is joined
}

type Run struct {
	Started time.Time `json:"started"`
	Seconds float64   `json:"seconds"`
	Distribution
	Threads []Thread `json:"threads"`
	Slices  []Slice  `json:"slices"`
	Worst   *Wakeup  `json:"worst,omitempty"`
	Error   string   `json:"error,omitempty"` // why it ended early
}

// Thread holds the wake-ups on one CPU of a run.
type Thread struct {
	CPU int `json:"cpu"`
	Distribution
}

// Slice is a part of a run that the tool measured in one go.
type Slice struct {
	From  time.Time `json:"from"` // by the host's clock; the time between slices is not measured
	To    time.Time `json:"to"`
	Count uint64    `json:"count"`
	MinNs uint64    `json:"min_ns"`
	MaxNs uint64    `json:"max_ns"`
	CPU   int       `json:"cpu"` // with the longest wake-up

	// TriggerNs is the length from which the tool reported when wake-ups happened; 0: it did not. Lost is how many it
	// had no room for.
	TriggerNs uint64   `json:"trigger_ns,omitempty"`
	Lost      uint64   `json:"lost,omitempty"`
	Long      []Wakeup `json:"long,omitempty"` // the longest, longest first
}

// Wakeup is one long wake-up.
type Wakeup struct {
	Ns   uint64 `json:"ns"`
	Run  int    `json:"run"` // from 1
	CPU  int    `json:"cpu"`
	From Moment `json:"from"` // earliest possible time
	To   Moment `json:"to"`   // latest possible time
	// Cause is the number of its cause in Causes.Found, from 1; 0: nothing that the host counts.
	Cause int `json:"cause,omitempty"`
	// Beside are counters that stood out at that time. They are no proof: something always stands out.
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
	Share float64           `json:"share"` // of all other windows that had at least as much, 0–1
}
