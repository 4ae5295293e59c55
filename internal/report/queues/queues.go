// Package queues renders a queue path: which queue of which device packets take, and its faults.
package queues

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"mpps/internal/advise/queuepath"
	"mpps/internal/model/setting"
	"mpps/internal/report"
	"mpps/internal/words"
)

// Text draws which queue of which device packets take: what is wrong first, then the lanes from left to right, then a
// matrix for each hop.
func Text(t *report.Text, p *queuepath.Path) {
	t.Wrap("", t.In(report.Bold, headline(p)))
	t.Line("%s", t.In(report.Faint, watchedText(p)))
	for i := range p.Faults {
		drawFault(t, i+1, &p.Faults[i])
	}
	for _, w := range ways {
		drawLanes(t, p, w.way, w.title)
	}
	drawMatrices(t, p)
}

// ways are the ways in the order and with the titles in which they are shown.
var ways = []struct {
	way   queuepath.Way
	title string
}{
	{queuepath.Out, "from guests to the wire"}, {queuepath.In, "from the wire to guests"},
	{queuepath.Between, "from guest to guest"}, {queuepath.Through, "from device to device"},
	{queuepath.Own, "the host's own"},
}

// headline returns the answer in a sentence.
func headline(p *queuepath.Path) string {
	causes := slices.DeleteFunc(slices.Clone(p.Faults), func(f queuepath.Fault) bool { return f.Follows != "" })
	pps, _ := total(p.Lanes)
	switch {
	case len(p.Lanes) == 0:
		return "no packet was seen"
	case !p.Joined():
		return "whether the way is right cannot be determined: only each queue's counter can be read"
	case len(causes) == 0:
		return fmt.Sprintf("No problems found: %spps over %s.", words.SI(pps, 3),
			words.Count(len(p.Lanes), "queue path"))
	}
	more := words.If(len(causes) > 1, " first, and %s", words.Count(len(causes)-1, "more fault"))
	return fmt.Sprintf("%s%s: %s of %s packets per second on %s", causes[0].Name(), more, words.Share(causes[0].Share),
		words.SI(pps, 3), words.Count(len(p.Lanes), "lane"))
}

func watchedText(p *queuepath.Path) string {
	if p.EveryPacket {
		return fmt.Sprintf("every packet of %.1f s", p.Watched)
	}
	return fmt.Sprintf("every packet of windows of %.2f s together, within %.1f s", p.Watched, p.Seconds)
}

// total adds up what lanes carry.
func total(lanes []queuepath.Lane) (pps, share float64) {
	for i := range lanes {
		pps, share = pps+lanes[i].PPS, share+lanes[i].Share
	}
	return pps, share
}

// drawFault says what is wrong, why, and how to mend it. What follows from another fault is named in two lines.
func drawFault(t *report.Text, n int, f *queuepath.Fault) {
	t.Blank()
	sgr := words.Either(f.Severity.String() == "high", report.RedBold, report.Yellow)
	title := fmt.Sprintf("%d %s", n, t.In(sgr, f.Name()))
	if f.Follows != "" {
		t.Wrap("  ", fmt.Sprintf("%s · %s of the packets · follows from %s", title, words.Share(f.Share), f.Follows))
		t.Wrap("      seen  ", f.Evidence)
		return
	}
	t.Wrap("", fmt.Sprintf("%s · %s · %s of the packets", title, f.Severity, words.Share(f.Share)))
	t.Wrap("    seen  ", f.Evidence)
	t.Wrap("    why   ", f.Cause)
	how := words.Join("; ", f.Mend.Command, words.If(f.Mend.Knob != "", "mpps explain %s", f.Mend.Knob))
	t.Wrap("    mend  ", f.Mend.Text+words.If(how != "", " (%s)", how))
}

// owner returns the name under which a lane's packets are shown: that of the guest, or of the device where they were
// seen first.
func owner(l *queuepath.Lane) string { return cmp.Or(l.Guest, l.Origin().Device) }

