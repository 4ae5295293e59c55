package report

import (
	"fmt"
	"strings"

	"mpps/internal/measure"
)

type verdictView struct {
	Headline, Detail string
	Lines            []string // one for each quantity of modes and each goal of a search
	Chips            []chip
}

type chip struct{ Text, Class string }

// verdict is what a reader must take away who stops after one sentence.
func verdict(d *Document) verdictView {
	v := verdictView{Headline: headlineOf(d), Detail: detailOf(d), Lines: linesOf(d)}
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
	for _, r := range d.runs("") {
		if !r.Valid() {
			v.Chips = append(v.Chips, chip{Text: fmt.Sprintf("%s: limited by the %s, not by the path", r.label, r.LimitedBy), Class: "bad"})
		}
		if r.Partial {
			v.Chips = append(v.Chips, chip{Text: r.label + ": ended early", Class: "bad"})
		}
	}
	if d.Host.Emulated {
		v.Chips = append(v.Chips, chip{Text: "emulated host: only ratios carry over", Class: "bad"})
	}
	return v
}

func headlineOf(d *Document) string {
	c := d.Compared
	runs := d.runs("")
	switch {
	case c != nil:
		return comparedHeadline(d, c) + unlike(c.Throughput)
	case len(d.Modes) > 0 && modesHeadline(&d.Modes[0]) != "":
		return modesHeadline(&d.Modes[0])
	case len(d.Rates) > 0 && ratesHeadline(&d.Rates[0]) != "":
		return ratesHeadline(&d.Rates[0])
	case len(d.Wakeups) > 0:
		return wakeupHeadline(d)
	case len(runs) > 0:
		m := runs[0].Median
		return fmt.Sprintf("%s %s.", whole(m.Value, m.Lo, m.Hi), perSecond(runs[0].Kind))
	}
	return d.Title
}

