package queues

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

	"mpps/internal/advise/queuepath"
	"mpps/internal/report"
	"mpps/internal/report/svg"
	"mpps/internal/words"
)

// The drawing of lanes: a column for each device, a box for each queue, and bands between them whose width is packets.

// manyBands is the largest number of lanes that are drawn as a band each, which lights up as a whole; more are merged
// by guest and pair of queues.
const manyBands = 900

// flowNode is a queue in the drawing.
type flowNode struct {
	queue   queuepath.Queue
	column  int
	packets float64
	y, h    float64
	bands   [2][]*flowBand // that leave it, and that enter it
}

// flowBand is what goes from one queue to the next, of a lane or of a guest.
type flowBand struct {
	lane    int          // in the drawing
	ends    [2]*flowNode // from and to
	y       [2]float64   // of its upper edge there
	packets float64
}

// flowLane is what is drawn, and lights up, as one.
type flowLane struct {
	title, class string
	bands        []*flowBand
}

// flow is a way of a path, laid out.
type flow struct {
	path               *queuepath.Path
	columns            [][]*flowNode
	lanes              []*flowLane
	marks              map[queuepath.Queue][]int
	scale              float64 // height of a packet
	height             float64
	narrow             bool
	width, left, right float64 // of the drawing, and its margins
}

// The sizes of the drawing, in units that are pixels where the page is as wide as the drawing.
const (
	flowBox  = 11.0 // width of a queue's box
	flowTop  = 4.0  // above the columns
	flowHead = 17.0 // above each device's queues: its name
	flowIdle = 16.0 // below them: how many are idle
)

// flowOf lays out the lanes of a way; nil if there are none.
func flowOf(p *queuepath.Path, way queuepath.Way, narrow bool) *flow {
	lanes := lanesOf(p, way)
	if len(lanes) == 0 {
		return nil
	}
	f := &flow{path: p, marks: faultsAt(p), width: 1096, left: 34, right: 70}
	if narrow {
		f.narrow, f.width, f.left, f.right = true, 336, 24, 44
	}
	f.connect(lanes)
	f.sortColumns(lanes, way == queuepath.In) // guests are kept in order, on whichever side they are
	f.layOut()
	return f
}

// connect makes boxes and bands of lanes.
func (f *flow) connect(lanes []queuepath.Lane) {
	columns, n := columnsOf(lanes)
	f.columns = make([][]*flowNode, n)
	nodes := map[queuepath.Queue]*flowNode{}
	node := func(q queuepath.Queue) *flowNode {
		if nodes[q] == nil {
			c := columns[q.Side()]
			nodes[q] = &flowNode{queue: q, column: c}
			f.columns[c] = append(f.columns[c], nodes[q])
		}
		return nodes[q]
	}
	owners := report.Distinct(f.path.Lanes, func(l queuepath.Lane) string { return owner(&l) })
	slices.SortFunc(owners, byNumber)
	drawn := map[string]*flowLane{}
	for i := range lanes {
		l := &lanes[i]
		who, key, title := owner(l), fmt.Sprint(i), laneTitle(f.path, l)
		for k, s := range l.Stops {
			to := node(s.Queue)
			to.packets += float64(l.Packets)
			if k == 0 {
				continue
			}
			from := node(l.Stops[k-1].Queue)
			if len(lanes) > manyBands {
				title = fmt.Sprintf("%s: %s → %s", who, queueName(from.queue), queueName(to.queue))
				key = title + string(from.queue.Direction+to.queue.Direction)
			}
			if drawn[key] == nil {
				drawn[key] = &flowLane{title: title, class: fmt.Sprintf("s%d", slices.Index(owners, who)%svg.Colours)}
				f.lanes = append(f.lanes, drawn[key])
			}
			lane := drawn[key]
			if len(lanes) > manyBands && len(lane.bands) > 0 {
				lane.bands[0].packets += float64(l.Packets)
				continue
			}
			b := &flowBand{lane: len(f.lanes) - 1, ends: [2]*flowNode{from, to}, packets: float64(l.Packets)}
			from.bands[0], to.bands[1] = append(from.bands[0], b), append(to.bands[1], b)
			lane.bands = append(lane.bands, b)
		}
	}
}

