package measure

// Sample is one trial. Fields that do not belong to the run's kind are left out of JSON.
type Sample struct {
	OfferedPPS float64 `json:"offered_pps"`
	Sent       uint64  `json:"sent"`
	Received   uint64  `json:"received"` // frames that arrived, duplicates counted
	Lost       uint64  `json:"lost"`     // Sent − (Received − Duplicated)
	Duplicated uint64  `json:"duplicated"`
	Reordered  uint64  `json:"reordered"`
	// rate at which different frames came through; what drained from buffers afterwards does not count as speed
	PPS        float64 `json:"pps"`
	Seconds    float64 `json:"seconds"`               // from the first frame sent to the last
	Drain      float64 `json:"drain_s,omitempty"`     // how long frames still arrived after the last one was sent
	SlippedNs  uint64  `json:"slipped_ns,omitempty"`  // schedule that a paced generator could not keep
	SendErrors uint64  `json:"send_errors,omitempty"` // frames that the sender's own interface refused

	Overrun uint64 `json:"overrun,omitempty"` // frames that reached the receiver and found its ring full
	// two-way: the directions apart, From→To first; what is above are their sums
	Ways []Way `json:"ways,omitempty"`

	Transactions uint64 `json:"transactions,omitempty"` // rr: answered in time
	// rr over UDP: answers after the timeout, whose requests are lost, or second ones
	Late uint64 `json:"late,omitempty"`
	// rr in an open loop: requests that the schedule had; those of Due − Sent never left
	Due uint64 `json:"due,omitempty"`
	// rr in an open loop: requests that were due when the socket took nothing more
	Blocked uint64  `json:"blocked,omitempty"`
	TPS     float64 `json:"tps,omitempty"`
	Bytes   uint64  `json:"bytes,omitempty"` // stream: received by the far application
	// stream: received before, while the connections found their speed; a part of the CPU time went there
	RampBytes   uint64  `json:"ramp_bytes,omitempty"`
	BitsPerS    float64 `json:"bits_per_s,omitempty"`
	Retransmits uint64  `json:"retransmits,omitempty"` // TCP segments sent again

	Latency *Latency `json:"latency,omitempty"`
	// LatencyRaw is of the same transactions as Latency, from the time at which the request really left: what a tool
	// shows that does not correct for coordinated omission. Open loops only.
	LatencyRaw *Latency     `json:"latency_raw,omitempty"`
	CPU        []MachineCPU `json:"cpu"`
	// of the near machine: vhost, vCPUs, QEMU, ksoftirqd, generator
	Threads []ThreadUse `json:"threads,omitempty"`
	// busy time of the near machine per packet received; see MachineCPU.Busy
	CPUNsPerPacket float64   `json:"cpu_ns_per_packet,omitempty"`
	CPUNsPerUnit   float64   `json:"cpu_ns_per_unit"` // the same per packet, transaction or byte
	Warnings       []Warning `json:"warnings,omitempty"`
}

// Way is one direction of traffic that goes both ways at once.
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

// Value is the sample in its kind's unit.
func (s Sample) Value(k Kind) float64 {
	switch k {
	case RR, CRR:
		return s.TPS
	case Stream:
		return s.BitsPerS
	}
	return s.PPS
}

// LossRatio is the share of the packets sent that did not arrive, 0–1; 0 where nothing was sent.
func (s Sample) LossRatio() float64 {
	if s.Sent == 0 {
		return 0
	}
	return float64(s.Lost) / float64(s.Sent)
}
