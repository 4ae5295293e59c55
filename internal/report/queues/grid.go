package queues

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/advise/queuepath"
	"mpps/internal/report"
	"mpps/internal/words"
)

// grid is the matrix of all that leads into one side of a device, from one device before it or from several.
type grid struct {
	from, to []gridEnd
	cells    [][]uint64 // by from, then by to
	sum      uint64
	whole    bool // of whole ways, not of a hop
}

// gridEnd is a line or a column of a grid: a queue, or queues of a device together.
type gridEnd struct {
	side  queuepath.Side
	queue []int
}

func (e gridEnd) String() string {
	return e.side.Device + " " + string(e.side.Direction) + " " + queueNumbers(e.queue...)
}

func (e gridEnd) first() queuepath.Queue {
	return queuepath.Queue{Device: e.side.Device, Direction: e.side.Direction, Queue: e.queue[0]}
}

// gridsOfPath returns the matrices of each hop, and where lanes pass other devices those from their first queue to
// their last, which say whose packets meet where.
func gridsOfPath(p *queuepath.Path) []grid {
	var rows []queuepath.Row
	for i := range p.Lanes {
		if l := &p.Lanes[i]; l.Left && len(l.Stops) > 2 {
			rows = append(rows, queuepath.Row{Origin: l.Origin(), From: l.Origin(), To: l.Exit(), Packets: l.Packets})
		}
	}
	ends := mergeGrids(gridsOf(queuepath.Hops(&queuepath.Observation{Rows: rows})))
	for i := range ends {
		ends[i].whole = true
	}
	return append(mergeGrids(gridsOf(p.Hops)), ends...)
}

// gridsOf returns the matrices of hops, those that lead into the same side of a device merged.
func gridsOf(hops []queuepath.Hop) []grid {
	var grids []grid
	for _, group := range report.Group(hops, func(h queuepath.Hop) queuepath.Side { return h.To }) {
		var g grid
		var tos []int
		for _, h := range group {
			tos = append(tos, h.ToQueues...)
		}
		slices.Sort(tos)
		tos = slices.Compact(tos)
		for _, to := range tos {
			g.to = append(g.to, gridEnd{group[0].To, []int{to}})
		}
		for _, h := range group {
			for r, from := range h.FromQueues {
				for c, to := range h.ToQueues {
					g.add(gridEnd{h.From, []int{from}}, slices.Index(tos, to), h.Packets[r][c])
				}
			}
			g.sum += h.Sum
		}
		grids = append(grids, g)
	}
	return grids
}

// add adds packets to a cell. Lines are kept in order.
func (g *grid) add(from gridEnd, column int, packets uint64) {
	r, found := slices.BinarySearchFunc(g.from, from, func(a, b gridEnd) int {
		return compareQueues(a.first(), b.first())
	})
	if !found {
		g.from = slices.Insert(g.from, r, from)
		g.cells = slices.Insert(g.cells, r, make([]uint64, len(g.to)))
	}
	g.cells[r][column] += packets
}

// manyDevices is up to how many devices that the same devices lead to have a matrix each; more share one, with a column
// each.
const manyDevices = 4

// mergeGrids puts grids into one if the same devices lead to many: to the taps of many guests.
func mergeGrids(grids []grid) []grid {
	var all []grid
	for _, same := range report.Group(grids, func(g grid) string { return g.sources() }) {
		if len(same) > manyDevices {
			same = []grid{joinGrids(same)}
		}
		all = append(all, same...)
	}
	return all
}

// sources returns the devices that lead into a grid.
func (g *grid) sources() string {
	devices := report.Distinct(g.from, func(e gridEnd) string { return e.side.Device + string(e.side.Direction) })
	return strings.Join(devices, " ")
}

func joinGrids(parts []grid) grid {
	slices.SortFunc(parts, func(a, b grid) int { return compareQueues(a.to[0].first(), b.to[0].first()) })
	var g grid
	for _, p := range parts {
		to := gridEnd{side: p.to[0].side}
		for _, t := range p.to {
			to.queue = append(to.queue, t.queue...)
		}
		g.to, g.sum = append(g.to, to), g.sum+p.sum
	}
	for c, p := range parts {
		for i, f := range p.from {
			for _, n := range p.cells[i] {
				g.add(f, c, n)
			}
		}
	}
	return g
}

