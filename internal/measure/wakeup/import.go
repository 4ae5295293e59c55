package wakeup

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/measure"
)

// Bounds of an imported output: more is not a measurement of one machine.
const (
	maxThreads = 4096
	maxCPUs    = 16384
	maxCount   = 1 << 50 // wake-ups of a thread: a thousand years of one each 30 µs
	maxNs      = 1 << 50 // the longest wake-up: 13 days
)

// MaxText is how many bytes of a tool's output are read.
const MaxText = maxText

// Imported is an output of a tool that mpps did not start.
type Imported struct {
	Output
	Tool    string // of Programs, or osnoise
	Summary bool   // it has no histogram: percentiles are not known
}

// Imported reports whether a file's runs were read from outputs that mpps did not take: when is known of nothing.
func (f *File) Imported() bool { return f.Asked.For == 0 }

// Import parses an output of cyclictest (JSON, -h, or the summary lines alone), oslat (JSON or text), rtla timerlat
// (hist or top) or rtla osnoise hist. An empty tool is recognised by what each of them prints first.
func Import(tool, text string) (*Imported, error) {
	if len(text) > maxText {
		return nil, unexpected("import", "more than %d MiB", maxText>>20)
	}
	switch found := toolOf(text); {
	case tool == "":
		tool = found
	case found != tool && found != "cyclictest": // which is also what nothing speaks against
		return nil, unexpected(tool, "it is the output of %s", found)
	}
	var out *Output
	var err error
	i := &Imported{Tool: tool}
	switch tool {
	case "cyclictest":
		if out, err = ParseCyclictest(text, lastRow(text)+1, nil); err != nil {
			if summary := parseSummary(text); len(summary.Threads) > 0 {
				out, err, i.Summary = summary, nil, true
			}
		}
	case "oslat":
		if out, err = ParseOslat(text); err != nil && oslatHeader.MatchString(text) {
			out, err = parseOslatText(text)
		}
	case "timerlat":
		if i.Summary = topHeader.MatchString(text); i.Summary {
			out, err = parseTop(text)
		} else {
			out, err = ParseTimerlat(text, lastRow(text)+1)
		}
	case "osnoise":
		out, err = parseOsnoise(text, lastRow(text)+1)
	default:
		return nil, unexpected("import", "no tool %q: cyclictest, oslat, timerlat and osnoise are read", tool)
	}
	if err != nil {
		return nil, err
	}
	i.Output = *out
	return i, i.check(tool)
}

// toolOf returns the tool that prints such a text: the program of the command line that rt-tests put into their JSON,
// or the header of oslat or rtla; cyclictest otherwise.
func toolOf(text string) string {
	if m := commandLine.FindStringSubmatch(text); m != nil && strings.HasSuffix("/"+m[1], "/oslat") {
		return "oslat"
	}
	if oslatHeader.MatchString(text) {
		return "oslat"
	}
	if osnoiseHeader.MatchString(text) {
		return "osnoise"
	}
	if timerlatHeader.MatchString(text) || topHeader.MatchString(text) {
		return "timerlat"
	}
	return "cyclictest"
}

var (
	commandLine    = regexp.MustCompile(`(?m)^\s*"cmdline:?": "([^ "]*)`)
	timerlatHeader = regexp.MustCompile(`(?m)^(# RTLA timerlat |Index +(IRQ|Thr|Usr)-)`)
	osnoiseHeader  = regexp.MustCompile(`(?m)^(# RTLA osnoise |Index +CPU-)`)
	// A row of a histogram as text, and one of cyclictest's JSON.
	row = regexp.MustCompile(`(?m)^(?:\s*"([0-9]{1,9})": [0-9]|([0-9]{1,9})\s)`)
	// cyclictest's line of a thread, without -q printed over and over (print_stat in src/cyclictest/cyclictest.c).
	summaryLine = regexp.MustCompile(`T: *(\d{1,4}) \( *\d+\) P: *\d+ I: *\d+ C: *(\d+) ` +
		`Min: *(\d+) Act:( *\d+) Avg: *(\d+) Max: *(\d+)`)
)

// lastRow returns the longest length that the histogram of a text has a row for, in µs; the histogram of a tool that
// prints empty rows ends there, and nothing that another counted lies between.
func lastRow(text string) int {
	last := 0
	for _, m := range row.FindAllStringSubmatch(text, -1) {
		n, _ := strconv.Atoi(m[1] + m[2]) // nine digits
		last = max(last, n)
	}
	return last
}

// parseSummary reads the summary lines of cyclictest, of each thread the last. CPUs are the threads' numbers: the lines
// do not have them.
func parseSummary(text string) *Output {
	last := map[int]sampled{}
	unit := summaryUnit(text)
	for _, m := range summaryLine.FindAllStringSubmatch(text, -1) {
		var n [4]uint64
		for i, text := range []string{m[2], m[3], m[5], m[6]} {
			n[i], _ = strconv.ParseUint(text, 10, 53) // out of range: 0 wake-ups, or the largest, which check refuses
		}
		thread, _ := strconv.Atoi(m[1])
		last[thread] = summaryOf(thread, n[0], n[1]*unit, n[2]*unit, n[3]*unit)
	}
	return outputOf(last)
}

// nsecsWidth is how wide Act: is with -N, and only then: figures are nanoseconds, as nothing else shows.
const nsecsWidth = 8

// summaryUnit returns the unit of the figures of a text with cyclictest's summary lines, in ns.
func summaryUnit(text string) uint64 {
	if m := summaryLine.FindStringSubmatch(text); m != nil && len(m[4]) >= nsecsWidth {
		return 1
	}
	return 1000
}

// summaryOf returns what is known of a thread without a histogram.
func summaryOf(cpu int, count, min, avg, max uint64) sampled {
	s := sampled{cpu: cpu, min: min, mean: float64(avg), max: max}
	if max >= min {
		s.buckets = []measure.Bucket{{FromNs: min, ToNs: max, Count: count}}
	}
	return s
}

// outputOf returns the threads that were woken, in order.
func outputOf(last map[int]sampled) *Output {
	out := &Output{}
	for thread := range maxThreads {
		if s, there := last[thread]; there {
			if d := s.distribution(TimerWakeup); d.Latency != nil {
				out.Threads = append(out.Threads, Thread{CPU: s.cpu, Distribution: d})
			}
		}
	}
	return out
}

// check refuses what no tool measures.
func (i *Imported) check(tool string) error {
	if len(i.Threads) > maxThreads {
		return unexpected(tool, "%d threads, expected at most %d", len(i.Threads), maxThreads)
	}
	some := false
	for _, t := range i.Threads {
		if t.CPU < -1 || t.CPU >= maxCPUs { // cyclictest has −1 for a thread that may run anywhere
			return unexpected(tool, "a thread on CPU %d", t.CPU)
		}
		l := t.Latency
		if l == nil {
			continue
		}
		some = true
		large := slices.ContainsFunc(l.Buckets, func(b measure.Bucket) bool {
			return b.Count > maxCount || b.ToNs > maxNs
		})
		if large || l.Count > maxCount || l.MaxNs > maxNs || l.MinNs > l.MaxNs || math.IsNaN(l.MeanNs) ||
			l.MeanNs < 0 || l.MeanNs > maxNs {
			return unexpected(tool, "figures that nobody can have measured: %d wake-ups, longest %d ns, mean %g ns",
				l.Count, l.MaxNs, l.MeanNs)
		}
	}
	if !some {
		return unexpected(tool, "not one wake-up was counted")
	}
	return nil
}
