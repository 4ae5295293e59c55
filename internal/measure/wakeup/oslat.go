package wakeup

import (
	"regexp"
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
	s := sampled{cpu: t.CPU, min: t.ns(t.Min), max: t.ns(t.Max), mean: t.Avg * 1000}
	var last float64
	for key, n := range t.Histogram {
		us, err := strconv.ParseFloat(key, 64)
		if err != nil || us < 0 {
			return Distribution{}, unexpected("oslat", "found %q for a length in µs", key)
		}
		last = max(last, us)
		s.buckets = append(s.buckets, measure.Bucket{FromNs: t.ns(us), ToNs: t.ns(us), Count: n})
	}
	if t.Max > last {
		for i := range s.buckets {
			if s.buckets[i].FromNs == t.ns(last) {
				s.capNs, s.beyond = t.ns(last), s.buckets[i].Count
				s.buckets[i].Count = 0
			}
		}
	}
	return s.distribution(Interruption), nil
}

var (
	// The header of oslat's text, and a row of it: what it is, and a figure for each thread (write_summary in
	// src/oslat/oslat.c).
	oslatHeader = regexp.MustCompile(`(?m)^ *Core:\t.*\n *Counter Freq:\t`)
	oslatRow    = regexp.MustCompile(`(?m)^ *(Core|[0-9]{1,9} \(us\)|Minimum|Average|Maximum):\t((?: +[0-9.]+)+)`)
)

// parseOslatText parses what oslat prints without --json: a column for each thread.
func parseOslatText(text string) (*Output, error) {
	var threads []rtThread
	for _, m := range oslatRow.FindAllStringSubmatch(text, -1) {
		columns := strings.Fields(m[2])
		if m[1] == "Core" && len(columns) <= maxThreads {
			threads = make([]rtThread, len(columns))
		}
		if len(columns) != len(threads) {
			return nil, unexpected("oslat", "%d columns, expected %d", len(columns), len(threads))
		}
		for i, column := range columns {
			n, err := strconv.ParseFloat(column, 64)
			if err != nil || n > maxCount {
				return nil, unexpected("oslat", "found %q for a number", column)
			}
			threads[i].set(m[1], n)
		}
	}
	out := &Output{}
	for _, t := range threads {
		d, err := t.turns()
		if err != nil {
			return nil, err
		}
		out.Threads = append(out.Threads, Thread{CPU: t.CPU, Distribution: d})
	}
	return out, nil
}

// set sets the figure of a row of oslat's text.
func (t *rtThread) set(row string, n float64) {
	switch row {
	case "Core":
		t.CPU, t.Histogram = int(n), map[string]uint64{}
	case "Minimum":
		t.Min = n
	case "Average":
		t.Avg = n
	case "Maximum":
		t.Max = n
	default:
		us, _, _ := strings.Cut(row, " ")
		t.Histogram[us] = uint64(n)
	}
}
