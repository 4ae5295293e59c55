package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/measure"
)

// cell is a value with its interval, each as text; Interval is empty where there is none.
type cell struct{ Value, Interval string }

// cellOf writes an estimate; write writes one of its three values.
func cellOf(e measure.Estimate, write func(v float64) string) cell {
	if e.N == 0 {
		return cell{Value: "–"}
	}
	c := cell{Value: write(e.Value)}
	if e.N > 1 {
		c.Interval = "[" + write(e.Lo) + ", " + write(e.Hi) + "]"
	}
	return c
}

func estimated(e measure.Estimate) cell {
	return cellOf(e, func(v float64) string { return digits(v, e.Lo, e.Hi) })
}

// costCell is the CPU time of each packet, transaction or byte; a dash where it was not taken.
func costCell(r *measure.Run) cell {
	if r.CPUNsPerUnit == 0 {
		return cell{Value: "–"}
	}
	return cellOf(measure.Median(r.Costs()), duration)
}

type numberRow struct {
	Label, Sent, Received, Lost string
	Rate, Loss, CPU             cell
	Limit                       string
}

// numbers are the packet runs, of traffic in both directions also each by itself.
func numbers(runs []labeled) []numberRow {
	var rows []numberRow
	for _, r := range runs {
		rows = append(rows, numberRow{
			Label: r.label, Rate: estimated(r.Median), Sent: grouped(r.Sent), Received: grouped(r.Received), Lost: grouped(r.Lost),
			Loss: cellOf(measure.Median(lossRatios(r.Run)), percentOf), CPU: costCell(r.Run), Limit: string(r.LimitedBy),
		})
		for i, w := range r.Ways {
			var rates, lost []float64
			for _, s := range r.Samples {
				if i < len(s.Ways) {
					one := s.Ways[i]
					rates, lost = append(rates, one.PPS), append(lost, float64(one.Lost)/float64(max(one.Sent, 1)))
				}
			}
			rows = append(rows, numberRow{Label: r.label + []string{" →", " ←"}[i%2], Rate: estimated(measure.Median(rates)), Sent: grouped(w.Sent),
				Received: grouped(w.Received), Lost: grouped(w.Lost), Loss: cellOf(measure.Median(lost), percentOf)})
		}
	}
	return rows
}

type talkRow struct {
	Label, What, Lost, Again string
	Rate, CPU                cell
}

// talks are the runs of transactions and streams.
func talks(runs []labeled) []talkRow {
	var rows []talkRow
	for _, r := range runs {
		if r.Kind == measure.PPS {
			continue
		}
		row := talkRow{Label: r.label, What: strings.ReplaceAll(r.Kind.Unit(), "/s", "s/s"), Rate: estimated(r.Median), CPU: costCell(r.Run)}
		if r.Lost > 0 {
			row.Lost = grouped(r.Lost) + " (" + percentOf(float64(r.Lost)/float64(max(r.Sent, 1))) + ")"
		}
		if r.Kind == measure.Stream {
			var again uint64
			for _, s := range r.Samples {
				again += s.Retransmits
			}
			row.Again = grouped(again)
		}
		rows = append(rows, row)
	}
	return rows
}

// delayTable are percentiles of latency, a row a run.
type delayTable struct {
	Columns []string
	Rows    []delayRow
}

type delayRow struct {
	Label, What, Count string
	Cells              []cell // as many as there are columns; empty where there are too few samples
}

// delays are the percentiles of all runs that have latency, each with the interval of its trials' median. Nil for none.
func delays(runs []labeled) *delayTable {
	runs = distributions(runs)
	var told []float64
	for _, r := range runs {
		for _, p := range r.Latency.Percentiles {
			if !slices.Contains(told, p.P) {
				told = append(told, p.P)
			}
		}
	}
	if len(told) == 0 {
		return nil
	}
	slices.Sort(told)
	t := &delayTable{}
	for _, p := range told {
		t.Columns = append(t.Columns, "p"+strconv.FormatFloat(p, 'f', -1, 64))
	}
	t.Columns = append(t.Columns, "max")
	for _, r := range runs {
		row := delayRow{Label: r.label, What: r.Latency.What, Count: grouped(r.Latency.Count)}
		if r.Latency.Loop != "" {
			row.What += ", " + r.Latency.Loop + " loop"
		}
		for _, p := range told {
			row.Cells = append(row.Cells, delayCell(r.Run, p))
		}
		t.Rows = append(t.Rows, delayRow{row.Label, row.What, row.Count, append(row.Cells, cell{Value: duration(float64(r.Latency.MaxNs))})})
	}
	return t
}

// delayCell is a percentile of all samples together. The interval is that of the trials: it is given where each of them
// has samples enough for the percentile.
func delayCell(r *measure.Run, p float64) cell {
	ns, ok := r.Latency.Percentile(p)
	if !ok {
		return cell{Value: "–"}
	}
	c := cell{Value: duration(float64(ns))}
	var trials []float64
	for _, s := range r.Samples {
		if v, ok := s.Latency.Percentile(p); ok {
			trials = append(trials, float64(v))
		}
	}
	if len(trials) > 1 && len(trials) == len(r.Samples) {
		m := measure.Median(trials)
		c.Interval = "[" + duration(m.Lo) + ", " + duration(m.Hi) + "]"
	}
	return c
}

type lossRow struct{ Label, Counter, Packets, Share string }

func losses(runs []labeled) []lossRow {
	var rows []lossRow
	for _, r := range runs {
		for _, p := range places(r.Run) {
			rows = append(rows, lossRow{r.label, p.name, grouped(p.packets), percentOf(p.share)})
		}
	}
	return rows
}

// lossName is the place where packets were lost, and the counter that saw it. Runs of earlier versions have no place.
func lossName(l measure.Loss) string {
	if l.Place == "" {
		return counterName(l.Counter)
	}
	return string(l.Place) + " – " + counterName(l.Counter)
}

func counterName(c measure.Counter) string {
	if c.Interface == "" {
		return c.Where + ": " + c.Name
	}
	return c.Where + ", " + c.Interface + ": " + c.Name
}

// percentOf writes a share, 0–1.
func percentOf(share float64) string {
	switch share *= 100; {
	case share == 0:
		return "0 %"
	case share < 0.1:
		return fmt.Sprintf("%.2g %%", share)
	}
	return strconv.FormatFloat(share, 'f', 1, 64) + " %"
}
