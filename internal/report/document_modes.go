package report

import (
	"fmt"
	"slices"

	"mpps/internal/measure"
)

// AddModes adds a campaign over NIC modes: a group of bars for each workload, and its runs.
func (d *Document) AddModes(m *measure.Modes) {
	for _, w := range m.Warnings {
		d.Warn(w)
	}
	d.Method = append(d.Method, m.Notes...)
	d.Method = append(d.Method, fmt.Sprintf("%d samples of %s and %s were taken in turns, in %s by seed %d, so that drift falls on all modes alike. "+
		"The percentage is the Hodges–Lehmann estimate over blocks.", m.Samples, count(len(m.Modes), "mode"), count(len(m.Workloads), "workload"), count(m.Blocks, "block"), m.Seed))
	d.Seconds += m.Seconds
	for _, w := range m.Workloads {
		title, note := workloadTitle(w)
		chart := Modes{Title: title, Unit: w.Kind.Unit(), Note: note, Native: m.Native}
		measured := func(r measure.ModeRow) bool {
			return r.Workload == w.Name && r.Mode == m.Native && r.Median.Value > 0
		}
		if !slices.ContainsFunc(m.Rows, measured) {
			chart.Native = ""
		}
		for _, row := range m.Rows {
			if row.Workload == w.Name {
				chart.Bars = append(chart.Bars, barOf(m, row))
			}
		}
		d.Modes = append(d.Modes, chart)
	}
	for i := range m.Runs {
		r := &m.Runs[i]
		if len(r.Samples) == 0 || m.Rows[i].Search != nil { // a search's trials are no samples of a run
			continue
		}
		label := r.Name
		if w := m.Rows[i].Workload; w != string(r.Kind) {
			label += ", " + w
		}
		// What its runs warn of the campaign says once for all.
		quiet := *r
		quiet.Warnings = nil
		d.Add(label, &quiet)
	}
}

// workloadTitle is what a workload measures, in words.
func workloadTitle(w measure.Workload) (title, note string) {
	switch {
	case w.Search > 0:
		return "Packets without loss (NDR)", frameText(w.Load) + ", lower bounds of searches."
	case w.Kind == measure.Stream:
		title = "TCP stream"
	case transactional(w.Kind):
		title = "Transactions"
	default:
		title, note = "Packets", frameText(w.Load)+"."
	}
	if w.Name != string(w.Kind) {
		title += " (" + w.Name + ")"
	}
	return title, note
}

func barOf(m *measure.Modes, row measure.ModeRow) ModeBar {
	e := row.Median
	b := ModeBar{Mode: row.Mode, Value: e.Value, Lo: e.Lo, Hi: e.Hi, N: e.N}
	if len(row.Samples) == 0 {
		b.Missing = "not measured"
		for _, f := range m.Failures {
			if f.Mode == row.Mode {
				b.Missing = "not measured: " + f.Error
			}
		}
		return b
	}
	switch {
	case row.Percent != nil:
		b.Percent, b.PercentLo, b.PercentHi = row.Percent.Value, row.Percent.Lo, row.Percent.Hi
		b.Same = row.Percent.N >= 4 && !row.Differs
	case row.Mode == m.Native && e.Value > 0: // the interval of its own median
		b.Percent, b.PercentLo, b.PercentHi = 100, 100*e.Lo/e.Value, 100*e.Hi/e.Value
	}
	if idle := row.CPUIdle; idle.N > 0 {
		b.CPUIdle = &Percentage{idle.Value, idle.Lo, idle.Hi}
	}
	if row.LimitedBy == measure.ByGenerator || row.LimitedBy == measure.ByReceiver {
		b.Caveat = "limited by the " + string(row.LimitedBy)
	}
	return b
}
