package report

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/queuepath"
)

// manyLines is up to how many lines a matrix has on a terminal before each device's queues are put together.
const manyLines = 24

// drawMatrices draws the matrices: in percent of what leads there, or in shades where there are more queues than fit.
func drawMatrices(t *Text, p *queuepath.Path) {
	for _, g := range gridsOfPath(p) {
		if len(g.from) > manyLines {
			g.byDevice()
		}
		t.Blank()
		t.Wrapped("", t.In(Bold, map[bool]string{true: "end to end into ", false: "into "}[g.whole]+g.title())+fmt.Sprintf(" · %s packets, in percent", grouped(g.sum)))
		margin, cell := 0, 5
		for _, f := range g.from {
			margin = max(margin, visible(f.String()))
		}
		for c := range g.to {
			cell = max(cell, visible(g.column(c))+1)
		}
		if margin+cell*len(g.to) <= t.Width {
			g.numbers(t, margin, cell)
		} else {
			g.shades(t, margin)
		}
	}
}

// title names the device that a grid leads into, or how many.
func (g *grid) title() string {
	side := g.to[0].side
	if g.mixed() {
		n := len(slices.Compact(g.devices()))
		return fmt.Sprintf("%s %s", count(n, "device"), side.Direction)
	}
	return side.Device + " " + string(side.Direction)
}

func (g *grid) devices() []string {
	var names []string
	for _, e := range g.to {
		names = append(names, e.side.Device)
	}
	return names
}

// mixed tells whether a grid's columns are devices.
func (g *grid) mixed() bool { return g.to[0].side != g.to[len(g.to)-1].side }

// column is the head of a column: a queue's number, or a device's name.
func (g *grid) column(c int) string {
	if g.mixed() {
		return g.to[c].side.Device
	}
	return g.to[c].numbers()
}

func (g *grid) numbers(t *Text, margin, cell int) {
	head := strings.Repeat(" ", margin)
	for c := range g.to {
		head += strings.Repeat(" ", cell-visible(g.column(c))) + g.column(c)
	}
	t.Line("%s", t.In(Faint, head))
	for i, f := range g.from {
		line := f.String() + strings.Repeat(" ", margin-visible(f.String()))
		for _, n := range g.cells[i] {
			text := partWords(n, g.sum)
			line += strings.Repeat(" ", cell-visible(text)) + text
		}
		t.Line("%s", line)
	}
}

// partWords is a part in percent, in at most four characters.
func partWords(n, of uint64) string {
	switch part := 100 * float64(n) / float64(of); {
	case n == 0:
		return "·"
	case part < 0.05:
		return "<0.1"
	case part >= 99.95:
		return "100"
	}
	return fmt.Sprintf("%.1f", 100*float64(n)/float64(of))
}

// shades draws a character a column, in lines of as many as fit: the darker the more.
func (g *grid) shades(t *Text, margin int) {
	per := max(8, (t.Width-margin-1)/8*8)
	var most uint64
	for _, line := range g.cells {
		most = max(most, slices.Max(line))
	}
	for first := 0; first < len(g.to); first += per {
		last := min(first+per, len(g.to)) - 1
		head := "queues"
		if g.mixed() {
			head = "devices"
		}
		t.Line("%s", t.In(Faint, fmt.Sprintf("%s %s %s to %s", strings.Repeat(" ", margin), head, g.column(first), g.column(last))))
		for i, f := range g.from {
			line := f.String() + strings.Repeat(" ", margin-visible(f.String())+1)
			for _, n := range g.cells[i][first : last+1] {
				line += shade(n, most)
			}
			t.Line("%s", line)
		}
	}
	t.Line("%s", t.In(Faint, "· none, ░ ▒ ▓ █ up to a quarter, half, three quarters and all of the most"))
}

func shade(n, most uint64) string {
	if n == 0 {
		return "·"
	}
	return string([]rune("░▒▓█")[min(3, int(4*float64(n)/float64(most)))])
}
