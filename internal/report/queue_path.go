package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"mpps/internal/queuepath"
)

// QueuePath draws which queue of which device packets take: what is wrong first, then the lanes from left to right, then a matrix
// for each hop.
func QueuePath(t *Text, p *queuepath.Path) {
	t.Wrapped("", t.In(Bold, queuePathHeadline(p)))
	t.Line("%s", t.In(Faint, queuePathWatched(p)))
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

// queuePathHeadline is the answer in a sentence.
func queuePathHeadline(p *queuepath.Path) string {
	if len(p.Lanes) == 0 {
		return "no packet was seen"
	}
	if !p.Joined() {
		return "whether the way is right cannot be told: only each queue's counter can be read"
	}
	causes := queueCauses(p)
	switch len(causes) {
	case 0:
		return "nothing is wrong with the way of " + queuePathRate(p)
	case 1:
		return fmt.Sprintf("%s: %s", causes[0].Name(), queuePathShare(causes[0].Share)+" of "+queuePathRate(p))
	}
	return fmt.Sprintf("%s first, and %s: %s", causes[0].Name(), count(len(causes)-1, "more fault"), queuePathShare(causes[0].Share)+" of "+queuePathRate(p))
}

// queueCauses are the faults that follow from no other.
func queueCauses(p *queuepath.Path) []*queuepath.Fault {
	var causes []*queuepath.Fault
	for i := range p.Faults {
		if p.Faults[i].Follows == "" {
			causes = append(causes, &p.Faults[i])
		}
	}
	return causes
}

// queuePathRate is how many packets took how many lanes.
func queuePathRate(p *queuepath.Path) string {
	var pps float64
	for i := range p.Lanes {
		pps += p.Lanes[i].PPS
	}
	return fmt.Sprintf("%s packets per second on %s", siDigits(pps, 3), count(len(p.Lanes), "lane"))
}

func queuePathWatched(p *queuepath.Path) string {
	if p.EveryPacket {
		return fmt.Sprintf("every packet of %.1f s", p.Watched)
	}
	return fmt.Sprintf("every packet of windows of %.2f s together, within %.1f s", p.Watched, p.Seconds)
}

func queuePathShare(share float64) string {
	if share > 0 && share < 0.0005 {
		return "< 0.1 %"
	}
	if share > 0 && share < 0.0095 {
		return fmt.Sprintf("%.1f %%", share*100)
	}
	return fmt.Sprintf("%.0f %%", share*100)
}

// drawFault says what is wrong, why, and what mends it. What follows from another fault is named in two lines.
func drawFault(t *Text, n int, f *queuepath.Fault) {
	t.Blank()
	style := map[bool]Style{true: RedBold, false: Yellow}[f.Severity.String() == "high"]
	title := fmt.Sprintf("%d %s", n, t.In(style, f.Name()))
	if f.Follows != "" {
		t.Wrapped("  ", fmt.Sprintf("%s · %s of the packets · follows from %s", title, queuePathShare(f.Share), f.Follows))
		t.Wrapped("      seen  ", f.Evidence)
		return
	}
	t.Wrapped("", fmt.Sprintf("%s · %s · %s of the packets", title, f.Severity, queuePathShare(f.Share)))
	t.Wrapped("    seen  ", f.Evidence)
	t.Wrapped("    why   ", f.Cause)
	t.Wrapped("    mend  ", f.Mend.Text+mendWords(f.Mend))
}

func mendWords(m queuepath.Mend) string {
	var words []string
	if m.Command != "" {
		words = append(words, m.Command)
	}
	if m.Knob != "" {
		words = append(words, "mpps explain "+m.Knob)
	}
	if len(words) == 0 {
		return ""
	}
	return " (" + strings.Join(words, "; ") + ")"
}

// laneOwner is the name under which a lane's packets are shown: that of the guest, or of the device where they were seen first.
func laneOwner(l *queuepath.Lane) string { return cmp.Or(l.Guest, l.Origin().Device) }

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
	n := strings.IndexFunc(s, func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsDigit(r) })
	if n < 0 {
		return len(s)
	}
	return n
}

// queueOrder is the order of queues in drawings.
func queueOrder(a, b queuepath.Queue) int {
	return cmp.Or(byNumber(a.Device, b.Device), cmp.Compare(a.Direction, b.Direction), cmp.Compare(a.Queue, b.Queue))
}

// lanesOf are the lanes of a way, by whose they are and then by their queues from left to right.
func lanesOf(p *queuepath.Path, way queuepath.Way) []queuepath.Lane {
	var lanes []queuepath.Lane
	for _, l := range p.Lanes {
		if l.Way == way {
			lanes = append(lanes, l)
		}
	}
	slices.SortStableFunc(lanes, func(a, b queuepath.Lane) int {
		if way == queuepath.Out || way == queuepath.Between {
			if c := byNumber(laneOwner(&a), laneOwner(&b)); c != 0 {
				return c
			}
		}
		return slices.CompareFunc(a.Stops, b.Stops, func(x, y queuepath.Stop) int { return queueOrder(x.Queue, y.Queue) })
	})
	return lanes
}

// columnsOf gives each side of a device the column that it stands in when these lanes are drawn: behind all that come before it.
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
