package bench

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"mpps/internal/measure"
	"mpps/internal/model/goal"
	"mpps/internal/report"
	"mpps/internal/words"
)

// RunText draws a run: the result first, then why to believe it. saved are the files that hold it.
func RunText(t *report.Text, r *measure.Run, saved []string) {
	t.Heading(words.Join(": ", "bench "+string(r.Kind), r.Name))
	t.Wrap("  ", endpointText(r.From)+" → "+endpointText(r.To))
	t.Wrap("  ", loadLine(r))
	t.Blank()
	t.Line("  %s  median of %d %s", t.In(report.Bold, inUnit(r.Median, r.Kind.Unit())), r.Median.N, spread(r.Median))
	switch {
	case r.Kind == measure.PPS:
		drawCounts(t, r)
	case r.Lost > 0:
		t.Line("  sent %d requests, lost %d (%.4g %%)", r.Sent, r.Lost, 100*float64(r.Lost)/float64(max(r.Sent, 1)))
	}
	if r.Kind != measure.PPS && r.Load.Rate > 0 {
		t.Wrap("  limited by "+string(r.LimitedBy)+": ", strings.Join(r.Evidence, "; "))
	}
	t.Blank()
	drawSamples(t, r)
	for _, s := range r.Samples[:min(1, len(r.Samples))] {
		drawCPU(t, s)
	}
	drawThreads(t, r)
	drawLatency(t, r.Latency)
	drawLatency(t, r.LatencyRaw)
	t.SavedFiles(saved)
}

func endpointText(e measure.Endpoint) string {
	return e.Where + words.If(e.Interface != "", " %s", e.Interface) + words.If(e.Via != "", " in %s", e.Via)
}

func loadLine(r *measure.Run) string {
	trials := fmt.Sprintf("%d × %v", r.Load.Repeat, r.Load.Duration) +
		words.If(r.Environment.Engine != "", " by %s", r.Environment.Engine)
	switch r.Kind {
	case measure.RR, measure.CRR:
		loop := words.Either(r.Load.Rate > 0, "open loop at "+goal.FormatRate(r.Load.Rate)+" transaction/s",
			"closed loop")
		loop = words.Either(r.Kind == measure.CRR, "one transaction each", loop)
		return fmt.Sprintf("%s, %s, request %d bytes, response %d bytes, %s, %s",
			strings.ToUpper(cmp.Or(r.Load.Protocol, "tcp")), words.Count(r.Load.Connections, "connection"),
			r.Load.Request, r.Load.Response, loop, trials)
	case measure.Stream:
		how := words.If(r.Load.Sendfile, ", by sendfile") + words.If(r.Load.Ramp > 0, ", behind a ramp of %v",
			r.Load.Ramp)
		return fmt.Sprintf("%s%s, %s", words.Count(r.Load.Connections, "connection"), how, trials)
	}
	pace := words.Either(r.Load.Rate > 0, goal.FormatRate(r.Load.Rate)+" packet/s", "as fast as possible") +
		words.If(r.Load.TwoWay, " each way, both at once")
	return fmt.Sprintf("%s, %d flows, %s, %s; generator %s, sink %s", sizeText(r.Load), r.Load.Flows, pace, trials,
		r.Environment.Generator, r.Environment.Sink)
}

func drawCounts(t *report.Text, r *measure.Run) {
	loss := 100 * float64(r.Lost) / float64(max(r.Sent, 1))
	t.Wrap(fmt.Sprintf("  offered %s packet/s: ", goal.FormatRate(r.OfferedPPS)),
		fmt.Sprintf("sent %d, received %d, lost %d (%.4g %%), duplicated %d, out of order %d",
			r.Sent, r.Received, r.Lost, loss, r.Duplicated, r.Reordered))
	for i, w := range r.Ways {
		from, to := r.From, r.To
		if i > 0 {
			from, to = to, from
		}
		t.Wrap(fmt.Sprintf("  %s → %s: ", endpointText(from), endpointText(to)),
			fmt.Sprintf("%s packet/s, sent %d, received %d, lost %d",
				goal.FormatRate(w.PPS), w.Sent, w.Received, w.Lost))
	}
	if rates := agentRates(r); len(rates) > 0 {
		t.Wrap("  of each agent, in the order given: ", strings.Join(rates, ", ")+" packet/s (medians)")
	}
	t.Wrap("  limited by "+limit(t, r.Valid(), string(r.LimitedBy))+": ", strings.Join(r.Evidence, "; "))
	t.Each("  lost at ", words.Each(r.Losses, lossText))
}

