package report

import (
	"fmt"

	"mpps/internal/measure"
)

func environment(d *Document) []factRow {
	h := d.Host
	rows := []factRow{
		{"Host", h.Name}, {"Kernel", h.Kernel}, {"CPUs", fmt.Sprintf("%s, %s", h.CPU, count(h.CPUs, "CPU"))},
	}
	if h.Nodes > 0 { // a run knows neither nodes nor memory
		rows[2].Value += " on " + count(h.Nodes, "NUMA node")
		rows = append(rows, factRow{"Memory", Bytes(h.Memory)})
	}
	switch {
	case h.Emulated:
		rows = append(rows, factRow{"Emulated", "yes: the whole host runs under software emulation. Rates and times say nothing about hardware; only the ratio and the settings carry over"})
	case h.Virtual != "":
		rows = append(rows, factRow{"Virtual", "the host is itself a guest of " + h.Virtual})
	}
	if d.Goal != "" {
		rows = append(rows, factRow{"Goal", d.Goal})
	}
	for _, r := range d.runs("") {
		rows = append(rows, factRow{"Series " + r.label, loadText(r.Run)})
	}
	if d.Seconds > 0 {
		rows = append(rows, factRow{"Whole run", seconds(d.Seconds)})
	}
	return rows
}

// loadText is what a run asked for, and with what it was measured.
func loadText(r *measure.Run) string {
	l, e := r.Load, r.Environment
	text := fmt.Sprintf("%d trials of %s", len(r.Samples), seconds(l.Duration.Seconds()))
	if r.Kind != measure.PPS {
		text += ", TCP over " + count(max(l.Connections, 1), "connection")
	} else {
		pace := "as fast as possible"
		if l.Rate > 0 {
			pace = siDigits(l.Rate, 4) + " packets/s"
		}
		text += fmt.Sprintf(", %s, %s, %s, generator %s, sink %s", frameText(l), count(max(l.Flows, 1), "flow"), pace, e.Generator, e.Sink)
	}
	if e.FarKernel != "" {
		text += ", kernel of the far end " + e.FarKernel
	}
	return text + "; limited by " + string(r.LimitedBy)
}
