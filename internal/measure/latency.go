package measure

import (
	"cmp"
	"slices"
)

// Latency is a distribution of delays in nanoseconds, all measured with one clock.
type Latency struct {
	What string `json:"what"` // "one-way" or "round-trip"
	// rr: "closed" (next request after the answer) or "open" (on a schedule, omission corrected)
	Loop string `json:"loop,omitempty"`
	// Since is when a round trip of an open loop starts: "scheduled", when the request was due, or "sent", when it
	// left.
	Since string `json:"since,omitempty"`
	// FloorNs is what the measurement itself adds: all frames of a batch carry the time of the batch.
	FloorNs     uint64       `json:"floor_ns,omitempty"`
	Count       uint64       `json:"count"`
	MinNs       uint64       `json:"min_ns"`
	MeanNs      float64      `json:"mean_ns"`
	MaxNs       uint64       `json:"max_ns"`
	Percentiles []Percentile `json:"percentiles"`
	Buckets     []Bucket     `json:"buckets"` // ascending, without empty ones
}

// Bucket counts the values in [FromNs, ToNs].
type Bucket struct {
	FromNs uint64 `json:"from_ns"`
	ToNs   uint64 `json:"to_ns"`
	Count  uint64 `json:"count"`
}

// Percentile is the value that P percent of the samples do not exceed.
type Percentile struct {
	P       float64 `json:"p"`
	ValueNs uint64  `json:"value_ns"`
}

// reported are the percentiles that a latency measurement usually shows.
var reported = []float64{50, 90, 99, 99.9, 99.99, 99.999}

// Tail is how many samples must lie above a percentile for it to be reported.
const Tail = 10

// NewLatency sums up buckets. It reports only the percentiles that the count supports. Min and max are bucket edges; a
// source that knows better overwrites them. Buckets need not be sorted, and empty ones are dropped. It returns nil
// without samples.
func NewLatency(what string, buckets []Bucket) *Latency {
	l := Latency{What: what, Percentiles: []Percentile{}}
	for _, b := range buckets {
		if b.Count > 0 {
			l.Buckets = append(l.Buckets, b)
			l.Count += b.Count
		}
	}
	if l.Count == 0 {
		return nil
	}
	slices.SortFunc(l.Buckets, func(a, b Bucket) int { return cmp.Compare(a.FromNs, b.FromNs) })
	l.MinNs, l.MaxNs = l.Buckets[0].FromNs, l.Buckets[len(l.Buckets)-1].ToNs
	for _, b := range l.Buckets {
		l.MeanNs += (float64(b.FromNs) + float64(b.ToNs)) / 2 * float64(b.Count) / float64(l.Count)
	}
	for _, p := range reported {
		above := float64(l.Count) * (100 - p) / 100
		if p > 50 && above < Tail-1e-6 {
			break
		}
		l.Percentiles = append(l.Percentiles, Percentile{P: p, ValueNs: l.At(p)})
	}
	return &l
}

// Percentile returns the value of a reported percentile, and whether there are enough samples for it. Output uses this
// and not At, which returns a value for any percentile.
func (l *Latency) Percentile(p float64) (uint64, bool) {
	if l == nil {
		return 0, false
	}
	for _, known := range l.Percentiles {
		if known.P == p {
			return known.ValueNs, true
		}
	}
	return 0, false
}

// At returns the value that p percent (0–100) of the samples do not exceed: the upper edge of its bucket. A
// distribution without buckets, from another program, knows only its own percentiles; At returns 0 for others.
func (l *Latency) At(p float64) uint64 {
	if len(l.Buckets) == 0 {
		known, _ := l.Percentile(p)
		return known
	}
	rank := p / 100 * float64(l.Count)
	var seen uint64
	for _, b := range l.Buckets {
		seen += b.Count
		if float64(seen) >= rank {
			return b.ToNs
		}
	}
	return l.MaxNs
}

// MergeLatency merges distributions that were taken in the same way. It returns nil if none has a sample.
func MergeLatency(all ...*Latency) *Latency {
	type edges struct{ from, to uint64 }
	counts := map[edges]uint64{}
	var first *Latency
	for _, l := range all {
		if l == nil {
			continue
		}
		if first == nil {
			first = l
		}
		for _, b := range l.Buckets {
			counts[edges{b.FromNs, b.ToNs}] += b.Count
		}
	}
	if first == nil {
		return nil
	}
	buckets := make([]Bucket, 0, len(counts))
	for e, n := range counts {
		buckets = append(buckets, Bucket{FromNs: e.from, ToNs: e.to, Count: n})
	}
	merged := NewLatency(first.What, buckets)
	if merged == nil {
		return nil
	}
	merged.Loop, merged.Since, merged.FloorNs = first.Loop, first.Since, first.FloorNs
	merged.MinNs, merged.MaxNs = first.MinNs, first.MaxNs
	var sum float64
	for _, l := range all {
		if l != nil {
			merged.MinNs, merged.MaxNs = min(merged.MinNs, l.MinNs), max(merged.MaxNs, l.MaxNs)
			sum += l.MeanNs * float64(l.Count)
		}
	}
	merged.MeanNs = sum / float64(merged.Count)
	return merged
}
