package measure

import (
	"slices"
	"time"

	"mpps/internal/outcome"
)

// Schema is the version of the run format.
const Schema = "mpps.run/1"

// Kind is what was measured.
type Kind string

// The kinds of runs.
const (
	PPS Kind = "pps" // packets per second through the device; unit packet/s
	RR  Kind = "rr"  // transactions over TCP or UDP, request and answer; unit transaction/s
	// the same over a new TCP connection each: connect, request, answer, close; unit transaction/s
	CRR    Kind = "crr"
	Stream Kind = "stream" // bytes over TCP connections; unit bit/s
)

// Unit returns the unit of a run's samples and estimate, "" for an unknown kind.
func (k Kind) Unit() string {
	switch k {
	case PPS:
		return "packet/s"
	case RR, CRR:
		return "transaction/s"
	case Stream:
		return "bit/s"
	}
	return ""
}

// Run is one measurement.
type Run struct {
	Schema      string      `json:"schema"`
	Kind        Kind        `json:"kind"`
	Name        string      `json:"name,omitempty"` // a label for people: "before", "virtio, 4 queues"
	Host        string      `json:"host"`
	Environment Environment `json:"environment"`
	Load        Load        `json:"load"`
	From        Endpoint    `json:"from"`
	To          Endpoint    `json:"to"`
	Started     time.Time   `json:"started"`
	Seconds     float64     `json:"seconds"`           // wall clock of the whole run, including baselines and pauses
	Partial     bool        `json:"partial,omitempty"` // ended early: fewer samples than requested

	// Totals over the samples, of packets (pps) or of requests and their answers (rr). Sent = Received + Lost −
	// Duplicated.
	OfferedPPS float64 `json:"offered_pps"` // requested rate; the median rate sent if that was unlimited
	Sent       uint64  `json:"sent"`
	Received   uint64  `json:"received"` // duplicates included
	Lost       uint64  `json:"lost"`
	Duplicated uint64  `json:"duplicated"`
	Reordered  uint64  `json:"reordered"`
	PPS        float64 `json:"pps"` // the median of the samples, pps runs only
	// two-way: each direction, From→To first; the totals above are their sums
	Ways []Way `json:"ways,omitempty"`

	Median         Estimate `json:"median"`                // of the samples' values, in Kind's unit
	CPUNsPerPacket float64  `json:"cpu_ns_per_packet"`     // median of the samples, pps runs only
	CPUNsPerUnit   float64  `json:"cpu_ns_per_unit"`       // the same per packet, transaction or byte
	Latency        *Latency `json:"latency,omitempty"`     // all samples together
	LatencyRaw     *Latency `json:"latency_raw,omitempty"` // rr in an open loop: see Sample
	Samples        []Sample `json:"samples"`
	LimitedBy      Limit    `json:"limited_by"`
	Evidence       []string `json:"evidence"` // the reasons for LimitedBy, as sentences with figures
	Baseline       Baseline `json:"baseline"`
	// every counter that moved between the start of the first trial and the end of the last
	Counters        []Delta `json:"counters"`
	Losses          []Loss  `json:"losses"` // where packets were lost, largest first
	UnexplainedLoss uint64  `json:"unexplained_loss"`

	Warnings []Warning `json:"warnings"`
}

// Valid reports whether the device under test, and not the measuring gear, set the result.
func (r *Run) Valid() bool { return r.LimitedBy != ByGenerator && r.LimitedBy != ByReceiver }

// Values returns the value of each sample in the kind's unit.
func (r *Run) Values() []float64 {
	values := make([]float64, len(r.Samples))
	for i := range r.Samples {
		values[i] = r.Samples[i].Value(r.Kind)
	}
	return values
}

// Costs returns the CPU time of each sample per packet, transaction or byte, in ns.
func (r *Run) Costs() []float64 {
	values := make([]float64, len(r.Samples))
	for i := range r.Samples {
		values[i] = r.Samples[i].CPUNsPerUnit
	}
	return values
}

// Warn adds a warning unless there is one with its code.
func (r *Run) Warn(w Warning) { r.Warnings = addWarning(r.Warnings, w) }

func addWarning(all []Warning, w Warning) []Warning {
	if slices.ContainsFunc(all, func(have Warning) bool { return have.Code == w.Code }) {
		return all
	}
	return append(all, w)
}

var emulatedWarning = Warning{Code: "emulated",
	Text: "measured under full emulation: rates and times say nothing about hardware, ratios little",
	Hint: "repeat on the real host before deciding by these figures"}

func noCounters(err error) Warning {
	return Warning{Code: "no-counters", Text: "the interface counters could not be read: " + err.Error(),
		Hint: "losses cannot be located without them"}
}

