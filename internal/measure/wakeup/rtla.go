package wakeup

import (
	"slices"
	"strconv"
	"strings"

	"mpps/internal/measure"
)

// rtlaHist is a histogram of rtla: a column for each CPU and context, a row for each length that was seen, followed by
// over, count, min, avg and max (timerlat_print_stats in tools/tracing/rtla/src/timerlat_hist.c, osnoise_print_stats in
// osnoise_hist.c). Lengths are whole µs, or ns where its header says so (--nano).
type rtlaHist struct {
	tool, what string
	kinds      []string // of the columns that count; of a CPU, the last of them
}

// ParseTimerlat parses the output of "rtla timerlat hist". It uses the time at which the thread, or the user-space
// program if that was measured (Usr, since 6.8), got the CPU. entries is the number of rows requested.
func ParseTimerlat(text string, entries int) (*Output, error) {
	return rtlaHist{"rtla timerlat", TimerWakeup, []string{"Thr", "Usr"}}.parse(text, entries)
}

// parseOsnoise parses the output of "rtla osnoise hist", which counts interruptions of a thread that spins.
func parseOsnoise(text string, entries int) (*Output, error) {
	return rtlaHist{"rtla osnoise", Interruption, []string{"CPU"}}.parse(text, entries)
}

func (h rtlaHist) parse(text string, entries int) (*Output, error) {
	var columns []int // of each thread
	var threads []sampled
	rows := map[string][]string{}
	unit, summed := uint64(1000), false
	if strings.Contains(text, "\n# Time unit is nanoseconds") {
		unit = 1
	}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		if summed = summed || fields[0] == "ALL:"; summed && fields[0] != "Index" {
			continue // newer versions append a summary of all CPUs
		}
		if fields[0] == "Index" {
			if threads != nil {
				return nil, unexpected(h.tool, "there are two outputs")
			}
			if columns, threads = h.threads(fields); len(columns) > maxThreads {
				return nil, unexpected(h.tool, "%d threads, expected at most %d", len(columns), maxThreads)
			}
			continue
		}
		if name, is := strings.CutSuffix(fields[0], ":"); is {
			rows[name] = fields
			continue
		}
		length, err := strconv.ParseUint(fields[0], 10, 32)
		if err != nil || columns == nil {
			continue // other text
		}
		for i, at := range columns {
			if at >= len(fields) { // a short row costs no more than it holds
				break
			}
			n, err := strconv.ParseUint(fields[at], 10, 53)
			if err != nil {
				return nil, unexpected(h.tool, "found %q for a count", fields[at]) // negative from 2³¹ on
			}
			if n > 0 {
				threads[i].buckets = append(threads[i].buckets, measure.Bucket{FromNs: length * unit,
					ToNs: length * unit, Count: n})
			}
		}
	}
	switch {
	case threads == nil:
		return nil, unexpected(h.tool, "expected a histogram, found %.60q", strings.TrimSpace(text))
	case rows["max"] == nil:
		return nil, unexpected(h.tool, "it is cut short or without a summary: there is no row \"max:\"")
	}
	for i, at := range columns {
		threads[i].capNs = uint64(entries) * unit
		if err := threads[i].summarise(h.tool, rows, at, unit); err != nil {
			return nil, err
		}
	}
	widen(threads, unit)
	out := &Output{}
	for _, t := range threads {
		if t.count > 0 {
			out.Threads = append(out.Threads, Thread{CPU: t.cpu, Distribution: t.distribution(h.what)})
		}
	}
	if len(out.Threads) == 0 {
		return nil, unexpected(h.tool, "no column %s has a count", strings.Join(h.kinds, " or "))
	}
	return out, nil
}

// threads returns the column of each CPU, and the CPUs.
func (h rtlaHist) threads(header []string) (columns []int, threads []sampled) {
	threads = []sampled{}
	for i, name := range header {
		kind, number, found := strings.Cut(name, "-")
		cpu, err := strconv.Atoi(number)
		if !found || err != nil || !slices.Contains(h.kinds, kind) {
			continue
		}
		if n := len(threads); n > 0 && threads[n-1].cpu == cpu {
			columns[n-1] = i
			continue
		}
		columns, threads = append(columns, i), append(threads, sampled{cpu: cpu})
	}
	return columns, threads
}

// summarise takes a thread's figures from the rows after the histogram. A row that is cut has none for it, and
// a histogram that is cut does not have all that was counted.
func (s *sampled) summarise(tool string, rows map[string][]string, at int, unit uint64) error {
	text := func(row string) string {
		if fields := rows[row]; at < len(fields) {
			return fields[at]
		}
		return ""
	}
	figure := func(row string) (uint64, bool) {
		n, err := strconv.ParseUint(text(row), 10, 50)
		return n, err == nil
	}
	over, known := figure("over")
	count, counted := figure("count")
	least, isLeast := figure("min")
	longest, isLongest := figure("max")
	mean, err := strconv.ParseFloat(text("avg"), 64) // osnoise has decimals
	if counted && count == 0 {
		return nil // min, avg and max are "-"
	}
	if !known || !counted || !isLeast || !isLongest || err != nil || !(mean >= 0 && mean < float64(longest+1)) {
		return unexpected(tool, "its summary is cut short or broken: CPU %d lacks a figure", s.cpu)
	}
	s.beyond, s.count, s.mean = over, count, mean*float64(unit)
	s.min, s.max = least*unit, longest*unit
	held := s.beyond
	for _, b := range s.buckets {
		held += b.Count
	}
	// Its rows and its counts are two maps of eBPF: the last wake-up may be in only one.
	if max(held, s.count)-min(held, s.count) > 1 {
		return unexpected(tool, "CPU %d has %d in the histogram, and %d counted: rows are missing", s.cpu, held,
			s.count)
	}
	return nil
}

// widen gives buckets the width of --bucket-size, which rtla does not print: where a thread's least or longest is in no
// row, a row holds all up to the next, and every row is a multiple of the width.
func widen(threads []sampled, unit uint64) {
	var width uint64
	wide := false
	for _, t := range threads {
		for _, b := range t.buckets {
			for rest := b.FromNs; rest > 0; {
				width, rest = rest, width%rest
			}
		}
		if n := len(t.buckets); n > 0 {
			wide = wide || t.min > t.buckets[0].FromNs || t.beyond == 0 && t.max > t.buckets[n-1].FromNs
		}
	}
	if !wide {
		return
	}
	for i := range threads {
		t := &threads[i]
		for j := range t.buckets {
			b := &t.buckets[j]
			if b.ToNs = max(b.FromNs, t.max); width > 0 {
				b.ToNs = min(b.ToNs, b.FromNs+width-unit)
			}
			t.capNs = max(t.capNs, b.ToNs+1)
		}
	}
}
