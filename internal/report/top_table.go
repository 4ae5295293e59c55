package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"mpps/internal/bottleneck"
)

// topColumns are where the columns of a live view stand.
type topColumns struct{ name, bar, notes int } // widths

// Widths of the columns that are the same everywhere: mark and stage, a rate, a percentage, what is lost.
const (
	topLead = 2 + 9 + 1
	topRate = 6
	topRest = topLead + 1 + 2*(topRate+1) + 1 + 5 + 1 + topRate + 1 // all but name, bar and notes
)

// columnsFor shares out the width of a terminal.
func columnsFor(width int) topColumns {
	c := topColumns{name: 16, bar: 5}
	if width < 80 {
		c.bar = 0
	}
	if room := width - 80; room > 0 {
		c.name += min(room/4, 16)
		c.bar += min(room/6, 20)
	}
	c.notes = max(width-topRest-c.name-c.bar, 8)
	return c
}

// topTable draws the stations.
func topTable(t *Text, l *bottleneck.Look, v *TopView, detail TopDetail) {
	c := columnsFor(t.Width)
	t.Line("%s", t.In(Faint, strings.TrimRight(fmt.Sprintf("%-*s%-*s %*s %*s %*s %*s", topLead, "", c.name, "",
		topRate, "in/s", topRate, "out/s", c.bar+6, "use", topRate, "lost/s"), " ")))
	var held *bottleneck.Bottleneck
	if l.Diagnosis != nil {
		held = l.Diagnosis.Bottleneck
	}
	var idle []string
	drawn := 0
	for _, block := range topBlocks(l.Stations, v) {
		if !v.Idle && quiet(block) && !holdsAny(held, block) {
			idle = append(idle, blockName(block))
			continue
		}
		for i := range block {
			s := &block[i]
			r := topRow{c: c, mark: markOf(s, i), stage: s.Stage, s: s, held: holds(held, s)}
			if i == 0 {
				r.whose = s.Guest
			}
			r.draw(t)
			if detail != DetailNone {
				parts(t, c, s, held, v, detail == DetailFit)
			}
			drawn++
		}
	}
	if drawn == 0 {
		switch {
		case v.Guest != "" && len(l.Stations) > 0:
			t.Line("  no guest's name has %q in it", v.Guest)
		case len(idle) > 0:
			t.Line("  nothing passes: %s idle", count(len(idle), "station is", "stations are"))
		default:
			t.Line("  no station of a path is here")
		}
		return
	}
	if len(idle) > 0 {
		t.Line("%s", t.In(Faint, cut(fmt.Sprintf("  idle: %s", strings.Join(idle, ", ")), t.Width)))
	}
}

// topBlocks are the stations in the order and the choice of a view. What belongs to one guest stays together.
func topBlocks(all []bottleneck.Station, v *TopView) [][]bottleneck.Station {
	var blocks [][]bottleneck.Station
	for _, s := range all {
		if s.Guest != "" && !strings.Contains(s.Guest, v.Guest) {
			continue
		}
		last := len(blocks) - 1
		if last >= 0 && s.Guest != "" && blocks[last][0].Guest == s.Guest {
			blocks[last] = append(blocks[last], s)
			continue
		}
		blocks = append(blocks, []bottleneck.Station{s})
	}
	if v.Sort == SortPath || v.Sort == "" {
		return blocks
	}
	for from := 0; from < len(blocks); { // runs of guests, and of devices of one stage
		to := from + 1
		for to < len(blocks) && alike(&blocks[from][0], &blocks[to][0]) {
			to++
		}
		slices.SortStableFunc(blocks[from:to], func(a, b []bottleneck.Station) int {
			return cmp.Compare(weightOf(b, v.Sort), weightOf(a, v.Sort))
		})
		from = to
	}
	return blocks
}

func alike(a, b *bottleneck.Station) bool {
	return a.Guest != "" && b.Guest != "" || a.Guest == "" && b.Guest == "" && a.Stage == b.Stage
}

// weightOf is what a block is sorted by.
func weightOf(block []bottleneck.Station, by TopSort) (weight float64) {
	for i := range block {
		switch s := &block[i]; by {
		case SortRate:
			weight = max(weight, s.PPS())
		case SortUse:
			weight = max(weight, s.Use)
		case SortLost:
			weight += s.Loss
		}
	}
	return weight
}

