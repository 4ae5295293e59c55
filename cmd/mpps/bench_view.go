package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"mpps/internal/goal"
	"mpps/internal/measure"
	"mpps/internal/measure/rig"
	"mpps/internal/ops"
	"mpps/internal/report"
)

// drawRun draws a run for a terminal: the answer first, then why to believe it.
func drawRun(t *report.Text, r *measure.Run, saved []string) {
	title := "bench " + string(r.Kind)
	if r.Name != "" {
		title += ": " + r.Name
	}
	t.Heading(title)
	t.Wrapped("  ", place(r.From)+" → "+place(r.To))
	t.Wrapped("  ", loadOf(r))
	t.Blank()
	t.Line("  %s  median of %d %s", t.In(report.Bold, estimate(r.Median, r.Kind.Unit())), r.Median.N, spread(r.Median))
	switch {
	case r.Kind == measure.PPS:
		drawCounts(t, r)
	case r.Lost > 0:
		t.Line("  sent %d requests, lost %d (%.4g %%)", r.Sent, r.Lost, 100*float64(r.Lost)/float64(max(r.Sent, 1)))
	}
	if r.Kind != measure.PPS && r.Load.Rate > 0 {
		t.Wrapped("  limited by "+string(r.LimitedBy)+": ", strings.Join(r.Evidence, "; "))
	}
	t.Blank()
	drawSamples(t, r)
	for _, s := range r.Samples[:min(1, len(r.Samples))] {
		drawCPU(t, r, s)
	}
	drawThreads(t, r)
	drawLatency(t, r.Latency)
	drawLatency(t, r.LatencyRaw)
	for _, file := range saved {
		t.Line("  saved as %s", file)
	}
}

func place(e measure.Endpoint) string {
	text := e.Where
	if e.Interface != "" {
		text += " " + e.Interface
	}
	if e.Via != "" {
		text += " in " + e.Via
	}
	return text
}

func loadOf(r *measure.Run) string {
	trials := fmt.Sprintf("%d × %v", r.Load.Repeat, r.Load.Duration)
	if r.Environment.Engine != "" {
		trials += " by " + r.Environment.Engine
	}
	switch r.Kind {
	case measure.RR, measure.CRR:
		loop := "closed loop"
		if r.Load.Rate > 0 {
			loop = "open loop at " + goal.FormatRate(r.Load.Rate) + " transaction/s"
		}
		if r.Kind == measure.CRR {
			loop = "one transaction each"
		}
		return fmt.Sprintf("%s, %s, request %d bytes, response %d bytes, %s, %s",
			strings.ToUpper(cmp.Or(r.Load.Protocol, rig.TCP)), ops.Count(r.Load.Connections, "connection"), r.Load.Request, r.Load.Response, loop, trials)
	case measure.Stream:
		how := ""
		if r.Load.Sendfile {
			how = ", by sendfile"
		}
		if r.Load.Ramp > 0 {
			how += fmt.Sprintf(", behind a ramp of %v", r.Load.Ramp)
		}
		return fmt.Sprintf("%s%s, %s", ops.Count(r.Load.Connections, "connection"), how, trials)
	}
	pace := "as fast as possible"
	if r.Load.Rate > 0 {
		pace = goal.FormatRate(r.Load.Rate) + " packet/s"
	}
	if r.Load.TwoWay {
		pace += " each way, both at once"
	}
	sizes := fmt.Sprintf("%d-byte frames", r.Load.FrameBytes)
	if r.Load.Mix != "" {
		sizes = fmt.Sprintf("%s frames of %d bytes on average", strings.ToUpper(r.Load.Mix), r.Load.FrameBytes)
	}
	return fmt.Sprintf("%s, %d flows, %s, %s; generator %s, sink %s", sizes, r.Load.Flows, pace, trials,
		r.Environment.Generator, r.Environment.Sink)
}

func drawCounts(t *report.Text, r *measure.Run) {
	loss := 0.0
	if r.Sent > 0 {
		loss = 100 * float64(r.Lost) / float64(r.Sent)
	}
	t.Wrapped(fmt.Sprintf("  offered %s packet/s: ", goal.FormatRate(r.OfferedPPS)), fmt.Sprintf("sent %d, received %d, lost %d (%.4g %%), duplicated %d, out of order %d",
		r.Sent, r.Received, r.Lost, loss, r.Duplicated, r.Reordered))
	for i, w := range r.Ways {
		from, to := r.From, r.To
		if i > 0 {
			from, to = to, from
		}
		t.Wrapped(fmt.Sprintf("  %s → %s: ", place(from), place(to)), fmt.Sprintf("%s packet/s, sent %d, received %d, lost %d",
			goal.FormatRate(w.PPS), w.Sent, w.Received, w.Lost))
	}
	style := report.Green
	if !r.Valid() {
		style = report.RedBold
	}
	t.Wrapped("  limited by "+t.In(style, string(r.LimitedBy))+": ", strings.Join(r.Evidence, "; "))
	for _, l := range r.Losses {
		t.Wrapped("  lost at ", lostAt(l))
	}
}

