package host

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/facts"
	"mpps/internal/setting"
)

// cpuCounts is one row of /proc/interrupts as far as some CPUs go.
type cpuCounts struct {
	name   string // its first handler, or LOC, RES, NMI …
	number int    // −1 for the CPU's own
	counts []uint64
}

// columnWidth is how wide /proc/interrupts makes a count that has at most ten digits: a blank and ten places (kernel/irq/proc.c,
// show_interrupts; arch/x86/kernel/irq.c, arch_show_interrupts).
const columnWidth = 11

// parseCPUCounts reads the rows of /proc/interrupts, of each only the columns of some CPUs, whose order is kept. A machine with 512
// CPUs has a megabyte of counts for each hundred interrupts: rows are not read through where their columns have the usual width.
// Rows with a single count that belongs to no CPU (ERR, MIS) are left out.
func parseCPUCounts(text string, cpus setting.CPUSet) map[string]cpuCounts {
	head, rest, _ := strings.Cut(text, "\n")
	columns := strings.Fields(head)
	at := make([]int, len(cpus)) // the column of each, −1 where it is offline
	for i, cpu := range cpus {
		at[i] = slices.Index(columns, "CPU"+strconv.Itoa(cpu))
	}
	rows := map[string]cpuCounts{}
	for rest != "" {
		var line string
		line, rest, _ = strings.Cut(rest, "\n")
		label, tail, found := strings.Cut(line, ":")
		if label = strings.TrimSpace(label); !found || label == "" {
			continue
		}
		end := len(columns) * columnWidth
		if !usual(tail, end) {
			var ok bool
			if end, ok = skipFields(tail, len(columns)); !ok {
				continue
			}
		}
		row := cpuCounts{name: label, number: -1, counts: make([]uint64, len(cpus))}
		if n, err := strconv.Atoi(label); err == nil {
			row.number, row.name = n, ""
			if names := handlers(tail[end:]); len(names) > 0 {
				row.name = names[0]
			}
		}
		var fields []string
		if end != len(columns)*columnWidth {
			fields = strings.Fields(tail[:end])
		}
		for i, column := range at {
			switch {
			case column < 0:
			case fields != nil:
				row.counts[i], _ = strconv.ParseUint(fields[column], 10, 64) // skipFields saw that they are digits
			default:
				row.counts[i] = decimal(tail[column*columnWidth : (column+1)*columnWidth])
			}
		}
		rows[label] = row
	}
	return rows
}

// usual tells whether each of a row's columns has the usual width. One that is wider moves all that follow to the right: then the
// last one does not end where it should.
func usual(tail string, end int) bool {
	return end > 0 && len(tail) >= end && tail[0] == ' ' && digit(tail[end-1]) && (len(tail) == end || tail[end] == ' ')
}

func digit(b byte) bool { return b >= '0' && b <= '9' }

// decimal is the number in a column.
func decimal(column string) uint64 {
	var n uint64
	for i := range len(column) {
		if digit(column[i]) {
			n = 10*n + uint64(column[i]-'0')
		}
	}
	return n
}

// countsBetween are the interrupts that came between two looks, by number, the CPU's own last. Rows whose handler changed
// meanwhile count from nothing.
func countsBetween(before, after map[string]cpuCounts, cpus setting.CPUSet) []facts.IRQRun {
	all := []facts.IRQRun{}
	for _, label := range slices.Sorted(maps.Keys(after)) {
		b, a := after[label], before[label]
		run := facts.IRQRun{Number: b.number, Name: b.name, Counts: map[int]uint64{}}
		for i, cpu := range cpus {
			was := uint64(0)
			if a.name == b.name && i < len(a.counts) && a.counts[i] <= b.counts[i] {
				was = a.counts[i]
			}
			if n := b.counts[i] - was; n > 0 {
				run.Counts[cpu] = n
			}
		}
		if len(run.Counts) > 0 {
			all = append(all, run)
		}
	}
	slices.SortStableFunc(all, func(a, b facts.IRQRun) int {
		return cmp.Or(cmp.Compare(uint(a.Number), uint(b.Number)), strings.Compare(a.Name, b.Name)) // −1 is the largest
	})
	return all
}
