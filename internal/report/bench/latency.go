package bench

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"mpps/internal/measure"
	"mpps/internal/measure/wakeup"
	"mpps/internal/model/goal"
	"mpps/internal/report"
	"mpps/internal/words"
)

// wakeupPercentiles are the columns of the table.
var wakeupPercentiles = []float64{50, 90, 99, 99.9, 99.99, 99.999}

// WakeupsText draws a measurement of wake-ups. compared is nil if there is nothing to compare it with.
func WakeupsText(t *report.Text, f *wakeup.File, compared *wakeup.Comparison, saved string) {
	t.Heading(words.Join(": ", "latency", f.Name))
	t.WrapIf(!f.Imported(), "  ", "%s", f.Where()+vcpusText(f))
	tool := words.Join(" ", f.Tool.Name, f.Tool.Version)
	every := fmt.Sprintf("every %v ", f.Asked.Interval)
	measured := "wake-ups"
	if f.Total.Latency.What == wakeup.Interruption {
		every, measured = "", "turns"
	}
	how := fmt.Sprintf("%sat SCHED_FIFO %d, %d × %v in slices of %v", every, f.Asked.Priority, len(f.Runs),
		f.Asked.For, f.Asked.Slice)
	if f.Imported() {
		how = words.Count(len(f.Runs), "output") + " read"
	}
	t.Wrap("  ", fmt.Sprintf("%s: %s; %s", tool, f.Tool.What, how))
	for _, l := range f.Loads {
		t.Wrap("  load: ", l.What+" on "+l.Where+words.If(len(l.CPUs) > 0, ", %s", l.CPUs.Words())+
			words.If(l.Error != "", ": %s", l.Error))
	}
	t.Blank()
	rows := [][]string{{"  µs", measured, "min", "avg", "50", "90", "99", "99.9", "99.99", "99.999", "max"}}
	for i, r := range f.Runs {
		rows = append(rows, wakeupRow(fmt.Sprintf("  run %d", i+1), r.Latency))
	}
	t.Table(append(rows, wakeupRow("  all", f.Total.Latency)))
	if !f.Imported() {
		t.Blank()
		drawWorst(t, f)
		drawCauses(t, f)
	}
	if compared != nil {
		drawWakeupComparison(t, compared)
	}
	t.LineIf(saved != "" && saved != "-", "  saved as %s", saved)
}

// vcpusText returns where the guest's measured vCPUs run, and with which kernel.
func vcpusText(f *wakeup.File) string {
	if f.Guest == nil {
		return ", kernel " + f.Environment.Kernel
	}
	text := ""
	for _, v := range f.Guest.VCPUs {
		text += fmt.Sprintf(", vCPU %d on %s", v.VCPU, v.CPUs.Words())
	}
	return text + words.If(f.Guest.Kernel != "", ", kernel %s%s", f.Guest.Kernel,
		words.If(f.Guest.Realtime, " (PREEMPT_RT)"))
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

// inMicros returns a time in µs, in three digits below 100 and in whole µs above.
func inMicros(ns float64) string {
	us := ns / 1000
	if us >= 100 {
		return strconv.FormatFloat(math.Round(us), 'f', -1, 64)
	}
	return strconv.FormatFloat(us, 'g', 3, 64)
}

func drawWorst(t *report.Text, f *wakeup.File) {
	for i, w := range f.Worst[:min(len(f.Worst), 3)] {
		t.Wrap(words.Either(i == 0, "  longest: ", "     then: "), fmt.Sprintf("%s µs, %s, CPU %d (%s)%s",
			inMicros(float64(w.Ns)), w.When(), w.CPU, w.To.At.UTC().Format("15:04:05 MST"), causeText(&w, f)))
	}
}

// causeText says what coincided with a long wake-up; empty if nothing did.
func causeText(w *wakeup.Wakeup, f *wakeup.File) string {
	switch {
	case w.Cause > 0 && w.Cause <= len(f.Causes.Found):
		return fmt.Sprintf("; with cause %d", w.Cause)
	case len(w.Beside) > 0:
		return "; unusual just then: " + w.Beside[0].Named()
	}
	return ""
}

func drawCauses(t *report.Text, f *wakeup.File) {
	c := f.Causes
	if len(c.Found) == 0 {
		t.Wrap("  cause: ", c.Verdict)
		return
	}
	for i, found := range c.Found {
		t.Wrap(fmt.Sprintf("  cause %d: ", i+1), t.In(report.Bold, string(found.Confidence))+": "+found.Evidence)
		t.Field("    with it: ", strings.Join(found.Also, "; "))
		t.Wrap("    what to do: ", found.Advice)
	}
	t.LineIf(c.Unexplained > 0, "  with %d of %d windows with long wake-ups nothing that is counted goes",
		c.Unexplained, c.Bad)
}

func drawWakeupComparison(t *report.Text, c *wakeup.Comparison) {
	t.Blank()
	rows := [][]string{{"  µs", c.Before, c.After, "times"}}
	for _, r := range c.Rows {
		times := words.Either(r.AfterNs > 0, fmt.Sprintf("%.3g", r.BeforeNs/r.AfterNs), "-")
		rows = append(rows, []string{"  " + r.Name, inMicros(r.BeforeNs), inMicros(r.AfterNs), times})
	}
	t.Table(rows)
	t.Wrap("  ", "the longest of each run: "+words.Either(c.Longest.Significant,
		fmt.Sprintf("%s → %s µs, significant at 95 %%", inMicros(c.Longest.Before.Value),
			inMicros(c.Longest.After.Value)), "no significant difference"))
}
