package measure

import (
	"math"
	"testing"
)

func TestNewLatency(t *testing.T) {
	l := NewLatency("one-way", []Bucket{{300, 399, 9}, {100, 199, 990}, {200, 299, 0}, {5000, 5099, 1}})
	if l.Count != 1000 || l.MinNs != 100 || l.MaxNs != 5099 || len(l.Buckets) != 3 {
		t.Errorf("%+v", l)
	}
	if want := (149.5*990 + 349.5*9 + 5049.5) / 1000; math.Abs(l.MeanNs-want) > 1e-9 {
		t.Errorf("mean %v, expected %v", l.MeanNs, want)
	}
	// 99.9 would be told by one sample of a thousand: it is not.
	want := []Percentile{{50, 199}, {90, 199}, {99, 199}}
	if len(l.Percentiles) != len(want) {
		t.Fatalf("percentiles %v, expected %v", l.Percentiles, want)
	}
	for i := range want {
		if l.Percentiles[i] != want[i] {
			t.Errorf("percentiles %v, expected %v", l.Percentiles, want)
		}
	}
	if l.At(99.5) != 399 || l.At(100) != 5099 {
		t.Errorf("p99.5 = %d, p100 = %d", l.At(99.5), l.At(100))
	}
	if NewLatency("one-way", []Bucket{{1, 2, 0}}) != nil {
		t.Error("a distribution of nothing")
	}
}

func TestMergeLatency(t *testing.T) {
	a := NewLatency("round-trip", []Bucket{{100, 199, 10}, {200, 299, 10}})
	b := NewLatency("round-trip", []Bucket{{200, 299, 20}, {400, 499, 10}})
	a.MinNs, b.MaxNs, a.Loop = 120, 480, "closed" // kept apart from the buckets by the source
	m := MergeLatency(nil, a, nil, b)
	if m.Count != 50 || m.MinNs != 120 || m.MaxNs != 480 || m.Loop != "closed" || len(m.Buckets) != 3 ||
		m.Buckets[1].Count != 30 {
		t.Errorf("%+v", m)
	}
	if want := (a.MeanNs*20 + b.MeanNs*30) / 50; math.Abs(m.MeanNs-want) > 1e-9 {
		t.Errorf("mean %v, expected %v", m.MeanNs, want)
	}
	if MergeLatency(nil, nil) != nil {
		t.Error("a merger of nothing")
	}
}
