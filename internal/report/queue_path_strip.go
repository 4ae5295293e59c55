package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// drawStrips draws the lines; what one has in common with the one above on its left is not repeated but branches off.
func drawStrips(t *Text, strips []strip, n int) {
	widths := make([]int, n)
	who, rates := 0, 0
	for i := range strips {
		s := &strips[i]
		who, rates = max(who, visible(s.who)), max(rates, visible(s.right(t)))
		for c := range n {
			widths[c] = max(widths[c], visible(s.cells[c])+visible(s.marks[c]))
		}
	}
	who = min(who, 16)
	room := t.Width - who - 2 - rates
	for _, w := range widths {
		room -= w + 2
	}
	gap := 3
	if n > 1 {
		gap = min(max(room/(n-1), 2), 16)
	}
	// What the first column shows already is not said twice.
	alone := slices.ContainsFunc(strips, func(s strip) bool { return !strings.HasPrefix(cmp.Or(s.cells...), s.who+" ") })
	var widest float64
	for i := range strips {
		widest = max(widest, strips[i].pps)
	}
	for i := range strips {
		var b strings.Builder
		if alone {
			name := strips[i].who
			if i > 0 && strips[i-1].who == name {
				name = ""
			}
			name = cut(name, who)
			b.WriteString(name + strings.Repeat(" ", who-visible(name)+1))
		}
		strips[i].draw(t, &b, strips, i, widths, gap, widest)
		line := b.String() + "  " + strips[i].right(t)
		if visible(line) > t.Width {
			line = b.String() + "  " + strips[i].rate()
		}
		if visible(line) > t.Width { // more devices than fit
			t.Wrapped("  ", strings.Join(slices.DeleteFunc(slices.Clone(strips[i].cells), func(c string) bool { return c == "" }), " → ")+": "+strips[i].rate())
			continue
		}
		t.Line("%s", strings.TrimRight(line, " "))
	}
}

// rate is what a line says of its packets.
func (s *strip) rate() string {
	text := fmt.Sprintf("%7s %5s", siDigits(s.pps, 3), queuePathShare(s.share))
	if s.dropped {
		text += " ends here"
	}
	return text
}

func (s *strip) right(t *Text) string {
	text := s.rate()
	if s.lanes > 1 {
		text += " " + count(s.lanes, "lane")
	}
	if s.where != "" {
		text += "  " + s.where
	}
	return text
}

// draw draws the columns of a line and what connects them.
func (s *strip) draw(t *Text, b *strings.Builder, all []strip, i int, widths []int, gap int, widest float64) {
	line := "─"
	switch {
	case s.pps >= widest/3:
		line = "━"
	case s.pps < widest/20:
		line = "╌"
	}
	last := len(widths) - 1
	for last > 0 && s.cells[last] == "" {
		last--
	}
	begun := false
	for c := range widths {
		cell, mark := s.cells[c], s.marks[c]
		fill := " "
		switch {
		case i > 0 && s.common(&all[i-1]) > c: // shown above
			cell, mark = "", ""
		case cell == "" && begun && c < last: // it passes
			fill = line
		case cell != "":
			begun = true
		}
		pad := widths[c] - visible(cell) - visible(mark)
		b.WriteString(t.In(cellStyle(mark), cell+mark))
		if c < last && begun && cell != "" {
			b.WriteString(" " + t.In(Faint, strings.Repeat(line, pad)))
		} else {
			b.WriteString(fill + strings.Repeat(fill, pad))
		}
		if c == len(widths)-1 {
			break
		}
		joint, rest := s.joint(all, i, c, line)
		switch {
		case c == last && joint == "┳": // it ends here, others go on
			joint, rest = "┓", " "
		case c >= last:
			joint, rest = " ", " "
		}
		b.WriteString(t.In(Faint, joint+strings.Repeat(rest, gap-1)) + " ")
	}
}

func cellStyle(mark string) Style {
	if mark != "" {
		return Red
	}
	return ""
}

// common is how many columns from the left two lines have in common.
func (s *strip) common(o *strip) int {
	if s.who != o.who {
		return 0
	}
	n := 0
	for n < len(s.cells) && s.cells[n] == o.cells[n] {
		n++
	}
	return n
}

// joint is what stands right of a column: the beginning of the line to the next, where several lines have the columns up to here in
// common a branch.
func (s *strip) joint(all []strip, i, c int, line string) (joint, rest string) {
	above := i > 0 && s.common(&all[i-1]) > c
	mine := !above || s.common(&all[i-1]) == c+1 // it goes on from here by a line of its own
	below := false
	for k := i + 1; k < len(all) && s.common(&all[k]) > c; k++ {
		if s.common(&all[k]) == c+1 {
			below = true
			break
		}
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