// Environment is what a result depends on apart from the device. Results from different environments do not compare.
type Environment struct {
	Kernel   string `json:"kernel"`    // uname -r
	CPU      string `json:"cpu_model"` // /proc/cpuinfo "model name"
	CPUs     int    `json:"cpus"`      // online
	Emulated bool   `json:"emulated"`  // full emulation (TCG): rates and times prove nothing, ratios little
	Virtual  string `json:"virtual,omitempty"`
	MPPS     string `json:"mpps"` // version of this program
	// the program that made the traffic, if not this one: "netperf 2.7.0"
	Engine    string `json:"engine,omitempty"`
	Generator string `json:"generator,omitempty"` // xdp, af_packet
	Sink      string `json:"sink,omitempty"`      // xdp, af_packet
	FarHost   string `json:"far_host,omitempty"`  // the agent's host name and kernel
	FarKernel string `json:"far_kernel,omitempty"`
}

// Load is the requested load.
type Load struct {
	// packets (rr open loop: transactions) per second, in each direction if two-way; 0: as fast as possible
	Rate float64 `json:"rate_pps"`
	// with FCS, without preamble and gap: 64–1518; for a mix the mean, rounded
	FrameBytes int    `json:"frame_bytes"`
	Mix        string `json:"frame_mix,omitempty"` // "imix": 28 frames of 64 bytes, 16 of 570 and 4 of 1518
	TwoWay     bool   `json:"two_way,omitempty"`   // pps: both directions at once
	Flows      int    `json:"flows"`               // distinct combinations of addresses and ports; at least 1
	// pps: source MAC addresses that the frames take in turn; 0: one
	SourceMACs int    `json:"source_macs,omitempty"`
	Protocol   string `json:"protocol,omitempty"` // rr: "tcp" or "udp"
	// rr: time after which an unanswered request is lost; over TCP only in an open loop
	Timeout     time.Duration `json:"timeout_ns,omitempty"`
	Connections int           `json:"connections,omitempty"`
	// stream: start of each connection before Duration, in every trial; not counted
	Ramp     time.Duration `json:"ramp_ns,omitempty"`
	Sendfile bool          `json:"sendfile,omitempty"` // stream: from the pages of a file, which are not copied
	Request  int           `json:"request_bytes,omitempty"`
	Response int           `json:"response_bytes,omitempty"`
	Duration time.Duration `json:"duration_ns"` // of one trial
	WarmUp   time.Duration `json:"warm_up_ns"`  // traffic before the first trial, not counted
	Repeat   int           `json:"repeat"`      // trials
	Latency  bool          `json:"latency"`     // timestamp packets if both ends share a clock
}

// Ways returns the number of directions in which packets are sent at once.
func (l Load) Ways() int {
	if l.TwoWay {
		return 2
	}
	return 1
}

// Offered returns the requested rate over all directions, in packets per second.
func (l Load) Offered() float64 { return l.Rate * float64(l.Ways()) }

// Endpoint is one end of the traffic.
type Endpoint struct {
	Where     string `json:"where"` // "netns:A", "host", "agent 10.50.0.2:7878"
	Interface string `json:"interface,omitempty"`
	Address   string `json:"address,omitempty"`
	MAC       string `json:"mac,omitempty"`
	Driver    string `json:"driver,omitempty"`
	Via       string `json:"via,omitempty"` // bridge that the temporary veth pair was attached to
}

// Warning is something a reader must know to judge the result, and what to do about it.
type Warning = outcome.Warning

// Baseline is what the measuring gear could do without the device under test.
type Baseline struct {
	Generator *Alone `json:"generator_alone,omitempty"`
	Receiver  *Alone `json:"receiver_alone,omitempty"`
	// CPUs kept busy by others while nothing was sent (1.0 = one whole CPU)
	BusyCPUs float64 `json:"busy_cpus"`
}

// Alone is the rate of the generator or the receiver alone.
type Alone struct {
	PPS     float64 `json:"pps"`
	Seconds float64 `json:"seconds"`
	AtLeast bool    `json:"at_least,omitempty"` // nothing was lost: it can do this much and maybe more
	How     string  `json:"how"`                // what replaced the device: "frames dropped before the device"
	Error   string  `json:"error,omitempty"`    // why it could not be measured; PPS is then 0
}

// Limit is what kept a result from being higher.
type Limit string

// What can limit a result.
const (
	ByDevice    Limit = "device"    // the device under test: the only result that describes it
	ByGenerator Limit = "generator" // the result is invalid
	ByReceiver  Limit = "receiver"  // the result is invalid
	ByNothing   Limit = "none"      // a set rate was carried without loss; the device's limit is higher
	ByUnknown   Limit = "unknown"
)
