package bench

import (
	"cmp"
	"fmt"
	"strings"

	"mpps/internal/measure"
	"mpps/internal/words"
)

// Verdict returns the document's first sentence: what to take away from it.
func Verdict(d *Document) string {
	var sentences []string
	if c := d.Compared; c != nil {
		return comparedVerdict(d, c) + loadDifferences(c.Throughput)
	}
	if len(d.Modes) > 0 {
		sentences = append(sentences, modesVerdict(&d.Modes[0]))
	}
	if all := d.sizes(); len(all) > 0 {
		sentences = append(sentences, sizesVerdict(all))
	} else if len(d.Rates) > 0 {
		sentences = append(sentences, ratesVerdict(&d.Rates[0]))
	}
	sentences = append(sentences, wakeupVerdict(d.Wakeups))
	if runs := d.runs(""); len(runs) > 0 {
		m := runs[0].Median
		sentences = append(sentences, valueText(m)+" "+perSecond(runs[0].Kind)+".")
	}
	return cmp.Or(append(sentences, d.Title)...)
}

// Ending returns the verdict of changes that were measured and undone: the gain, the interval that proves it, and what
// the rollback left, a line each.
func Ending(d *Document) string {
	text := Verdict(d)
	if c := d.Compared; c != nil && c.Throughput.Significant && c.Throughput.Ratio.N > 0 {
		ratio := c.Throughput.Ratio
		text += fmt.Sprintf("\nProven: between %s× and %s× with %.0f\u00a0%% confidence.", words.Times(ratio.Lo),
			words.Times(ratio.Hi), 100*ratio.Level)
	}
	if r := d.Rollback; r != nil {
		text += fmt.Sprintf("\n%s: %d of %s %s from before.",
			words.Either(r.Identical, "All undone", "Not all undone"), len(r.Differences),
			words.Count(r.Compared, "setting"), words.Either(len(r.Differences) == 1, "differs", "differ"))
	}
	return text
}

// loadDifferences returns a sentence on how the load of two runs differed.
func loadDifferences(c measure.Comparison) string {
	codes := []string{"frame-size", "mix-of-frame-sizes", "number-of-directions", "flows", "rate-asked-for",
		"connections", "protocol"}
	all := words.Join("; ", words.Each(codes, func(code string) string { return warningText(c, "different-"+code) })...)
	return words.If(all != "", " The load was not the same: %s.", all)
}

// warningText returns the text of a comparison's warning; empty if there is none.
func warningText(c measure.Comparison, code string) string {
	for _, w := range c.Warnings {
		if w.Code == code {
			return w.Text
		}
	}
	return ""
}

func comparedVerdict(d *Document, c *Compared) string {
	t, what := c.Throughput, perSecond(c.Kind)
	if few := warningText(t, "few-samples"); few != "" && !t.Significant {
		return "Too few trials to tell a difference in " + what + ": " + few + "."
	}
	if !t.Significant {
		return "No significant difference in " + what + "."
	}
	span := fmt.Sprintf("%s → %s %s.", valueText(t.Before), valueText(t.After), what)
	noun, into, ratio := plural(c.Kind), words.If(len(d.Path) > 0, " into the guest"), t.Ratio.Value
	switch {
	case t.Ratio.N == 0:
		return span
	case ratio <= 2./3:
		return fmt.Sprintf("Worse: %s× the %s. %s", words.Times(ratio), noun, span)
	case ratio < 1:
		return fmt.Sprintf("Worse: %.2g\u00a0%% less %s. %s", (1-ratio)*100, noun, span)
	case ratio < 1.5:
		return fmt.Sprintf("%.2g\u00a0%% more %s%s: %s", (ratio-1)*100, noun, into, span)
	}
	return fmt.Sprintf("%s× more %s%s: %s", words.Times(ratio), noun, into, span)
}

// valueText returns a value that no line break tears from its unit.
func valueText(e measure.Estimate) string { return words.NoBreak(words.Digits(e.Value, e.Lo, e.Hi)) }

// singular returns what a kind counts, and plural several of them.
func singular(k measure.Kind) string {
	switch {
	case k == measure.Stream:
		return "byte"
	case k != "" && transactional(k):
		return "transaction"
	}
	return "packet"
}

