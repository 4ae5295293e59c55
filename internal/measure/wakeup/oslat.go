package wakeup

import (
	"strconv"
	"strings"

	"mpps/internal/measure"
)

// ParseOslat parses the output of "oslat --json=-". oslat spins on a CPU and reports how long each turn of its loop
// took, rounded up to whole µs: nothing sleeps or wakes, and a long turn was interrupted. Its last bucket also holds
// everything longer.
func ParseOslat(text string) (*Output, error) {
	start := strings.Index(text, "{")
	if start < 0 || len(text) > maxText {
		return nil, unexpected("oslat", "expected JSON, found %.60q", strings.TrimSpace(text))
	}
	out, _, err := readRTTests("oslat", text[start:], rtThread.turns)
	return out, err
}

// turns converts the figures of a thread of oslat.
func (t rtThread) turns() (Distribution, error) {
	s := sampled{cpu: t.CPU, min: micros(t.Min), max: micros(t.Max), mean: t.Avg * 1000}
	var last float64
	for key, n := range t.Histogram {
		us, err := strconv.ParseFloat(key, 64)
		if err != nil || us < 0 {
			return Distribution{}, unexpected("oslat", "found %q for a length in µs", key)
		}
		last = max(last, us)
		s.buckets = append(s.buckets, measure.Bucket{FromNs: micros(us), ToNs: micros(us), Count: n})
	}
	if t.Max > last {
		for i := range s.buckets {
			if s.buckets[i].FromNs == micros(last) {
				s.capNs, s.beyond = micros(last), s.buckets[i].Count
				s.buckets[i].Count = 0
			}
		}
	}
	return s.distribution(Interruption), nil
}
