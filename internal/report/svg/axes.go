package svg

import (
	"math"
	"slices"
	"unicode/utf8"
)

// AxisX closes the rows drawn so far with a horizontal axis: its grid from top down to here, labels, and the unit.
func (d *Drawing) AxisX(x Scale, top float64, unit string, label func(float64) string) {
	d.TicksX(x, top, x.Ticks(), label)
	if unit != "" {
		d.Text("unit", "end", d.Right, d.Y+11, unit)
		d.Y += 15
	}
}

// TicksX draws the grid of some values of a horizontal scale, with their labels. A label that would cover the one
// before it is left out.
func (d *Drawing) TicksX(x Scale, top float64, ticks []float64, label func(float64) string) {
	end := math.Inf(-1)
	for _, tick := range ticks {
		at := x.At(tick)
		line(&d.grid, "grid", at, top, at, d.Y)
		l := Label{label(tick), d.Edge(at), at, d.Y + 14}
		if from, to := l.span(6); from >= end+4 {
			d.Text("tick", l.anchor, at, l.y, l.text)
			end = to
		}
	}
	d.Y += 18
}

// Edge anchors a label at some place so that it stays inside the drawing.
func (d *Drawing) Edge(x float64) string {
	switch {
	case x < d.Left+14:
		return "start"
	case x > d.Right-14:
		return "end"
	}
	return "middle"
}

// AxisY draws the grid of a vertical scale, its labels on the left.
func (d *Drawing) AxisY(y Scale, label func(float64) string) {
	for _, tick := range y.Ticks() {
		d.Level(y.At(tick), label(tick))
	}
}

// Level draws a line of the grid over the whole width, with its label on the left.
func (d *Drawing) Level(y float64, label string) {
	line(&d.grid, "grid", d.Left, y, d.Right, y)
	d.Text("tick", "end", d.Left-5, y+4, label)
}

// Rule draws a line from top down to here.
func (d *Drawing) Rule(class string, x, top float64) { line(&d.bands, class, x, top, x, d.Y) }

// Bar draws a bar from the beginning of the axis to a value.
func (d *Drawing) Bar(class string, x Scale, v, y, h float64, title string) {
	d.Rect("bar "+class, d.Left, y, x.At(v)-d.Left, h, title)
}

// Whisker draws an interval over a bar; none if it has no width.
func (d *Drawing) Whisker(x Scale, lo, hi, y float64) {
	if hi <= lo {
		return
	}
	from, to := x.Within(lo), x.Within(hi)
	d.Line("whisker", from, y, to, y)
	d.Line("whisker", from, y-3, from, y+3)
	d.Line("whisker", to, y-3, to, y+3)
}

// Estimate draws an interval, if there is one, as a band and its value as a stroke of some height across.
func (d *Drawing) Estimate(class string, x Scale, lo, v, hi, y, height float64) {
	if hi > lo {
		line(&d.bands, "interval "+class, x.Within(lo), y, x.Within(hi), y)
	}
	d.Line("median "+class, x.Within(v), y-height/2, x.Within(v), y+height/2)
}

// Samples draws values as dots, spread a little by a fixed pattern: the same values are always the same picture.
func (d *Drawing) Samples(class string, x Scale, y, r float64, values []float64, title func(i int) string) {
	for i, v := range values {
		d.Dot("dot "+class, x.Within(v), y+float64(i%3-1)*r, r, title(i))
	}
}

// Key explains a colour.
func (d *Drawing) Key(class string, x, y, size float64, text string) {
	d.Rect(class, x, y-size+1, size, size, "")
	d.Text("tick", "start", x+size+4, y, text)
}

// Legend explains a curve below the axis: its name, and lines on what it shows.
func (d *Drawing) Legend(class, name string, lines ...string) {
	d.Line("curve "+class, d.Left, d.Y+6, d.Left+22, d.Y+6)
	d.Text("label", "start", d.Left+28, d.Y+10, name)
	d.Y += 17
	for _, text := range lines {
		if text != "" {
			d.Text("tick", "start", d.Left+28, d.Y+6, text)
			d.Y += 13
		}
	}
}

// Label is a small text at a point of a drawing.
type Label struct {
	text, anchor string
	x, y         float64 // of its base line
}

// Labels are small texts, none of which may cover another.
type Labels []Label

// Sizes of a small text: of a character, and of a line.
const (
	charWidth  = 5.4
	lineHeight = 10.5
)

// Add adds a text.
func (l *Labels) Add(text, anchor string, x, y float64) { *l = append(*l, Label{text, anchor, x, y}) }