// byNumber compares names so that the numbers in them count: vnet9 comes before vnet10.
func byNumber(a, b string) int {
	for a != "" && b != "" {
		na, nb := leadingDigits(a), leadingDigits(b)
		if na > 0 && nb > 0 {
			da, db := strings.TrimLeft(a[:na], "0"), strings.TrimLeft(b[:nb], "0")
			if c := cmp.Or(cmp.Compare(len(da), len(db)), strings.Compare(da, db)); c != 0 {
				return c
			}
			a, b = a[na:], b[nb:]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

func leadingDigits(s string) int {
	return len(s) - len(strings.TrimLeftFunc(s, func(r rune) bool {
		return r <= unicode.MaxASCII && unicode.IsDigit(r)
	}))
}

// compareQueues returns the order of queues in drawings.
func compareQueues(a, b queuepath.Queue) int {
	return cmp.Or(byNumber(a.Device, b.Device), cmp.Compare(a.Direction, b.Direction), cmp.Compare(a.Queue, b.Queue))
}

// queueName returns a queue as "eth0 3".
func queueName(q queuepath.Queue) string { return q.Device + " " + queueNumbers(q.Queue) }

// queueNumbers returns queues as a list of ranges; ? is a queue that was not recorded.
func queueNumbers(queues ...int) string {
	known := slices.DeleteFunc(slices.Clone(queues), func(q int) bool { return q < 0 })
	return words.Join(",", setting.CPUs(known...).String(), words.If(len(known) < len(queues), "?"))
}

// lanesOf returns the lanes of a way, by their owners and then by their queues from left to right.
func lanesOf(p *queuepath.Path, way queuepath.Way) []queuepath.Lane {
	lanes := slices.DeleteFunc(slices.Clone(p.Lanes), func(l queuepath.Lane) bool { return l.Way != way })
	slices.SortStableFunc(lanes, func(a, b queuepath.Lane) int {
		if way == queuepath.Out || way == queuepath.Between {
			if c := byNumber(owner(&a), owner(&b)); c != 0 {
				return c
			}
		}
		return slices.CompareFunc(a.Stops, b.Stops, func(x, y queuepath.Stop) int {
			return compareQueues(x.Queue, y.Queue)
		})
	})
	return lanes
}

// columnsOf gives each side of a device a column for the drawing of these lanes: right of all that come before it.
func columnsOf(lanes []queuepath.Lane) (of map[queuepath.Side]int, n int) {
	of = map[queuepath.Side]int{}
	for range len(lanes) + 1 { // as often as the longest lane has stops; a circle ends it too
		grown := false
		for i := range lanes {
			at := 0
			for _, s := range lanes[i].Stops {
				c, known := of[s.Side()]
				if !known || c < at {
					of[s.Side()], c, grown = at, at, true
				}
				at = c + 1
				n = max(n, at)
			}
		}
		if !grown || n > 64 {
			break
		}
	}
	return of, n
}

// faultsAt returns the numbers of the faults that a queue is part of.
func faultsAt(p *queuepath.Path) map[queuepath.Queue][]int {
	at := map[queuepath.Queue][]int{}
	for i, f := range p.Faults {
		for _, q := range f.Queues {
			at[q] = append(at[q], i+1)
		}
	}
	return at
}

// cpusText says which CPUs handled lanes, from left to right, each change once, and which thread carries a single lane.
func cpusText(p *queuepath.Path, group []queuepath.Lane) string {
	var cpus [][]int
	thread := 0
	for _, l := range group {
		for i, stop := range l.Stops {
			if i == len(cpus) {
				cpus = append(cpus, nil)
			}
			cpus[i] = append(cpus[i], stop.CPUs...)
			thread = cmp.Or(thread, stop.Thread)
		}
	}
	var parts []string
	for _, set := range cpus {
		if text := setting.CPUs(set...).String(); text != "" && (len(parts) == 0 || parts[len(parts)-1] != text) {
			parts = append(parts, text)
		}
	}
	one := len(parts) == 1 && !strings.ContainsAny(parts[0], ",-")
	text := words.If(len(parts) > 0, "%s %s", words.Either(one, "CPU", "CPUs"), strings.Join(parts, "→"))
	if thread == 0 || len(group) > 1 {
		return text
	}
	at := slices.IndexFunc(p.Vhost, func(v queuepath.Vhost) bool { return v.Thread == thread })
	text += fmt.Sprintf(", %s %d", words.Either(at < 0, "thread", "vhost"), thread)
	if at >= 0 && group[0].Way == queuepath.In { // the CPU that it takes them on to
		text += fmt.Sprintf(" on %d", p.Vhost[at].CPU)
	}
	return text
}

// manyLanes is up to how many lanes of a way are drawn one by one; more are bundled by guest and by the devices they
// pass.
const manyLanes = 36

// strip is a line of the drawing: a lane, or a bundle of lanes.
type strip struct {
	owner      string
	cells      []string // by column; empty if the lane passes the column
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
	t.Wrap("", t.In(report.Bold, title)+fmt.Sprintf(" · %s packets per second, %s of all",
		words.SI(pps, 3), words.Share(share)))
	drawStrips(t, strips, n)
	_, share = total(thin)
	t.LineIf(len(thin) > 0, "  and %s too thin to draw, %s together", words.Count(len(thin), "lane"),
		words.Share(share))
}

// bundles returns groups of lanes that share a line: each alone if there are few.
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

// stripOf returns the line of a lane, or of several that pass the same devices.
func stripOf(p *queuepath.Path, group []queuepath.Lane, columns map[queuepath.Side]int, n int,
	marks map[queuepath.Queue][]int) strip {
	s := strip{owner: owner(&group[0]), cells: make([]string, n), marks: make([]string, n), lanes: len(group),
		where: cpusText(p, group)}
	s.pps, s.share = total(group)
	s.dropped = !slices.ContainsFunc(group, func(l queuepath.Lane) bool { return l.Left })
	for i, stop := range group[0].Stops {
		var queues, faults []int
		for _, l := range group {
			q := l.Stops[i].Queue
			queues, faults = append(queues, q.Queue), append(faults, marks[q]...)
		}
		c := columns[stop.Side()]
		s.cells[c] = stop.Device + " " + queueNumbers(queues...)
		slices.Sort(faults)
		s.marks[c] = strings.Join(words.Each(slices.Compact(faults),
			func(f int) string { return fmt.Sprintf("!%d", f) }), "")
	}
	return s
}

// drawStrips draws the lines; what one has in common with the one above on its left is not repeated but branches off.
func drawStrips(t *report.Text, strips []strip, n int) {
	d := stripDrawing{strips: strips, widths: make([]int, n), gap: 3}
	owners, rates := 0, 0
	for i := range strips {
		s := &strips[i]
		owners, rates = max(owners, report.Visible(s.owner)), max(rates, report.Visible(s.rateText()+s.detailText()))
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
	named := slices.ContainsFunc(strips,
		func(s strip) bool { return !strings.HasPrefix(cmp.Or(s.cells...), s.owner+" ") })
	for i := range strips {
		s := &strips[i]
		line := d.columns(t, i)
		if named {
			name := words.Either(i == 0 || strips[i-1].owner != s.owner, s.owner, "")
			line = report.Pad(report.Cut(name, owners), owners+1) + line
		}
		line += "  " + s.rateText()
		switch {
		case report.Visible(line+s.detailText()) <= t.Width:
			t.Line("%s", strings.TrimRight(line+s.detailText(), " "))
		case report.Visible(line) <= t.Width:
			t.Line("%s", strings.TrimRight(line, " "))
		default: // more devices than fit
			t.Wrap("  ", words.Join(" → ", s.cells...)+": "+s.rateText())
		}
	}
}

// rateText returns the rate and share of a line's packets; detailText returns its number of lanes and its CPUs.
func (s *strip) rateText() string {
	return fmt.Sprintf("%7s %5s", words.SI(s.pps, 3), words.Share(s.share)) + words.If(s.dropped, " ends here")
}

func (s *strip) detailText() string {
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
		style := words.Either(mark != "", report.Red, "")
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

// common returns how many columns from the left two lines have in common; none if there is no other line.
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

// joint returns what is drawn right of a column: the beginning of the line to the next column, or a branch if several
// lines share the columns up to here.
func (d *stripDrawing) joint(i, c int, line string) (joint, rest string) {
	above := d.common(i, i-1) > c
	mine := !above || d.common(i, i-1) == c+1 // it continues on its own line
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
