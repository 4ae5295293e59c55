package queues

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"mpps/internal/advise/queuepath"
	"mpps/internal/must"
	"mpps/internal/report"
)

// queueScene makes a path of guests with a queue for each of their CPUs, through a tunnel of one queue where there is
// one, to a NIC. choose is the NIC's queue for a part of a guest queue's packets.
func queueScene(guests, queues, nic int, tunnel bool, parts int,
	choose func(guest, queue, part int) int) *queuepath.Path {
	o := &queuepath.Observation{Seconds: 5, Watched: 0.4}
	for g := range guests {
		tap := fmt.Sprintf("vnet%d", g)
		o.Devices = append(o.Devices, queuepath.Device{Name: tap, Kind: "tap", Guest: fmt.Sprintf("vm%d", g),
			TxQueues: queues, RxQueues: queues, Node: -1, Lockless: true})
		for q := range queues {
			in, cpu := queuepath.Queue{Device: tap, Direction: queuepath.Rx, Queue: q}, g*queues+q
			for part := range parts {
				n := uint64(5000 + 1000*((g+q+part)%5))
				row := queuepath.Row{Origin: in, From: in, To: in, FromCPU: -1, CPU: cpu, Frames: n, Packets: n,
					Bytes: 64 * n, Thread: 2000 + cpu}
				o.Rows = append(o.Rows, row)
				row.FromCPU, row.Thread = cpu, 0
				if tunnel {
					row.To = queuepath.Queue{Device: "vxlan0", Direction: queuepath.Tx}
					o.Rows = append(o.Rows, row)
					row.From = row.To
				}
				row.To = queuepath.Queue{Device: "eth0", Direction: queuepath.Tx, Queue: choose(g, q, part)}
				o.Rows = append(o.Rows, row)
			}
			back := queuepath.Queue{Device: "eth0", Direction: queuepath.Rx, Queue: (g*queues + q) % nic}
			row := queuepath.Row{Origin: back, From: back, To: back, FromCPU: -1, CPU: back.Queue, Frames: 3000,
				Packets: 3000, Bytes: 192000}
			o.Rows = append(o.Rows, row)
			row.FromCPU, row.To = row.CPU, queuepath.Queue{Device: tap, Direction: queuepath.Tx, Queue: q}
			o.Rows = append(o.Rows, row)
			o.Vhost = append(o.Vhost, queuepath.Vhost{Guest: fmt.Sprintf("vm%d", g), Device: tap, Queue: q,
				Thread: 2000 + cpu, CPU: cpu})
		}
	}
	if tunnel {
		o.Devices = append(o.Devices, queuepath.Device{Name: "vxlan0", Kind: "vxlan", TxQueues: 1, RxQueues: 1,
			Node: -1, Lockless: true, Qdisc: "noqueue", Lower: []string{"eth0"}})
	}
	o.Devices = append(o.Devices, queuepath.Device{Name: "eth0", Kind: "nic", TxQueues: nic, RxQueues: nic, Node: -1,
		Qdisc: "mq"})
	return queuepath.Judge(o)
}

// mixed is two guests of four queues that a tunnel mixes on a NIC of eight.
func mixed() *queuepath.Path {
	return queueScene(2, 4, 8, true, 2, func(g, q, part int) int { return (3*g + 5*q + 2*part*part + g*q*part) % 7 })
}

// large is sixteen guests of eight queues on a NIC of 64.
func large(parts int) *queuepath.Path {
	return queueScene(16, 8, 64, parts > 1, parts, func(g, q, part int) int { return (g*8 + q + part*part*13) % 64 })
}

// TestQueuePathText: what is wrong comes first, lanes branch where they part, matrices add up, and nothing leaves the
// width.
func TestQueuePathText(t *testing.T) {
	for _, width := range []int{60, 80, 200} {
		text := report.Draw(width, func(t *report.Text) { Text(t, mixed()) })
		for _, want := range []string{
			"funnel vxlan0: 83 % of 348 k packets per second on 24 lanes",
			"1 funnel vxlan0 · high · 83 % of the packets",
			"2 collision eth0 · 77 % of the packets · follows from funnel vxlan0", "mpps path --steer; mpps explain " +
				"overlay.queue_mapping",
			"from guests to the wire · 288 k packets per second, 83 % of all", "from the wire to guests",
		} {
			must.Hold(t, strings.Contains(flat(text, want), want), "%d columns: no %q in\n%s", width, want, text)
		}
		must.Hold(t, strings.Index(text, "funnel vxlan0 ·") <= strings.Index(text, "from guests to the wire"),
			"%d columns: faults stand behind the lanes", width)
		inside(t, text, width)
	}
	text := report.Draw(80, func(t *report.Text) { Text(t, mixed()) })
	must.Contain(t, text, "vm0 vnet0 0 ━━━━━━ vxlan0 0!1 ┳━━━━━ eth0 0!2    12.5 k   4 %  CPU 0, vhost 2000\n",
		"                              ┗━━━━━ eth0 2!2    15.0 k   4 %  CPU 0, vhost 2000\n",
		"              0\nvnet0 rx 0  9.6\n", "vxlan0 tx 0 10.4 13.0  9.6 27.0 14.8 18.3  7.0\n",
		"end to end into eth0 tx · 115 000 packets, in percent\n", "vnet1 rx 3    ·    ·  4.3    ·  7.8    ·    ·\n")
	if empty := report.Draw(80, func(t *report.Text) {
		Text(t, queuepath.Judge(&queuepath.Observation{}))
	}); !strings.HasPrefix(empty, "no packet was seen\n") {
		t.Errorf("of nothing:\n%s", empty)
	}
}