// span returns from where to where a text reaches.
func (l Label) span(char float64) (from, to float64) {
	width := char * float64(utf8.RuneCountInString(l.text))
	switch l.anchor {
	case "middle":
		return l.x - width/2, l.x + width/2
	case "end":
		return l.x - width, l.x
	}
	return l.x, l.x + width
}

// covers reports whether two texts overlap.
func (l Label) covers(other Label) bool {
	from, to := l.span(charWidth)
	low, high := other.span(charWidth)
	return from < high && low < to && l.y-lineHeight < other.y && other.y-lineHeight < l.y
}

// Place writes the texts where none covers another, as near to their own height as there is room: above, then below.
func (d *Drawing) Place(all Labels, top, bottom float64) {
	var done Labels
	free := func(at Label) bool { return at.y >= top && at.y <= bottom && !slices.ContainsFunc(done, at.covers) }
	for _, at := range all {
		from, to := at.span(charWidth)
		at.x += math.Max(d.Left-from, 0) - math.Max(to-d.Right, 0)
		wanted := at.y
		for n := 0; !free(at) && lineHeight*float64(n) < bottom-top; n++ {
			if at.y = wanted - lineHeight*float64(n); !free(at) {
				at.y = wanted + lineHeight*float64(n+2) // below what it names
			}
		}
		done = append(done, at)
		d.Text("small", at.anchor, at.x, at.y, at.text)
	}
}

// Scale maps values to positions.
type Scale struct {
	from, to float64 // values, or their logarithms
	a, b     float64 // positions
	log      bool
	marks    []float64 // its ticks; nil: round values
}

// Linear maps values evenly.
func Linear(from, to, a, b float64) Scale { return Scale{from: from, to: to, a: a, b: b} }

// Log maps positive values by their logarithm; from and to are widened to powers of ten.
func Log(from, to, a, b float64) Scale {
	return Scale{from: math.Floor(math.Log10(from)), to: math.Ceil(math.Log10(to) + 1e-9), a: a, b: b, log: true}
}

// Span returns a horizontal scale for values from least to most: from zero, or logarithmic where they lie too many
// times apart.
func (d *Drawing) Span(least, most, apart float64) Scale {
	if least > 0 && most/least > apart {
		return Log(least, most, d.Left, d.Right)
	}
	return Linear(0, most*1.06, d.Left, d.Right)
}

// Ratios returns a horizontal scale around 1 for ratios from lo to hi, never so narrow that noise fills the drawing.
func (d *Drawing) Ratios(lo, hi float64) Scale {
	from, to := math.Min(math.Log(lo), -0.05)*1.12, math.Max(math.Log(hi), 0.05)*1.12
	marks := roundRatios(math.Exp(from), math.Exp(to))
	return Scale{from: from / math.Ln10, to: to / math.Ln10, a: d.Left, b: d.Right, log: true, marks: marks}
}

// roundRatios returns round ratios between two bounds: a few, 1 always.
func roundRatios(lo, hi float64) []float64 {
	for _, steps := range [][]float64{
		{0.001, 0.01, 0.1, 1, 10, 100, 1000},
		{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100},
		{0.2, 0.4, 0.6, 0.8, 1, 1.5, 2, 3, 4, 5}, {0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.4, 1.6, 1.8},
		{0.85, 0.9, 0.95, 1, 1.05, 1.1, 1.15},
	} {
		steps = slices.DeleteFunc(steps, func(s float64) bool { return s < lo || s > hi })
		if len(steps) >= 3 {
			return steps
		}
	}
	return []float64{1}
}

// At returns the position of a value.
func (s Scale) At(v float64) float64 {
	if s.log {
		v = math.Log10(math.Max(v, math.SmallestNonzeroFloat64))
		if s.marks == nil {
			v = math.Max(v, s.from)
		}
	}
	if s.to == s.from {
		return s.a
	}
	return s.a + (v-s.from)/(s.to-s.from)*(s.b-s.a)
}

// Within returns the position of a value, at the nearer end of the scale for one outside.
func (s Scale) Within(v float64) float64 {
	return math.Min(math.Max(s.At(v), math.Min(s.a, s.b)), math.Max(s.a, s.b))
}

// Least returns the smallest value on a logarithmic scale.
func (s Scale) Least() float64 { return math.Pow(10, s.from) }

// Ticks returns round values on the scale: powers of ten of a logarithmic one, up to six steps of a linear one.
func (s Scale) Ticks() []float64 {
	if s.marks != nil {
		return s.marks
	}
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
