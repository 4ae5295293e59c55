package report

import (
	"fmt"
	"html/template"
	"math"

	"mpps/internal/measure"
)

// modeBars draws a group of bars a mode: the value, as percent of native's where there is one, with its interval as a
// whisker, and below it the host's CPU time that was left. Both stand on one axis of percent.
func modeBars(m *Modes) template.HTML {
	if len(m.Bars) == 0 {
		return ""
	}
	most, idle := 100.0, false
	if m.Native == "" {
		most = 0
	}
	for _, b := range m.Bars {
		if m.Native == "" {
			most = math.Max(most, math.Max(b.Value, b.Hi))
		} else {
			most = math.Max(most, math.Max(b.Percent, b.PercentHi))
		}
		idle = idle || b.CPUIdle != nil
	}
	if most <= 0 {
		return ""
	}
	const left, right = 4, svgWidth - 12
	idle = idle && m.Native != "" // an axis of percent only has room for it
	const missing = 40
	height := 60.0
	if idle {
		height = 74
	}
	d := &drawing{height: 34}
	for _, b := range m.Bars {
		if b.Missing != "" {
			d.height += missing - height
		}
		d.height += height
	}
	x := linear(0, most*1.04, left, right)
	top := 0.0
	if idle {
		top = 20
		d.height += top
		d.rect("bar s1", left, 4, 10, 10, "")
		d.text("tick", "start", left+14, 13, "share of "+m.Native)
		d.rect("bar idlebar", left+150, 4, 10, 10, "")
		d.text("tick", "start", left+164, 13, "CPU time left idle")
	}
	bottom := d.height - 30
	tick, unit := func(v float64) string { return siTick(v) + " %" }, "percent of "+m.Native
	if m.Native == "" {
		tick, unit = siTick, m.Unit
	}
	d.ticks(x, top+2, bottom, left, right, tick)
	d.text("unit", "end", right, d.height-2, unit)
	y := top
	for _, b := range m.Bars {
		d.text("label strong", "start", left, y+14, short(b.Mode))
		if b.Missing != "" {
			d.text("tick", "start", left, y+29, cut(b.Missing, 62))
			y += missing
			continue
		}
		value, lo, hi := b.Value, b.Lo, b.Hi
		if m.Native != "" {
			value, lo, hi = b.Percent, b.PercentLo, b.PercentHi
		}
		if b.Caveat != "" {
			d.text("tick bad", "end", right, y+14, b.Caveat)
		}
		d.text("tick", "start", left, y+28, modeText(m, b))
		d.rect("bar s1", left, y+34, x.at(value)-left, 14, modeText(m, b))
		if hi > lo {
			d.whisker(x.at(lo), x.at(hi), y+41)
		}
		if idle && b.CPUIdle != nil {
			c := b.CPUIdle
			d.rect("bar idlebar", left, y+50, x.at(c.Value)-left, 10, fmt.Sprintf("%s: %.1f %% idle", b.Mode, c.Value))
			if c.Hi > c.Lo {
				d.whisker(x.at(c.Lo), x.at(c.Hi), y+55)
			}
		}
		y += height
	}
	return d.svg(m.Title + " by mode, with intervals")
}

// modeText is a bar in words; a line holds about 60 letters.
func modeText(m *Modes, b ModeBar) string {
	text := withInterval(b.Value, b.Lo, b.Hi) + " " + m.Unit
	if m.Native != "" && b.Mode != m.Native {
		text += fmt.Sprintf(" · %s %% [%s, %s]", shareText(b.Percent), shareText(b.PercentLo), shareText(b.PercentHi))
		if b.Same {
			text += " " + measure.Same
		}
	}
	if b.CPUIdle != nil {
		text += fmt.Sprintf(" · idle %.0f %%", b.CPUIdle.Value)
	}
	return text
}

func shareText(percent float64) string {
	if percent < 10 {
		return fmt.Sprintf("%.1f", percent)
	}
	return fmt.Sprintf("%.0f", percent)
}

// whisker draws an interval over a bar.
func (d *drawing) whisker(from, to, y float64) {
	d.line("whisker", from, y, to, y)
	d.line("whisker", from, y-3, from, y+3)
	d.line("whisker", to, y-3, to, y+3)
}
