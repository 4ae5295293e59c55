package report

import (
	"slices"
	"strings"

	"mpps/internal/queuepath"
)

// gridsOfPath are the matrices of each hop, and where lanes pass other devices those from their first queue to their last, which say whose
// packets meet where.
func gridsOfPath(p *queuepath.Path) []grid {
	ends := together(gridsOf(ends(p)))
	for i := range ends {
		ends[i].whole = true
	}
	return append(together(gridsOf(p.Hops)), ends...)
}

// ends are matrices from the first to the last queue of the lanes that have others in between.
func ends(p *queuepath.Path) []queuepath.Hop {
	var rows []queuepath.Row
	for i := range p.Lanes {
		if l := &p.Lanes[i]; l.Left && len(l.Stops) > 2 {
			rows = append(rows, queuepath.Row{Origin: l.Origin(), From: l.Origin(), To: l.Exit(), Packets: l.Packets})
		}
	}
	return queuepath.Hops(&queuepath.Observation{Rows: rows})
}

// grid is the matrix of all that leads into one side of a device, from one device before it or from several.
type grid struct {
	from, to []end
	cells    [][]uint64 // by from, then by to
	sum      uint64
	whole    bool // of whole ways, not of a hop
}

// end is a line or a column of a grid: a queue, or queues of a device together.
type end struct {
	side  queuepath.Side
	queue []int
}

func (e end) numbers() string {
	return queueNumbers(slices.DeleteFunc(slices.Clone(e.queue), func(q int) bool { return q < 0 }), slices.Contains(e.queue, -1))
}

func (e end) String() string {
	return e.side.Device + " " + string(e.side.Direction) + " " + e.numbers()
}

func (e end) first() queuepath.Queue {
	return queuepath.Queue{Device: e.side.Device, Direction: e.side.Direction, Queue: e.queue[0]}
}

// gridsOf are the matrices of a path, those that lead into the same side of a device put together.
func gridsOf(hops []queuepath.Hop) []grid {
	var sides []queuepath.Side
	for _, h := range hops {
		if !slices.Contains(sides, h.To) {
			sides = append(sides, h.To)
		}
	}
	var grids []grid
	for _, side := range sides {
		grids = append(grids, gridInto(hops, side))
	}
	return grids
}

func gridInto(hops []queuepath.Hop, side queuepath.Side) grid {
	var g grid
	var tos []int
	for _, h := range hops {
		if h.To == side {
			tos = append(tos, h.ToQueues...)
		}
	}
	tos = slices.Compact(sorted(tos))
	for _, to := range tos {
		g.to = append(g.to, end{side, []int{to}})
	}
	for _, h := range hops {
		if h.To != side {
			continue
		}
		for r, from := range h.FromQueues {
			line := make([]uint64, len(tos))
			for c, to := range h.ToQueues {
				line[slices.Index(tos, to)] = h.Packets[r][c]
			}
			g.from, g.cells = append(g.from, end{h.From, []int{from}}), append(g.cells, line)
		}
		g.sum += h.Sum
	}
	g.sort()
	return g
}

// manyDevices is up to how many devices that the same devices lead to have a matrix each; more share one, with a column each.
const manyDevices = 4

// together puts grids into one where the same devices lead to many: to the taps of many guests.
func together(grids []grid) []grid {
	by := map[string][]int{}
	for i := range grids {
		by[grids[i].sources()] = append(by[grids[i].sources()], i)
	}
	var all []grid
	for i := range grids {
		same := by[grids[i].sources()]
		switch {
		case len(same) <= manyDevices:
			all = append(all, grids[i])
		case same[0] == i:
			var parts []grid
			for _, k := range same {
				parts = append(parts, grids[k])
			}
			all = append(all, sideBySide(parts))
		}
	}
	return all
}

// sources are the devices that lead into a grid.
func (g *grid) sources() string {
	var names []string
	for _, f := range g.from {
		names = append(names, f.side.Device+string(f.side.Direction))
	}
	return strings.Join(slices.Compact(names), " ")
}

func sideBySide(parts []grid) grid {
	slices.SortFunc(parts, func(a, b grid) int { return queueOrder(a.to[0].first(), b.to[0].first()) })
	var g grid
	for c, p := range parts {
		to := end{side: p.to[0].side}
		for _, t := range p.to {
			to.queue = append(to.queue, t.queue...)
		}
		g.to, g.sum = append(g.to, to), g.sum+p.sum
		for i, f := range p.from {
			at := slices.IndexFunc(g.from, func(e end) bool { return e.side == f.side && e.queue[0] == f.queue[0] })
			if at < 0 {
				at = len(g.from)
				g.from, g.cells = append(g.from, f), append(g.cells, make([]uint64, len(parts)))
			}
			for _, n := range p.cells[i] {
				g.cells[at][c] += n
			}
		}
	}
	g.sort()
	return g
}

func (g *grid) sort() {
	order := make([]int, len(g.from))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return queueOrder(g.from[a].first(), g.from[b].first()) })
	from, cells := g.from, g.cells
	g.from, g.cells = nil, nil
	for _, i := range order {
		g.from, g.cells = append(g.from, from[i]), append(g.cells, cells[i])
	}
}

// byDevice puts the lines of each device together.
func (g *grid) byDevice() {
	var from []end
	var cells [][]uint64
	for i, f := range g.from {
		n := len(from)
		if n == 0 || from[n-1].side != f.side {
			from, cells = append(from, end{side: f.side}), append(cells, make([]uint64, len(g.to)))
			n++
		}
		from[n-1].queue = append(from[n-1].queue, f.queue...)
		for c, v := range g.cells[i] {
			cells[n-1][c] += v
		}
	}
	g.from, g.cells = from, cells
}

func known(queue int) []int {
	if queue < 0 {
		return nil
	}
	return []int{queue}
}