// sortColumns sorts the boxes of each column; devices stay together. The guests' column is sorted by name and number;
// the others follow the position of their packets in it, if that reduces crossings.
func (f *flow) sortColumns(lanes []queuepath.Lane, last bool) {
	place := map[queuepath.Queue]float64{}
	var before [][]*flowNode
	for _, c := range f.columns {
		slices.SortFunc(c, func(a, b *flowNode) int { return compareQueues(a.queue, b.queue) })
		before = append(before, slices.Clone(c))
		for i, n := range c {
			place[n.queue] = (float64(i) + 0.5) / float64(len(c))
		}
	}
	natural := f.crossings()
	if natural == 0 {
		return
	}
	sum := map[queuepath.Queue]float64{} // of the places of a queue's packets in the column of the guests
	for i := range lanes {
		l := &lanes[i]
		end := words.Either(last, l.Exit(), l.Origin())
		for _, s := range l.Stops {
			sum[s.Queue] += float64(l.Packets) * place[end]
		}
	}
	keep := words.Either(last, len(f.columns)-1, 0)
	for c, column := range f.columns {
		if c == keep {
			continue
		}
		device, weight := map[string]float64{}, map[string]float64{}
		for _, n := range column {
			device[n.queue.Device] += sum[n.queue]
			weight[n.queue.Device] += n.packets
		}
		anchor := func(n *flowNode) float64 { return math.Round(sum[n.queue] / math.Max(n.packets, 1) * 1e6) }
		slices.SortStableFunc(column, func(a, b *flowNode) int {
			x, y := a.queue.Device, b.queue.Device
			if x != y {
				return cmp.Or(cmp.Compare(device[x]/weight[x], device[y]/weight[y]), byNumber(x, y))
			}
			return cmp.Compare(anchor(a), anchor(b))
		})
	}
	if f.crossings() >= natural {
		f.columns = before
	}
}

// crossings returns how many bands cross, by the product of their packets.
func (f *flow) crossings() float64 {
	rank := map[*flowNode]int{}
	for _, c := range f.columns {
		for i, n := range c {
			rank[n] = i
		}
	}
	var bands []*flowBand
	for _, l := range f.lanes {
		bands = append(bands, l.bands...)
	}
	var all float64
	for i, a := range bands {
		for _, b := range bands[i+1:] {
			same := a.ends[0].column == b.ends[0].column && a.ends[1].column == b.ends[1].column
			if same && (rank[a.ends[0]]-rank[b.ends[0]])*(rank[a.ends[1]]-rank[b.ends[1]]) < 0 {
				all += a.packets * b.packets
			}
		}
	}
	return all
}

// sides returns the queues of a column by device and direction.
func sides(column []*flowNode) [][]*flowNode {
	return report.Runs(column, func(a, b *flowNode) bool { return a.queue.Side() == b.queue.Side() })
}

// layOut sets the positions of boxes and bands.
func (f *flow) layOut() {
	most, packets := 0, 1.0
	for _, c := range f.columns {
		sum := 0.0
		for _, n := range c {
			sum += n.packets
		}
		most, packets = max(most, len(c)), max(packets, sum)
	}
	row := words.Either(most > 48, 10.5, 15) // a queue needs at least so much, for its number
	f.scale = max(240, 0.7*row*float64(most)) / packets
	heights := make([]float64, len(f.columns))
	for c, column := range f.columns {
		y := 0.0
		for i, side := range sides(column) {
			y += flowHead + words.Either(i > 0, 4.0, 0)
			for _, n := range side {
				n.h = math.Max(n.packets*f.scale, 2)
				slot := math.Max(row, n.h+3)
				n.y = y + (slot-n.h)/2
				y += slot
			}
			if f.idle(side[0].queue.Side()) > 0 {
				y += flowIdle
			}
		}
		heights[c] = y
		f.height = math.Max(f.height, y)
	}
	for c, column := range f.columns {
		for _, n := range column {
			n.y += flowTop + (f.height-heights[c])/2
		}
	}
	f.height += flowTop + 6
	for _, column := range f.columns {
		for _, n := range column {
			for end := range n.bands {
				f.stackBands(n, end)
			}
		}
	}
}

// stackBands places the bands on one side of a box below each other, in the order of their other ends.
func (f *flow) stackBands(n *flowNode, end int) {
	slices.SortStableFunc(n.bands[end], func(a, b *flowBand) int {
		return cmp.Or(cmp.Compare(a.ends[1-end].y, b.ends[1-end].y), cmp.Compare(a.lane, b.lane))
	})
	sum := 0.0
	for _, b := range n.bands[end] {
		sum += b.packets * f.scale
	}
	y := n.y + math.Max(0, (n.h-sum)/2)
	for _, b := range n.bands[end] {
		b.y[end] = y
		y += b.packets * f.scale
	}
}

