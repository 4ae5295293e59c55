package report

import (
	"fmt"
	"strings"

	"mpps/internal/measure"
	"mpps/internal/measure/wakeup"
)

// Wakeups is a measurement of wake-up latency with its label. What the host counted meanwhile is left out: the file has it.
type Wakeups struct {
	Label string       `json:"label"` // before, after
	File  *wakeup.File `json:"file"`
}

// AddWakeups adds a measurement of wake-up latency.
func (d *Document) AddWakeups(label string, f *wakeup.File) {
	if d.Host.Name == "" {
		d.Host = HostLine{Name: f.Host, Kernel: f.Environment.Kernel, CPU: f.Environment.CPU, CPUs: f.Environment.CPUs, Emulated: f.Environment.Emulated, Virtual: f.Environment.Virtual}
	}
	d.Host.Emulated = d.Host.Emulated || f.Environment.Emulated
	for _, w := range f.Warnings {
		d.Warn(Warning{Code: w.Code, Text: label + ": " + w.Text, Hint: w.Hint})
	}
	load := "nothing"
	var loads []string
	for _, l := range f.Loads {
		if l.Error == "" {
			loads = append(loads, l.What+" on "+l.Where)
		}
	}
	if len(loads) > 0 {
		load = strings.Join(loads, ", ")
	}
	d.say(fmt.Sprintf("%s: %s by %s %s: %s. Every %v at SCHED_FIFO %d, %d × %v in slices of %v; beside it: %s.", label, f.Where(), f.Tool.Name, f.Tool.Version, f.Tool.What,
		f.Asked.Interval, f.Asked.Priority, len(f.Runs), f.Asked.For, f.Asked.Slice, load))
	quiet := *f
	quiet.Counted = nil
	d.Wakeups = append(d.Wakeups, Wakeups{label, &quiet})
	if len(d.Wakeups) == 2 {
		for _, w := range wakeup.Compare(d.Wakeups[0].File, d.Wakeups[1].File).Warnings {
			d.Warn(w)
		}
	}
}

// wakeupRuns are the measurements in the form of runs, of which the page draws percentiles: a sample is a run of wake-ups.
func (d *Document) wakeupRuns() []labeled {
	var all []labeled
	for i, w := range d.Wakeups {
		r := &measure.Run{Latency: w.File.Total.Latency}
		for k := range w.File.Runs {
			r.Samples = append(r.Samples, measure.Sample{Latency: w.File.Runs[k].Latency})
		}
		all = append(all, labeled{r, w.Label, i})
	}
	return all
}

// wakeupHeadline is the first sentence on wake-ups; empty where there are none.
func wakeupHeadline(d *Document) string {
	max := func(w Wakeups) string { return duration(float64(w.File.Total.Latency.MaxNs)) }
	switch len(d.Wakeups) {
	case 0:
		return ""
	case 1:
		w := d.Wakeups[0]
		return fmt.Sprintf("Longest wake-up %s of %s.", max(w), grouped(w.File.Total.Latency.Count))
	}
	before, after := d.Wakeups[0], d.Wakeups[1]
	if b, a := before.File.Total.Latency.MaxNs, after.File.Total.Latency.MaxNs; a > 0 && b >= a {
		return fmt.Sprintf("Longest wake-up %s → %s: %s× shorter.", max(before), max(after), times(float64(b)/float64(a)))
	}
	return fmt.Sprintf("Longest wake-up %s → %s: not shorter.", max(before), max(after))
}

// wakeupDetail says how sure the headline is.
func wakeupDetail(d *Document) string {
	if len(d.Wakeups) < 2 {
		return ""
	}
	c := wakeup.Compare(d.Wakeups[0].File, d.Wakeups[1].File).Longest
	text := fmt.Sprintf("The longest of each run: median %s and %s, n = %d and %d", duration(c.Before.Value), duration(c.After.Value), c.Before.N, c.After.N)
	if !c.Significant {
		return text + ": no significant difference."
	}
	return text + fmt.Sprintf(", p = %.2g.", c.P)
}

// wakeupView is what the page says of one measurement's worst.
type wakeupView struct {
	Label, Verdict string
	Worst          []string
	Causes         []causeView
}

type causeView struct{ Confidence, Evidence, Also, Advice string }

func wakeupViews(d *Document) []wakeupView {
	var views []wakeupView
	for _, w := range d.Wakeups {
		v := wakeupView{Label: w.Label, Verdict: sentence(w.File.Causes.Verdict)}
		for _, worst := range w.File.Worst[:min(len(w.File.Worst), 5)] {
			text := fmt.Sprintf("%s, %s, CPU %d", duration(float64(worst.Ns)), worst.When(), worst.CPU)
			if worst.Cause > 0 {
				text += fmt.Sprintf("; with cause %d", worst.Cause)
			} else if len(worst.Beside) > 0 {
				text += "; unusual just then: " + worst.Beside[0].Named()
			}
			v.Worst = append(v.Worst, text)
		}
		for _, c := range w.File.Causes.Found {
			v.Causes = append(v.Causes, causeView{string(c.Confidence), c.Evidence, strings.Join(c.Also, "; "), c.Advice})
		}
		views = append(views, v)
	}
	return views
}
