package wakeup

import (
	"encoding/json"
	"strconv"
	"strings"

	"mpps/internal/measure"
)

// oslatJSON is the output of oslat --json (rt-tests, write_summary_json in src/oslat/oslat.c).
type oslatJSON struct {
	Version  string                 `json:"rt_test_version"`
	Version2 string                 `json:"rt_test_version:"`
	Threads  map[string]oslatThread `json:"thread"`
}

type oslatThread struct {
	CPU       int               `json:"cpu"`
	Min       float64           `json:"min"`
	Avg       float64           `json:"avg"`
	Max       float64           `json:"max"`
	Histogram map[string]uint64 `json:"histogram"`
}

// ParseOslat parses the output of "oslat --json=-". oslat spins on a CPU and reports how long each turn of its loop
// took, rounded up to whole µs: nothing sleeps or wakes, and a long turn was interrupted. Its last bucket also holds
// everything longer.
func ParseOslat(text string) (*Output, error) {
	start := strings.Index(text, "{")
	if start < 0 || len(text) > maxText {
		return nil, unexpected("oslat", "expected JSON, found %.60q", strings.TrimSpace(text))
	}
	var report oslatJSON
	if err := json.NewDecoder(strings.NewReader(text[start:])).Decode(&report); err != nil {
		return nil, unexpected("oslat", "its JSON is cut short or broken: %v", err)
	}
	out := &Output{Version: report.Version + report.Version2}
	for i := range len(report.Threads) {
		t, there := report.Threads[strconv.Itoa(i)]
		if !there {
			return nil, unexpected("oslat", "there is no thread %d of %d", i, len(report.Threads))
		}
		d, err := t.distribution()
		if err != nil {
			return nil, err
		}
		out.Threads = append(out.Threads, Thread{CPU: t.CPU, Distribution: d})
	}
	if len(out.Threads) == 0 {
		return nil, unexpected("oslat", "its JSON has no thread")
	}
	return out, nil
}

func (t oslatThread) distribution() (Distribution, error) {
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