// lostAt says where packets were seen to be lost: the place first, then the counter that saw it.
func lostAt(l measure.Loss) string {
	words := []string{string(l.Place), l.Where, l.Interface, l.Name}
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ") + ": " + strconv.FormatUint(l.Packets, 10)
}

func drawSamples(t *report.Text, r *measure.Run) {
	rows := [][]string{{"  trial", r.Kind.Unit(), "seconds"}}
	switch r.Kind {
	case measure.PPS:
		rows[0] = append(rows[0], "lost", "CPU ns/packet")
	case measure.RR, measure.CRR:
		rows[0] = append(rows[0], "p50", "p99", "CPU ns/transaction")
	case measure.Stream:
		rows[0] = append(rows[0], "sent again", "CPU ns/byte")
	}
	for i, s := range r.Samples {
		row := []string{fmt.Sprintf("  %5d", i+1), goal.FormatRate(s.Value(r.Kind)), fmt.Sprintf("%.2f", s.Seconds)}
		switch r.Kind {
		case measure.PPS:
			row = append(row, fmt.Sprintf("%.3g %%", 100*s.LossRatio()))
		case measure.RR, measure.CRR:
			row = append(row, percentile(s.Latency, 50), percentile(s.Latency, 99))
		case measure.Stream:
			row = append(row, fmt.Sprint(s.Retransmits))
		}
		rows = append(rows, append(row, fmt.Sprintf("%.4g", s.CPUNsPerUnit)))
	}
	t.Table(rows)
}

// drawCPU draws how the machines spent the first trial.
func drawCPU(t *report.Text, r *measure.Run, s measure.Sample) {
	if len(r.Samples) == 0 || len(s.CPU) == 0 {
		return
	}
	for _, m := range s.CPU {
		u := m.Total()
		if m.Seconds <= 0 {
			continue
		}
		t.Wrapped("  CPUs of "+m.Where+", first trial: ", fmt.Sprintf("user %.2f system %.2f softirq %.2f irq %.2f guest %.2f steal %.2f idle %.2f",
			(u.User+u.Nice)/m.Seconds, u.System/m.Seconds, u.SoftIRQ/m.Seconds, u.IRQ/m.Seconds, u.Guest/m.Seconds, u.Steal/m.Seconds, u.Idle/m.Seconds))
	}
}

func drawLatency(t *report.Text, l *measure.Latency) {
	if l == nil {
		return
	}
	var text string
	for _, p := range l.Percentiles {
		text += fmt.Sprintf("p%g %s ", p.P, short(p.ValueNs))
	}
	what := l.What + " latency"
	if l.Since != "" {
		what += " since " + l.Since
	}
	t.Wrapped("  "+what+": ", text+"max "+short(l.MaxNs))
}

func percentile(l *measure.Latency, p float64) string {
	ns, told := l.Percentile(p)
	if !told {
		return "-"
	}
	return short(ns)
}

// short is a time in three digits.
func short(ns uint64) string {
	switch d := time.Duration(ns); {
	case d >= time.Second:
		return fmt.Sprintf("%.3gs", d.Seconds())
	case d >= time.Millisecond:
		return fmt.Sprintf("%.3gms", float64(ns)/1e6)
	case d >= time.Microsecond:
		return fmt.Sprintf("%.3gµs", float64(ns)/1e3)
	}
	return fmt.Sprintf("%dns", ns)
}

func estimate(e measure.Estimate, unit string) string {
	return goal.FormatRate(e.Value) + " " + unit
}

// rates are the values of one side of a block.
func rates(values []float64) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = goal.FormatRate(v)
	}
	return strings.Join(texts, " ")
}

func spread(e measure.Estimate) string {
	if e.N < 2 {
		return ""
	}
	return fmt.Sprintf("[%s, %s] at %.3g %%", goal.FormatRate(e.Lo), goal.FormatRate(e.Hi), 100*e.Level)
}
