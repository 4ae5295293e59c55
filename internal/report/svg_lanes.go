package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"mpps/internal/queuepath"
)

// The drawing of lanes: a column for each device, a box for each queue, and bands between them whose width is packets.

// laneColours is how many colours guests have in turn.
const laneColours = 7

// manyBands is up to how many lanes are drawn each as a band of its own, which lights up as a whole; more are put together by guest
// between each two queues.
const manyBands = 900

// flowNode is a queue in the drawing.
type flowNode struct {
	queue   queuepath.Queue
	column  int
	packets float64
	anchor  float64 // where its packets stand in the column that keeps its order, on average
	y, h    float64
	in, out []*flowBand
}

// flowBand is what goes from one queue to the next, of a lane or of a guest.
type flowBand struct {
	lane     int // lanes with the same number light up together
	from, to *flowNode
	packets  float64
	y1, y2   float64
}

// flowLane is what is drawn as one.
type flowLane struct {
	title, class string
	bands        []*flowBand
}

// flowDrawing is a way of a path, laid out.
type flowDrawing struct {
	path    *queuepath.Path
	columns [][]*flowNode
	lanes   []flowLane
	bands   []*flowBand
	marks   map[queuepath.Queue][]int
	scale   float64 // height of a packet
	height  float64
	narrow  bool
}

// The sizes of the drawing, in units that are pixels where the page is as wide as the drawing.
const (
	flowWide, flowNarrow = 1096.0, 336.0
	flowBox              = 11.0 // width of a queue's box
	flowTop              = 4.0  // what stands above the columns
	flowHead             = 17.0 // above each device's queues: its name
)

// flowOf lays out the lanes of a way; nil where there are none.
func flowOf(p *queuepath.Path, way queuepath.Way, narrow bool) *flowDrawing {
	lanes := lanesOf(p, way)
	if len(lanes) == 0 {
		return nil
	}
	d := &flowDrawing{path: p, marks: faultsAt(p), narrow: narrow}
	d.join(lanes)
	last := way == queuepath.In // guests are kept in order, on whichever side they are
	d.order(lanes, last)
	d.stack()
	return d
}

// join makes boxes and bands of lanes.
func (d *flowDrawing) join(lanes []queuepath.Lane) {
	columns, n := columnsOf(lanes)
	d.columns = make([][]*flowNode, n)
	nodes := map[queuepath.Queue]*flowNode{}
	node := func(q queuepath.Queue) *flowNode {
		if nodes[q] == nil {
			c := columns[q.Side()]
			nodes[q] = &flowNode{queue: q, column: c}
			d.columns[c] = append(d.columns[c], nodes[q])
		}
		return nodes[q]
	}
	var owners []string
	for i := range d.path.Lanes {
		owners = append(owners, laneOwner(&d.path.Lanes[i]))
	}
	slices.SortFunc(owners, byNumber)
	owners = slices.Compact(owners)
	type key struct {
		who      string
		from, to queuepath.Queue
	}
	folded := map[key]*flowBand{}
	for i := range lanes {
		l := &lanes[i]
		who := laneOwner(l)
		class := fmt.Sprintf("s%d", slices.Index(owners, who)%laneColours)
		single := flowLane{title: laneTitle(d.path, l), class: class}
		for k, s := range l.Stops {
			at := node(s.Queue)
			at.packets += float64(l.Packets)
			if k == 0 {
				continue
			}
			from := node(l.Stops[k-1].Queue)
			if len(lanes) > manyBands {
				b := folded[key{who, from.queue, at.queue}]
				if b == nil {
					b = &flowBand{lane: len(d.lanes), from: from, to: at}
					folded[key{who, from.queue, at.queue}] = b
					d.lanes = append(d.lanes, flowLane{title: fmt.Sprintf("%s: %s → %s", who, plainQueue(from.queue), plainQueue(at.queue)), class: class, bands: []*flowBand{b}})
				}
				b.packets += float64(l.Packets)
				continue
			}
			single.bands = append(single.bands, &flowBand{lane: len(d.lanes), from: from, to: at, packets: float64(l.Packets)})
		}
		if len(single.bands) > 0 {
			d.lanes = append(d.lanes, single)
		}
	}
	for i := range d.lanes {
		for _, b := range d.lanes[i].bands {
			d.bands = append(d.bands, b)
			b.from.out, b.to.in = append(b.from.out, b), append(b.to.in, b)
		}
	}
}

