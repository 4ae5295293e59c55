package report

import (
	"fmt"
	"math"
	"strconv"

	"mpps/internal/goal"
	"mpps/internal/measure"
	"mpps/internal/measure/wakeup"
)

// wakeupPercentiles are the columns of the table.
var wakeupPercentiles = []float64{50, 90, 99, 99.9, 99.99, 99.999}

// Latency draws a measurement of wake-ups. compared is nil where there is nothing to compare it with.
func Latency(t *Text, f *wakeup.File, compared *wakeup.Comparison, saved string) {
	title := "latency"
	if f.Name != "" {
		title += ": " + f.Name
	}
	t.Heading(title)
	t.Wrapped("  ", f.Where()+vcpusText(f))
	tool := f.Tool.Name
	if f.Tool.Version != "" {
		tool += " " + f.Tool.Version
	}
	every := fmt.Sprintf("every %v ", f.Asked.Interval)
	measured := "wake-ups"
	if f.Total.Latency.What == wakeup.Interruption {
		every, measured = "", "turns"
	}
	t.Wrapped("  ", fmt.Sprintf("%s: %s; %sat SCHED_FIFO %d, %d × %v in slices of %v", tool, f.Tool.What, every,
		f.Asked.Priority, len(f.Runs), f.Asked.For, f.Asked.Slice))
	for _, l := range f.Loads {
		text := l.What + " on " + l.Where
		if len(l.CPUs) > 0 {
			text += ", " + CPUs(l.CPUs)
		}
		if l.Error != "" {
			text += ": " + l.Error
		}
		t.Wrapped("  load: ", text)
	}
	t.Blank()
	rows := [][]string{{"  µs", measured, "min", "avg", "50", "90", "99", "99.9", "99.99", "99.999", "max"}}
	for i, r := range f.Runs {
		rows = append(rows, wakeupRow(fmt.Sprintf("  run %d", i+1), r.Latency))
	}
	t.Table(append(rows, wakeupRow("  all", f.Total.Latency)))
	t.Blank()
	drawWorst(t, f)
	drawCauses(t, f)
	if compared != nil {
		drawWakeupComparison(t, compared)
	}
	if saved != "" && saved != "-" {
		t.Line("  saved as %s", saved)
	}
}

// vcpusText is where the guest's measured vCPUs run, and with which kernel.
func vcpusText(f *wakeup.File) string {
	if f.Guest == nil {
		return ", kernel " + f.Environment.Kernel
	}
	text := ""
	for _, v := range f.Guest.VCPUs {
		text += fmt.Sprintf(", vCPU %d on %s", v.VCPU, CPUs(v.CPUs))
	}
	if f.Guest.Kernel != "" {
		text += ", kernel " + f.Guest.Kernel
		if f.Guest.Realtime {
			text += " (PREEMPT_RT)"
		}
	}
	return text
}

func wakeupRow(name string, l *measure.Latency) []string {
	if l == nil {
		return []string{name, "0"}
	}
	row := []string{name, goal.FormatRate(float64(l.Count)), inMicros(float64(l.MinNs)), inMicros(l.MeanNs)}
	for _, p := range wakeupPercentiles {
		text := "-"
		if v, known := l.Percentile(p); known {
			text = inMicros(float64(v))
		}
		row = append(row, text)
	}
	return append(row, inMicros(float64(l.MaxNs)))
}

// inMicros is a time in µs, in three digits below 100 and in whole µs above.
func inMicros(ns float64) string {
	us := ns / 1000
	if us >= 100 {
		return strconv.FormatFloat(math.Round(us), 'f', -1, 64)
	}
	return strconv.FormatFloat(us, 'g', 3, 64)
}

func drawWorst(t *Text, f *wakeup.File) {
	for i, w := range f.Worst[:min(len(f.Worst), 3)] {
		label := "  longest: "
		if i > 0 {
			label = "     then: "
		}
		text := fmt.Sprintf("%s µs, %s, CPU %d (%s)", inMicros(float64(w.Ns)), w.When(), w.CPU,
			w.To.At.UTC().Format("15:04:05 MST"))
		switch {
		case w.Cause > 0 && w.Cause <= len(f.Causes.Found):
			text += fmt.Sprintf("; with cause %d", w.Cause)
		case len(w.Beside) > 0:
			text += "; unusual just then: " + w.Beside[0].Named()
		}
		t.Wrapped(label, text)
	}
}

func drawCauses(t *Text, f *wakeup.File) {
	c := f.Causes
	if len(c.Found) == 0 {
		t.Wrapped("  cause: ", c.Verdict)
		return
	}
	for i, found := range c.Found {
		t.Wrapped(fmt.Sprintf("  cause %d: ", i+1), t.In(Bold, string(found.Confidence))+": "+found.Evidence)
		if len(found.Also) > 0 {
			also := found.Also[0]
			for _, more := range found.Also[1:] {
				also += "; " + more
			}
			t.Wrapped("    with it: ", also)
		}
		t.Wrapped("    what to do: ", found.Advice)
	}
	if c.Unexplained > 0 {
		t.Line("  with %d of %d windows with long wake-ups nothing that is counted goes", c.Unexplained, c.Bad)
	}
}

func drawWakeupComparison(t *Text, c *wakeup.Comparison) {
	t.Blank()
	rows := [][]string{{"  µs", c.Before, c.After, "times"}}
	for _, r := range c.Rows {
		times := "-"
		if r.AfterNs > 0 {
			times = fmt.Sprintf("%.3g", r.BeforeNs/r.AfterNs)
		}
		rows = append(rows, []string{"  " + r.Name, inMicros(r.BeforeNs), inMicros(r.AfterNs), times})
	}
	t.Table(rows)
	verdict := "the longest of each run: no significant difference"
	if c.Longest.Significant {
		verdict = fmt.Sprintf("the longest of each run: %s → %s µs, significant at 95 %%",
			inMicros(c.Longest.Before.Value), inMicros(c.Longest.After.Value))
	}
	t.Wrapped("  ", verdict)
}
