package wakeup

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"mpps/internal/measure"
)

// Output is what one run of a tool reported.
type Output struct {
	Version string
	Threads []Thread
	Long    []Long // long wake-ups with their times, if the tool reports them; in order of time
	Lost    uint64 // long wake-ups that the tool had no room for
	Exact   bool   // Long has every wake-up beyond the trigger, except those in Lost

	Trigger  uint64   // nanoseconds, if the tool chose it
	Problems []string // what the tool says it lacked
}

// Long is a long wake-up, by the clock of the measured machine.
type Long struct {
	CPU  int
	Ns   uint64
	When time.Duration // CLOCK_MONOTONIC at the end of the wake-up
}

// ErrNoOutput is wrapped by every error about the output of a tool.
var ErrNoOutput = errors.New("not what the tool prints")

func unexpected(tool, format string, args ...any) error {
	return fmt.Errorf("%s: %w: %s", tool, ErrNoOutput, fmt.Sprintf(format, args...))
}

// maxText is how much of a tool's output is read, in bytes.
const maxText = 32 << 20

// rtTests is the output of cyclictest --json since rt-tests 2.0 and of oslat --json (rt_write_json in
// src/lib/rt-utils.c; write_stats in src/cyclictest/cyclictest.c, write_summary_json in src/oslat/oslat.c). The
// version's key has a stray colon, which later versions may fix.
type rtTests struct {
	Version  string              `json:"rt_test_version"`
	Version2 string              `json:"rt_test_version:"`
	InNs     int                 `json:"resolution_in_ns"` // 1 with cyclictest's -N: all lengths are ns
	Threads  map[string]rtThread `json:"thread"`
}

type rtThread struct {
	Histogram map[string]uint64 `json:"histogram"`
	Cycles    uint64            `json:"cycles"` // of cyclictest
	Min       float64           `json:"min"`
	Max       float64           `json:"max"`
	Avg       float64           `json:"avg"`
	CPU       int               `json:"cpu"`

	inNs bool // its lengths are ns, not µs
}

// readRTTests reads the JSON at the beginning of a text, and returns where it ends. distribution converts a thread's
// figures.
func readRTTests(tool, text string, distribution func(rtThread) (Distribution, error)) (*Output, int, error) {
	decoder := json.NewDecoder(strings.NewReader(text))
	var report rtTests
	if err := decoder.Decode(&report); err != nil {
		return nil, 0, unexpected(tool, "its JSON is cut short or broken: %v", err)
	}
	if len(report.Threads) == 0 {
		return nil, 0, unexpected(tool, "its JSON has no thread")
	}
	out := &Output{Version: report.Version + report.Version2}
	for i := range len(report.Threads) {
		t, there := report.Threads[strconv.Itoa(i)]
		if !there {
			return nil, 0, unexpected(tool, "there is no thread %d of %d", i, len(report.Threads))
		}
		t.inNs = report.InNs == 1
		d, err := distribution(t)
		if err != nil {
			return nil, 0, err
		}
		out.Threads = append(out.Threads, Thread{CPU: t.CPU, Distribution: d})
	}
	return out, int(decoder.InputOffset()), nil
}

// ParseCyclictest parses the output of cyclictest: the JSON of --json=-, with the text around it, or without JSON the
// text of -q -h. Its histogram ends at cap µs: longer wake-ups only appear in cycles and in max. It truncates to whole
// µs, and so do these figures. cpus are the CPUs of its threads in order, which the text lacks.
func ParseCyclictest(text string, cap int, cpus []int) (*Output, error) {
	if len(text) > maxText {
		return nil, unexpected("cyclictest", "more than %d MiB", maxText>>20)
	}
	start := strings.Index(text, "\n{")
	switch {
	case strings.HasPrefix(text, "{"):
		start = 0
	case start < 0:
		return parseCyclicText(text, cap, cpus)
	default:
		start++
	}
	out, end, err := readRTTests("cyclictest", text[start:],
		func(t rtThread) (Distribution, error) { return t.wakeups(cap) })
	if err != nil {
		return nil, err
	}
	out.spikes(text[start+end:])
	return out, nil
}

// wakeups converts the figures of a thread of cyclictest.
func (t rtThread) wakeups(cap int) (Distribution, error) {
	s := sampled{cpu: t.CPU, capNs: uint64(cap) * t.unit(), count: t.Cycles, min: t.ns(t.Min), max: t.ns(t.Max),
		mean: t.Avg * float64(t.unit())}
	var inside uint64
	for key, n := range t.Histogram {
		length, err := strconv.ParseUint(key, 10, 32)
		if err != nil {
			return Distribution{}, unexpected("cyclictest", "found %q for a length", key)
		}
		ns := length * t.unit()
		s.buckets = append(s.buckets, measure.Bucket{FromNs: ns, ToNs: ns, Count: n})
		inside += n
	}
	if t.Cycles > inside {
		s.beyond = t.Cycles - inside
	}
	// If interrupted during a wake-up, cyclictest has counted a cycle without its length: unless max is longer, nothing
	// is beyond the histogram.
	if s.beyond > 0 && t.Max < float64(cap) {
		s.beyond = 0
	}
	return s.distribution(TimerWakeup), nil
}