// order sorts the boxes of each column: devices stay together. The column of the guests keeps the order of their names and numbers; the
// others follow where their packets stand in it, if fewer bands cross that way.
func (d *flowDrawing) order(lanes []queuepath.Lane, last bool) {
	for _, c := range d.columns {
		slices.SortFunc(c, func(a, b *flowNode) int { return queueOrder(a.queue, b.queue) })
	}
	natural := d.crossings()
	if natural == 0 {
		return
	}
	before := make([][]*flowNode, len(d.columns))
	place := map[queuepath.Queue]float64{}
	for c := range d.columns {
		before[c] = slices.Clone(d.columns[c])
		for i, n := range d.columns[c] {
			place[n.queue] = (float64(i) + 0.5) / float64(len(d.columns[c]))
		}
	}
	sum := map[queuepath.Queue]float64{}
	for i := range lanes {
		l := &lanes[i]
		end := l.Origin()
		if last {
			end = l.Exit()
		}
		for _, s := range l.Stops {
			sum[s.Queue] += float64(l.Packets) * place[end]
		}
	}
	keep := 0
	if last {
		keep = len(d.columns) - 1
	}
	for c, column := range d.columns {
		if c == keep {
			continue
		}
		device, weight := map[string]float64{}, map[string]float64{}
		for _, n := range column {
			n.anchor = sum[n.queue] / math.Max(n.packets, 1)
			device[n.queue.Device] += sum[n.queue]
			weight[n.queue.Device] += n.packets
		}
		slices.SortStableFunc(column, func(a, b *flowNode) int {
			x, y := a.queue.Device, b.queue.Device
			if x != y {
				return cmp.Or(cmp.Compare(device[x]/weight[x], device[y]/weight[y]), byNumber(x, y))
			}
			return cmp.Compare(math.Round(a.anchor*1e6), math.Round(b.anchor*1e6))
		})
	}
	if d.crossings() >= natural {
		d.columns = before
	}
}

// crossings is how many bands cross, by the product of their packets.
func (d *flowDrawing) crossings() float64 {
	rank := map[*flowNode]int{}
	for _, c := range d.columns {
		for i, n := range c {
			rank[n] = i
		}
	}
	var all float64
	for i, a := range d.bands {
		for _, b := range d.bands[i+1:] {
			if a.from.column == b.from.column && a.to.column == b.to.column && (rank[a.from]-rank[b.from])*(rank[a.to]-rank[b.to]) < 0 {
				all += a.packets * b.packets
			}
		}
	}
	return all
}

// stack gives boxes and bands their places.
func (d *flowDrawing) stack() {
	most, packets := 0, 0.0
	for _, c := range d.columns {
		sum := 0.0
		for _, n := range c {
			sum += n.packets
		}
		most, packets = max(most, len(c)), math.Max(packets, sum)
	}
	row := 15.0 // a queue needs at least so much, for its number
	if most > 48 {
		row = 10.5
	}
	d.scale = math.Max(240, 0.7*row*float64(most)) / math.Max(packets, 1)
	heights := make([]float64, len(d.columns))
	for c, column := range d.columns {
		y := 0.0
		for i, n := range column {
			if i == 0 || column[i-1].queue.Side() != n.queue.Side() {
				y += flowHead
				if i > 0 {
					y += 4
				}
			}
			n.h = math.Max(n.packets*d.scale, 2)
			slot := math.Max(row, n.h+3)
			n.y = y + (slot-n.h)/2
			y += slot
			if i == len(column)-1 || column[i+1].queue.Side() != n.queue.Side() {
				if d.idleAfter(n) != "" {
					y += 16
				}
			}
		}
		heights[c] = y
		d.height = math.Max(d.height, y)
	}
	for c, column := range d.columns {
		for _, n := range column {
			n.y += flowTop + (d.height-heights[c])/2
		}
	}
	d.height += flowTop + 6
	for _, column := range d.columns {
		for _, n := range column {
			d.slots(n.out, func(b *flowBand) *flowNode { return b.to }, n, func(b *flowBand, y float64) { b.y1 = y })
			d.slots(n.in, func(b *flowBand) *flowNode { return b.from }, n, func(b *flowBand, y float64) { b.y2 = y })
		}
	}
}

// slots puts the bands of one side of a box one below the other, in the order of their other ends.
func (d *flowDrawing) slots(bands []*flowBand, other func(*flowBand) *flowNode, n *flowNode, set func(*flowBand, float64)) {
	slices.SortStableFunc(bands, func(a, b *flowBand) int {
		return cmp.Or(cmp.Compare(other(a).y, other(b).y), cmp.Compare(a.lane, b.lane))
	})
	sum := 0.0
	for _, b := range bands {
		sum += b.packets * d.scale
	}
	y := n.y + math.Max(0, (n.h-sum)/2)
	for _, b := range bands {
		set(b, y)
		y += b.packets * d.scale
	}
}

// idleAfter says how many of a device's transmit queues are not in the drawing, behind the last that is.
func (d *flowDrawing) idleAfter(n *flowNode) string {
	device := d.path.Device(n.queue.Device)
	if device == nil || n.queue.Direction != queuepath.Tx || device.TxQueues < 2 {
		return ""
	}
	used := map[int]bool{}
	for i := range d.path.Rows {
		if q := d.path.Rows[i].To; q.Side() == n.queue.Side() {
			used[q.Queue] = true
		}
	}
	if idle := device.TxQueues - len(used); idle > 0 {
		return fmt.Sprintf("%d idle", idle)
	}
	return ""
}
