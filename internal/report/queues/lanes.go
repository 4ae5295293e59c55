package queues

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/queuepath"
	"mpps/internal/report"
	"mpps/internal/report/words"
)

// manyLanes is up to how many lanes of a way are drawn one by one; more are bundled by guest and by the devices they pass.
const manyLanes = 36

// strip is a line of the drawing: a lane, or a bundle of lanes.
type strip struct {
	owner      string
	cells      []string // by column; empty where the lane passes the column
	marks      []string // of faults, by column
	pps, share float64
	lanes      int
	where      string // CPUs and thread
	dropped    bool
}

// drawLanes draws the lanes of a way from left to right: which queue leads to which, the wider the more packets.
func drawLanes(t *report.Text, p *queuepath.Path, way queuepath.Way, title string) {
	lanes := lanesOf(p, way)
	if len(lanes) == 0 {
		return
	}
	columns, n := columnsOf(lanes)
	marks := faultsAt(p)
	var strips []strip
	var thin []queuepath.Lane
	for _, group := range bundles(lanes) {
		s := stripOf(p, group, columns, n, marks)
		if s.share < 0.005 && len(lanes) > 12 || s.share < 0.0005 && len(lanes) > 1 {
			thin = append(thin, group...)
			continue
		}
		strips = append(strips, s)
	}
	pps, share := total(lanes)
	t.Blank()
	t.Wrapped("", t.In(report.Bold, title)+fmt.Sprintf(" · %s packets per second, %s of all", words.SI(pps, 3), words.Share(share)))
	drawStrips(t, strips, n)
	if _, share := total(thin); len(thin) > 0 {
		t.Line("  and %s too thin to draw, %s together", words.Count(len(thin), "lane"), words.Share(share))
	}
}

// bundles are groups of lanes that share a line: each alone where there are few.
func bundles(lanes []queuepath.Lane) [][]queuepath.Lane {
	if len(lanes) <= manyLanes {
		return slices.Collect(slices.Chunk(lanes, 1))
	}
	return report.Group(lanes, func(l queuepath.Lane) string {
		key := owner(&l)
		for _, s := range l.Stops {
			key += "\x00" + s.Device + string(s.Direction)
		}
		return key
	})
}

// stripOf is the line of a lane, or of several that pass the same devices.
func stripOf(p *queuepath.Path, group []queuepath.Lane, columns map[queuepath.Side]int, n int, marks map[queuepath.Queue][]int) strip {
	s := strip{owner: owner(&group[0]), cells: make([]string, n), marks: make([]string, n), lanes: len(group), where: where(p, group)}
	s.pps, s.share = total(group)
	s.dropped = !slices.ContainsFunc(group, func(l queuepath.Lane) bool { return l.Left })
	for i, stop := range group[0].Stops {
		var queues, faults []int
		for _, l := range group {
			q := l.Stops[i].Queue
			queues, faults = append(queues, q.Queue), append(faults, marks[q]...)
		}
		c := columns[stop.Side()]
		s.cells[c] = stop.Device + " " + numbers(queues...)
		slices.Sort(faults)
		for _, f := range slices.Compact(faults) {
			s.marks[c] += fmt.Sprintf("!%d", f)
		}
	}
	return s
}

