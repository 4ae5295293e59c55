package wakeup

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"mpps/internal/measure"
	"mpps/internal/must"
)

// rows returns a histogram of one count each at every step µs.
func rows(n, first, step int) []measure.Bucket {
	all := make([]measure.Bucket, n)
	for i := range all {
		ns := uint64(first+i*step) * 1000
		all[i] = measure.Bucket{FromNs: ns, ToNs: ns, Count: 1}
	}
	return all
}

// checkBuckets: buckets ascend, do not overlap, and hold all counts within a width.
func checkBuckets(t *testing.T, name string, d Distribution, most int, count uint64) {
	t.Helper()
	var sum, before uint64
	for i, b := range d.Latency.Buckets {
		if i > 0 && b.FromNs <= before || b.ToNs < b.FromNs || float64(b.ToNs-b.FromNs) > d.width*float64(b.ToNs) {
			t.Fatalf("%s: bucket %d is %+v after %d, within %g", name, i, b, before, d.width)
		}
		before, sum = b.ToNs, sum+b.Count
	}
	must.Hold(t, sum == count && d.Latency.Count == count && len(d.Latency.Buckets) <= most,
		"%s: %d of %d in %d buckets, at most %d", name, sum, count, len(d.Latency.Buckets), most)
}

// TestCoarsen: a histogram of more lengths than are kept loses as little of them as it has to, and nothing else.
func TestCoarsen(t *testing.T) {
	const n = 200_000
	for _, most := range []int{mostBuckets, 500, 64, 7, 1} {
		d := Distribution{Latency: measure.NewLatency(TimerWakeup, rows(n, 0, 5))}
		was := *d.Latency
		d.coarsen(most)
		if l := d.Latency; l.MaxNs != was.MaxNs || l.MeanNs != was.MeanNs || len(l.Percentiles) != 5 ||
			l.Percentiles[2] != was.Percentiles[2] || len(was.Buckets) != n {
			t.Errorf("%d: %+v", most, l.Percentiles)
		}
		if most < 64 {
			d.width = math.Inf(1) // lengths of different numbers of bits are one
		} else if d.width > 40/float64(most) {
			t.Errorf("%d buckets: they are %g wide", most, d.width)
		}
		checkBuckets(t, fmt.Sprint(most), d, most, n)
	}
	few := Distribution{Latency: measure.NewLatency(TimerWakeup, rows(mostBuckets, 0, 1))}
	if few.coarsen(mostBuckets); few.width != 0 || len(few.Latency.Buckets) != mostBuckets {
		t.Error("what fits was changed")
	}
}

// TestMergeCoarse: histograms that were joined differently are merged without their buckets growing together.
func TestMergeCoarse(t *testing.T) {
	one := sampled{buckets: rows(100_000, 3, 1), max: 100_003_000}.distribution(TimerWakeup)
	other := sampled{buckets: rows(30_000, 0, 7), max: 210_000_000}.distribution(TimerWakeup)
	exact := sampled{buckets: rows(100, 1000, 2), max: 1_200_000}.distribution(TimerWakeup)
	d := Merge(one, other, exact, one)
	if d.width == 0 || d.width > 0.005 {
		t.Errorf("buckets are %g wide", d.width)
	}
	checkBuckets(t, "merged", d, mostBuckets, 230_100)
}

// cyclic is the JSON of cyclictest with threads of so many rows each, of one count, all different.
func cyclic(threads, each, cpu int) string {
	var b strings.Builder
	b.WriteString(`{"thread": {`)
	for i := range threads {
		fmt.Fprintf(&b, `%s"%d": {"cpu": %d, "cycles": %d, "min": 0, "avg": 1, "max": %d, "histogram": {`,
			[]string{"", ","}[min(i, 1)], i, cpu, each, threads*each)
		for k := range each {
			fmt.Fprintf(&b, `%s"%d": 1`, []string{"", ","}[min(k, 1)], i*each+k)
		}
		b.WriteString("}}")
	}
	return b.String() + "}}"
}

// TestLargeImports: whatever a tool's output holds, it costs no more than its length, and what is made of it can be
// read again.
func TestLargeImports(t *testing.T) {
	for name, text := range map[string]string{
		"many rows":          cyclic(1, 60_000, 0),
		"threads of one CPU": cyclic(maxThreads, 20, 1), // each merged with those before it: minutes
		"threads of none":    cyclic(10, 6000, -1),
		"short rows": "Index " + strings.Repeat("Thr-1 Thr-2 ", maxThreads/2) + "\n" + strings.Repeat("1 1 0\n", 50_000) +
			"over: " + strings.Repeat("0 ", maxThreads) + "\ncount: 50000 " + strings.Repeat("0 ", maxThreads) +
			"\nmin: 1\navg: 1\nmax: 1\n",
	} {
		got, err := Import("", text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		f := &File{Schema: Schema, Runs: make([]Run, 3)}
		for i := range f.Runs {
			f.Runs[i].Add(i+1, &got.Output, f.Started, f.Started, 0, Clock{})
		}
		f.Finish()
		var written bytes.Buffer
		must.Do(t, Encode(&written, f))
		size := written.Len()
		if again, err := Decode(&written); err != nil || again.Total.Latency.Count != f.Total.Latency.Count {
			t.Errorf("%s: %d bytes: %v", name, size, err)
		}
		if coarse := f.Total.width > 0; coarse != (len(f.Warnings) > 0) || coarse != (name != "short rows") {
			t.Errorf("%s: %g wide, warnings %v", name, f.Total.width, f.Warnings)
		}
	}
}

// TestFileIsBounded: many runs of many threads share what a file may hold.
func TestFileIsBounded(t *testing.T) {
	d := Distribution{Latency: measure.NewLatency(TimerWakeup, rows(2000, 0, 1))}
	f := &File{Schema: Schema, Runs: make([]Run, 500)}
	for i := range f.Runs {
		f.Runs[i] = Run{Distribution: d, Threads: []Thread{{CPU: 1, Distribution: d}, {CPU: 2, Distribution: d}}}
	}
	f.Finish()
	var written bytes.Buffer
	must.Do(t, Encode(&written, f))
	must.Hold(t, written.Len() <= maxFile, "%d MiB", written.Len()>>20)
	if _, err := Decode(&written); err != nil || len(d.Latency.Buckets) != 2000 {
		t.Error(err, len(d.Latency.Buckets))
	}
}
