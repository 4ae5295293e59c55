package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"mpps/internal/advise/bottleneck"
	"mpps/internal/model/facts"
	"mpps/internal/words"
)

// Diagnosis draws what limits the path, what shows it, what would be next, and what every stage did.
func Diagnosis(t *Text, d *bottleneck.Diagnosis, l *facts.Load, verbose bool) {
	t.Wrap("", t.In(words.Either(d.Bottleneck != nil, RedBold, Bold), d.Why))
	lead := "with more load "
	if b := d.Bottleneck; b != nil {
		t.Wrap("", fmt.Sprintf("%s · %s at stage %s · confidence %.0f %%",
			bottleneck.About(b.Kind).Title, b.Object, b.Stage, 100*b.Confidence))
		t.Blank()
		t.Wrap("  do     ", b.Advice)
		t.WrapIf(len(b.Knobs) > 0, "  knobs  ", "%s  (mpps explain ID)", strings.Join(b.Knobs, ", "))
		for i, e := range b.Evidence {
			t.Wrap(words.Either(i == 0, "  seen   ", "         "), Evidence(e))
			t.Field("           ", words.Either(verbose, t.In(Faint, e.Source), ""))
		}
		lead = "then "
	}
	if n := d.Next; n != nil {
		t.Wrap("  next   ", fmt.Sprintf("%s%s: %s (%.0f %%)", lead, bottleneck.About(n.Kind).Title, n.Say,
			100*n.Confidence))
	}
	for _, b := range d.Besides {
		t.Wrap("  beside ", fmt.Sprintf("%s: %s (%.0f %%)", bottleneck.About(b.Kind).Title, b.Say, 100*b.Confidence))
	}
	if len(d.Stages) > 0 {
		t.Blank()
		t.Table(diagnosisTable(t, d))
	}
	method := words.Either(d.Method == facts.ByTracepoints, "counters, tracepoints and a profile", "counters alone")
	t.Blank()
	t.Wrap("", t.In(Faint, fmt.Sprintf("watched for %.1f s by %s; that took %.0f ms of a CPU",
		d.Seconds, method, l.CostMS)))
}

// Evidence writes a piece of evidence: its value first.
func Evidence(e bottleneck.Evidence) string { return quantity(e.Value, e.Unit) + "  " + e.What }

// Waits returns what waited and what was lost at a stage.
func Waits(s *bottleneck.Stage) []string {
	all := slices.Concat(s.Saturation, s.Errors)
	return words.Each(all, func(e bottleneck.Evidence) string { return quantity(e.Value, e.Unit) + " " + e.What })
}

func quantity(v float64, unit string) string {
	switch {
	case unit == "share":
		return words.Share(v)
	case strings.HasPrefix(unit, "share of "):
		return words.Share(v) + strings.TrimPrefix(unit, "share")
	case unit == "queues" || unit == "rounds" || unit == "threads": // what they are follows
		return fmt.Sprintf("%.0f", v)
	case unit == "exits":
		return words.SI(v, 3)
	case unit == "node":
		return fmt.Sprintf("node %.0f", v)
	case unit == "us":
		return words.Either(v < 1000, words.SI(v, 3)+" µs", words.SI(v/1000, 3)+" ms")
	case v < 10000 && v == math.Trunc(v):
		return fmt.Sprintf("%.0f %s", v, unit)
	case unit == "packets/s":
		return words.SI(v, 3) + "pps"
	case strings.HasPrefix(unit, "bit/"):
		return words.SI(v, 3) + unit
	}
	return strings.TrimSpace(words.SI(v, 3)) + " " + unit
}

// diagnosisTable has a line for each stage, the one that limits the path marked.
func diagnosisTable(t *Text, d *bottleneck.Diagnosis) [][]string {
	rows := [][]string{{"", "stage", "busiest", "use", "packets/s", "waits and losses"}}
	for _, s := range d.Stages {
		limits := d.Bottleneck != nil && d.Bottleneck.Stage == s.Name
		rows = append(rows, []string{words.Either(limits, t.In(RedBold, "▶"), " "), s.Name, s.Object,
			words.Either(s.Use >= 0, fmt.Sprintf("%3.0f %%", 100*s.Use), "–"),
			words.Either(s.PPS >= 0, words.SI(s.PPS, 3), "–"), strings.Join(Waits(&s), "; ")})
	}
	return rows
}