// drawStrips draws the lines; what one has in common with the one above on its left is not repeated but branches off.
func drawStrips(t *report.Text, strips []strip, n int) {
	d := stripDrawing{strips: strips, widths: make([]int, n), gap: 3}
	owners, rates := 0, 0
	for i := range strips {
		s := &strips[i]
		owners, rates = max(owners, report.Visible(s.owner)), max(rates, report.Visible(s.rate()+s.rest()))
		d.widest = max(d.widest, s.pps)
		for c := range n {
			d.widths[c] = max(d.widths[c], report.Visible(s.cells[c])+report.Visible(s.marks[c]))
		}
	}
	owners = min(owners, 16)
	room := t.Width - owners - 2 - rates
	for _, w := range d.widths {
		room -= w + 2
	}
	if n > 1 {
		d.gap = min(max(room/(n-1), 2), 16)
	}
	// What the first column shows already is not said twice.
	named := slices.ContainsFunc(strips, func(s strip) bool { return !strings.HasPrefix(cmp.Or(s.cells...), s.owner+" ") })
	for i := range strips {
		s := &strips[i]
		line := d.columns(t, i)
		if named {
			name := s.owner
			if i > 0 && strips[i-1].owner == name {
				name = ""
			}
			line = report.Padded(report.Cut(name, owners), owners+1) + line
		}
		line += "  " + s.rate()
		switch {
		case report.Visible(line+s.rest()) <= t.Width:
			t.Line("%s", strings.TrimRight(line+s.rest(), " "))
		case report.Visible(line) <= t.Width:
			t.Line("%s", strings.TrimRight(line, " "))
		default: // more devices than fit
			t.Wrapped("  ", words.Join(" → ", s.cells...)+": "+s.rate())
		}
	}
}

// rate is what a line says of its packets, and rest what else there is to say.
func (s *strip) rate() string {
	return fmt.Sprintf("%7s %5s", words.SI(s.pps, 3), words.Share(s.share)) + words.If(s.dropped, " ends here")
}

func (s *strip) rest() string {
	return words.If(s.lanes > 1, " %s", words.Count(s.lanes, "lane")) + words.If(s.where != "", "  %s", s.where)
}

// stripDrawing is lines with what they have in common.
type stripDrawing struct {
	strips []strip
	widths []int // of the columns
	gap    int   // between them
	widest float64
}

// columns draws the columns of a line and what connects them.
func (d *stripDrawing) columns(t *report.Text, i int) string {
	s := &d.strips[i]
	line := "─"
	switch {
	case s.pps >= d.widest/3:
		line = "━"
	case s.pps < d.widest/20:
		line = "╌"
	}
	last := len(d.widths) - 1
	for last > 0 && s.cells[last] == "" {
		last--
	}
	text, begun := "", false
	for c, width := range d.widths {
		cell, mark, fill := s.cells[c], s.marks[c], " "
		switch {
		case d.common(i, i-1) > c: // shown above
			cell, mark = "", ""
		case cell == "" && begun && c < last: // it passes
			fill = line
		case cell != "":
			begun = true
		}
		style := report.Style("")
		if mark != "" {
			style = report.Red
		}
		pad := width - report.Visible(cell) - report.Visible(mark)
		text += t.In(style, cell+mark)
		if c < last && begun && cell != "" {
			text += " " + t.In(report.Faint, strings.Repeat(line, pad))
		} else {
			text += strings.Repeat(fill, pad+1)
		}
		if c < len(d.widths)-1 {
			joint, rest := d.joint(i, c, line)
			switch {
			case c == last && joint == "┳": // it ends here, others go on
				joint, rest = "┓", " "
			case c >= last:
				joint, rest = " ", " "
			}
			text += t.In(report.Faint, joint+strings.Repeat(rest, d.gap-1)) + " "
		}
	}
	return text
}

// common is how many columns from the left two lines have in common; none where there is no other line.
func (d *stripDrawing) common(i, other int) int {
	if other < 0 || other >= len(d.strips) || d.strips[i].owner != d.strips[other].owner {
		return 0
	}
	n, a, b := 0, d.strips[i].cells, d.strips[other].cells
	for n < len(a) && a[n] == b[n] {
		n++
	}
	return n
}

// joint is what stands right of a column: the beginning of the line to the next, where several lines have the columns up
// to here in common a branch.
func (d *stripDrawing) joint(i, c int, line string) (joint, rest string) {
	above := d.common(i, i-1) > c
	mine := !above || d.common(i, i-1) == c+1 // it goes on from here by a line of its own
	below := false
	for k := i + 1; d.common(i, k) > c && !below; k++ {
		below = d.common(i, k) == c+1
	}
	switch {
	case !mine && below:
		return "┃", " "
	case !mine:
		return " ", " "
	case above && below:
		return "┣", line
	case above:
		return "┗", line
	case below:
		return "┳", line
	}
	return line, line
}
