package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/queuepath"
	"mpps/internal/setting"
)

// manyLanes is up to how many lanes of a way are drawn one by one; more are bundled by guest and by the devices they pass.
const manyLanes = 36

// strip is a line of the drawing: a lane, or a bundle of lanes.
type strip struct {
	who     string
	cells   []string // by column; empty where the lane passes the column
	marks   []string // of faults, by column
	pps     float64
	share   float64
	lanes   int
	where   string // CPUs and thread
	dropped bool
}

// drawLanes draws the lanes of a way from left to right: which queue leads to which, the wider the more packets.
func drawLanes(t *Text, p *queuepath.Path, way queuepath.Way, title string) {
	lanes := lanesOf(p, way)
	if len(lanes) == 0 {
		return
	}
	columns, n := columnsOf(lanes)
	marks := faultsAt(p)
	var strips []strip
	var tiny strip
	for _, group := range bundles(lanes) {
		s := stripOf(p, group, columns, n, marks)
		if s.share < 0.005 && len(lanes) > 12 || s.share < 0.0005 && len(lanes) > 1 {
			tiny.lanes, tiny.share = tiny.lanes+s.lanes, tiny.share+s.share
			continue
		}
		strips = append(strips, s)
	}
	var pps, share float64
	for i := range lanes {
		pps, share = pps+lanes[i].PPS, share+lanes[i].Share
	}
	t.Blank()
	t.Wrapped("", t.In(Bold, title)+fmt.Sprintf(" · %s packets per second, %s of all", siDigits(pps, 3), queuePathShare(share)))
	drawStrips(t, strips, n)
	if tiny.lanes > 0 {
		t.Line("  and %s too thin to draw, %s together", count(tiny.lanes, "lane"), queuePathShare(tiny.share))
	}
}

// bundles are groups of lanes that share a line: each alone where there are few.
func bundles(lanes []queuepath.Lane) [][]queuepath.Lane {
	var groups [][]queuepath.Lane
	at := map[string]int{}
	for i := range lanes {
		key := fmt.Sprint(i)
		if len(lanes) > manyLanes {
			key = laneOwner(&lanes[i])
			for _, s := range lanes[i].Stops {
				key += "\x00" + s.Device + string(s.Direction)
			}
		}
		g, known := at[key]
		if !known {
			g = len(groups)
			at[key], groups = g, append(groups, nil)
		}
		groups[g] = append(groups[g], lanes[i])
	}
	return groups
}

// stripOf is the line of a lane, or of several that pass the same devices.
func stripOf(p *queuepath.Path, group []queuepath.Lane, columns map[queuepath.Side]int, n int, marks map[queuepath.Queue][]int) strip {
	s := strip{who: laneOwner(&group[0]), cells: make([]string, n), marks: make([]string, n), lanes: len(group), dropped: true}
	for i, stop := range group[0].Stops {
		var queues, faults []int
		unnamed := false
		for _, l := range group {
			q := l.Stops[i].Queue
			unnamed = unnamed || q.Queue < 0
			if q.Queue >= 0 {
				queues = append(queues, q.Queue)
			}
			faults = append(faults, marks[q]...)
		}
		c := columns[stop.Side()]
		s.cells[c] = stop.Device + " " + queueNumbers(queues, unnamed)
		faults = slices.Compact(sorted(faults))
		for _, f := range faults {
			s.marks[c] += fmt.Sprintf("!%d", f)
		}
	}
	var cpus [][]int
	thread := 0
	for _, l := range group {
		s.pps, s.share, s.dropped = s.pps+l.PPS, s.share+l.Share, s.dropped && !l.Left
		for i, stop := range l.Stops {
			if i == len(cpus) {
				cpus = append(cpus, nil)
			}
			cpus[i] = append(cpus[i], stop.CPUs...)
			thread = cmp.Or(thread, stop.Thread)
		}
	}
	s.where = cpuWay(cpus)
	if thread > 0 && len(group) == 1 {
		s.where += ", " + threadWords(p, &group[0], thread)
	}
	return s
}

// threadWords names a thread that carries a lane's packets; on the way in with the CPU that it takes them on to.
func threadWords(p *queuepath.Path, l *queuepath.Lane, thread int) string {
	at := slices.IndexFunc(p.Vhost, func(v queuepath.Vhost) bool { return v.Thread == thread })
	switch {
	case at < 0:
		return fmt.Sprintf("thread %d", thread)
	case l.Way == queuepath.In:
		return fmt.Sprintf("vhost %d on %d", thread, p.Vhost[at].CPU)
	}
	return fmt.Sprintf("vhost %d", thread)
}

func sorted(n []int) []int { slices.Sort(n); return n }

// queueNumbers are a bundle's queues as a list of ranges; ? is a queue that was not recorded.
func queueNumbers(queues []int, unnamed bool) string {
	text := setting.CPUs(queues...).String()
	switch {
	case unnamed && text == "":
		return "?"
	case unnamed:
		return text + ",?"
	}
	return text
}

// cpuWay says which CPUs handled a lane, from left to right, each change once.
func cpuWay(cpus [][]int) string {
	var words []string
	for _, set := range cpus {
		if word := setting.CPUs(set...).String(); word != "" && (len(words) == 0 || words[len(words)-1] != word) {
			words = append(words, word)
		}
	}
	switch {
	case len(words) == 0:
		return ""
	case len(words) == 1 && !strings.ContainsAny(words[0], ",-"):
		return "CPU " + words[0]
	}
	return "CPUs " + strings.Join(words, "→")
}
