package wakeloop

import (
	"context"
	"testing"
	"time"

	"mpps/internal/must"
)

// TestMeasure: the figures of a short measurement agree with each other and with the time that it took.
func TestMeasure(t *testing.T) {
	const took, interval = 200 * time.Millisecond, 500 * time.Microsecond
	before := now()
	threads, err := Measure(t.Context(), Options{CPUs: []int{0}, Interval: interval, For: took, Priority: 1, Keep: 8})
	if err != nil {
		t.Skipf("CPU 0 is not to be had here: %v", err)
	}
	r := threads[0]
	var inBuckets uint64
	for _, b := range r.Buckets {
		inBuckets += b.Count
	}
	must.Hold(t, r.Count >= 5 && r.Count <= uint64(2*took/interval) && inBuckets == r.Count,
		"%d wake-ups in %v, %d in buckets", r.Count, took, inBuckets)
	if r.MinNs > r.MaxNs || float64(r.MinNs) > r.MeanNs || r.MeanNs > float64(r.MaxNs) {
		t.Errorf("min %d, mean %g, max %d", r.MinNs, r.MeanNs, r.MaxNs)
	}
	if n := len(r.Long); n != 8 || r.Long[n-1].Ns != r.MaxNs || r.Long[0].Ns != r.TriggerNs ||
		r.Long[n-1].When < before || r.Long[n-1].When > now() {
		t.Errorf("%d long ones, max %d, trigger %d: %+v", n, r.MaxNs, r.TriggerNs, r.Long)
	}
}

// TestMeasureEnds with its context.
func TestMeasureEnds(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := Measure(ctx, Options{CPUs: []int{0}, Interval: time.Millisecond, For: time.Minute, Priority: 1,
		Keep: 1}); err != nil {
		t.Skip(err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestMeasureRefuses(t *testing.T) {
	for _, o := range []Options{{Interval: time.Millisecond, Keep: 1}, {CPUs: []int{0}, Interval: time.Microsecond,
		Keep: 1}, {CPUs: []int{0}, Interval: time.Hour, Keep: 1}} {
		must.Fail(Measure(t.Context(), o))(t, "%+v is measured", o)
	}
	must.Fail(Measure(t.Context(), Options{CPUs: []int{1000}, Interval: time.Millisecond, For: time.Millisecond,
		Keep: 1}))(t, "CPU 1000 is measured")
}

func TestLoad(t *testing.T) {
	must.Try(t, Load(t.Context(), []int{0}, 30*time.Millisecond))
	must.Refuse(t, Load(t.Context(), []int{1000}, time.Millisecond), "CPU 1000 is loaded")
	if n, err := parseAvailable("MemTotal: 9 kB\nMemAvailable:   2048 kB\n"); n != 2<<20 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	must.Fail(parseAvailable("MemTotal: 9 kB\n"))(t, "memory that is not told is available")
}