// agentRates returns the median rate of each agent that counted at the same time as others.
func agentRates(r *measure.Run) []string {
	if r.Load.TwoWay || len(r.Samples) == 0 {
		return nil
	}
	rates := make([][]float64, len(r.Samples[0].Ways))
	for _, s := range r.Samples {
		for i, way := range s.Ways[:min(len(s.Ways), len(rates))] {
			rates[i] = append(rates[i], way.PPS)
		}
	}
	return words.Each(rates, func(one []float64) string { return goal.FormatRate(measure.Median(one).Value) })
}

// limit returns what limited a result: red where that was not the device under test.
func limit(t *report.Text, valid bool, by string) string {
	return t.In(words.Either(valid, report.Green, report.RedBold), by)
}

// lossText returns where packets were lost: the place, then the counter that saw it.
func lossText(l measure.Loss) string {
	return words.Join(" ", string(l.Place), l.Where, l.Interface, l.Name) + ": " + strconv.FormatUint(l.Packets, 10)
}

func drawSamples(t *report.Text, r *measure.Run) {
	rows := [][]string{{"  trial", r.Kind.Unit(), "seconds"}}
	switch r.Kind {
	case measure.PPS:
		rows[0] = append(rows[0], "lost")
	case measure.RR, measure.CRR:
		rows[0] = append(rows[0], "p50", "p99")
	case measure.Stream:
		rows[0] = append(rows[0], "sent again")
	}
	rows[0] = append(rows[0], "CPU ns/"+singular(r.Kind))
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
func drawCPU(t *report.Text, s measure.Sample) {
	for _, m := range s.CPU {
		u := m.Total()
		if m.Seconds <= 0 {
			continue
		}
		t.Wrap("  CPUs of "+m.Where+", first trial: ",
			fmt.Sprintf("user %.2f system %.2f softirq %.2f irq %.2f guest %.2f steal %.2f idle %.2f",
				(u.User+u.Nice)/m.Seconds, u.System/m.Seconds, u.SoftIRQ/m.Seconds, u.IRQ/m.Seconds, u.Guest/m.Seconds,
				u.Steal/m.Seconds, u.Idle/m.Seconds))
	}
}

func drawLatency(t *report.Text, l *measure.Latency) {
	if l == nil {
		return
	}
	texts := words.Each(l.Percentiles, func(p measure.Percentile) string {
		return fmt.Sprintf("p%g %s", p.P, shortTime(p.ValueNs))
	})
	t.Wrap("  "+l.What+" latency"+words.If(l.Since != "", " since %s", l.Since)+": ",
		strings.Join(append(texts, "max "+shortTime(l.MaxNs)), " "))
}

func percentileTime(l *measure.Latency, p float64) string {
	ns, known := l.Percentile(p)
	return words.Either(known, shortTime(ns), "-")
}

// shortTime writes nanoseconds in three digits without a space, such as 2.79ms.
func shortTime(ns uint64) string { return strings.Replace(words.Duration(float64(ns)), " ", "", 1) }

func inUnit(e measure.Estimate, unit string) string { return goal.FormatRate(e.Value) + " " + unit }

// rateList writes the values of one side of a block.
func rateList(values []float64) string { return strings.Join(words.Each(values, goal.FormatRate), " ") }

func spread(e measure.Estimate) string {
	return words.If(e.N > 1, "[%s, %s] at %.3g %%", goal.FormatRate(e.Lo), goal.FormatRate(e.Hi), 100*e.Level)
}
