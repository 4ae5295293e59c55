package report

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
)

// The drawings are inline SVG with classes that the page's style sheet colours, so that light, dark and print share
// one drawing. Their width is about that of a phone, so that text stays readable there.
const svgWidth = 360

// drawing collects SVG elements.
type drawing struct {
	b      strings.Builder
	height float64
}

func (d *drawing) line(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(&d.b, `<line class="%s" x1="%s" y1="%s" x2="%s" y2="%s"/>`, class, px(x1), px(y1), px(x2), px(y2))
}

func (d *drawing) rect(class string, x, y, w, h float64, title string) {
	fmt.Fprintf(&d.b, `<rect class="%s" x="%s" y="%s" width="%s" height="%s" rx="2">%s</rect>`,
		class, px(x), px(y), px(math.Max(w, 0.5)), px(h), titled(title))
}

func (d *drawing) dot(class string, x, y, r float64, title string) {
	fmt.Fprintf(&d.b, `<circle class="%s" cx="%s" cy="%s" r="%s">%s</circle>`, class, px(x), px(y), px(r), titled(title))
}

func (d *drawing) path(class string, points [][2]float64) {
	if len(points) == 0 {
		return
	}
	var b strings.Builder
	for i, p := range points {
		letter := "L"
		if i == 0 {
			letter = "M"
		}
		b.WriteString(letter + px(p[0]) + " " + px(p[1]))
	}
	fmt.Fprintf(&d.b, `<path class="%s" d="%s"/>`, class, b.String())
}

// text writes a label; anchor is start, middle or end.
func (d *drawing) text(class, anchor string, x, y float64, text string) {
	fmt.Fprintf(&d.b, `<text class="%s" text-anchor="%s" x="%s" y="%s">%s</text>`,
		class, anchor, px(x), px(y), template.HTMLEscapeString(text))
}

// maxLabel is how long a name of somebody's own can be, so that what stands behind it stays on the drawing.
const maxLabel = 30

// short is a name cut to what a drawing has room for.
func short(name string) string { return cut(name, maxLabel) }

// svg is the finished drawing with a label for those who cannot see it.
func (d *drawing) svg(label string) template.HTML {
	return template.HTML(fmt.Sprintf(`<svg viewBox="0 0 %d %s" role="img" aria-label="%s">%s</svg>`,
		svgWidth, px(d.height), template.HTMLEscapeString(label), d.b.String()))
}

func titled(title string) string {
	if title == "" {
		return ""
	}
	return "<title>" + template.HTMLEscapeString(title) + "</title>"
}

func px(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

// scale maps values to positions.
type scale struct {
	from, to float64 // values, or their logarithms
	a, b     float64 // positions
	log      bool
}

func linear(from, to, a, b float64) scale { return scale{from: from, to: to, a: a, b: b} }

// logarithmic maps positive values; from and to are widened to powers of ten.
func logarithmic(from, to, a, b float64) scale {
	return scale{from: math.Floor(math.Log10(from)), to: math.Ceil(math.Log10(to) + 1e-9), a: a, b: b, log: true}
}

func (s scale) at(v float64) float64 {
	if s.log {
		v = math.Log10(math.Max(v, math.Pow(10, s.from)))
	}
	if s.to == s.from {
		return s.a
	}
	return s.a + (v-s.from)/(s.to-s.from)*(s.b-s.a)
}

// ticks are round values on the scale: powers of ten of a logarithmic one, four to seven steps of a linear one.
func (s scale) ticks() []float64 {
	var ticks []float64
	if s.log {
		for e := s.from; e <= s.to+1e-9; e++ {
			ticks = append(ticks, math.Pow(10, e))
		}
		return ticks
	}
	span := s.to - s.from
	if span <= 0 {
		return []float64{s.from}
	}
	step := math.Pow(10, math.Floor(math.Log10(span/4)))
	for _, factor := range []float64{1, 2, 5, 10} {
		if span/(step*factor) <= 5 {
			step *= factor
			break
		}
	}
	for v := math.Ceil(s.from/step) * step; v <= s.to+step/1e6; v += step {
		ticks = append(ticks, v)
	}
	return ticks
}

// digits writes a value with as many digits as its interval allows, in the unit letter of its size.
func digits(v, lo, hi float64) string {
	if v == 0 {
		return "0"
	}
	significant := 3
	if width := hi - lo; width > 0 {
		significant = int(math.Floor(math.Log10(math.Abs(v)/width))) + 1
		significant = min(max(significant, 2), 4)
	}
	return siDigits(v, significant)
}

// siDigits writes a value in n significant digits with k, M or G.
func siDigits(v float64, n int) string {
	abs := math.Abs(v)
	if abs > 0 {
		round := math.Pow(10, float64(n)-1-math.Floor(math.Log10(abs)))
		v = math.Round(v*round) / round
		abs = math.Abs(v)
	}
	unit := ""
	switch {
	case abs >= 1e9:
		v, unit = v/1e9, " G"
	case abs >= 1e6:
		v, unit = v/1e6, " M"
	case abs >= 1e3:
		v, unit = v/1e3, " k"
	}
	decimals := n - 1
	if v != 0 {
		decimals = max(0, n-1-int(math.Floor(math.Log10(math.Abs(v)))))
	}
	return strconv.FormatFloat(v, 'f', decimals, 64) + unit
}

// duration writes nanoseconds as people read them, in three digits without trailing zeros behind the point.
func duration(ns float64) string {
	value, unit := ns, " ns"
	switch {
	case ns >= 1e9:
		value, unit = ns/1e9, " s"
	case ns >= 1e6:
		value, unit = ns/1e6, " ms"
	case ns >= 1e3:
		value, unit = ns/1e3, " µs"
	}
	return strconv.FormatFloat(value, 'g', 3, 64) + unit
}
