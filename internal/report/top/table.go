package top

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"mpps/internal/advise/bottleneck"
	"mpps/internal/report"
	"mpps/internal/words"
)

// columns are the widths of the columns that depend on the terminal's.
type columns struct{ name, bar int }

// Widths of the columns that are the same everywhere: mark and stage, and a rate.
const leadWidth, rateWidth = 2 + 9 + 1, 6

// columnsFor shares out the width of a terminal.
func columnsFor(width int) columns {
	room := max(width-80, 0)
	return columns{name: 16 + min(room/4, 16), bar: words.Either(width < 80, 0, 5+min(room/6, 20))}
}

// drawTable draws the stations.
func drawTable(t *report.Text, l *bottleneck.Look, v *View, detail Detail) {
	c := columnsFor(t.Width)
	t.Line("%s", t.In(report.Faint, fmt.Sprintf("%*s %*s %*s %*s %*s", leadWidth+c.name, "", rateWidth, "in/s",
		rateWidth, "out/s", c.bar+6, "use", rateWidth, "lost/s")))
	var limit *bottleneck.Bottleneck
	if l.Diagnosis != nil {
		limit = l.Diagnosis.Bottleneck
	}
	var idle []string
	past := v.past(l)
	drawn := 0
	for _, block := range blocks(l.Stations, v) {
		if !v.Idle && quiet(block, limit) {
			idle = append(idle, cmp.Or(block[0].Guest, block[0].Name))
			continue
		}
		for i := range block {
			s := &block[i]
			row{c: c, mark: markOf(s, i), stage: s.Stage, s: s, limits: limits(limit, s), past: moments(past, s, nil),
				guest: words.Either(i == 0, s.Guest, "")}.draw(t)
			if detail != None {
				drawParts(t, c, s, limit, v, past, detail == Fit)
			}
			drawn++
		}
	}
	switch {
	case drawn > 0 && len(idle) > 0:
		t.Line("%s", t.In(report.Faint, report.Cut("  idle: "+strings.Join(idle, ", "), t.Width)))
	case drawn > 0:
	case v.Guest != "" && len(l.Stations) > 0:
		t.Line("  no guest's name has %q in it", v.Guest)
	case len(idle) > 0:
		t.Line("  nothing passes: %s idle", words.Count(len(idle), "station is", "stations are"))
	default:
		t.Line("  no station of a path is here")
	}
}

// past returns the looks that trends are drawn of, up to one; none where no trends are wanted.
func (v *View) past(l *bottleneck.Look) []*bottleneck.Look {
	if !v.Trend || v.Past == nil {
		return nil
	}
	return v.Past.until(l)
}

// blocks returns the stations in the order and the choice of a view. What belongs to one guest stays together.
func blocks(all []bottleneck.Station, v *View) [][]bottleneck.Station {
	shown := slices.DeleteFunc(slices.Clone(all), func(s bottleneck.Station) bool {
		return s.Guest != "" && !strings.Contains(s.Guest, v.Guest)
	})
	blocks := report.Runs(shown, func(a, b bottleneck.Station) bool { return a.Guest != "" && a.Guest == b.Guest })
	if v.Sort == ByPath || v.Sort == "" {
		return blocks
	}
	// Guests are sorted among each other, and devices of one stage.
	peers := report.Runs(blocks, func(a, b []bottleneck.Station) bool {
		return a[0].Guest != "" && b[0].Guest != "" || a[0].Guest+b[0].Guest == "" && a[0].Stage == b[0].Stage
	})
	for _, run := range peers {
		slices.SortStableFunc(run, v.compareWeight)
	}
	return slices.Concat(peers...)
}

// compareWeight returns the order of blocks by what the view sorts by.
func (v *View) compareWeight(a, b []bottleneck.Station) int {
	return cmp.Compare(weight(b, v.Sort), weight(a, v.Sort))
}

// weight returns what a block is sorted by; nothing in the order of the path.
func weight(block []bottleneck.Station, by Sort) (weight float64) {
	for i := range block {
		switch s := &block[i]; by {
		case ByRate:
			weight = max(weight, s.PPS())
		case ByUse:
			weight = max(weight, s.Use)
		case ByLost:
			weight += s.Loss
		}
	}
	return weight
}