// TestQueuePathEnds: a lane that ends where others go on is drawn so, and one of a few packets is not drawn at all.
func TestQueuePathEnds(t *testing.T) {
	in, vx, out := queuepath.Queue{Device: "vnet0", Direction: queuepath.Rx}, queuepath.Queue{Device: "vxlan0",
		Direction: queuepath.Tx}, queuepath.Queue{Device: "eth0", Direction: queuepath.Tx, Queue: 2}
	stray := queuepath.Queue{Device: "vnet0", Direction: queuepath.Rx, Queue: 1}
	row := func(origin, from, to queuepath.Queue, n uint64) queuepath.Row {
		return queuepath.Row{Origin: origin, From: from, To: to, CPU: 3, FromCPU: 3, Frames: n, Packets: n}
	}
	p := queuepath.Judge(&queuepath.Observation{Seconds: 1, Watched: 1,
		Devices: []queuepath.Device{{Name: "vnet0", Kind: "tap"}, {Name: "eth0", Kind: "nic"}},
		Rows: []queuepath.Row{row(in, in, in, 90000), row(in, in, vx, 90000), row(in, vx, out, 50000),
			row(stray, stray, stray, 2), row(stray, stray, vx, 2), row(stray, vx, out, 2)}})
	text := report.Draw(80, func(t *report.Text) { Text(t, p) })
	must.Contain(t, text, "vnet0 0 ━━━━━━━━ vxlan0 0 ┓                  40.0 k  44 % ends here  CPU 3\n",
		"vnet0 rx 0  100\nvnet0 rx 1 <0.1\n", "                          ┗━━━━━━━ eth0 2    50.0 k  56 %  CPU 3\n",
		"  and 1 lane too thin to draw, < 0.1 % together\n")
}

// TestQueuePathCounters: counters alone are not called a healthy path.
func TestQueuePathCounters(t *testing.T) {
	o := &queuepath.Observation{Seconds: 1, Watched: 1,
		Devices: []queuepath.Device{{Name: "eth0", Kind: "nic", TxQueues: 4, Node: -1}}}
	for q := range 4 {
		at := queuepath.Queue{Device: "eth0", Direction: queuepath.Tx, Queue: q}
		o.Rows = append(o.Rows, queuepath.Row{Origin: at, From: at, To: at, FromCPU: -1, CPU: -1, Frames: 9000,
			Packets: 9000})
	}
	p := queuepath.Judge(o)
	text := report.Draw(80, func(t *report.Text) { Text(t, p) })
	must.Hold(t, strings.HasPrefix(text, "whether the way is right cannot be determined") && strings.Contains(text, "eth0 3"),
		"\n%s", text)
	if html := pathPage(t, p); strings.Contains(html, "lanes stay apart") ||
		!strings.Contains(html, "eth0 3: 9\u2009000 packets") {
		t.Error("the page calls it healthy, or has no queues")
	}
}

// TestQueuePathColour: on a terminal marks are red and the drawing keeps its place; elsewhere there is no colour.
func TestQueuePathColour(t *testing.T) {
	coloured := &report.Text{Width: 80, Color: true}
	Text(coloured, mixed())
	plain := report.Draw(80, func(t *report.Text) { Text(t, mixed()) })
	must.Hold(t, strings.Contains(coloured.String(), "\x1b[31mvxlan0 0!1\x1b[0m") && !strings.Contains(plain, "\x1b"),
		"colour is missing, or where it should not be")
	must.Hold(t, ownStyles.ReplaceAllString(coloured.String(), "") == plain, "colour moves what is drawn")
}

// flat joins wrapped lines where a sentence is looked for.
func flat(text, want string) string {
	if strings.Contains(want, "\n") {
		return text
	}
	return strings.Join(strings.Fields(text), " ")
}

var ownStyles = regexp.MustCompile(`\x1b\[[0-9;]*m`)

func inside(t *testing.T, text string, width int) {
	t.Helper()
	must.Fit(t, text, width, report.Visible)
}