// mergeByDevice puts the lines of each device together.
func (g *grid) mergeByDevice() {
	lines := g.cells
	g.cells = nil
	runs := report.Runs(g.from, func(a, b gridEnd) bool { return a.side == b.side })
	g.from = nil
	for _, run := range runs {
		device, sums := gridEnd{side: run[0].side}, make([]uint64, len(g.to))
		for i, f := range run {
			device.queue = append(device.queue, f.queue...)
			for c, n := range lines[i] {
				sums[c] += n
			}
		}
		lines = lines[len(run):]
		g.from, g.cells = append(g.from, device), append(g.cells, sums)
	}
}

// title names the device that a grid leads into, or how many.
func (g *grid) title() string {
	side := g.to[0].side
	if g.mixed() {
		n := len(report.Distinct(g.to, func(e gridEnd) string { return e.side.Device }))
		return fmt.Sprintf("%s %s", words.Count(n, "device"), side.Direction)
	}
	return side.Device + " " + string(side.Direction)
}

// source names the device that leads into a grid, or how many do.
func (g *grid) source() string {
	if n := len(report.Distinct(g.from, func(e gridEnd) string { return e.side.Device })); n > 1 {
		return words.Count(n, "device")
	}
	return g.from[0].side.Device + " " + string(g.from[0].side.Direction)
}

// mixed reports whether a grid's columns are devices.
func (g *grid) mixed() bool { return g.to[0].side != g.to[len(g.to)-1].side }

// column returns the head of a column: a queue's number, or a device's name.
func (g *grid) column(c int) string {
	if g.mixed() {
		return g.to[c].side.Device
	}
	return queueNumbers(g.to[c].queue...)
}

// most returns the largest cell.
func (g *grid) most() uint64 {
	most := uint64(0)
	for _, line := range g.cells {
		most = max(most, slices.Max(line))
	}
	return most
}

// drawMatrices draws the matrices: in percent of what leads there, or in shades if there are more queues than fit.
func drawMatrices(t *report.Text, p *queuepath.Path) {
	const manyLines = 24 // more are merged by device
	for _, g := range gridsOfPath(p) {
		if len(g.from) > manyLines {
			g.mergeByDevice()
		}
		t.Blank()
		t.Wrap("", t.In(report.Bold, words.If(g.whole, "end to end ")+"into "+g.title())+
			fmt.Sprintf(" · %s packets, in percent", words.Grouped(g.sum)))
		margin, cell := 0, 5
		for _, f := range g.from {
			margin = max(margin, report.Visible(f.String()))
		}
		for c := range g.to {
			cell = max(cell, report.Visible(g.column(c))+1)
		}
		if margin+cell*len(g.to) > t.Width {
			g.drawShades(t, margin)
			continue
		}
		g.drawNumbers(t, margin, cell)
	}
}

func (g *grid) drawNumbers(t *report.Text, margin, cell int) {
	head := report.Pad("", margin)
	for c := range g.to {
		head += report.Pad(g.column(c), -cell)
	}
	t.Line("%s", t.In(report.Faint, head))
	for i, f := range g.from {
		line := report.Pad(f.String(), margin)
		for _, n := range g.cells[i] {
			line += report.Pad(percentText(n, g.sum), -cell)
		}
		t.Line("%s", line)
	}
}

// percentText returns a part in percent, in at most four characters.
func percentText(n, of uint64) string {
	percent := 100 * float64(n) / float64(of)
	switch {
	case n == 0:
		return "·"
	case percent < 0.05:
		return "<0.1"
	case percent >= 99.95:
		return "100"
	}
	return fmt.Sprintf("%.1f", percent)
}

// drawShades draws a character for each column, in lines of as many as fit: the darker the more.
func (g *grid) drawShades(t *report.Text, margin int) {
	per := max(8, (t.Width-margin-1)/8*8)
	head, most := words.Either(g.mixed(), "devices", "queues"), g.most()
	for first := 0; first < len(g.to); first += per {
		end := min(first+per, len(g.to))
		columns := fmt.Sprintf("%s %s to %s", head, g.column(first), g.column(end-1))
		t.Line("%s", t.In(report.Faint, report.Pad("", margin)+" "+columns))
		for i, f := range g.from {
			line := report.Pad(f.String(), margin+1)
			for _, n := range g.cells[i][first:end] {
				line += shade(n, most)
			}
			t.Line("%s", line)
		}
	}
	t.Line("%s", t.In(report.Faint, "· none, ░ ▒ ▓ █ up to a quarter, half, three quarters and all of the most"))
}

func shade(n, most uint64) string {
	if n == 0 {
		return "·"
	}
	return string([]rune("░▒▓█")[min(3, int(4*float64(n)/float64(most)))])
}