// quiet reports whether nothing passes stations and none of them limits the path.
func quiet(stations []bottleneck.Station, limit *bottleneck.Bottleneck) bool {
	for i := range stations {
		if s := &stations[i]; !s.Idle() || limits(limit, s) || !quiet(s.Parts, limit) {
			return false
		}
	}
	return true
}

// markOf returns the piece of the path left of a station: down from the NICs to the bridges, with branches to guests.
func markOf(s *bottleneck.Station, i int) string {
	if s.Guest != "" && s.Stage != "bridge" {
		return words.Either(i == 0, "├", "│")
	}
	marks := map[string]string{"bridge": "┿", "pmd": "┿", "nic": "╷", "overlay": "╷",
		"softirq": "│", "netfilter": "│", "conntrack": "│"}
	return cmp.Or(marks[s.Stage], " ")
}

// drawParts draws the queues, threads or CPUs of a station, those that do nothing as a count; where few are wanted only
// those that limit the path or lose packets.
func drawParts(t *report.Text, c columns, s *bottleneck.Station, limit *bottleneck.Bottleneck, v *View,
	past []*bottleneck.Look, few bool) {
	list := slices.Clone(s.Parts)
	slices.SortStableFunc(list, func(a, b bottleneck.Station) int {
		return v.compareWeight([]bottleneck.Station{a}, []bottleneck.Station{b})
	})
	mark, idle := words.Either(s.Guest == "" && markOf(s, 0) == " ", " ", "│"), 0
	for i := range list {
		p := &list[i]
		limits := limits(limit, p)
		switch {
		case few && p.Loss == 0 && !limits:
		case !v.Idle && p.Idle() && !limits:
			idle++
		default:
			row{c: c, mark: mark, s: p, part: true, limits: limits, past: moments(past, s, p)}.draw(t)
		}
	}
	t.LineIf(idle > 0 && idle < len(list) && !few, "%s",
		t.In(report.Faint, fmt.Sprintf("%s            %d more idle", mark, idle)))
}

// limits reports whether a station is the bottleneck: by its name, or as that stage's part on the named CPU or guest.
func limits(b *bottleneck.Bottleneck, s *bottleneck.Station) bool {
	switch {
	case b == nil || b.Object == "":
		return false
	case s.Stage == "netfilter" || s.Stage == "socket": // these stages have no objects to distinguish
		return b.Stage == s.Stage && len(s.Parts) == 0 && (s.Guest == "" || strings.HasSuffix(b.Object, s.Guest))
	case b.Object == s.Name:
		return b.Stage == s.Stage || len(s.Parts) == 0
	case b.Stage != s.Stage || len(s.Parts) > 0:
		return false
	}
	cpu, _, _ := strings.Cut(s.Of, ",")
	return b.Object == cpu || b.Object == s.Guest
}

// row is one line.
type row struct {
	c           columns
	mark, stage string
	guest       string // only in a guest's first line
	s           *bottleneck.Station
	part        bool
	limits      bool
	past        []moment // drawn in place of notes; empty: notes
}

func (r row) draw(t *report.Text) {
	name, mark, style := shortName(r.s), r.mark, report.Bold
	if r.part {
		name, style = "  "+name, ""
	}
	if r.limits {
		mark, style = t.In(report.RedBold, "▶"), report.RedBold
	}
	bar, percent := report.Pad("", r.c.bar), "    "
	if r.s.Use >= 0 {
		bar, percent = t.In(heat(r.s.Use), useBar(r.s.Use, r.c.bar)), fmt.Sprintf("%3.0f%%", min(r.s.Use, 9.99)*100)
	}
	lost := words.Either(r.s.Loss > 0, amountText(r.s.Loss), "")
	line := fmt.Sprintf("%s %s %s %s %s  %s %s %s", mark, fit(r.stage, 9), t.In(style, fit(name, r.c.name)),
		report.Pad(rateText(r.s.In), -rateWidth), report.Pad(rateText(r.s.Out), -rateWidth),
		bar, percent, t.In(report.Red, report.Pad(lost, -rateWidth)))
	if len(r.past) > 0 {
		r.drawTrend(t, line)
		return
	}
	calm, urgent := r.notes(t)
	room, all := t.Width-report.Visible(line)-2, words.Join(", ", urgent, t.In(report.Faint, calm))
	fits := report.Visible(all) <= room
	switch {
	case all == "":
	case fits:
		line += "  " + all
	case calm != "":
		line += "  " + t.In(report.Faint, report.Cut(calm, room))
	}
	t.Line("%s", strings.TrimRight(line, " "))
	if !fits && urgent != "" { // what waits or is lost must not be cut off
		t.Wrap(strings.Replace(r.mark, "├", "│", 1)+strings.Repeat(" ", leadWidth+1), urgent)
	}
}