// idle returns how many of a device's transmit queues are not in the drawing.
func (f *flow) idle(side queuepath.Side) int {
	device := f.path.Device(side.Device)
	if device == nil || side.Direction != queuepath.Tx || device.TxQueues < 2 {
		return 0
	}
	used := report.Distinct(f.path.Rows, func(r queuepath.Row) queuepath.Queue { return r.To })
	used = slices.DeleteFunc(used, func(q queuepath.Queue) bool { return q.Side() != side })
	return max(device.TxQueues-len(used), 0)
}

// x returns the left edge of a column's boxes.
func (f *flow) x(column int) float64 {
	return f.left + float64(column)*(f.width-f.left-f.right-flowBox)/float64(max(len(f.columns)-1, 1))
}

// svg returns the finished drawing.
func (f *flow) svg(label string) template.HTML {
	d := &svg.Drawing{Width: f.width, Y: f.height}
	for _, l := range f.lanes {
		d.Group("lane", l.title, func() {
			for _, b := range l.bands {
				d.Ribbon("flow "+l.class, f.x(b.ends[0].column)+flowBox, b.y[0], f.x(b.ends[1].column), b.y[1],
					b.packets*f.scale)
			}
		})
	}
	for c, column := range f.columns {
		for _, side := range sides(column) {
			f.drawName(d, c, side[0])
			for _, n := range side {
				f.drawBox(d, c, n)
			}
			if idle := f.idle(side[0].queue.Side()); idle > 0 {
				y := side[len(side)-1].y + side[len(side)-1].h + 6
				d.Rect("idlequeue", f.x(c), y, flowBox, 9, "")
				f.drawLabel(d, "tick", c, y+8, fmt.Sprintf("%d idle", idle))
			}
		}
	}
	return d.HTML(label)
}

// drawBox draws a queue with its number, and marks the faults that it is part of.
func (f *flow) drawBox(d *svg.Drawing, c int, n *flowNode) {
	class, labelled, text := "queue", "tick", queueNumbers(n.queue.Queue)
	title := fmt.Sprintf("%s: %s packets", queueName(n.queue), words.Grouped(uint64(n.packets)))
	for i, fault := range slices.Compact(f.marks[n.queue]) {
		class, labelled = "queue badqueue", "tick bad"
		text += words.Either(i == 0, " !", ",") + fmt.Sprint(fault)
		title += "; " + f.path.Faults[fault-1].Name()
	}
	d.Rect(class, f.x(c), n.y, flowBox, n.h, title)
	f.drawLabel(d, labelled, c, n.y+n.h/2+3.6, text)
}

// drawLabel writes what belongs to a box: in the margin for the first column, else on the bands that leave it.
func (f *flow) drawLabel(d *svg.Drawing, class string, c int, y float64, text string) {
	switch {
	case c > 0 || len(f.columns) == 1:
		d.Text(class, "start", f.x(c)+flowBox+4, y, text)
	case strings.Contains(text, " "): // longer than what the margin has room for
		d.Text(class, "start", f.x(c)+flowBox+3, y, text)
	default:
		d.Text(class, "end", f.x(c)-4, y, text)
	}
}

// drawName writes a device's name above its queues, with its guest, or with its kind.
func (f *flow) drawName(d *svg.Drawing, c int, n *flowNode) {
	text := n.queue.Device
	if device := f.path.Device(n.queue.Device); device != nil {
		switch {
		case device.Guest != "":
			text = report.Cut(device.Guest, 30) + " · " + text
		case device.Kind != "" && !f.narrow:
			text += " · " + device.Kind
		}
		if c > 0 && c < len(f.columns)-1 && n.queue.Direction == queuepath.Tx && device.TxQueues > 0 && !f.narrow {
			text += " · " + words.Count(device.TxQueues, "queue")
		}
	}
	switch y := n.y - 6; {
	case c == 0:
		d.Text("label strong", "start", 0, y, text)
	case c == len(f.columns)-1:
		d.Text("label strong", "end", f.width, y, text)
	default:
		d.Text("label strong", "middle", f.x(c)+flowBox/2, y, text)
	}
}

// laneTitle says what a lane is.
func laneTitle(p *queuepath.Path, l *queuepath.Lane) string {
	rate := fmt.Sprintf("%s: %s packets per second, %s", stops(l), words.SI(l.PPS, 3), words.Share(l.Share))
	return words.Join(", ", l.Guest, rate, cpusText(p, []queuepath.Lane{*l}))
}

// stops returns the queues that a lane takes.
func stops(l *queuepath.Lane) string {
	return strings.Join(words.Each(l.Stops, func(s queuepath.Stop) string { return queueName(s.Queue) }), " → ")
}
