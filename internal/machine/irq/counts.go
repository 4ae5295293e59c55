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

// Counts is one row of /proc/interrupts for some CPUs.
type Counts struct {
	Name   string // its first handler, or LOC, RES, NMI …
	Number int    // −1 for per-CPU interrupts
	Counts []uint64
}

// columnWidth is the width of a column of /proc/interrupts for counts of at most ten digits: a blank and ten digits
// (kernel/irq/proc.c, show_interrupts; arch/x86/kernel/irq.c, arch_show_interrupts).
const columnWidth = 11

// ParseCPUCounts reads the columns of some CPUs, in their order, from each row of /proc/interrupts. On a machine with
// 512 CPUs a hundred interrupts have a megabyte of counts: in rows with columns of the usual width it goes straight to
// those columns. Rows with a single count that belongs to no CPU (ERR, MIS) are left out.
func ParseCPUCounts(text string, cpus setting.CPUSet) map[string]Counts {
	head, rest, _ := strings.Cut(text, "\n")
	columns := strings.Fields(head)
	of := make(map[string]int, len(columns))
	for i, name := range slices.Backward(columns) {
		of[name] = i
	}
	at := make([]int, len(cpus)) // the column of each CPU, −1 if it is offline
	for i, cpu := range cpus {
		at[i] = -1
		if column, has := of["CPU"+strconv.Itoa(cpu)]; has {
			at[i] = column
		}
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
		if !usualWidths(tail, end) {
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
				row.Counts[i], _ = strconv.ParseUint(fields[column], 10, 64) // digits: skipFields checked that
			default:
				row.Counts[i] = decimal(tail[column*columnWidth : (column+1)*columnWidth])
			}
		}
		rows[label] = row
	}
	return rows
}

// CPUsOf returns the CPUs that have a column in /proc/interrupts.
func CPUsOf(text string) setting.CPUSet {
	head, _, _ := strings.Cut(text, "\n")
	var cpus []int
	for _, name := range strings.Fields(head) {
		if cpu, err := strconv.Atoi(strings.TrimPrefix(name, "CPU")); err == nil {
			cpus = append(cpus, cpu)
		}
	}
	return setting.CPUs(cpus...)
}

// usualWidths reports whether all columns of a row have the usual width. A wider one shifts all later ones, so the last
// column does not end where it should.
func usualWidths(tail string, end int) bool {
	return end > 0 && len(tail) >= end && tail[0] == ' ' && digit(tail[end-1]) && (len(tail) == end || tail[end] == ' ')
}

func digit(b byte) bool { return b >= '0' && b <= '9' }

// decimal returns the number in a column.
func decimal(column string) uint64 {
	var n uint64
	for i := range len(column) {
		if digit(column[i]) {
			n = 10*n + uint64(column[i]-'0')
		}
	}
	return n
}

// CountsBetween returns the interrupts between two readings, sorted by number, per-CPU interrupts last. If a row's
// handler has changed, its count starts from zero.
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
