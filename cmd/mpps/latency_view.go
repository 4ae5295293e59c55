package main

import (
	"bytes"
	"fmt"
	"math"
	"strconv"

	"mpps/internal/goal"
	"mpps/internal/measure"
	"mpps/internal/measure/wakeup"
	"mpps/internal/report"
	"mpps/internal/report/words"
)

// latencyAnswer is the answer of latency.
type latencyAnswer struct {
	wakeup.File
	Compared *wakeup.Comparison `json:"compared,omitempty"` // with --against
}

func readWakeups(name string) (*wakeup.File, error) {
	in, err := openJSON(name)
	if err != nil {
		return nil, failed(fmt.Errorf("latency: %w", err), "make one with 'mpps latency … -o FILE'")
	}
	defer in.Close()
	f, err := wakeup.Decode(in)
	if err != nil {
		return nil, failed(fmt.Errorf("latency %s: %w", name, err), "make a new one with 'mpps latency … -o FILE'")
	}
	return f, nil
}

func (a *app) writeWakeups(name string, f *wakeup.File) error {
	var text bytes.Buffer
	if err := wakeup.Encode(&text, f); err != nil {
		return err
	}
	return a.writeFile(name, text.Bytes())
}

// told are the percentiles of the table.
var told = []float64{50, 90, 99, 99.9, 99.99, 99.999}

// drawWakeups draws a result for a terminal.
func drawWakeups(t *report.Text, answer *latencyAnswer, saved string) {
	f := &answer.File
	title := "latency"
	if f.Name != "" {
		title += ": " + f.Name
	}
	t.Heading(title)
	t.Wrapped("  ", f.Where()+placeOf(f))
	tool := f.Tool.Name
	if f.Tool.Version != "" {
		tool += " " + f.Tool.Version
	}
	every := fmt.Sprintf("every %v ", f.Asked.Interval)
	counted := "wake-ups"
	if f.Total.Latency.What == wakeup.Interruption {
		every, counted = "", "turns"
	}
	t.Wrapped("  ", fmt.Sprintf("%s: %s; %sat SCHED_FIFO %d, %d × %v in slices of %v", tool, f.Tool.What, every, f.Asked.Priority, len(f.Runs), f.Asked.For, f.Asked.Slice))
	for _, l := range f.Loads {
		text := l.What + " on " + l.Where
		if len(l.CPUs) > 0 {
			text += ", " + words.CPUs(l.CPUs)
		}
		if l.Error != "" {
			text += ": " + l.Error
		}
		t.Wrapped("  load: ", text)
	}
	t.Blank()
	rows := [][]string{{"  µs", counted, "min", "avg", "50", "90", "99", "99.9", "99.99", "99.999", "max"}}
	for i, r := range f.Runs {
		rows = append(rows, wakeupRow(fmt.Sprintf("  run %d", i+1), r.Latency))
	}
	t.Table(append(rows, wakeupRow("  all", f.Total.Latency)))
	t.Blank()
	drawWorst(t, f)
	drawCauses(t, f)
	if c := answer.Compared; c != nil {
		drawWakeupComparison(t, c)
	}
	if saved != "" && saved != "-" {
		t.Line("  saved as %s", saved)
	}
}

// placeOf says where the guest's measured vCPUs run, and with which kernel.
func placeOf(f *wakeup.File) string {
	if f.Guest == nil {
		return ", kernel " + f.Environment.Kernel
	}
	text := ""
	for _, v := range f.Guest.VCPUs {
		text += fmt.Sprintf(", vCPU %d on %s", v.VCPU, words.CPUs(v.CPUs))
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
	for _, p := range told {
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

func drawWorst(t *report.Text, f *wakeup.File) {
	for i, w := range f.Worst[:min(len(f.Worst), 3)] {
		label := "  longest: "
		if i > 0 {
			label = "     then: "
		}
		text := fmt.Sprintf("%s µs, %s, CPU %d (%s)", inMicros(float64(w.Ns)), w.When(), w.CPU, w.To.At.UTC().Format("15:04:05 MST"))
		switch {
		case w.Cause > 0 && w.Cause <= len(f.Causes.Found):
			text += fmt.Sprintf("; with cause %d", w.Cause)
		case len(w.Beside) > 0:
			text += "; unusual just then: " + w.Beside[0].Named()
		}
		t.Wrapped(label, text)
	}
}

func drawCauses(t *report.Text, f *wakeup.File) {
	c := f.Causes
	if len(c.Found) == 0 {
		t.Wrapped("  cause: ", c.Verdict)
		return
	}
	for i, found := range c.Found {
		t.Wrapped(fmt.Sprintf("  cause %d: ", i+1), t.In(report.Bold, string(found.Confidence))+": "+found.Evidence)
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

func drawWakeupComparison(t *report.Text, c *wakeup.Comparison) {
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
		verdict = fmt.Sprintf("the longest of each run: %s → %s µs, significant at 95 %%", inMicros(c.Longest.Before.Value), inMicros(c.Longest.After.Value))
	}
	t.Wrapped("  ", verdict)
}
