package wakeup

import (
	"regexp"
	"strconv"
	"strings"
)

var (
	// The header of rtla timerlat top, with the unit, and its line of a CPU: a count, and for each context the last,
	// the least, the average and the longest (timerlat_top_header, timerlat_top_print in
	// tools/tracing/rtla/src/timerlat_top.c).
	topHeader = regexp.MustCompile(`IRQ Timer Latency \((us|ns)\)`)
	topLine   = regexp.MustCompile(`(?m)^ *([0-9]{1,5}) #([0-9]+) +\|(.*)$`)
)

// parseTop parses the output of "rtla timerlat top", which is printed over and over: of each CPU the last line, and in
// it the last context, which is when the thread, or the program of -u, got the CPU. There is no histogram.
func parseTop(text string) (*Output, error) {
	unit := uint64(1000)
	if m := topHeader.FindStringSubmatch(text); m != nil && m[1] == "ns" {
		unit = 1
	}
	last := map[int]sampled{}
	for _, m := range topLine.FindAllStringSubmatch(text, -1) {
		contexts := strings.Split(m[3], "|")
		fields := strings.Fields(contexts[len(contexts)-1])
		if len(contexts) < 2 || len(fields) != 4 {
			continue
		}
		cpu, _ := strconv.Atoi(m[1]) // five digits
		count, _ := strconv.ParseUint(m[2], 10, 53)
		last[cpu] = summaryOf(cpu, count, column(fields, 1)*unit, column(fields, 2)*unit, column(fields, 3)*unit)
	}
	if len(last) == 0 {
		return nil, unexpected("rtla timerlat", "expected the line of a CPU, found %.60q", strings.TrimSpace(text))
	}
	return outputOf(last), nil
}

// column returns the number in a column; 0 for a missing one ("-").
func column(fields []string, at int) uint64 {
	n, err := strconv.ParseUint(fields[at], 10, 53)
	if err != nil {
		return 0
	}
	return n
}
