package traffic

import (
	"math"
	"math/bits"
	"time"
)

// The buckets are those of an HdrHistogram with two significant figures, lowest value 1 ns and highest 2^32-1 ns: 256
// of 1 ns, then 128 for each further doubling, so that a bucket is at most 0.8 % wide. bpf/sink.bpf.c uses the same.
const (
	subBits          = 8
	histogramBuckets = 1<<subBits + (32-subBits)<<(subBits-1)
	// MaxDelay is the longest delay in a Histogram; delays of frames are resolved up to 1 ms less.
	MaxDelay = time.Duration(math.MaxUint32)
)

// clockSlack is how far a timestamp may be ahead of the receiver's reading of the same clock (another CPU's counter,
// another way of reading): such a delay is 0, not 4.29 s. bpf/sink.bpf.c has the same.
const clockSlack = time.Millisecond

// delay interprets the difference of two 32-bit times.
func delay(d uint32) time.Duration {
	if time.Duration(d) > MaxDelay-clockSlack {
		return 0
	}
	return time.Duration(d)
}

// A Histogram counts delays in nanoseconds in log-linear buckets.
type Histogram struct {
	Buckets [histogramBuckets]uint64
}

// bucket returns the index of a value's bucket.
func bucket(v uint32) int {
	e := max(0, bits.Len32(v)-subBits)
	return e<<(subBits-1) + int(v>>e)
}

// bucketRange returns the lowest and the highest value of a bucket.
func bucketRange(i int) (lo, hi uint64) {
	if i < 1<<subBits {
		return uint64(i), uint64(i)
	}
	e := i>>(subBits-1) - 1
	lo = uint64(i-e<<(subBits-1)) << e
	return lo, lo + 1<<e - 1
}

// Record counts one delay, clamped to 0–MaxDelay.
func (h *Histogram) Record(d time.Duration) {
	h.Buckets[bucket(uint32(min(max(d, 0), MaxDelay)))]++
}

// Merge adds o's counts.
func (h *Histogram) Merge(o *Histogram) {
	for i, n := range o.Buckets {
		h.Buckets[i] += n
	}
}

// Count returns the number of values.
func (h *Histogram) Count() uint64 {
	var n uint64
	for _, b := range h.Buckets {
		n += b
	}
	return n
}

// A Bin is one bucket that is not empty: Count values in Low to High ns.
type Bin struct {
	Low   uint64 `json:"low_ns"`
	High  uint64 `json:"high_ns"`
	Count uint64 `json:"count"`
}

// Bins returns the non-empty buckets, lowest first.
func (h *Histogram) Bins() []Bin {
	var out []Bin
	for i, n := range h.Buckets {
		if n > 0 {
			lo, hi := bucketRange(i)
			out = append(out, Bin{lo, hi, n})
		}
	}
	return out
}

// FromBins is the inverse of Bins.
func FromBins(bins []Bin) *Histogram {
	h := &Histogram{}
	for _, b := range bins {
		h.Buckets[bucket(uint32(min(b.Low, math.MaxUint32)))] += b.Count
	}
	return h
}
