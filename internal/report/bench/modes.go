package bench

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"mpps/internal/measure"
	"mpps/internal/report"
	"mpps/internal/words"
)

// wideModes is the number of columns from which all workloads stand in one table.
const wideModes = 180

// ModesText draws a campaign: the modes as rows, what was measured of each as columns.
func ModesText(t *report.Text, m *measure.Modes, saved []string) {
	t.Heading(words.Join(": ", "bench modes", m.Name))
	t.Wrap("  ", fmt.Sprintf("%s, %s, %s; %s in turns, %s by seed %d", m.Host, words.Count(len(m.Modes), "mode"),
		words.Count(len(m.Workloads), "workload"), words.Count(m.Samples, "sample"), words.Count(m.Blocks, "block"),
		m.Seed))
	t.Each("  ", m.Notes)
	t.LineIf(m.Environment.Emulated, "  %s", t.In(report.Yellow, "EMULATED: not the figures of hardware"))
	t.Blank()
	if t.Width >= wideModes {
		drawWideModes(t, m)
	} else {
		drawNarrowModes(t, m)
	}
	for _, r := range m.Rows {
		if r.Search != nil && r.Search.None != "" {
			t.Wrap("  "+r.Mode+": ", r.Search.None)
		}
	}
	t.Wrap("  ", "idle: of all CPUs of this host; ns: CPU time of this host for each, whatever ran there")
	t.LineIf(slices.ContainsFunc(m.Rows, bounded), "  ≥ generator or receiver set the result, not the mode")
	t.SavedFiles(saved)
}

// drawNarrowModes draws a table for each workload, and one for the delays.
func drawNarrowModes(t *report.Text, m *measure.Modes) {
	for _, w := range m.Workloads {
		t.Wrap("  "+t.In(report.Bold, w.Name)+": ", workloadText(w))
		rows := [][]string{append([]string{"  mode"}, modeColumns(w, m.Native)...)}
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
		t.Line("  %s", t.In(report.Bold, w.Name)+": "+shown[0].What+" delays")
		rows := [][]string{append([]string{"  mode"}, percentileNames(shown)...)}
		for _, r := range shown {
			rows = append(rows, append([]string{"  " + r.Mode}, delayCells(r)...))
		}
		t.Table(rows)
		t.Blank()
	}
}

// drawWideModes draws one table of everything.
func drawWideModes(t *report.Text, m *measure.Modes) {
	top, header := []string{""}, []string{"  mode"}
	for _, w := range m.Workloads {
		columns := append(modeColumns(w, m.Native), percentileNames(modeRows(m, w.Name))...)
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
			row = append(row, delayCells(r)...)
			row = append(row, slices.Repeat([]string{"–"}, len(percentileNames(all))-len(r.Percentiles))...)
		}
		rows = append(rows, row)
	}
	t.Table(rows)
	for _, w := range m.Workloads {
		t.Line("  %s: %s", w.Name, workloadText(w))
	}
}

// modeColumns returns the columns of a workload, after the modes' names.
func modeColumns(w measure.Workload, native string) []string {
	percent := "% of " + cmp.Or(native, "native")
	switch {
	case w.Search > 0:
		return []string{"without loss", percent, "upper", "0.5 % lost"}
	case w.Kind == measure.PPS:
		return []string{w.Kind.Unit(), percent, "idle", "ns/" + singular(w.Kind), "lost"}
	}
	return []string{w.Kind.Unit(), percent, "idle", "ns/" + singular(w.Kind)}
}

// modeCells returns the cells of a row in those columns.
func modeCells(r measure.ModeRow, w measure.Workload, native string) []string {
	cells := []string{modeValue(r), modePercent(r, native)}
	if s := r.Search; w.Search > 0 && s != nil {
		return append(cells, orDash(s.NDRUpper), orDash(s.PDRLower))
	}
	cells = append(cells, words.Either(r.CPUIdle.N > 0, fmt.Sprintf("%.0f %%", r.CPUIdle.Value), "–"),
		words.Either(r.CPUNs.Value > 0, threeDigits(r.CPUNs.Value), "–"))
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

// modeRows returns the rows of a workload.
func modeRows(m *measure.Modes, workload string) []measure.ModeRow {
	return slices.DeleteFunc(slices.Clone(m.Rows), func(r measure.ModeRow) bool { return r.Workload != workload })
}

// percentileNames returns the columns of the row that has most percentiles.
func percentileNames(rows []measure.ModeRow) []string {
	var most []measure.Percentile
	for _, r := range rows {
		if len(r.Percentiles) > len(most) {
			most = r.Percentiles
		}
	}
	return words.Each(most, func(p measure.Percentile) string { return fmt.Sprintf("p%g", p.P) })
}

func delayCells(r measure.ModeRow) []string {
	return words.Each(r.Percentiles, func(p measure.Percentile) string { return shortTime(p.ValueNs) })
}

func workloadText(w measure.Workload) string {
	if w.Search > 0 {
		return fmt.Sprintf("highest rate of %d-byte frames without loss, by searches of at most %v of traffic",
			w.Load.FrameBytes, w.Search)
	}
	switch l := w.Load; w.Kind {
	case measure.Stream:
		return fmt.Sprintf("TCP%s, %s, %v each", words.Either(w.Reverse, " out of the guest", " into the guest"),
			words.Count(l.Connections, "connection"), l.Duration) + words.If(w.Engine != "", ", by %s", w.Engine)
	case measure.RR:
		return fmt.Sprintf("TCP transactions of %d and %d bytes, %s, %v each", l.Request, l.Response,
			words.Count(l.Connections, "connection"), l.Duration) + words.If(w.Engine != "", ", by %s", w.Engine)
	default:
		return fmt.Sprintf("%d-byte frames, %s, as fast as possible, %v each", l.FrameBytes,
			words.Count(l.Flows, "flow"), l.Duration)
	}
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
	return words.If(bounded(r), "≥") + threeDigits(r.Median.Value) +
		words.If(r.Median.N > 1, " [%s, %s]", threeDigits(r.Median.Lo), threeDigits(r.Median.Hi))
}

func modePercent(r measure.ModeRow, native string) string {
	switch p := r.Percent; {
	case r.Mode == native && len(r.Samples) > 0:
		return "100"
	case p == nil:
		return "–"
	default:
		return threeDigits(p.Value) + words.If(p.N > 1, " [%s, %s]", threeDigits(p.Lo), threeDigits(p.Hi)) +
			words.If(p.N >= 4 && !r.Differs, " %s", measure.Same)
	}
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
