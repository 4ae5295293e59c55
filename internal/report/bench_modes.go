package report

import (
	"fmt"
	"math"
	"slices"

	"mpps/internal/measure"
)

// wideModes is the number of columns from which all workloads stand in one table.
const wideModes = 180

// BenchModes draws a campaign: the modes as rows, what was measured of each as columns.
func BenchModes(t *Text, m *measure.Modes, saved []string) {
	title := "bench modes"
	if m.Name != "" {
		title += ": " + m.Name
	}
	t.Heading(title)
	t.Wrapped("  ", fmt.Sprintf("%s, %s, %s; %s in turns, %s by seed %d", m.Host, count(len(m.Modes), "mode"),
		count(len(m.Workloads), "workload"),
		count(m.Samples, "sample"), count(m.Blocks, "block"), m.Seed))
	for _, note := range m.Notes {
		t.Wrapped("  ", note)
	}
	if m.Environment.Emulated {
		t.Line("  %s", t.In(Yellow, "EMULATED: not the figures of hardware"))
	}
	t.Blank()
	if t.Width >= wideModes {
		drawWideModes(t, m)
	} else {
		drawNarrowModes(t, m)
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

// drawNarrowModes draws a table for each workload, and one for the delays.
func drawNarrowModes(t *Text, m *measure.Modes) {
	for _, w := range m.Workloads {
		t.Wrapped("  "+t.In(Bold, w.Name)+": ", workloadText(w))
		rows := [][]string{append([]string{"  mode"}, modeColumns(w)...)}
		for _, r := range modeRows(m, w.Name) {
			rows = append(rows, append([]string{"  " + r.Mode}, modeCells(r, w, m.Native)...))
		}
		t.Table(rows)
		t.Blank()
	}
	for _, w := range m.Workloads {
		shown := modeRows(m, w.Name)
		shown = slices.DeleteFunc(shown, func(r measure.ModeRow) bool { return len(r.Percentiles) == 0 })
		if len(shown) == 0 {
			continue
		}
		t.Line("  %s", t.In(Bold, w.Name)+": "+shown[0].What+" delays")
		header := []string{"  mode"}
		for _, p := range longestPercentiles(shown) {
			header = append(header, fmt.Sprintf("p%g", p.P))
		}
		rows := [][]string{header}
		for _, r := range shown {
			row := []string{"  " + r.Mode}
			for _, p := range r.Percentiles {
				row = append(row, shortTime(p.ValueNs))
			}
			rows = append(rows, row)
		}
		t.Table(rows)
		t.Blank()
	}
}

// drawWideModes draws one table of everything.
func drawWideModes(t *Text, m *measure.Modes) {
	top, header := []string{""}, []string{"  mode"}
	for _, w := range m.Workloads {
		columns := modeColumns(w)
		for _, p := range longestPercentiles(modeRows(m, w.Name)) {
			columns = append(columns, fmt.Sprintf("p%g", p.P))
		}
		top = append(top, append([]string{w.Name}, make([]string, len(columns)-1)...)...)
		header = append(header, columns...)
	}
	rows := [][]string{top, header}
	for _, mode := range m.Modes {
		row := []string{"  " + mode.Name}
		for _, w := range m.Workloads {
			all := modeRows(m, w.Name)
			r := all[slices.IndexFunc(all, func(r measure.ModeRow) bool { return r.Mode == mode.Name })]
			row = append(row, modeCells(r, w, m.Native)...)
			for i := range longestPercentiles(all) {
				if i < len(r.Percentiles) {
					row = append(row, shortTime(r.Percentiles[i].ValueNs))
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

// modeColumns are the columns of a workload, behind the modes' names.
func modeColumns(w measure.Workload) []string {
	switch {
	case w.Search > 0:
		return []string{"without loss", "% of native", "upper", "0.5 % lost"}
	case w.Kind == measure.PPS:
		return []string{w.Kind.Unit(), "% of native", "idle", costUnit(w.Kind), "lost"}
	}
	return []string{w.Kind.Unit(), "% of native", "idle", costUnit(w.Kind)}
}

// modeCells are the cells of a row in those columns.
func modeCells(r measure.ModeRow, w measure.Workload, native string) []string {
	cells := []string{modeValue(r), modePercent(r, native)}
	if s := r.Search; w.Search > 0 && s != nil {
		return append(cells, orDash(s.NDRUpper), orDash(s.PDRLower))
	}
	cost := "–"
	if r.CPUNs.Value > 0 {
		cost = threeDigits(r.CPUNs.Value)
	}
	cells = append(cells, modeIdle(r), cost)
	if w.Kind == measure.PPS {
		cells = append(cells, modeLoss(r))
	}
	return cells
}

func orDash(pps *float64) string {
	if pps == nil {
		return "–"
	}
	return threeDigits(*pps)
}

// modeRows are the rows of a workload.
func modeRows(m *measure.Modes, workload string) []measure.ModeRow {
	var rows []measure.ModeRow
	for _, r := range m.Rows {
		if r.Workload == workload {
			rows = append(rows, r)
		}
	}
	return rows
}

// longestPercentiles is the longest list of percentiles that a row has.
func longestPercentiles(rows []measure.ModeRow) []measure.Percentile {
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
		return fmt.Sprintf("highest rate of %d-byte frames without loss, by searches of at most %v of traffic",
			w.Load.FrameBytes, w.Search)
	}
	switch l := w.Load; w.Kind {
	case measure.Stream:
		return fmt.Sprintf("TCP, %s, %v each", count(l.Connections, "connection"), l.Duration)
	case measure.RR:
		return fmt.Sprintf("TCP transactions of %d and %d bytes, %s, %v each", l.Request, l.Response,
			count(l.Connections, "connection"), l.Duration)
	default:
		return fmt.Sprintf("%d-byte frames, %s, as fast as possible, %v each", l.FrameBytes, count(l.Flows, "flow"),
			l.Duration)
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

// bounded reports whether a result is a lower bound.
func bounded(r measure.ModeRow) bool {
	return r.LimitedBy == measure.ByGenerator || r.LimitedBy == measure.ByReceiver
}

func modeValue(r measure.ModeRow) string {
	if len(r.Samples) == 0 {
		return "–"
	}
	if r.Search != nil && r.Median.Value == 0 {
		return "none"
	}
	text := threeDigits(r.Median.Value)
	if bounded(r) {
		text = "≥" + text
	}
	if r.Median.N > 1 {
		text += fmt.Sprintf(" [%s, %s]", threeDigits(r.Median.Lo), threeDigits(r.Median.Hi))
	}
	return text
}

func modePercent(r measure.ModeRow, native string) string {
	switch p := r.Percent; {
	case r.Mode == native && len(r.Samples) > 0:
		return "100"
	case p == nil:
		return "–"
	case p.N < 2:
		return threeDigits(p.Value)
	case p.N >= 4 && !r.Differs:
		return fmt.Sprintf("%s [%s, %s] %s", threeDigits(p.Value), threeDigits(p.Lo), threeDigits(p.Hi), measure.Same)
	default:
		return fmt.Sprintf("%s [%s, %s]", threeDigits(p.Value), threeDigits(p.Lo), threeDigits(p.Hi))
	}
}

func modeIdle(r measure.ModeRow) string {
	if r.CPUIdle.N == 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f %%", r.CPUIdle.Value)
}

func modeLoss(r measure.ModeRow) string {
	if r.Loss == nil {
		return "–"
	}
	return fmt.Sprintf("%.2g %%", 100**r.Loss)
}

// threeDigits writes a number in three significant digits with an SI prefix.
func threeDigits(v float64) string {
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
