package irq

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// Counts is one row of /proc/interrupts as far as some CPUs go.
type Counts struct {
	Name   string // its first handler, or LOC, RES, NMI …
	Number int    // −1 for the CPU's own
	Counts []uint64
}

// columnWidth is how wide /proc/interrupts makes a count that has at most ten digits: a blank and ten places
// (kernel/irq/proc.c, show_interrupts; arch/x86/kernel/irq.c, arch_show_interrupts).
const columnWidth = 11

// ParseCPUCounts reads the rows of /proc/interrupts, of each only the columns of some CPUs, whose order is kept. A
// machine with 512 CPUs has a megabyte of counts for each hundred interrupts: rows are not read through where their
// columns have the usual width. Rows with a single count that belongs to no CPU (ERR, MIS) are left out.
func ParseCPUCounts(text string, cpus setting.CPUSet) map[string]Counts {
	head, rest, _ := strings.Cut(text, "\n")
	columns := strings.Fields(head)
	at := make([]int, len(cpus)) // the column of each, −1 where it is offline
	for i, cpu := range cpus {
		at[i] = slices.Index(columns, "CPU"+strconv.Itoa(cpu))
	}
	rows := map[string]Counts{}
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
		row := Counts{Name: label, Number: -1, Counts: make([]uint64, len(cpus))}
		if n, err := strconv.Atoi(label); err == nil {
			row.Number, row.Name = n, ""
			if names := handlers(tail[end:]); len(names) > 0 {
				row.Name = names[0]
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
				row.Counts[i], _ = strconv.ParseUint(fields[column], 10, 64) // skipFields saw that they are digits
			default:
				row.Counts[i] = decimal(tail[column*columnWidth : (column+1)*columnWidth])
			}
		}
		rows[label] = row
	}
	return rows
}

// usual reports whether each of a row's columns has the usual width. One that is wider moves all that follow to the
// right: then the last one does not end where it should.
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

// CountsBetween are the interrupts that came between two looks, by number, the CPU's own last. Rows whose handler
// changed meanwhile count from nothing.
func CountsBetween(before, after map[string]Counts, cpus setting.CPUSet) []facts.IRQRun {
	all := []facts.IRQRun{}
	for _, label := range slices.Sorted(maps.Keys(after)) {
		b, a := after[label], before[label]
		run := facts.IRQRun{Number: b.Number, Name: b.Name, Counts: map[int]uint64{}}
		for i, cpu := range cpus {
			was := uint64(0)
			if a.Name == b.Name && i < len(a.Counts) && a.Counts[i] <= b.Counts[i] {
				was = a.Counts[i]
			}
			if n := b.Counts[i] - was; n > 0 {
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
