package export

import (
	"math"
	"strconv"
	"strings"

	"mpps/internal/measure"
)

// number formats a value with the fewest digits that restore it.
func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// decimal is number without an exponent, for readers that expect none.
func decimal(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// trafficSeconds returns the duration of the samples' traffic, without pauses.
func trafficSeconds(r *measure.Run) float64 {
	var sum float64
	for _, s := range r.Samples {
		sum += s.Seconds
	}
	return sum
}

// use sums up how the i-th machine (0: the near one) spent the samples, per CPU; nil if unknown.
func use(r *measure.Run, i int) *measure.MachineCPU {
	var sum *measure.MachineCPU
	for _, s := range r.Samples {
		if i >= len(s.CPU) {
			continue
		}
		m := s.CPU[i]
		if sum == nil {
			sum = &measure.MachineCPU{Where: m.Where}
		}
		sum.Seconds += m.Seconds
		sum.CPUs = measure.AddUse(sum.CPUs, m.CPUs)
	}
	return sum
}

// share returns the busy time in percent of all time.
func share(u measure.CPUUse) float64 {
	whole := u.Busy() + u.Idle + u.Steal
	if whole <= 0 {
		return 0
	}
	return u.Busy() / whole * 100
}

// deviation returns the standard deviation of a distribution, in nanoseconds. Each value counts as the middle of its
// bucket, which is at most 0.8 % wide.
func deviation(l *measure.Latency) float64 {
	var n, mean, squares float64
	for _, b := range l.Buckets {
		x, k := float64(b.FromNs)/2+float64(b.ToNs)/2, float64(b.Count)
		n += k
		step := x - mean
		mean += step * k / n
		squares += k * step * (x - mean)
	}
	if n < 2 {
		return 0
	}
	return math.Sqrt(squares / (n - 1))
}

// place names an end in one word: "netns:A/eth0", "eth0", "agent@10.0.0.2:7878".
func place(e measure.Endpoint) string {
	where := strings.ReplaceAll(e.Where, " ", "@")
	if e.Interface == "" {
		return where
	}
	if where == "host" || where == "" {
		return e.Interface
	}
	return where + "/" + e.Interface
}

// frames returns the size of a run's frames, or the name of their mix; empty if none was chosen.
func frames(r *measure.Run) string {
	switch {
	case r.Load.Mix != "":
		return r.Load.Mix
	case r.Load.FrameBytes > 0:
		return strconv.Itoa(r.Load.FrameBytes)
	}
	return ""
}

// host returns an address without its port.
func host(address string) string {
	if at := strings.LastIndexByte(address, ':'); at > 0 && strings.Count(address, ":") == 1 ||
		strings.HasPrefix(address, "[") {
		return strings.Trim(address[:at], "[]")
	}
	return address
}

// loss returns the share of the sent packets that did not arrive, in percent.
func retransmits(r *measure.Run) (n uint64) {
	for _, s := range r.Samples {
		n += s.Retransmits
	}
	return n
}

// loss is the share of the packets sent that did not arrive, in percent.
func loss(lost, sent uint64) float64 {
	if sent == 0 {
		return 0
	}
	return float64(lost) / float64(sent) * 100
}
