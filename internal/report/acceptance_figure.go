package report

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"

	"mpps/internal/acceptance"
)

// drawFigure draws a figure with its verdict.
func drawFigure(t *Text, j acceptance.Judged) {
	style := map[acceptance.State]Style{acceptance.Reached: Green, acceptance.Short: Yellow}[j.State]
	word := verdictWord(j)
	t.Wrapped("  "+t.In(style, word)+strings.Repeat(" ", max(16-len([]rune(word)), 1)), j.What)
	const under = "                  "
	var figures []string
	if j.Measured != nil {
		figures = append(figures, measuredText(j))
	}
	if j.Founding != nil {
		figures = append(figures, then(j))
	}
	if len(figures) > 0 {
		t.Wrapped(under, strings.Join(figures, "; "))
	}
	for _, why := range j.Reasons {
		if j.State != acceptance.NotMeasured { // it is said already
			t.Wrapped(under, why.Text)
		}
	}
	for i, look := range j.Look {
		t.Wrapped(under+map[bool]string{true: "look  ", false: "      "}[i == 0], look)
	}
}

// then is what the founding experiment had, and by how much this is worse.
func then(j acceptance.Judged) string {
	text := "then " + asFigure(*j.Founding, j.Unit, 0)
	if j.State == acceptance.NotComparable && j.ShortBy != nil && *j.ShortBy > 0 {
		text += ", " + percentOf(*j.ShortBy) + map[bool]string{true: " more", false: " less"}[j.Lower] + " now"
	}
	return text
}

// verdictWord is a verdict in words.
func verdictWord(j acceptance.Judged) string {
	switch j.State {
	case acceptance.Short:
		return "short by " + percentOf(*j.ShortBy)
	case acceptance.NotComparable:
		return "not comparable"
	case acceptance.NotMeasured:
		return "not measured"
	}
	return string(j.State)
}

// measuredText is what was measured, with its spread.
func measuredText(j acceptance.Judged) string {
	value, spread := valueAndSpread(j)
	return strings.TrimSuffix(value+" "+spread, " ")
}

// valueAndSpread are what was measured, and its interval with the number of samples.
func valueAndSpread(j acceptance.Judged) (value, spread string) {
	m := j.Measured
	switch {
	case m == nil:
		return "–", ""
	case m.None != "":
		return "none", ""
	}
	value = asFigure(m.Value, j.Unit, m.Hi-m.Lo)
	if m.AtLeast {
		value = "≥ " + value
	}
	var parts []string
	if m.Hi > m.Lo {
		parts = append(parts, "["+inDigits(m.Lo, m.Hi-m.Lo)+", "+inDigits(m.Hi, m.Hi-m.Lo)+"]")
	}
	if m.N > 0 {
		parts = append(parts, "n = "+strconv.Itoa(m.N))
	}
	return value, strings.Join(parts, ", ")
}

// asFigure writes a value with its unit, in as many digits as its interval allows.
func asFigure(v float64, unit string, width float64) string {
	text := inDigits(v, width)
	switch unit {
	case "packet/s":
		return text + "pps"
	case "×":
		return text + "×"
	}
	return text + " " + unit
}

func inDigits(v, width float64) string {
	if width <= 0 {
		return strings.TrimSpace(siTick(roundTo(v, 4)))
	}
	n := 3
	if v != 0 {
		n = min(max(int(math.Floor(math.Log10(math.Abs(v)/width)))+2, 2), 4)
	}
	return strings.TrimSpace(siDigits(v, n))
}

func roundTo(v float64, digits int) float64 {
	if v == 0 {
		return 0
	}
	scale := math.Pow(10, float64(digits)-1-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}

// figurePicture draws what was measured with its interval, and a line where the founding figure is.
func figurePicture(j acceptance.Judged) template.HTML {
	m := j.Measured
	if m == nil || m.None != "" || j.Founding == nil {
		return ""
	}
	const left, right = 12, svgWidth - 12
	most := max(m.Value, m.Hi, *j.Founding)
	if most <= 0 {
		return ""
	}
	d := &drawing{height: 58}
	x := linear(0, most*1.12, left, right)
	if least := min(m.Value, *j.Founding); least > 0 && most/least > 30 {
		x = logarithmic(least, most, left, right)
	}
	d.ticks(x, 6, 34, left, right, siTick)
	at := x.at(*j.Founding)
	d.line("then", at, 2, at, 38)
	if m.Hi > m.Lo {
		d.line("within", x.at(m.Lo), 20, x.at(m.Hi), 20)
	}
	d.dot("dot s1", x.at(m.Value), 20, 6, measuredText(j))
	unit := map[string]string{"packet/s": "packets/s"}[j.Unit]
	if unit == "" {
		unit = j.Unit
	}
	d.height = 66
	d.text("unit", "end", right, 63, unit+" · dashed: then")
	return d.svg(fmt.Sprintf("%s: %s, then %s", j.What, measuredText(j), asFigure(*j.Founding, j.Unit, 0)))
}
