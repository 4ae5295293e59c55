package report

import (
	"fmt"

	"mpps/internal/measure"
)

// threadRow is what threads of one kind cost in a series.
type threadRow struct {
	Label, Threads string
	Each, CPUs     cell
	Busiest        string
	Waited         string
}

// threads are the parts of the CPU cost of each series by thread, as far as they are known.
func threads(runs []labeled) []threadRow {
	var rows []threadRow
	for _, r := range runs {
		for _, c := range r.ThreadCosts() {
			name := string(c.Role)
			if c.Guest != "" {
				name += " of " + c.Guest
			}
			row := threadRow{Label: r.label, Threads: name, Each: cellOf(c.Each, duration), CPUs: estimated(c.CPUs)}
			if c.Role != measure.Ourselves { // its clock does not say
				row.Waited = fmt.Sprintf("%.2f", c.Waited.Value)
			}
			if c.Threads > 1 {
				row.Busiest = fmt.Sprintf("%.2f of %d", c.Busiest.Value, c.Threads)
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// partRow is how the CPU time of each packet, transaction or byte was split in a series.
type partRow struct {
	Label string
	Cells []cell // in the order of cpuColumns
}

var cpuColumns = []string{"user", "system", "softirq", "irq", "guest"}

// cpuSplit is the near machine's CPU time by the columns of /proc/stat, for series of which it was taken.
func cpuSplit(runs []labeled) []partRow {
	var rows []partRow
	for _, r := range runs {
		parts := map[string]measure.Estimate{}
		for _, p := range r.CPUParts() {
			parts[p.Name] = p.Each
		}
		if len(parts) == 0 {
			continue
		}
		row := partRow{Label: r.label}
		for _, name := range cpuColumns {
			row.Cells = append(row.Cells, cellOf(parts[name], duration))
		}
		rows = append(rows, row)
	}
	return rows
}