// unit returns the unit of a thread's lengths in ns.
func (t rtThread) unit() uint64 {
	if t.inNs {
		return 1
	}
	return 1000
}

// ns returns a length of a thread in ns, 0 for one that nobody can have measured.
func (t rtThread) ns(length float64) uint64 {
	if length <= 0 || math.IsNaN(length) || length > 1e12 {
		return 0
	}
	return uint64(math.Round(length * float64(t.unit())))
}

// Lines of --spike (trigger_print in cyclictest.c). The time is CLOCK_MONOTONIC in µs.
var (
	spike      = regexp.MustCompile(`^T: *([0-9]+) Spike: *([0-9]+): TS: *([0-9]+)$`)
	spikeCount = regexp.MustCompile(`^spikes = ([0-9]+)$`)
)

// spikes parses the list after the JSON.
func (o *Output) spikes(text string) {
	var counted uint64
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if m := spikeCount.FindStringSubmatch(line); m != nil {
			counted, _ = strconv.ParseUint(m[1], 10, 64) // only digits; an overflow gives the largest number
			o.Exact = true
			continue
		}
		m := spike.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		thread, _ := strconv.Atoi(m[1])
		us, _ := strconv.ParseUint(m[2], 10, 40)
		when, _ := strconv.ParseUint(m[3], 10, 53)
		if thread < len(o.Threads) {
			o.Long = append(o.Long, Long{CPU: o.Threads[thread].CPU, Ns: us * 1000,
				When: time.Duration(when) * time.Microsecond})
		}
	}
	o.Lost = counted - min(counted, uint64(len(o.Long)))
	slices.SortStableFunc(o.Long, func(a, b Long) int { return int(a.When - b.When) })
}

// parseCyclicText parses the text of "cyclictest -h": a line of counts for each µs, with a column per thread, followed
// by lines starting with # for totals, minima, averages, maxima and overflows (print_hist in
// src/cyclictest/cyclictest.c). With -N it is one for each ns, which only the summary lines show.
func parseCyclicText(text string, cap int, cpus []int) (*Output, error) {
	var threads []sampled
	notes := map[string][]uint64{}
	unit := summaryUnit(text)
	rows := 0
	var last uint64
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if note, is := strings.CutPrefix(line, "# "); is {
			name, values, found := strings.Cut(note, ":")
			if numbers, ok := integers(values); found && ok {
				notes[strings.TrimSpace(name)] = numbers
			}
			continue
		}
		numbers, ok := integers(line)
		if !ok || len(numbers) < 2 {
			continue
		}
		if threads == nil {
			threads = make([]sampled, len(numbers)-1)
		}
		if len(numbers) != len(threads)+1 {
			return nil, unexpected("cyclictest", "found %d columns behind lines of %d", len(numbers), len(threads)+1)
		}
		if rows++; rows > 1 && numbers[0] <= last {
			return nil, unexpected("cyclictest", "length %d follows %d: there are two outputs", numbers[0], last)
		}
		last = numbers[0]
		for i, n := range numbers[1:] {
			threads[i].count += n
			if n > 0 {
				threads[i].buckets = append(threads[i].buckets, measure.Bucket{FromNs: last * unit, ToNs: last * unit,
					Count: n})
			}
		}
	}
	if len(threads) == 0 {
		return nil, unexpected("cyclictest", "expected JSON or a histogram, found %.60q", strings.TrimSpace(text))
	}
	if n := len(notes["Min Latencies"]); n > 0 && n+1 == len(threads) {
		threads = threads[:n] // the last column is the sum of all (-H)
	}
	for _, name := range []string{"Total", "Min Latencies", "Avg Latencies", "Max Latencies", "Histogram Overflows"} {
		if len(notes[name]) < len(threads) {
			return nil, unexpected("cyclictest", "it is cut short: %q has %d of %d threads", name, len(notes[name]),
				len(threads))
		}
	}
	out := &Output{}
	for i := range threads {
		t := &threads[i]
		if total := notes["Total"][i]; t.count != total {
			return nil, unexpected("cyclictest", "thread %d has %d in the histogram, and %d counted: rows are missing",
				i, t.count, total)
		}
		t.capNs, t.cpu = uint64(cap)*unit, i
		if i < len(cpus) {
			t.cpu = cpus[i]
		}
		t.beyond = notes["Histogram Overflows"][i]
		t.min, t.max = notes["Min Latencies"][i]*unit, notes["Max Latencies"][i]*unit
		t.mean = float64(notes["Avg Latencies"][i] * unit)
		out.Threads = append(out.Threads, Thread{CPU: t.cpu, Distribution: t.distribution(TimerWakeup)})
	}
	return out, nil
}

// integers returns the numbers of a line, and false if it contains anything else.
func integers(line string) ([]uint64, bool) {
	var numbers []uint64
	for field := range strings.FieldsSeq(line) {
		n, err := strconv.ParseUint(field, 10, 53)
		if err != nil {
			return nil, false
		}
		numbers = append(numbers, n)
	}
	return numbers, len(numbers) > 0
}
