package main

import (
	"fmt"
	"math"
	"slices"

	"mpps/internal/measure"
	"mpps/internal/ops"
	"mpps/internal/report"
)

// sideBySide is the number of columns from which all workloads stand in one table.
const sideBySide = 180

// drawModes draws a campaign: the modes as rows, what was measured of each as columns.
func drawModes(t *report.Text, m *measure.Modes, saved []string) {
	title := "bench modes"
	if m.Name != "" {
		title += ": " + m.Name
	}
	t.Heading(title)
	t.Wrapped("  ", fmt.Sprintf("%s, %s, %s; %s in turns, %s by seed %d", m.Host, ops.Count(len(m.Modes), "mode"), ops.Count(len(m.Workloads), "workload"),
		ops.Count(m.Samples, "sample"), ops.Count(m.Blocks, "block"), m.Seed))
	for _, note := range m.Notes {
		t.Wrapped("  ", note)
	}
	if m.Environment.Emulated {
		t.Line("  %s", t.In(report.Yellow, "EMULATED: not the figures of hardware"))
	}
	t.Blank()
	if t.Width >= sideBySide {
		drawModesWide(t, m)
	} else {
		drawModesNarrow(t, m)
	}
	for _, r := range m.Rows {
		if r.Search != nil && r.Search.None != "" {
			t.Wrapped("  "+r.Mode+": ", r.Search.None)
		}
	}
	t.Wrapped("  ", "idle: of all CPUs of this host; ns: CPU time of this host for each, whatever ran there")
	if slices.ContainsFunc(m.Rows, func(r measure.ModeRow) bool { return bounded(r) }) {
		t.Line("  ≥ generator or receiver set the result, not the mode")
	}
	for _, file := range saved {
		t.Line("  saved as %s", file)
	}
}

// drawModesNarrow draws a table for each workload, and one for the delays.
func drawModesNarrow(t *report.Text, m *measure.Modes) {
	for _, w := range m.Workloads {
		t.Wrapped("  "+t.In(report.Bold, w.Name)+": ", workloadText(w))
		rows := [][]string{append([]string{"  mode"}, columnsOf(w)...)}
		for _, r := range rowsOf(m, w.Name) {
			rows = append(rows, append([]string{"  " + r.Mode}, cellsOf(r, w, m.Native)...))
		}
		t.Table(rows)
		t.Blank()
	}
	for _, w := range m.Workloads {
		shown := rowsOf(m, w.Name)
		shown = slices.DeleteFunc(shown, func(r measure.ModeRow) bool { return len(r.Percentiles) == 0 })
		if len(shown) == 0 {
			continue
		}
		t.Line("  %s", t.In(report.Bold, w.Name)+": "+shown[0].What+" delays")
		header := []string{"  mode"}
		for _, p := range longest(shown) {
			header = append(header, fmt.Sprintf("p%g", p.P))
		}
		rows := [][]string{header}
		for _, r := range shown {
			row := []string{"  " + r.Mode}
			for _, p := range r.Percentiles {
				row = append(row, short(p.ValueNs))
			}
			rows = append(rows, row)
		}
		t.Table(rows)
		t.Blank()
	}
}

// drawModesWide draws one table of everything.
func drawModesWide(t *report.Text, m *measure.Modes) {
	top, header := []string{""}, []string{"  mode"}
	for _, w := range m.Workloads {
		columns := columnsOf(w)
		for _, p := range longest(rowsOf(m, w.Name)) {
			columns = append(columns, fmt.Sprintf("p%g", p.P))
		}
		top = append(top, append([]string{w.Name}, make([]string, len(columns)-1)...)...)
		header = append(header, columns...)
	}
	rows := [][]string{top, header}
	for _, mode := range m.Modes {
		row := []string{"  " + mode.Name}
		for _, w := range m.Workloads {
			all := rowsOf(m, w.Name)
			r := all[slices.IndexFunc(all, func(r measure.ModeRow) bool { return r.Mode == mode.Name })]
			row = append(row, cellsOf(r, w, m.Native)...)
			for i := range longest(all) {
				if i < len(r.Percentiles) {
					row = append(row, short(r.Percentiles[i].ValueNs))
				} else {
					row = append(row, "–")
				}
			}
		}
		rows = append(rows, row)
	}
	t.Table(rows)
	for _, w := range m.Workloads {
		t.Line("  %s: %s", w.Name, workloadText(w))
	}
}

