// Package bottleneck says which stage of the packet path holds it back: from a host and what its stages did within an
// interval (facts.Load) to a diagnosis with evidence in numbers, what would be next, and the knobs that act there. It
// is pure: the same code runs on a recorded load of another machine.
//
// The method is Brendan Gregg's USE: of each stage its use (how busy), its saturation (what waits before it, what it
// turned away for want of room) and its errors (what was lost there, and why). The bottleneck is the stage that is
// saturated and behind which the next one is not: packets are lost or wait where they come faster than they go on.
package bottleneck

import "mpps/internal/model/facts"

// Diagnosis is the answer of mpps diagnose.
type Diagnosis struct {
	Seconds    float64          `json:"seconds"`
	Method     facts.LoadMethod `json:"method"`
	Bottleneck *Bottleneck      `json:"bottleneck"` // null: nothing holds the path back
	Why        string           `json:"why"`        // one sentence for people: what it is, or why there is none
	Next       *Bottleneck      `json:"next"`       // what would hold it back then; null: not known
	Stages     []Stage          `json:"stages"`     // in path order, those that are there
	Unseen     []facts.Unseen   `json:"unseen"`
}

// Bottleneck is a stage that holds the path back, and why.
type Bottleneck struct {
	Kind     Kind       `json:"kind"`   // what is wrong, by its name in Kinds
	Stage    string     `json:"stage"`  // where on the path
	Object   string     `json:"object"` // "vhost-2113 (queue 3)", "eth0", "CPU 17"
	Evidence []Evidence `json:"evidence"`
	// 0–1: by how much the evidence rules others out, calibrated on planted bottlenecks
	Confidence float64  `json:"confidence"`
	Say        string   `json:"say"`    // "vhost-2113 (queue 3) is at 99 % of CPU 17 while vCPUs are at 43 %"
	Advice     string   `json:"advice"` // "fewer vCPUs, more queues and vhost CPUs"
	Knobs      []string `json:"knobs"`  // IDs of the catalogue that act there, the likeliest to help first
}

// Kind names a bottleneck. The names stay: programs and scenarios refer to them.
type Kind string

// Evidence is one figure.
type Evidence struct {
	What   string  `json:"what"` // "share of CPU 17 that vhost-2113 used"
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`   // share, packets/s, packets, us, rules …
	Source string  `json:"source"` // "/proc/2113/task/2117/schedstat"
}

// Stage is one station of the path with its use, saturation and errors.
type Stage struct {
	// nic, softirq, netfilter, bridge, overlay, qdisc, tap, vhost, vcpu, guest, socket
	Name       string     `json:"name"`
	Object     string     `json:"object"` // the busiest of that stage
	Use        float64    `json:"use"`    // 0–1; −1: not known
	Saturation []Evidence `json:"saturation"`
	Errors     []Evidence `json:"errors"`
	PPS        float64    `json:"pps"` // packets per second through it, both directions; −1: not known
}
