package report

import (
	"fmt"
	"strings"
)

type verdictView struct {
	Headline, Detail string
	Chips            []chip
}

type chip struct{ Text, Class string }

// verdict is what a reader must take away who stops after one sentence.
func verdict(d *Document) verdictView {
	v := verdictView{Headline: headlineOf(d), Detail: detailOf(d)}
	if n := len(d.Changes); n > 0 {
		v.Chips = append(v.Chips, chip{Text: count(n, "change") + ", all journaled"})
	}
	if r := d.Rollback; r != nil {
		if r.Identical {
			v.Chips = append(v.Chips, chip{Text: "rolled back: identical to before", Class: "good"})
		} else {
			v.Chips = append(v.Chips, chip{Text: fmt.Sprintf("rolled back: %s left", count(len(r.Differences), "difference")), Class: "bad"})
		}
	}
	for _, s := range d.Series {
		if s.Run != nil && !s.Run.Valid() {
			v.Chips = append(v.Chips, chip{Text: fmt.Sprintf("%s: limited by the %s, not by the path", s.Label, s.Run.LimitedBy), Class: "bad"})
		}
	}
	if d.Host.Emulated {
		v.Chips = append(v.Chips, chip{Text: "emulated host: only ratios carry over", Class: "bad"})
	}
	return v
}

func headlineOf(d *Document) string {
	c := d.Compared
	switch {
	case c == nil && len(d.Series) > 0 && d.Series[0].Run != nil:
		m := d.Series[0].Run.Median
		return fmt.Sprintf("%s %s.", digits(m.Value, m.Lo, m.Hi), strings.ReplaceAll(d.Series[0].Run.Kind.Unit(), "/s", "s per second"))
	case c == nil:
		return d.Title
	case !c.Throughput.Significant:
		return "No significant difference in packets per second."
	}
	t := c.Throughput
	ratio := t.Ratio.Value
	span := fmt.Sprintf("%s → %s packets per second", whole(t.Before.Value, t.Before.Lo, t.Before.Hi), whole(t.After.Value, t.After.Lo, t.After.Hi))
	switch {
	case t.Ratio.N == 0:
		return span + "."
	case ratio < 1:
		return fmt.Sprintf("Worse: %s× the packets. %s.", times(ratio), span)
	}
	return fmt.Sprintf("%s× more packets into the guest: %s.", times(ratio), span)
}

func detailOf(d *Document) string {
	var parts []string
	if c := d.Compared; c != nil {
		t := c.Throughput
		if t.Ratio.N > 0 {
			parts = append(parts, fmt.Sprintf("Ratio %s, %.3g %% interval [%s, %s], n = %d and %d.",
				times(t.Ratio.Value), t.Ratio.Level*100, times(t.Ratio.Lo), times(t.Ratio.Hi), t.Before.N, t.After.N))
		}
		if c.RoundTrips != nil {
			r := c.RoundTrips
			if r.Significant {
				parts = append(parts, fmt.Sprintf("Transactions per second: %s× [%s, %s].", times(r.Ratio.Value), times(r.Ratio.Lo), times(r.Ratio.Hi)))
			} else {
				parts = append(parts, "Transactions per second: no significant difference.")
			}
		}
	}
	if d.Host.Emulated {
		parts = append(parts, "Measured on a fully emulated host: the figures are not those of hardware.")
	}
	return strings.Join(parts, " ")
}

// whole is a value that a line break does not tear from its unit letter.
func whole(v, lo, hi float64) string { return strings.ReplaceAll(digits(v, lo, hi), " ", "\u00a0") }

func times(ratio float64) string {
	if ratio >= 100 {
		return fmt.Sprintf("%.0f", ratio)
	}
	return fmt.Sprintf("%.2g", ratio)
}
