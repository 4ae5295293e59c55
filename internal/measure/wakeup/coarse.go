package wakeup

import (
	"fmt"
	"math"
	"math/bits"

	"mpps/internal/measure"
)

// Bounds of histograms: buckets of one, and of all in a file, where a bucket takes some 50 bytes of maxFile.
const (
	mostBuckets     = 10_000
	mostFileBuckets = 500_000
)

// finest is how many bits of a length the finest join keeps beside the first.
const finest = 16

// coarsen leaves a distribution at most so many buckets. Neighbours whose lengths begin with the same bits become one:
// what is joined is close to each other, and two files that were joined differently still have edges in common.
// Percentiles, mean and longest stay as they are.
func (d *Distribution) coarsen(most int) {
	if d.Latency == nil || len(d.Latency.Buckets) <= most {
		return
	}
	l := *d.Latency                           // others may hold it
	joined, fits := join(l.Buckets, 64, most) // those of one length
	for kept := finest; !fits; kept-- {
		if joined, fits = join(l.Buckets, kept, most); fits {
			d.width = max(d.width, math.Exp2(float64(-kept)))
		}
	}
	l.Buckets, d.Latency = joined, &l
}

// join joins neighbours whose lengths have the same number of bits and the same of them up to kept after the first;
// below 0, those whose numbers of bits are close. It gives up beyond most buckets.
func join(buckets []measure.Bucket, kept, most int) (joined []measure.Bucket, fits bool) {
	type cell struct{ size, first uint64 }
	of := func(ns uint64) cell {
		size := bits.Len64(ns)
		if kept < 0 {
			return cell{size: uint64(size) >> -kept}
		}
		return cell{uint64(size), ns >> max(size-1-kept, 0)}
	}
	var last cell
	for _, b := range buckets {
		at, n := of(b.FromNs), len(joined)
		switch {
		case n > 0 && at == last:
			joined[n-1].ToNs = max(joined[n-1].ToNs, b.ToNs)
			joined[n-1].Count += b.Count
		case n == most:
			return nil, false
		default:
			joined, last = append(joined, b), at
		}
	}
	return joined, true
}

// bound keeps the histograms of a file so small that it can be read again, and says what that costs.
func (f *File) bound() {
	all := []*Distribution{&f.Total}
	for i := range f.Runs {
		all = append(all, &f.Runs[i].Distribution)
		for k := range f.Runs[i].Threads {
			all = append(all, &f.Runs[i].Threads[k].Distribution)
		}
	}
	sum, width := 0, 0.0
	for _, d := range all {
		if d.Latency != nil {
			sum += len(d.Latency.Buckets)
		}
	}
	for _, d := range all {
		if sum > mostFileBuckets {
			d.coarsen(max(mostFileBuckets/len(all), 1))
		}
		width = max(width, d.width)
	}
	if width > 0 {
		f.Warn(measure.Warning{Code: "coarse", Text: fmt.Sprintf("histograms have more different lengths than are "+
			"kept: neighbours within %.2g %% are one", 100*width)})
	}
}
