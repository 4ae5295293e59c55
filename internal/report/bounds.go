package report

// Modes is one quantity measured in several modes of a NIC, beside each other: a group of bars a mode.
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
	// Missing is why there is no value: "the kernel has no vhost_net". Caveat is what a reader must know of one: "limited by
	// the generator".
	Missing string `json:"missing,omitempty"`
	Caveat  string `json:"caveat,omitempty"`
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
	Floor   float64     `json:"loss_floor_ratio,omitempty"` // loss that no rate was free of, 0–1; then there is no NDR
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
