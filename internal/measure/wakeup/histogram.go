package wakeup

import (
	"cmp"
	"slices"

	"mpps/internal/measure"
)

// What the distributions are of (measure.Latency.What).
const (
	TimerWakeup  = "timer wake-up"
	Interruption = "interruption of a busy loop"
)

// sampled is one thread of what a tool printed, in nanoseconds.
type sampled struct {
	cpu     int
	buckets []measure.Bucket
	capNs   uint64 // the histogram ends before this
	beyond  uint64 // longer ones
	min     uint64
	max     uint64
	mean    float64
	count   uint64
}

// distribution makes a distribution of a thread's figures. The longest wake-up is the tool's own figure where the
// histogram does not reach so far; what lies beyond it is one bucket from its end to there.
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
	return Distribution{Latency: capped(l), Beyond: s.beyond}
}

// capped takes the upper edges of the highest buckets down to the longest value, so that no percentile is beyond it.
func capped(l *measure.Latency) *measure.Latency {
	for i := range l.Percentiles {
		l.Percentiles[i].ValueNs = min(l.Percentiles[i].ValueNs, l.MaxNs)
	}
	return l
}

// Merge adds distributions bucket by bucket. What lies beyond the histograms becomes one bucket, since nothing is known
// of where between its edges a wake-up was.
func Merge(all ...Distribution) Distribution {
	var parts []*measure.Latency
	var out Distribution
	for _, d := range all {
		if d.Latency != nil {
			parts = append(parts, d.Latency)
			out.Beyond += d.Beyond
		}
	}
	merged := measure.MergeLatency(parts...)
	if merged == nil {
		return Distribution{}
	}
	out.Latency = merged
	buckets := joined(merged.Buckets)
	if len(buckets) == len(merged.Buckets) {
		capped(merged)
		return out
	}
	again := measure.NewLatency(merged.What, buckets)
	again.MinNs, again.MaxNs, again.MeanNs = merged.MinNs, merged.MaxNs, merged.MeanNs
	out.Latency = capped(again)
	return out
}

// joined puts buckets that overlap together.
func joined(buckets []measure.Bucket) []measure.Bucket {
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