// columnsOf are the columns of a workload, behind the modes' names.
func columnsOf(w measure.Workload) []string {
	switch {
	case w.Search > 0:
		return []string{"without loss", "% of native", "upper", "0.5 % lost"}
	case w.Kind == measure.PPS:
		return []string{w.Kind.Unit(), "% of native", "idle", costUnit(w.Kind), "lost"}
	}
	return []string{w.Kind.Unit(), "% of native", "idle", costUnit(w.Kind)}
}

// cellsOf are what stands in them.
func cellsOf(r measure.ModeRow, w measure.Workload, native string) []string {
	cells := []string{valueText(r), percentText(r, native)}
	if s := r.Search; w.Search > 0 && s != nil {
		return append(cells, rateText(s.NDRUpper), rateText(s.PDRLower))
	}
	cost := "–"
	if r.CPUNs.Value > 0 {
		cost = three(r.CPUNs.Value)
	}
	cells = append(cells, idleText(r), cost)
	if w.Kind == measure.PPS {
		cells = append(cells, lossText(r))
	}
	return cells
}

func rateText(pps *float64) string {
	if pps == nil {
		return "–"
	}
	return three(*pps)
}

// rowsOf are the rows of a workload.
func rowsOf(m *measure.Modes, workload string) []measure.ModeRow {
	var rows []measure.ModeRow
	for _, r := range m.Rows {
		if r.Workload == workload {
			rows = append(rows, r)
		}
	}
	return rows
}

// longest is the longest list of percentiles that a row has.
func longest(rows []measure.ModeRow) []measure.Percentile {
	var most []measure.Percentile
	for _, r := range rows {
		if len(r.Percentiles) > len(most) {
			most = r.Percentiles
		}
	}
	return most
}

func workloadText(w measure.Workload) string {
	if w.Search > 0 {
		return fmt.Sprintf("highest rate of %d-byte frames without loss, by searches of at most %v of traffic", w.Load.FrameBytes, w.Search)
	}
	switch l := w.Load; w.Kind {
	case measure.Stream:
		return fmt.Sprintf("TCP, %s, %v each", ops.Count(l.Connections, "connection"), l.Duration)
	case measure.RR:
		return fmt.Sprintf("TCP transactions of %d and %d bytes, %s, %v each", l.Request, l.Response, ops.Count(l.Connections, "connection"), l.Duration)
	default:
		return fmt.Sprintf("%d-byte frames, %s, as fast as possible, %v each", l.FrameBytes, ops.Count(l.Flows, "flow"), l.Duration)
	}
}

func costUnit(k measure.Kind) string {
	switch k {
	case measure.Stream:
		return "ns/byte"
	case measure.RR:
		return "ns/transaction"
	}
	return "ns/packet"
}

// bounded tells whether a result is a lower bound.
func bounded(r measure.ModeRow) bool {
	return r.LimitedBy == measure.ByGenerator || r.LimitedBy == measure.ByReceiver
}

func valueText(r measure.ModeRow) string {
	if len(r.Samples) == 0 {
		return "–"
	}
	if r.Search != nil && r.Median.Value == 0 {
		return "none"
	}
	text := three(r.Median.Value)
	if bounded(r) {
		text = "≥" + text
	}
	if r.Median.N > 1 {
		text += fmt.Sprintf(" [%s, %s]", three(r.Median.Lo), three(r.Median.Hi))
	}
	return text
}

func percentText(r measure.ModeRow, native string) string {
	switch p := r.Percent; {
	case r.Mode == native && len(r.Samples) > 0:
		return "100"
	case p == nil:
		return "–"
	case p.N < 2:
		return three(p.Value)
	case p.N >= 4 && !r.Differs:
		return fmt.Sprintf("%s [%s, %s] %s", three(p.Value), three(p.Lo), three(p.Hi), measure.Same)
	default:
		return fmt.Sprintf("%s [%s, %s]", three(p.Value), three(p.Lo), three(p.Hi))
	}
}

func idleText(r measure.ModeRow) string {
	if r.CPUIdle.N == 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f %%", r.CPUIdle.Value)
}

func lossText(r measure.ModeRow) string {
	if r.Loss == nil {
		return "–"
	}
	return fmt.Sprintf("%.2g %%", 100**r.Loss)
}

// three is a number in three digits, with the prefix that spares the zeros.
func three(v float64) string {
	for _, unit := range []struct {
		from float64
		name string
	}{{999.5e9, "T"}, {999.5e6, "G"}, {999.5e3, "M"}, {999.5, "k"}} {
		if math.Abs(v) >= unit.from {
			return fmt.Sprintf("%.3g", v/(unit.from/0.9995)) + unit.name
		}
	}
	return fmt.Sprintf("%.3g", v)
}
