// Package queues shows a queue path: which queue of which device packets take, and what is wrong with it.
package queues

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"mpps/internal/queuepath"
	"mpps/internal/report"
	"mpps/internal/report/words"
	"mpps/internal/setting"
)

// Text draws which queue of which device packets take: what is wrong first, then the lanes from left to right, then a
// matrix for each hop.
func Text(t *report.Text, p *queuepath.Path) {
	t.Wrapped("", t.In(report.Bold, headline(p)))
	t.Line("%s", t.In(report.Faint, watched(p)))
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
	{queuepath.Out, "from guests to the wire"}, {queuepath.In, "from the wire to guests"}, {queuepath.Between, "from guest to guest"},
	{queuepath.Through, "from device to device"}, {queuepath.Own, "the host's own"},
}

// headline is the answer in a sentence.
func headline(p *queuepath.Path) string {
	causes := slices.DeleteFunc(slices.Clone(p.Faults), func(f queuepath.Fault) bool { return f.Follows != "" })
	pps, _ := total(p.Lanes)
	switch {
	case len(p.Lanes) == 0:
		return "no packet was seen"
	case !p.Joined():
		return "whether the way is right cannot be told: only each queue's counter can be read"
	case len(causes) == 0:
		return fmt.Sprintf("No problems found: %spps over %s.", words.SI(pps, 3), words.Count(len(p.Lanes), "queue path"))
	}
	more := words.If(len(causes) > 1, " first, and %s", words.Count(len(causes)-1, "more fault"))
	return fmt.Sprintf("%s%s: %s of %s packets per second on %s", causes[0].Name(), more, words.Share(causes[0].Share),
		words.SI(pps, 3), words.Count(len(p.Lanes), "lane"))
}

func watched(p *queuepath.Path) string {
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
	style := report.Yellow
	if f.Severity.String() == "high" {
		style = report.RedBold
	}
	title := fmt.Sprintf("%d %s", n, t.In(style, f.Name()))
	if f.Follows != "" {
		t.Wrapped("  ", fmt.Sprintf("%s · %s of the packets · follows from %s", title, words.Share(f.Share), f.Follows))
		t.Wrapped("      seen  ", f.Evidence)
		return
	}
	t.Wrapped("", fmt.Sprintf("%s · %s · %s of the packets", title, f.Severity, words.Share(f.Share)))
	t.Wrapped("    seen  ", f.Evidence)
	t.Wrapped("    why   ", f.Cause)
	how := words.Join("; ", f.Mend.Command, words.If(f.Mend.Knob != "", "mpps explain %s", f.Mend.Knob))
	t.Wrapped("    mend  ", f.Mend.Text+words.If(how != "", " (%s)", how))
}

// owner is the name under which a lane's packets are shown: that of the guest, or of the device where they were seen first.
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
	return len(s) - len(strings.TrimLeftFunc(s, func(r rune) bool { return r <= unicode.MaxASCII && unicode.IsDigit(r) }))
}

// order is the order of queues in drawings.
func order(a, b queuepath.Queue) int {
	return cmp.Or(byNumber(a.Device, b.Device), cmp.Compare(a.Direction, b.Direction), cmp.Compare(a.Queue, b.Queue))
}

// name is a queue as "eth0 3".
func name(q queuepath.Queue) string { return q.Device + " " + numbers(q.Queue) }

// numbers are queues as a list of ranges; ? is a queue that was not recorded.
func numbers(queues ...int) string {
	known := slices.DeleteFunc(slices.Clone(queues), func(q int) bool { return q < 0 })
	return words.Join(",", setting.CPUs(known...).String(), words.If(len(known) < len(queues), "?"))
}

// lanesOf are the lanes of a way, by their owners and then by their queues from left to right.
func lanesOf(p *queuepath.Path, way queuepath.Way) []queuepath.Lane {
	lanes := slices.DeleteFunc(slices.Clone(p.Lanes), func(l queuepath.Lane) bool { return l.Way != way })
	slices.SortStableFunc(lanes, func(a, b queuepath.Lane) int {
		if way == queuepath.Out || way == queuepath.Between {
			if c := byNumber(owner(&a), owner(&b)); c != 0 {
				return c
			}
		}
		return slices.CompareFunc(a.Stops, b.Stops, func(x, y queuepath.Stop) int { return order(x.Queue, y.Queue) })
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

// faultsAt are the numbers of the faults that a queue is part of.
func faultsAt(p *queuepath.Path) map[queuepath.Queue][]int {
	at := map[queuepath.Queue][]int{}
	for i, f := range p.Faults {
		for _, q := range f.Queues {
			at[q] = append(at[q], i+1)
		}
	}
	return at
}

// where says which CPUs handled lanes, from left to right, each change once, and of a single lane which thread.
func where(p *queuepath.Path, group []queuepath.Lane) string {
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
	text := words.If(len(parts) > 0, "CPUs %s", strings.Join(parts, "→"))
	if len(parts) == 1 && !strings.ContainsAny(parts[0], ",-") {
		text = "CPU " + parts[0]
	}
	if thread > 0 && len(group) == 1 {
		text += ", " + threadText(p, group[0].Way, thread)
	}
	return text
}

// threadText names a thread that carries a lane's packets; on the way in with the CPU that it takes them on to.
func threadText(p *queuepath.Path, way queuepath.Way, thread int) string {
	at := slices.IndexFunc(p.Vhost, func(v queuepath.Vhost) bool { return v.Thread == thread })
	switch {
	case at < 0:
		return fmt.Sprintf("thread %d", thread)
	case way == queuepath.In:
		return fmt.Sprintf("vhost %d on %d", thread, p.Vhost[at].CPU)
	}
	return fmt.Sprintf("vhost %d", thread)
}
