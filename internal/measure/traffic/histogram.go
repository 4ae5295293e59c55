package traffic

import (
	"math"
	"math/bits"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The buckets are those of an HdrHistogram with two significant figures, lowest
// value 1 ns and highest 2^32-1 ns: 256 of 1 ns, then 128 for each further
// doubling, so that a bucket is at most 0.8 % wide. bpf/sink.bpf.c counts into
// the same ones.
const (
	subBits          = 8
	histogramBuckets = 1<<subBits + (32-subBits)<<(subBits-1)
	// MaxDelay is the longest delay a Histogram can hold; delays of frames are
	// told apart up to 1 ms less.
	MaxDelay = time.Duration(math.MaxUint32)
)

// clockSlack is by how much a time stamp may be ahead of the receiver's reading
// of the same clock (another CPU's counter, another way of reading): such a
// delay is 0, not 4.29 s. bpf/sink.bpf.c has the same.
const clockSlack = time.Millisecond

// delay makes sense of the difference of two 32 bit times.
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

// bucket is the index for a value.
func bucket(v uint32) int {
	e := max(0, bits.Len32(v)-subBits)
	return e<<(subBits-1) + int(v>>e)
}

// bucketRange is the lowest and the highest value of a bucket.
func bucketRange(i int) (lo, hi uint64) {
	if i < 1<<subBits {
		return uint64(i), uint64(i)
	}
	e := i>>(subBits-1) - 1
	lo = uint64(i-e<<(subBits-1)) << e
	return lo, lo + 1<<e - 1
}

// Record counts one delay; what is outside 0 to MaxDelay counts at that end.
func (h *Histogram) Record(d time.Duration) {
	h.Buckets[bucket(uint32(min(max(d, 0), MaxDelay)))]++
}

// Merge adds o's counts.
func (h *Histogram) Merge(o *Histogram) {
	for i, n := range o.Buckets {
		h.Buckets[i] += n
	}
}

// Count is the number of values.
func (h *Histogram) Count() uint64 {
	var n uint64
	for _, b := range h.Buckets {
		n += b
	}
	return n
}

// Quantile is the highest value of the bucket in which the quantile q (0 to 1)
// lies, as HdrHistogram's ValueAtQuantile; 0 for an empty histogram.
func (h *Histogram) Quantile(q float64) time.Duration {
	total := h.Count()
	if total == 0 {
		return 0
	}
	want := max(1, uint64(math.Ceil(min(max(q, 0), 1)*float64(total))))
	var seen uint64
	for i, n := range h.Buckets {
		if seen += n; seen >= want {
			_, hi := bucketRange(i)
			return time.Duration(hi)
		}
	}
	return MaxDelay
}

// HDR is the same as an HdrHistogram of nanoseconds, bucket for bucket.
func (h *Histogram) HDR() *hdrhistogram.Histogram {
	out := hdrhistogram.New(1, math.MaxUint32, 2)
	for i, n := range h.Buckets {
		if n > 0 {
			lo, _ := bucketRange(i)
			// Only values out of range are refused, and none is.
			_ = out.RecordValues(int64(lo), int64(n))
		}
	}
	return out
}

// A Bin is one bucket that is not empty: Count values in Low to High ns.
type Bin struct {
	Low   uint64 `json:"low_ns"`
	High  uint64 `json:"high_ns"`
	Count uint64 `json:"count"`
}

// Bins lists the buckets that are not empty, lowest first.
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