func plural(k measure.Kind) string {
	return words.Either(k == measure.Stream, "throughput", singular(k)+"s")
}

// unit returns a kind's unit in plural: packets/s.
func unit(k measure.Kind) string {
	return strings.ReplaceAll(cmp.Or(k, measure.PPS).Unit(), "/s", "s/s")
}

func perSecond(k measure.Kind) string { return strings.ReplaceAll(unit(k), "/s", " per second") }

// modesVerdict names the mode that comes closest to native. Empty if there is none to compare with.
func modesVerdict(m *Modes) string {
	var best *ModeBar
	for i := range m.Bars { // one with a caveat only if there is no other
		b := &m.Bars[i]
		if b.Mode == m.Native || b.Percent <= 0 {
			continue
		}
		sounder := best == nil || best.Caveat != "" && b.Caveat == ""
		if sounder || (best.Caveat == "") == (b.Caveat == "") && b.Percent > best.Percent {
			best = b
		}
	}
	switch {
	case m.Native == "" || best == nil:
		return ""
	case best.tooFew:
		return fmt.Sprintf("%s: too few samples to compare %s with %s.", m.Title, best.Mode, m.Native)
	case best.Same:
		return fmt.Sprintf("%s: no significant difference between %s and %s.", m.Title, best.Mode, m.Native)
	}
	share := strings.NewReplacer(" %", "\u00a0%", ", ", ",\u00a0").Replace(best.share())
	return fmt.Sprintf("%s reaches %s of %s: %s.", best.Mode, share, m.Native, m.Title)
}

// share returns a mode's part of native, with its interval.
func (b *ModeBar) share() string {
	percent := func(p float64) string { return fmt.Sprintf(words.Either(p < 10, "%.1f", "%.0f"), p) }
	return percent(b.Percent) + " %" + words.If(b.PercentHi > b.PercentLo, " [%s, %s]", percent(b.PercentLo),
		percent(b.PercentHi)) + words.If(b.Same, " "+measure.Same)
}

func ratesVerdict(r *Rates) string {
	rate := func(b *RateBounds) string { return words.NoBreak(words.SI(b.LowerPPS, 4)) + " packets per second" }
	switch {
	case r.Floor > 0:
		return fmt.Sprintf("No rate without loss: floor %s.", words.Loss(r.Floor))
	case r.NDR != nil && r.NDR.LowerPPS > 0:
		return rate(r.NDR) + " without loss."
	case r.PDR != nil && r.PDR.LowerPPS > 0:
		return fmt.Sprintf("%s within a loss of %s.", rate(r.PDR), words.Loss(r.PDRLoss))
	}
	return ""
}

// wakeupVerdict returns the first sentence on wake-ups; empty if there are none.
func wakeupVerdict(all []Wakeups) string {
	if len(all) == 0 {
		return ""
	}
	first := all[0].File.Total.Latency
	text := "Longest wake-up " + words.Duration(float64(first.MaxNs))
	if len(all) == 1 {
		return fmt.Sprintf("%s of %s.", text, words.Grouped(first.Count))
	}
	longest := all[1].File.Total.Latency.MaxNs
	text += " → " + words.Duration(float64(longest))
	if longest > 0 && first.MaxNs >= longest {
		return fmt.Sprintf("%s: %s× shorter.", text, words.Times(float64(first.MaxNs)/float64(longest)))
	}
	return text + ": not shorter."
}

// lines returns more sentences of the verdict: one for each quantity of modes and each goal of a search.
func lines(d *Document) []string {
	var lines []string
	for i := range d.Modes {
		m := &d.Modes[i]
		var shares []string
		for _, b := range m.Bars {
			if b.Percent > 0 && b.Mode != m.Native {
				shares = append(shares, b.Mode+" "+b.share())
			}
		}
		if len(shares) > 0 {
			lines = append(lines, fmt.Sprintf("%s, of %s: %s.", m.Title, m.Native, strings.Join(shares, ", ")))
		}
	}
	if len(d.sizes()) > 0 {
		return lines // their picture says it
	}
	for i := range d.Rates {
		for _, g := range d.Rates[i].goals() {
			lines = append(lines, words.Join(": ", d.Rates[i].Label, g.text())+".")
		}
	}
	return lines
}
