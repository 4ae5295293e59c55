// Package svg draws figures as inline SVG. Colours and strokes come from the page's style sheet by class, so that one
// drawing serves light, dark and print.
package svg

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
)

// Width is the width of most drawings: about that of a phone, so that text stays readable there.
const Width = 360

// Colours is how many classes of colour there are, s0 to s6, and of dashes where lines cross.
const Colours = 7

// Drawing collects elements in three layers: the grid below, then bands, then marks.
type Drawing struct {
	Width, Y    float64 // Y is where the next row begins
	Left, Right float64 // ends of the horizontal axis
	Fixed       bool    // it keeps its width on the page

	grid, bands, marks strings.Builder
}

// New returns a drawing of the usual width with margins beside its horizontal axis.
func New(left, right float64) *Drawing {
	return &Drawing{Width: Width, Left: left, Right: Width - right}
}

// HTML returns the finished drawing, with a label for screen readers.
func (d *Drawing) HTML(label string) template.HTML {
	style := ""
	if d.Fixed {
		style = fmt.Sprintf(`style="width:%spx;max-width:none" `, px(d.Width))
	}
	return template.HTML(fmt.Sprintf(`<svg %sviewBox="0 0 %s %s" role="img" aria-label="%s">`, style, px(d.Width),
		px(d.Y), template.HTMLEscapeString(label)) + d.grid.String() + d.bands.String() + d.marks.String() + "</svg>")
}

func px(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

// element writes an element with its attributes, in pairs of a name and a value, and its content.
func element(b *strings.Builder, name, class, content string, attributes ...any) {
	fmt.Fprintf(b, `<%s class="%s"`, name, class)
	for i := 0; i < len(attributes); i += 2 {
		value := attributes[i+1]
		if v, is := value.(float64); is {
			value = px(v)
		}
		fmt.Fprintf(b, ` %s="%s"`, attributes[i], value)
	}
	if content == "" {
		b.WriteString("/>")
		return
	}
	fmt.Fprintf(b, ">%s</%s>", content, name)
}

// titleElement returns the element that shows a tooltip.
func titleElement(title string) string {
	if title == "" {
		return ""
	}
	return "<title>" + template.HTMLEscapeString(title) + "</title>"
}

// Line draws a line.
func (d *Drawing) Line(class string, x1, y1, x2, y2 float64) { line(&d.marks, class, x1, y1, x2, y2) }

func line(b *strings.Builder, class string, x1, y1, x2, y2 float64) {
	element(b, "line", class, "", "x1", x1, "y1", y1, "x2", x2, "y2", y2)
}

// Rect draws a rectangle of at least half a pixel.
func (d *Drawing) Rect(class string, x, y, w, h float64, title string) {
	element(&d.marks, "rect", class, titleElement(title), "x", x, "y", y, "width", math.Max(w, 0.5), "height", h, "rx",
		"2")
}

// Cell draws a cell of a matrix, the darker the larger its share, 0–1; empty for none.
func (d *Drawing) Cell(share, x, y, w, h float64, title string) {
	w = math.Max(w, 0.3)
	element(&d.marks, "rect", "idle", "", "x", x, "y", y, "width", w, "height", h)
	if share > 0 || title != "" {
		opacity := strconv.FormatFloat(min(max(share, 0), 1), 'f', 2, 64)
		element(&d.marks, "rect", "heat", titleElement(title), "fill-opacity", opacity, "x", x, "y", y, "width", w,
			"height", h)
	}
}

// Dot draws a circle.
func (d *Drawing) Dot(class string, x, y, r float64, title string) {
	element(&d.marks, "circle", class, titleElement(title), "cx", x, "cy", y, "r", r)
}

// Path draws a line through points.
func (d *Drawing) Path(class string, points [][2]float64) {
	var b strings.Builder
	letter := "M"
	for _, p := range points {
		b.WriteString(letter + px(p[0]) + " " + px(p[1]))
		letter = "L"
	}
	if b.Len() > 0 {
		element(&d.marks, "path", class, "", "d", b.String())
	}
}

// Text writes a label, if there is one; anchor is start, middle or end.
func (d *Drawing) Text(class, anchor string, x, y float64, text string) {
	if text == "" {
		return
	}
	element(&d.marks, "text", class, template.HTMLEscapeString(text), "text-anchor", anchor, "x", x, "y", y)
}

// Group puts what draw draws into a group with a title.
func (d *Drawing) Group(class, title string, draw func()) {
	fmt.Fprintf(&d.marks, `<g class="%s">%s`, class, titleElement(title))
	draw()
	d.marks.WriteString("</g>")
}

// Ribbon draws a band of some thickness; the points are its upper corners.
func (d *Drawing) Ribbon(class string, x1, y1, x2, y2, thickness float64) {
	w, mid := math.Max(thickness, 0.6), px((x1+x2)/2)
	there := strings.Join([]string{mid, px(y1), mid, px(y2), px(x2), px(y2)}, " ")
	back := strings.Join([]string{mid, px(y2 + w), mid, px(y1 + w), px(x1), px(y1 + w)}, " ")
	element(&d.marks, "path", class, "", "d", "M"+px(x1)+" "+px(y1)+"C"+there+"V"+px(y2+w)+"C"+back+"Z")
}