// TestQueuePathLarge: many lanes are bundled by guest, and their matrices put together.
func TestQueuePathLarge(t *testing.T) {
	for _, width := range []int{80, 200} {
		text := report.Draw(width, func(t *report.Text) { Text(t, large(1)) })
		inside(t, text, width)
		for _, want := range []string{"vm10 vnet10 0-7 ━", " eth0 16-23 ", "8 lanes  CPUs 80-87", "into 16 devices tx",
			"No problems found: 3.19 Mpps over 256 queue paths."} {
			must.Hold(t, strings.Contains(text, want), "%d columns: no %q in\n%s", width, want, text)
		}
		if n := strings.Count(text, "\n"); n > 80 {
			t.Errorf("%d columns: %d lines", width, n)
		}
		must.Hold(t, strings.Index(text, "vnet9 0-7") <= strings.Index(text, "vnet10 0-7"), "vnet10 comes before vnet9")
	}
	inside(t, report.Draw(80, func(t *report.Text) { Text(t, large(4)) }), 80)
}

// pathPage draws the page of a path.
func pathPage(t *testing.T, p *queuepath.Path) string {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, HTML(&b, "kvm1", p, []report.Warning{{Text: "something is missing"}}, "1.0", time.Unix(0, 0)))
	return b.String()
}

// TestQueuePathPage: the page has a box for each queue and a band for each lane, marks faults, is the same each time
// and asks for nothing from outside; a hostile name stays text.
func TestQueuePathPage(t *testing.T) {
	p := mixed()
	p.Devices[0].Guest = `</script><b onload="x">`
	html := pathPage(t, p)
	must.Hold(t, !strings.Contains(html, "<b onload") && strings.Count(html, "</script>") == 1,
		"a guest's name is markup")
	if n := strings.Count(html, `<g class="lane">`); n != 2*24 { // wide and narrow
		t.Errorf("%d lanes are drawn", n)
	}
	must.Contain(t, html, "!1</span> funnel vxlan0", "follows from funnel vxlan0", "queue badqueue", "0 !1",
		"1 idle", "vm1 · vnet1", "vxlan0 · vxlan · 1 queue",
		"vnet1 3 → vxlan0 0 → eth0 4: 22.5 k packets per second, 6 %, CPU 7, vhost 2007", "eth0 3: ",
		"something is missing", "lock by queue, mq")
	must.Lack(t, html, "http://", "https://", " src=", "@import", "url(")
	must.Hold(t, html == pathPage(t, p), "the page differs each time")
	must.Hold(t, strings.Contains(pathPage(t, large(1)), "lanes stay apart"), "a healthy path is not called so")
}

var flowPath = regexp.MustCompile(`class="flow s\d" d="M[\d.]+ ([\d.]+)C[^V]*V([\d.]+)C`)

// TestQueuePathBands: bands stay inside the drawing, and the boxes of a column do not overlap.
func TestQueuePathBands(t *testing.T) {
	for _, p := range []*queuepath.Path{mixed(), large(1), large(4)} {
		for _, way := range []queuepath.Way{queuepath.Out, queuepath.In} {
			for _, narrow := range []bool{false, true} {
				d := flowOf(p, way, narrow)
				for c, column := range d.columns {
					for i, n := range column {
						if n.column != c || n.y < 0 || n.y+n.h > d.height {
							t.Fatalf("%v is outside", n.queue)
						}
						if i > 0 && n.y < column[i-1].y+column[i-1].h {
							t.Fatalf("%v lies on %v", n.queue, column[i-1].queue)
						}
						var in, out float64
						for _, b := range n.bands[1] {
							in += b.packets
						}
						for _, b := range n.bands[0] {
							out += b.packets
						}
						if c > 0 && in != n.packets || c < len(d.columns)-1 && out != n.packets {
							t.Fatalf("%v: %v packets, bands %v and %v", n.queue, n.packets, in, out)
						}
					}
				}
				for _, band := range flowPath.FindAllStringSubmatch(string(d.svg("x")), -1) {
					top, _ := strconv.ParseFloat(band[1], 64)
					bottom, _ := strconv.ParseFloat(band[2], 64)
					if top < 0 || bottom > d.height || bottom <= 0 {
						t.Fatalf("band from %v to %v in %v", top, bottom, d.height)
					}
				}
			}
		}
	}
}

// TestQueuePathCrossings: lanes that only look tangled because of their numbers are drawn without a crossing.
func TestQueuePathCrossings(t *testing.T) {
	p := queueScene(4, 4, 16, false, 1, func(g, q, part int) int { return (7*(g*4+q) + 3) % 16 })
	if d := flowOf(p, queuepath.Out, false); d.crossings() != 0 {
		t.Errorf("bands cross: %v", d.crossings())
	}
}