func quiet(block []bottleneck.Station) bool {
	return !slices.ContainsFunc(block, func(s bottleneck.Station) bool {
		return !s.Idle() || slices.ContainsFunc(s.Parts, func(p bottleneck.Station) bool { return !p.Idle() })
	})
}

func blockName(block []bottleneck.Station) string { return cmp.Or(block[0].Guest, block[0].Name) }

// markOf draws the path beside a station: it comes down from the NICs to the bridges, and branches off to guests.
func markOf(s *bottleneck.Station, i int) string {
	switch {
	case s.Stage == "bridge":
		return "┿"
	case s.Guest != "" && i == 0:
		return "├"
	case s.Guest != "":
		return "│"
	case s.Stage == "nic" || s.Stage == "overlay":
		return "╷"
	case s.Stage == "softirq" || s.Stage == "netfilter" || s.Stage == "conntrack":
		return "│"
	}
	return " "
}

// parts draws the queues, threads or CPUs of a station, those that do nothing as a count. With few, only those that hold the path back
// or lose packets.
func parts(t *Text, c topColumns, s *bottleneck.Station, held *bottleneck.Bottleneck, v *TopView, few bool) {
	list := slices.Clone(s.Parts)
	if v.Sort != SortPath && v.Sort != "" {
		slices.SortStableFunc(list, func(a, b bottleneck.Station) int {
			return cmp.Compare(weightOf([]bottleneck.Station{b}, v.Sort), weightOf([]bottleneck.Station{a}, v.Sort))
		})
	}
	mark := "│"
	if s.Guest == "" && markOf(s, 0) == " " {
		mark = " "
	}
	idle := 0
	for i := range list {
		p := &list[i]
		if few && p.Loss == 0 && !holds(held, p) {
			continue
		}
		if !v.Idle && p.Idle() && !holds(held, p) {
			idle++
			continue
		}
		topRow{c: c, mark: mark, s: p, part: true, held: holds(held, p)}.draw(t)
	}
	if idle > 0 && idle < len(list) && !few {
		t.Line("%s", t.In(Faint, fmt.Sprintf("%s            %d more idle", mark, idle)))
	}
}

// holds tells whether a station is what holds the path back: by its name, or as what the named CPU or guest does at that stage.
func holds(b *bottleneck.Bottleneck, s *bottleneck.Station) bool {
	switch {
	case b == nil || b.Object == "":
		return false
	case s.Stage == "netfilter" || s.Stage == "socket": // they have no objects to be told apart by
		return b.Stage == s.Stage && len(s.Parts) == 0 && (s.Guest == "" || strings.HasSuffix(b.Object, s.Guest))
	case b.Object == s.Name:
		return b.Stage == s.Stage || len(s.Parts) == 0
	case b.Stage != s.Stage || len(s.Parts) > 0:
		return false
	}
	cpu, _, _ := strings.Cut(s.Of, ",")
	return b.Object == cpu || b.Object == s.Guest
}

func holdsAny(b *bottleneck.Bottleneck, block []bottleneck.Station) bool {
	return slices.ContainsFunc(block, func(s bottleneck.Station) bool {
		return holds(b, &s) || slices.ContainsFunc(s.Parts, func(p bottleneck.Station) bool { return holds(b, &p) })
	})
}

// topRow is one line.
type topRow struct {
	c           topColumns
	mark, stage string
	whose       string // the guest, in the first of its lines
	s           *bottleneck.Station
	part, held  bool
}

