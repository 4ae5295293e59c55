package report

import (
	"fmt"
	"math"
	"strings"

	"mpps/internal/bottleneck"
	"mpps/internal/facts"
)

// Diagnosis draws what holds the path back, what shows it, what would be next, and what every stage did.
func Diagnosis(t *Text, d *bottleneck.Diagnosis, l *facts.Load, verbose bool) {
	style := Bold
	if d.Bottleneck != nil {
		style = RedBold
	}
	t.Wrapped("", t.In(style, d.Why))
	if b := d.Bottleneck; b != nil {
		t.Wrapped("", fmt.Sprintf("%s · %s at stage %s · confidence %.2f", bottleneck.About(b.Kind).Title, b.Object, b.Stage, b.Confidence))
		t.Blank()
		t.Wrapped("  do     ", b.Advice)
		if len(b.Knobs) > 0 {
			t.Wrapped("  knobs  ", strings.Join(b.Knobs, ", ")+"  (mpps explain ID)")
		}
		for i, e := range b.Evidence {
			lead := "         "
			if i == 0 {
				lead = "  seen   "
			}
			t.Wrapped(lead, evidenceLine(e))
			if verbose && e.Source != "" {
				t.Wrapped("           ", t.In(Faint, e.Source))
			}
		}
	}
	if n := d.Next; n != nil {
		t.Wrapped("  next   ", nextStage(n, d.Bottleneck == nil))
	}
	if len(d.Stages) > 0 {
		t.Blank()
		t.Table(diagnosisTable(t, d))
	}
	t.Blank()
	t.Wrapped("", t.In(Faint, fmt.Sprintf("watched for %.1f s by %s; that took %.0f ms of a CPU", d.Seconds, methodWords(d.Method), l.CostMS)))
}

// methodWords are what a method is for people.
func methodWords(m facts.LoadMethod) string {
	if m == facts.ByTracepoints {
		return "counters, tracepoints and a profile"
	}
	return "counters alone"
}

// nextStage is what would hold the path back then.
func nextStage(n *bottleneck.Bottleneck, healthy bool) string {
	lead := "then "
	if healthy {
		lead = "with more load "
	}
	return fmt.Sprintf("%s%s: %s (%.2f)", lead, bottleneck.About(n.Kind).Title, n.Say, n.Confidence)
}

// evidenceLine writes a piece of evidence: its value first.
func evidenceLine(e bottleneck.Evidence) string { return quantity(e.Value, e.Unit) + "  " + e.What }

func quantity(v float64, unit string) string {
	switch {
	case unit == "share":
		return queuePathShare(v)
	case strings.HasPrefix(unit, "share of "):
		return queuePathShare(v) + strings.TrimPrefix(unit, "share")
	case unit == "node":
		return fmt.Sprintf("node %.0f", v)
	case unit == "us" && v >= 1000:
		return siDigits(v/1000, 3) + " ms"
	case v < 10000 && v == math.Trunc(v):
		return fmt.Sprintf("%.0f %s", v, unit)
	case unit == "packets/s":
		return siDigits(v, 3) + "pps"
	case strings.HasPrefix(unit, "bit/"):
		return siDigits(v, 3) + unit
	}
	return strings.TrimSpace(siDigits(v, 3)) + " " + unit
}

// diagnosisTable has a line for each stage, the one that holds the path back marked.
func diagnosisTable(t *Text, d *bottleneck.Diagnosis) [][]string {
	rows := [][]string{{"", "stage", "busiest", "use", "packets/s", "waits and losses"}}
	for _, s := range d.Stages {
		mark, use, pps := " ", "–", "–"
		if d.Bottleneck != nil && d.Bottleneck.Stage == s.Name {
			mark = t.In(RedBold, "▶")
		}
		if s.Use >= 0 {
			use = fmt.Sprintf("%3.0f %%", 100*s.Use)
		}
		if s.PPS >= 0 {
			pps = siDigits(s.PPS, 3)
		}
		var words []string
		for _, e := range append(append([]bottleneck.Evidence{}, s.Saturation...), s.Errors...) {
			words = append(words, quantity(e.Value, e.Unit)+" "+e.What)
		}
		rows = append(rows, []string{mark, s.Name, s.Object, use, pps, strings.Join(words, "; ")})
	}
	return rows
}
