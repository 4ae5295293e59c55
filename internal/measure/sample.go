package measure

// Sample is one trial. JSON omits fields that do not apply to the run's kind.
type Sample struct {
	OfferedPPS float64 `json:"offered_pps"`
	Sent       uint64  `json:"sent"`
	Received   uint64  `json:"received"` // frames that arrived, duplicates included
	Lost       uint64  `json:"lost"`     // Sent − (Received − Duplicated)
	Duplicated uint64  `json:"duplicated"`
	Reordered  uint64  `json:"reordered"`
	// rate at which distinct frames arrived; frames that drained from buffers afterwards do not raise it
	PPS        float64 `json:"pps"`
	Seconds    float64 `json:"seconds"`               // from the first frame sent to the last
	Drain      float64 `json:"drain_s,omitempty"`     // how long frames still arrived after the last was sent
	SlippedNs  uint64  `json:"slipped_ns,omitempty"`  // how far a paced generator fell behind its schedule
	SendErrors uint64  `json:"send_errors,omitempty"` // frames refused by the sender's own interface

	Overrun uint64 `json:"overrun,omitempty"` // frames that reached the receiver and found its ring full
	// two-way: each direction, From→To first; several agents that count: each of them; the figures above are their sums
	Ways []Way `json:"ways,omitempty"`

	Transactions uint64 `json:"transactions,omitempty"` // rr: answered in time
	// rr over UDP: answers after the timeout, to requests that count as lost, and duplicate answers
	Late uint64 `json:"late,omitempty"`
	// rr in an open loop: requests on the schedule; Due − Sent of them never left
	Due uint64 `json:"due,omitempty"`
	// rr in an open loop: requests that were due while the socket accepted no more
	Blocked uint64  `json:"blocked,omitempty"`
	TPS     float64 `json:"tps,omitempty"`
	Bytes   uint64  `json:"bytes,omitempty"` // stream: received by the far application
	// stream: bytes received before that, during the ramp; they cost a part of the CPU time
	RampBytes   uint64  `json:"ramp_bytes,omitempty"`
	BitsPerS    float64 `json:"bits_per_s,omitempty"`
	Retransmits uint64  `json:"retransmits,omitempty"` // TCP segments sent again

	Latency *Latency `json:"latency,omitempty"`
	// LatencyRaw covers the same transactions as Latency, but starts when the request really left, as in tools that do
	// not correct for coordinated omission. Open loops only.
	LatencyRaw *Latency     `json:"latency_raw,omitempty"`
	CPU        []MachineCPU `json:"cpu"`
	// of the near machine: vhost, vCPUs, QEMU, ksoftirqd, generator
	Threads []ThreadUse `json:"threads,omitempty"`
	// busy time of the near machine per packet received; see MachineCPU.Busy
	CPUNsPerPacket float64   `json:"cpu_ns_per_packet,omitempty"`
	CPUNsPerUnit   float64   `json:"cpu_ns_per_unit"` // the same per packet, transaction or byte
	Warnings       []Warning `json:"warnings,omitempty"`
}

// Way is one direction of two-way traffic.
type Way struct {
	Sent       uint64  `json:"sent"`
	Received   uint64  `json:"received"`
	Lost       uint64  `json:"lost"`
	Duplicated uint64  `json:"duplicated"`
	Reordered  uint64  `json:"reordered"`
	PPS        float64 `json:"pps"`
	SlippedNs  uint64  `json:"slipped_ns,omitempty"`
	SendErrors uint64  `json:"send_errors,omitempty"`
	Overrun    uint64  `json:"overrun,omitempty"`
}

// Value returns the sample's result in the unit of its kind.
func (s Sample) Value(k Kind) float64 {
	switch k {
	case RR, CRR:
		return s.TPS
	case Stream:
		return s.BitsPerS
	}
	return s.PPS
}

// LossRatio returns the share of the sent packets that did not arrive, 0–1; 0 if nothing was sent.
func (s Sample) LossRatio() float64 {
	if s.Sent == 0 {
		return 0
	}
	return float64(s.Lost) / float64(s.Sent)
}
