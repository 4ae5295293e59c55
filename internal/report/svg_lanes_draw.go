package report

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

	"mpps/internal/queuepath"
)

// x is the left edge of a column's boxes.
func (d *flowDrawing) x(column int) float64 {
	width, left, right := flowWide, 34.0, 70.0
	if d.narrow {
		width, left, right = flowNarrow, 24.0, 44.0
	}
	if len(d.columns) == 1 {
		return left
	}
	return left + float64(column)*(width-left-right-flowBox)/float64(len(d.columns)-1)
}

// svg is the finished drawing.
func (d *flowDrawing) svg(label string) template.HTML {
	var out drawing
	for i := range d.lanes {
		l := &d.lanes[i]
		fmt.Fprintf(&out.b, `<g class="lane">%s`, titled(l.title))
		for _, b := range l.bands {
			x1, x2 := d.x(b.from.column)+flowBox, d.x(b.to.column)
			w, mid := math.Max(b.packets*d.scale, 0.6), (x1+x2)/2
			fmt.Fprintf(&out.b, `<path class="flow %s" d="M%s %sC%s %s %s %s %s %sV%sC%s %s %s %s %s %sZ"/>`, l.class, px(x1), px(b.y1), px(mid), px(b.y1), px(mid), px(b.y2),
				px(x2), px(b.y2), px(b.y2+w), px(mid), px(b.y2+w), px(mid), px(b.y1+w), px(x1), px(b.y1+w))
		}
		out.b.WriteString("</g>")
	}
	for c, column := range d.columns {
		for i, n := range column {
			d.box(&out, c, n)
			if i == 0 || column[i-1].queue.Side() != n.queue.Side() {
				d.name(&out, c, n)
			}
			if i == len(column)-1 || column[i+1].queue.Side() != n.queue.Side() {
				if idle := d.idleAfter(n); idle != "" {
					y := n.y + n.h + 6
					out.rect("idlequeue", d.x(c), y, flowBox, 9, "")
					d.beside(&out, "tick", c, y+8, idle)
				}
			}
		}
	}
	width := flowWide
	if d.narrow {
		width = flowNarrow
	}
	return template.HTML(fmt.Sprintf(`<svg viewBox="0 0 %s %s" role="img" aria-label="%s">%s</svg>`, px(width), px(d.height), template.HTMLEscapeString(label), out.b.String()))
}

// box draws a queue with its number, and marks the faults that it is part of.
func (d *flowDrawing) box(out *drawing, c int, n *flowNode) {
	class, text := "queue", queueNumbers(known(n.queue.Queue), n.queue.Queue < 0)
	title := fmt.Sprintf("%s: %s packets", plainQueue(n.queue), grouped(uint64(n.packets)))
	var bad []string
	for _, f := range slices.Compact(d.marks[n.queue]) {
		bad = append(bad, fmt.Sprint(f))
		title += "; " + d.path.Faults[f-1].Name()
	}
	labelled := "tick"
	if len(bad) > 0 {
		class, labelled = "queue badqueue", "tick bad"
		text += " !" + strings.Join(bad, ",")
	}
	out.rect(class, d.x(c), n.y, flowBox, n.h, title)
	d.beside(out, labelled, c, n.y+n.h/2+3.6, text)
}

// beside writes what belongs to a box: outside of the drawing for the first and the last column, else on the bands behind it.
func (d *flowDrawing) beside(out *drawing, class string, c int, y float64, text string) {
	if c == 0 && len(d.columns) > 1 {
		if strings.Contains(text, " ") { // longer than what the margin has room for
			out.text(class, "start", d.x(c)+flowBox+3, y, text)
			return
		}
		out.text(class, "end", d.x(c)-4, y, text)
		return
	}
	out.text(class, "start", d.x(c)+flowBox+4, y, text)
}

// name writes a device's name above its queues, with its guest, or with its kind.
func (d *flowDrawing) name(out *drawing, c int, n *flowNode) {
	text := n.queue.Device
	if device := d.path.Device(n.queue.Device); device != nil {
		switch {
		case device.Guest != "":
			text = short(device.Guest) + " · " + text
		case device.Kind != "" && !d.narrow:
			text += " · " + device.Kind
		}
		if c > 0 && c < len(d.columns)-1 && n.queue.Direction == queuepath.Tx && device.TxQueues > 0 && !d.narrow {
			text += " · " + count(device.TxQueues, "queue")
		}
	}
	switch {
	case c == 0:
		out.text("label strong", "start", 0, n.y-6, text)
	case c == len(d.columns)-1:
		width := flowWide
		if d.narrow {
			width = flowNarrow
		}
		out.text("label strong", "end", width, n.y-6, text)
	default:
		out.text("label strong", "middle", d.x(c)+flowBox/2, n.y-6, text)
	}
}

// plainQueue is a queue as "eth0 3".
func plainQueue(q queuepath.Queue) string {
	return q.Device + " " + queueNumbers(known(q.Queue), q.Queue < 0)
}

// laneTitle says what a lane is.
func laneTitle(p *queuepath.Path, l *queuepath.Lane) string {
	var stops []string
	var cpus [][]int
	thread := 0
	for _, s := range l.Stops {
		stops, cpus, thread = append(stops, plainQueue(s.Queue)), append(cpus, s.CPUs), cmp.Or(thread, s.Thread)
	}
	text := fmt.Sprintf("%s: %s packets per second, %s", strings.Join(stops, " → "), siDigits(l.PPS, 3), queuePathShare(l.Share))
	if l.Guest != "" {
		text = l.Guest + ", " + text
	}
	if where := cpuWay(cpus); where != "" {
		text += ", " + where
	}
	if thread > 0 {
		text += ", " + threadWords(p, l, thread)
	}
	return text
}
