package wakeup

import (
	"strconv"
	"strings"

	"mpps/internal/measure"
)

// ParseTimerlat parses the output of "rtla timerlat hist" (timerlat_print_stats and its header in
// tools/tracing/rtla/src/timerlat_hist.c): a column for each CPU and context (IRQ, Thr, since 6.8 Usr), a row for each
// µs, followed by over, count, min, avg and max. It uses the time at which the thread, or the user-space program if
// that was measured, got the CPU. Lengths are whole µs, or ns where its header says so (--nano);
// entries is the number of rows requested.
func ParseTimerlat(text string, entries int) (*Output, error) {
	var columns []int // of each thread
	var cpus []int
	var threads []sampled
	rows := map[string][]string{}
	unit := uint64(1000)
	if strings.Contains(text, "\n# Time unit is nanoseconds") {
		unit = 1
	}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		if fields[0] == "ALL:" { // newer versions append a summary of all CPUs
			break
		}
		if fields[0] == "Index" {
			if columns, cpus = timerlatColumns(fields); len(columns) > maxThreads {
				return nil, unexpected("rtla timerlat", "%d threads, expected at most %d", len(columns), maxThreads)
			}
			threads = make([]sampled, len(columns))
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
			if n := column(fields, at); n > 0 {
				threads[i].buckets = append(threads[i].buckets, measure.Bucket{FromNs: length * unit,
					ToNs: length * unit, Count: n})
			}
		}
	}
	if len(columns) == 0 || rows["max"] == nil {
		return nil, unexpected("rtla timerlat", "expected a histogram, found %.60q", strings.TrimSpace(text))
	}
	out := &Output{}
	for i, at := range columns {
		t := &threads[i]
		t.cpu, t.capNs, t.beyond = cpus[i], uint64(entries)*unit, column(rows["over"], at)
		t.min, t.max, t.mean = column(rows["min"], at)*unit, column(rows["max"], at)*unit,
			float64(column(rows["avg"], at)*unit)
		if t.count = column(rows["count"], at); t.count == 0 {
			continue
		}
		out.Threads = append(out.Threads, Thread{CPU: t.cpu, Distribution: t.distribution(TimerWakeup)})
	}
	if len(out.Threads) == 0 {
		return nil, unexpected("rtla timerlat", "not one thread was woken")
	}
	return out, nil
}

// timerlatColumns returns the columns of each CPU's last context: Usr if there is one, otherwise Thr.
func timerlatColumns(header []string) (columns, cpus []int) {
	for i, name := range header {
		kind, number, found := strings.Cut(name, "-")
		cpu, err := strconv.Atoi(number)
		if !found || err != nil || kind != "Thr" && kind != "Usr" {
			continue
		}
		if n := len(cpus); n > 0 && cpus[n-1] == cpu {
			columns[n-1] = i
			continue
		}
		columns, cpus = append(columns, i), append(cpus, cpu)
	}
	return columns, cpus
}

// column returns the number in a column; 0 for a missing one ("-").
func column(fields []string, at int) uint64 {
	if at >= len(fields) {
		return 0
	}
	n, err := strconv.ParseUint(fields[at], 10, 53)
	if err != nil {
		return 0
	}
	return n
}