func (r topRow) draw(t *Text) {
	name := shortened(r.s)
	if r.part {
		name = "  " + name
	}
	mark := r.mark
	if r.held {
		mark = t.In(RedBold, "▶")
	}
	name = padded(name, r.c.name)
	switch {
	case r.held:
		name = t.In(RedBold, name)
	case !r.part:
		name = t.In(Bold, name)
	}
	bar, percent := strings.Repeat(" ", r.c.bar), "    "
	if r.s.Use >= 0 {
		bar, percent = t.In(heat(r.s.Use), useBar(r.s.Use, r.c.bar)), fmt.Sprintf("%3.0f%%", min(r.s.Use, 9.99)*100)
	}
	lost := ""
	if r.s.Loss > 0 {
		lost = amount(r.s.Loss)
	}
	line := fmt.Sprintf("%s %s %s %s %s  %s %s %s", mark, padded(r.stage, 9), name, left(passing(r.s.In), topRate), left(passing(r.s.Out), topRate),
		bar, percent, t.In(Red, left(lost, topRate)))
	calm, urgent := notesOf(t, &r)
	room := t.Width - visible(line) - 2
	notes := strings.Join(urgent, ", ")
	if calm != "" {
		notes = strings.Join(append(urgent, t.In(Faint, calm)), ", ")
	}
	switch {
	case notes == "":
	case visible(notes) <= room:
		line += "  " + notes
	case calm != "":
		line += "  " + t.In(Faint, cut(calm, room))
	}
	t.Line("%s", strings.TrimRight(line, " "))
	if visible(notes) > room && len(urgent) > 0 { // what waits or is lost must not be cut off
		t.Wrapped(strings.Replace(r.mark, "├", "│", 1)+strings.Repeat(" ", topLead+1), strings.Join(urgent, ", "))
	}
}

// shortened is a station's name without what its place in the drawing tells.
func shortened(s *bottleneck.Station) string {
	name := s.Name
	if name == s.Stage {
		return ""
	}
	if s.Guest != "" {
		name = strings.TrimPrefix(name, s.Guest+" ")
	}
	if s.Stage == "qdisc" {
		name, _, _ = strings.Cut(name, " of ")
	}
	if thread, queue, found := strings.Cut(name, " (queue "); found {
		name = thread + "/" + strings.TrimSuffix(queue, ")")
	}
	return strings.Replace(name, " in ", "@", 1) // a device in a network namespace
}

// notesOf is what else there is to say: whose it is and what its use is a share of, and what must be seen: what waits, and by which
// counters packets were lost.
func notesOf(t *Text, r *topRow) (calm string, urgent []string) {
	for _, w := range r.s.Waits {
		urgent = append(urgent, t.In(Yellow, waitText(w)))
	}
	for _, l := range r.s.Lost[:min(len(r.s.Lost), 3)] {
		text := l.What
		if l.Value != r.s.Loss { // else it stands in the column
			text += " " + amount(l.Value) + "/s"
		}
		if text != "drops" {
			urgent = append(urgent, t.In(Red, text))
		}
	}
	var words []string
	for _, word := range []string{r.whose, r.s.Of} {
		if word != "" && word != r.s.Name {
			words = append(words, word)
		}
	}
	return strings.Join(words, ", "), urgent
}

// amount is a count or a rate in at most three digits.
func amount(v float64) string {
	if v >= 1 && v < 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return siDigits(v, 3)
}

func waitText(w bottleneck.Evidence) string {
	switch w.Unit {
	case "share":
		return fmt.Sprintf("%s %.0f %%", w.What, w.Value*100)
	case "us":
		return w.What + " " + duration(w.Value*1e3)
	case "packets/s", "times/s":
		return fmt.Sprintf("%s %s/s", w.What, amount(w.Value))
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", w.What, amount(w.Value), w.Unit))
}

// useBar draws a share in so many columns, to an eighth of one.
func useBar(share float64, width int) string {
	eighths := int(math.Round(min(max(share, 0), 1) * float64(width) * 8))
	bar := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		bar += string([]rune(" ▏▎▍▌▋▊▉")[rest])
	}
	return padded(bar, width)
}

// passing is a rate in at most six columns, nothing where it is not counted.
func passing(pps float64) string {
	switch {
	case pps < 0:
		return ""
	case pps < 1:
		return "0"
	}
	return amount(pps)
}

// padded is text in exactly so many columns, cut where it has more.
func padded(text string, width int) string {
	text = cut(tame(text, false), width)
	return text + strings.Repeat(" ", max(0, width-visible(text)))
}

// left is text at the right edge of so many columns.
func left(text string, width int) string {
	return strings.Repeat(" ", max(0, width-visible(text))) + text
}