// unlike is a sentence on runs that were not given the same to do.
func unlike(c measure.Comparison) string {
	var all []string
	for _, code := range []string{"frame-size", "mix-of-frame-sizes", "number-of-directions", "flows", "rate-asked-for", "connections", "protocol"} {
		if text, found := warnedOf(c, "different-"+code); found {
			all = append(all, text)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return " The runs had not the same to do: " + strings.Join(all, "; ") + "."
}

// warnedOf is the text of a comparison's warning.
func warnedOf(c measure.Comparison, code string) (text string, found bool) {
	for _, w := range c.Warnings {
		if w.Code == code {
			return w.Text, true
		}
	}
	return "", false
}

func comparedHeadline(d *Document, c *Compared) string {
	t, what := c.Throughput, perSecond(c.Kind)
	if few, warned := warnedOf(t, "few-samples"); warned && !t.Significant {
		return "Too few trials to tell a difference in " + what + ": " + few + "."
	}
	if !t.Significant {
		return "No significant difference in " + what + "."
	}
	span := fmt.Sprintf("%s → %s %s", whole(t.Before.Value, t.Before.Lo, t.Before.Hi), whole(t.After.Value, t.After.Lo, t.After.Hi), what)
	into := ""
	if len(d.Path) > 0 {
		into = " into the guest"
	}
	noun, ratio := nameOf(c.Kind), t.Ratio.Value
	switch {
	case t.Ratio.N == 0:
		return span + "."
	case ratio <= 2./3:
		return fmt.Sprintf("Worse: %s× the %s. %s.", times(ratio), noun, span)
	case ratio < 1:
		return fmt.Sprintf("Worse: %.2g\u00a0%% less %s. %s.", (1-ratio)*100, noun, span)
	case ratio < 1.5:
		return fmt.Sprintf("%.2g\u00a0%% more %s%s: %s.", (ratio-1)*100, noun, into, span)
	}
	return fmt.Sprintf("%s× more %s%s: %s.", times(ratio), noun, into, span)
}

// perSecond is a kind's unit in words.
func perSecond(k measure.Kind) string {
	if k == "" {
		k = measure.PPS
	}
	return strings.ReplaceAll(k.Unit(), "/s", "s per second")
}

// modesHeadline names the mode that comes closest to native. Empty where there is none to compare with.
func modesHeadline(m *Modes) string {
	var best *ModeBar
	for i := range m.Bars { // one with a caveat only where there is no other
		b := &m.Bars[i]
		if b.Mode == m.Native || b.Percent <= 0 {
			continue
		}
		if best == nil || best.Caveat != "" && b.Caveat == "" || (best.Caveat == "") == (b.Caveat == "") && b.Percent > best.Percent {
			best = b
		}
	}
	if m.Native == "" || best == nil {
		return ""
	}
	if best.Same {
		return fmt.Sprintf("%s: no significant difference between %s and %s.", m.Title, best.Mode, m.Native)
	}
	interval := ""
	if best.PercentHi > best.PercentLo {
		interval = fmt.Sprintf(" [%s,\u00a0%s]", shareText(best.PercentLo), shareText(best.PercentHi))
	}
	return fmt.Sprintf("%s reaches %s\u00a0%%%s of %s: %s.", best.Mode, shareText(best.Percent), interval, m.Native, m.Title)
}

func ratesHeadline(r *Rates) string {
	switch {
	case r.Floor > 0:
		return fmt.Sprintf("No rate without loss: floor %s.", lossText(r.Floor))
	case r.NDR != nil && r.NDR.LowerPPS > 0:
		return strings.ReplaceAll(siDigits(r.NDR.LowerPPS, 4), " ", "\u00a0") + " packets per second without loss."
	case r.PDR != nil && r.PDR.LowerPPS > 0:
		return fmt.Sprintf("%s packets per second within a loss of %s.", strings.ReplaceAll(siDigits(r.PDR.LowerPPS, 4), " ", "\u00a0"), lossText(r.PDRLoss))
	}
	return ""
}

func detailOf(d *Document) string {
	var parts []string
	if c := d.Compared; c != nil {
		t := c.Throughput
		if t.Ratio.N > 0 {
			parts = append(parts, fmt.Sprintf("Ratio %s, %.3g %% interval [%s, %s], n = %d and %d, %s, p = %.2g.",
				times(t.Ratio.Value), t.Ratio.Level*100, times(t.Ratio.Lo), times(t.Ratio.Hi), t.Before.N, t.After.N, testName(t.Test), t.P))
		}
		if c.RoundTrips != nil {
			r := c.RoundTrips
			if r.Significant {
				parts = append(parts, fmt.Sprintf("Transactions per second: %s× [%s, %s].", times(r.Ratio.Value), times(r.Ratio.Lo), times(r.Ratio.Hi)))
			} else {
				parts = append(parts, "Transactions per second: no significant difference.")
			}
		}
	} else if runs := d.runs(""); len(runs) > 0 && len(d.Modes)+len(d.Rates) == 0 {
		if m := runs[0].Median; m.N > 1 {
			parts = append(parts, fmt.Sprintf("Median of %d trials, %.3g %% interval [%s, %s].", m.N, m.Level*100, digits(m.Lo, m.Lo, m.Hi), digits(m.Hi, m.Lo, m.Hi)))
		}
	}
	if detail := wakeupDetail(d); detail != "" {
		parts = append(parts, detail)
	}
	if d.Host.Emulated {
		parts = append(parts, "Measured on a fully emulated host: the figures are not those of hardware.")
	}
	return strings.Join(parts, " ")
}

func linesOf(d *Document) []string {
	var lines []string
	for i := range d.Modes {
		lines = append(lines, modesDetail(&d.Modes[i])...)
	}
	for i := range d.Rates {
		for _, g := range d.Rates[i].goals() {
			lines = append(lines, strings.TrimPrefix(d.Rates[i].Label+": ", ": ")+g.text()+".")
		}
	}
	return lines
}

// modesDetail is one sentence: each mode's share of native.
func modesDetail(m *Modes) []string {
	var shares []string
	for _, b := range m.Bars {
		if b.Percent > 0 && b.Mode != m.Native {
			text := b.Mode + " " + shareText(b.Percent) + " %"
			if b.PercentHi > b.PercentLo {
				text += fmt.Sprintf(" [%s, %s]", shareText(b.PercentLo), shareText(b.PercentHi))
			}
			if b.Same {
				text += " " + measure.Same
			}
			shares = append(shares, text)
		}
	}
	if len(shares) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s, of %s: %s.", m.Title, m.Native, strings.Join(shares, ", "))}
}

func testName(test string) string {
	if test == "signed-rank" {
		return "signed-rank test over blocks"
	}
	return "Mann–Whitney"
}

// whole is a value that a line break does not tear from its unit letter.
func whole(v, lo, hi float64) string { return strings.ReplaceAll(digits(v, lo, hi), " ", "\u00a0") }

// times writes a ratio in two digits, three around 1 where the second says nothing.
func times(ratio float64) string {
	switch {
	case ratio >= 100:
		return fmt.Sprintf("%.0f", ratio)
	case ratio > 0.8 && ratio < 1.25:
		return fmt.Sprintf("%.3g", ratio)
	}
	return fmt.Sprintf("%.2g", ratio)
}
