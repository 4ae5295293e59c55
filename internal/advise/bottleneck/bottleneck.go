// Package bottleneck finds the stage of the packet path that limits it. From a host and the load of its stages within
// an interval (facts.Load) it makes a diagnosis: evidence in numbers, the next bottleneck, and the knobs that act
// there. It is pure: the same code runs on a recorded load of another machine.
//
// The method is Brendan Gregg's USE: for each stage its use (how busy it is), its saturation (what waits before it or
// was refused for lack of room) and its errors (what was lost there, and why). The bottleneck is the saturated stage
// whose successor is not saturated: packets arrive there faster than they leave, so they wait or are lost.
package bottleneck

import "mpps/internal/model/facts"

// Diagnosis is the result of mpps diagnose.
type Diagnosis struct {
	Seconds    float64          `json:"seconds"`
	Method     facts.LoadMethod `json:"method"`
	Bottleneck *Bottleneck      `json:"bottleneck"`     // null: nothing holds the path back
	Why        string           `json:"why"`            // one sentence for people: what it is, or why there is none
	Role       facts.Role       `json:"role,omitempty"` // what the machine is
	Next       *Bottleneck      `json:"next"`           // the limit once this one is gone; null: not known
	// places besides these two that lose packets, most first: other ports and guests, judged by their own packets
	Besides []Bottleneck   `json:"besides,omitempty"`
	Stages  []Stage        `json:"stages"` // in path order, without those that the host does not have
	Unseen  []facts.Unseen `json:"unseen"`
	// 0–1: share of the busiest sender's CPU in which packets are received there; 0: none are, or no sender is busy
	OnSender float64 `json:"on_sender,omitempty"`
}

// Bottleneck is a stage that holds the path back, and why.
type Bottleneck struct {
	Kind     Kind       `json:"kind"`   // what is wrong: one of the kinds
	Stage    string     `json:"stage"`  // where on the path
	Object   string     `json:"object"` // "vhost-2113 (queue 3)", "eth0", "CPU 17"
	Evidence []Evidence `json:"evidence"`
	// 0–1: how clearly the evidence rules out other causes, calibrated on planted bottlenecks
	Confidence float64 `json:"confidence"`
	// 0–1: how many of the packets that came there are lost there; 0: none are, or it is not known
	LostShare float64  `json:"lost_share,omitempty"`
	Say       string   `json:"say"`    // "vhost-2113 (queue 3) is at 99 % of CPU 17 while vCPUs are at 43 %"
	Advice    string   `json:"advice"` // "fewer vCPUs, more queues and vhost CPUs"
	Knobs     []string `json:"knobs"`  // IDs of the catalogue that act there, the likeliest to help first
	// of packets that the kernel drops: its reason and the function that frees them
	Reason   string `json:"reason,omitempty"`
	Function string `json:"function,omitempty"`
}

// Kind names a bottleneck. Names are stable: programs and scenarios refer to them.
type Kind string

// Evidence is one figure.
type Evidence struct {
	What   string  `json:"what"` // "share of CPU 17 that vhost-2113 used"
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`   // share, packets/s, packets, us, rules …
	Source string  `json:"source"` // "/proc/2113/task/2117/schedstat"
}

// Stage is one stage of the path with its use, saturation and errors.
type Stage struct {
	// nic, softirq, netfilter, bridge, overlay, qdisc, tap, vhost, vcpu, guest, socket
	Name       string     `json:"name"`
	Object     string     `json:"object"` // the stage's busiest
	Use        float64    `json:"use"`    // 0–1; −1: not known
	Saturation []Evidence `json:"saturation"`
	Errors     []Evidence `json:"errors"`
	PPS        float64    `json:"pps"` // packets per second through it, both directions; −1: not known
}

// saturate adds a figure to the saturation.
func (s *Stage) saturate(what string, value float64, unit, source string) {
	s.Saturation = append(s.Saturation, Evidence{what, value, unit, source})
}