// drawTrend draws a row with its last minute in place of notes, and what the highest column stands for.
func (r row) drawTrend(t *report.Text, line string) {
	text, most := trend(t, r.past, max(t.Width-report.Visible(line)-len("    < 1.23 M"), 1))
	if most > 0 {
		counted := r.s.In >= 0 || r.s.Out >= 0
		line += "  " + text + "  ≤ " + words.Either(counted, rateText(most), fmt.Sprintf("%.0f%%", min(most, 9.99)*100))
	}
	t.Line("%s", strings.TrimRight(line, " "))
}

// shortName returns a station's name without the parts that its position in the drawing shows.
func shortName(s *bottleneck.Station) string {
	name := s.Name
	if name == s.Stage {
		return ""
	}
	if s.Guest != "" {
		name = strings.TrimPrefix(name, s.Guest+" ")
	}
	name = strings.TrimPrefix(name, "vhost-user port ")
	if s.Stage == "qdisc" {
		name, _, _ = strings.Cut(name, " of ")
	}
	if thread, queue, found := strings.Cut(name, " (queue "); found {
		name = thread + "/" + strings.TrimSuffix(queue, ")")
	}
	return strings.Replace(name, " in ", "@", 1) // a device in a network namespace
}

// notes returns what else there is to say: whose it is and what its use is a share of, and what must be seen: what
// waits, and by which counters packets were lost.
func (r row) notes(t *report.Text) (calm, urgent string) {
	notes := words.Each(r.s.Waits, func(w bottleneck.Evidence) string { return t.In(report.Yellow, waitText(w)) })
	for _, l := range r.s.Lost[:min(len(r.s.Lost), 3)] {
		text := l.What + words.If(l.Value != r.s.Loss, " %s/s", amountText(l.Value)) // otherwise the column has it
		if text != "drops" {
			notes = append(notes, t.In(report.Red, text))
		}
	}
	known := func(word string) string { return words.Either(word != r.s.Name, word, "") }
	return words.Join(", ", known(r.guest), known(r.s.Of)), strings.Join(notes, ", ")
}

// amountText returns a count or a rate in at most three digits.
func amountText(v float64) string {
	if v >= 1 && v < 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return words.SI(v, 3)
}

func waitText(w bottleneck.Evidence) string {
	switch w.Unit {
	case "share":
		return fmt.Sprintf("%s %.0f %%", w.What, w.Value*100)
	case "us":
		return w.What + " " + words.Duration(w.Value*1e3)
	case "packets/s", "times/s":
		return fmt.Sprintf("%s %s/s", w.What, amountText(w.Value))
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", w.What, amountText(w.Value), w.Unit))
}

// useBar draws a share in so many columns, to an eighth of one.
func useBar(share float64, width int) string {
	eighths := int(math.Round(min(max(share, 0), 1) * float64(width) * 8))
	rest := strings.TrimSpace(string([]rune(" ▏▎▍▌▋▊▉")[eighths%8]))
	return fit(strings.Repeat("█", eighths/8)+rest, width)
}

// rateText returns a rate in at most six columns, nothing if it is not counted.
func rateText(pps float64) string {
	return words.Either(pps >= 0, words.Either(pps < 1, "0", amountText(pps)), "")
}

// fit returns text in exactly so many columns, cut if it has more.
func fit(text string, width int) string { return report.Pad(report.Cut(text, width), width) }
