package wakeup

import (
	"cmp"
	"slices"

	"mpps/internal/measure"
)

// What the distributions measure (measure.Latency.What).
const (
	TimerWakeup  = "timer wake-up"
	Interruption = "interruption of a busy loop"
)

// sampled holds the figures of one thread in a tool's output, in nanoseconds.
type sampled struct {
	cpu     int
	buckets []measure.Bucket
	capNs   uint64 // end of the histogram
	beyond  uint64 // wake-ups beyond it
	min     uint64
	max     uint64
	mean    float64
	count   uint64
}

// distribution converts a thread's figures. If the histogram is too short, the longest wake-up is the tool's own
// figure, and everything beyond the histogram is one bucket up to there.
func (s sampled) distribution(what string) Distribution {
	buckets := slices.Clone(s.buckets)
	if s.beyond > 0 {
		buckets = append(buckets, measure.Bucket{FromNs: s.capNs, ToNs: max(s.max, s.capNs), Count: s.beyond})
	}
	l := measure.NewLatency(what, buckets)
	if l == nil {
		return Distribution{}
	}
	l.MinNs, l.MaxNs = s.min, max(s.max, s.min)
	if s.mean > 0 {
		l.MeanNs = s.mean
	}
	d := Distribution{Latency: capped(l), Beyond: s.beyond}
	d.coarsen(mostBuckets)
	return d
}

// capped limits percentiles to the longest value.
func capped(l *measure.Latency) *measure.Latency {
	for i := range l.Percentiles {
		l.Percentiles[i].ValueNs = min(l.Percentiles[i].ValueNs, l.MaxNs)
	}
	return l
}

// Merge adds distributions bucket by bucket. Overlapping buckets, such as those beyond the histograms, become one,
// because nothing is known about the values between their edges.
func Merge(all ...Distribution) Distribution {
	var parts []*measure.Latency
	var out Distribution
	for _, d := range all {
		if d.Latency != nil {
			parts = append(parts, d.Latency)
			out.Beyond += d.Beyond
			out.width = max(out.width, d.width)
		}
	}
	merged := measure.MergeLatency(parts...)
	if merged == nil {
		return Distribution{}
	}
	if buckets := joinOverlaps(merged.Buckets); len(buckets) < len(merged.Buckets) {
		again := measure.NewLatency(merged.What, buckets)
		again.MinNs, again.MaxNs, again.MeanNs = merged.MinNs, merged.MaxNs, merged.MeanNs
		merged = again
	}
	out.Latency = capped(merged)
	out.coarsen(mostBuckets)
	return out
}

// joinOverlaps joins buckets that overlap.
func joinOverlaps(buckets []measure.Bucket) []measure.Bucket {
	sorted := slices.Clone(buckets)
	slices.SortFunc(sorted, func(a, b measure.Bucket) int {
		return cmp.Or(cmp.Compare(a.FromNs, b.FromNs), cmp.Compare(a.ToNs, b.ToNs))
	})
	var out []measure.Bucket
	for _, b := range sorted {
		if n := len(out); n > 0 && b.FromNs <= out[n-1].ToNs {
			out[n-1].ToNs = max(out[n-1].ToNs, b.ToNs)
			out[n-1].Count += b.Count
			continue
		}
		out = append(out, b)
	}
	return out
}
