package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/goal"
	"mpps/internal/measure"
)

// BenchRun draws a run: the result first, then why to believe it. saved are the files that hold it.
func BenchRun(t *Text, r *measure.Run, saved []string) {
	title := "bench " + string(r.Kind)
	if r.Name != "" {
		title += ": " + r.Name
	}
	t.Heading(title)
	t.Wrapped("  ", endpointText(r.From)+" → "+endpointText(r.To))
	t.Wrapped("  ", loadOf(r))
	t.Blank()
	t.Line("  %s  median of %d %s", t.In(Bold, estimate(r.Median, r.Kind.Unit())), r.Median.N, spread(r.Median))
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

func endpointText(e measure.Endpoint) string {
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
			strings.ToUpper(cmp.Or(r.Load.Protocol, "tcp")), count(r.Load.Connections, "connection"), r.Load.Request,
			r.Load.Response, loop, trials)
	case measure.Stream:
		how := ""
		if r.Load.Sendfile {
			how = ", by sendfile"
		}
		if r.Load.Ramp > 0 {
			how += fmt.Sprintf(", behind a ramp of %v", r.Load.Ramp)
		}
		return fmt.Sprintf("%s%s, %s", count(r.Load.Connections, "connection"), how, trials)
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

func drawCounts(t *Text, r *measure.Run) {
	loss := 0.0
	if r.Sent > 0 {
		loss = 100 * float64(r.Lost) / float64(r.Sent)
	}
	t.Wrapped(fmt.Sprintf("  offered %s packet/s: ", goal.FormatRate(r.OfferedPPS)),
		fmt.Sprintf("sent %d, received %d, lost %d (%.4g %%), duplicated %d, out of order %d",
			r.Sent, r.Received, r.Lost, loss, r.Duplicated, r.Reordered))
	for i, w := range r.Ways {
		from, to := r.From, r.To
		if i > 0 {
			from, to = to, from
		}
		t.Wrapped(fmt.Sprintf("  %s → %s: ", endpointText(from), endpointText(to)),
			fmt.Sprintf("%s packet/s, sent %d, received %d, lost %d",
				goal.FormatRate(w.PPS), w.Sent, w.Received, w.Lost))
	}
	style := Green
	if !r.Valid() {
		style = RedBold
	}
	t.Wrapped("  limited by "+t.In(style, string(r.LimitedBy))+": ", strings.Join(r.Evidence, "; "))
	for _, l := range r.Losses {
		t.Wrapped("  lost at ", lostAt(l))
	}
}

// lostAt is where packets were lost: the place, then the counter that saw it.
func lostAt(l measure.Loss) string {
	words := []string{string(l.Place), l.Where, l.Interface, l.Name}
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ") + ": " +
		strconv.FormatUint(l.Packets, 10)
}

func drawSamples(t *Text, r *measure.Run) {
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
			row = append(row, percentileTime(s.Latency, 50), percentileTime(s.Latency, 99))
		case measure.Stream:
			row = append(row, fmt.Sprint(s.Retransmits))
		}
		rows = append(rows, append(row, fmt.Sprintf("%.4g", s.CPUNsPerUnit)))
	}
	t.Table(rows)
}

// drawCPU draws how the CPUs of each machine spent the first trial.
func drawCPU(t *Text, r *measure.Run, s measure.Sample) {
	if len(r.Samples) == 0 || len(s.CPU) == 0 {
		return
	}
	for _, m := range s.CPU {
		u := m.Total()
		if m.Seconds <= 0 {
			continue
		}
		t.Wrapped("  CPUs of "+m.Where+", first trial: ",
			fmt.Sprintf("user %.2f system %.2f softirq %.2f irq %.2f guest %.2f steal %.2f idle %.2f",
				(u.User+u.Nice)/m.Seconds, u.System/m.Seconds, u.SoftIRQ/m.Seconds, u.IRQ/m.Seconds, u.Guest/m.Seconds,
				u.Steal/m.Seconds, u.Idle/m.Seconds))
	}
}

func drawLatency(t *Text, l *measure.Latency) {
	if l == nil {
		return
	}
	var text string
	for _, p := range l.Percentiles {
		text += fmt.Sprintf("p%g %s ", p.P, shortTime(p.ValueNs))
	}
	what := l.What + " latency"
	if l.Since != "" {
		what += " since " + l.Since
	}
	t.Wrapped("  "+what+": ", text+"max "+shortTime(l.MaxNs))
}

func percentileTime(l *measure.Latency, p float64) string {
	ns, known := l.Percentile(p)
	if !known {
		return "-"
	}
	return shortTime(ns)
}

// shortTime writes nanoseconds in three digits without a space, such as 2.79ms.
func shortTime(ns uint64) string { return strings.Replace(duration(float64(ns)), " ", "", 1) }

func estimate(e measure.Estimate, unit string) string {
	return goal.FormatRate(e.Value) + " " + unit
}

// rateList writes the values of one side of a block.
func rateList(values []float64) string {
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
