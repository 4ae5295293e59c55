// Package top draws a live look at the packet path, one screen at a time.
package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"mpps/internal/advise/bottleneck"
	"mpps/internal/model/facts"
	"mpps/internal/report"
	"mpps/internal/words"
)

// View holds how to draw a look at the path: the user's choices and the room there is.
type View struct {
	Rows   int    // lines of the terminal; 0: unlimited
	Sort   Sort   // order of NICs, guests and queues
	Guest  string // part of the names of the guests to show; empty: all
	Detail Detail
	Idle   bool // show idle stations too
	Offset int  // lines of the path scrolled away

	Past  *History // the looks before; nil: not kept
	Trend bool     // draw each station's last minute in place of its notes

	Keys   bool          // there is a keyboard: the line of keys is drawn
	Typing bool          // the guest's name is being typed
	Paused bool          // the look is an old one
	Step   int           // looks to go forward, or back if negative; the caller takes it and sets it to 0
	Why    bool          // the diagnosis is drawn in place of the path
	Help   bool          // the keys are explained in place of the path
	Every  time.Duration // between two looks
}

// Sort is an order of a live view.
type Sort string

// The orders.
const (
	ByPath Sort = "path" // as packets pass, by number and name
	ByRate Sort = "rate"
	ByUse  Sort = "use"
	ByLost Sort = "lost"
)

// Sorts are the orders in the order in which a key goes through them.
var Sorts = []Sort{ByPath, ByRate, ByUse, ByLost}

// Detail is which queues, threads and CPUs are shown below their stations.
type Detail string

// The details.
const (
	Fit  Detail = "as fits" // if there is room; else those alone that limit the path or lose packets
	All  Detail = "all"
	None Detail = "none"
)

// details are the details in the order in which a key goes through them.
var details = []Detail{Fit, All, None}

// Draw draws a look at the path: what limits it, how busy the CPUs are, and every station from the NICs to the guests
// with its rate, use, and what was lost there. It returns how far the path can be scrolled.
func Draw(t *report.Text, l *bottleneck.Look, v *View) (scroll int) {
	if v.Help {
		drawHelp(t, v)
		return 0
	}
	if v.Why && l.Diagnosis != nil {
		return drawWhy(t, l, v)
	}
	lines := t.Part(func(t *report.Text) {
		drawHeader(t, l, v)
		drawVerdict(t, l.Diagnosis)
		drawCPUs(t, l.CPUs, v)
	})
	room := v.Rows - len(lines) - words.Either(v.Keys, 1, 0)
	body := func(d Detail) []string { return t.Part(func(t *report.Text) { drawTable(t, l, v, d) }) }
	path := body(v.Detail)
	if v.Rows > 0 && len(path) > room && v.Detail == "" {
		path = body(Fit)
	}
	if v.Rows > 0 {
		path, scroll = window(t, path, v.Offset, max(room, 2))
	}
	v.end(t, append(lines, path...))
	return scroll
}

// end draws lines as they fit on the terminal, and the line of keys.
func (v *View) end(t *report.Text, lines []string) {
	end := "\n"
	if v.Keys {
		lines, end = append(lines, keysLine(t, v)), ""
	}
	if v.Rows > 0 {
		for i := range lines {
			lines[i] = clip(lines[i], t.Width)
		}
	}
	t.Append(strings.Join(lines, "\n") + end)
}

// drawWhy draws what the verdict rests on, stage by stage.
func drawWhy(t *report.Text, l *bottleneck.Look, v *View) (scroll int) {
	lines := t.Part(func(t *report.Text) { drawHeader(t, l, v) })
	why := t.Part(func(t *report.Text) {
		t.Blank()
		report.Diagnosis(t, l.Diagnosis, &facts.Load{CostMS: l.CostMS}, true)
	})
	if v.Rows > 0 {
		why, scroll = window(t, why, v.Offset, max(v.Rows-len(lines)-words.Either(v.Keys, 1, 0), 3))
	}
	v.end(t, append(lines, why...))
	return scroll
}

// Wait draws a placeholder until the first look.
func Wait(t *report.Text, v *View) {
	t.Heading("mpps top")
	t.Line("looking for %v …", v.Every)
}

// window cuts the path to the room that is left, and says how much is above and below.
func window(t *report.Text, lines []string, offset, room int) (shown []string, scroll int) {
	if len(lines) <= room {
		return lines, 0
	}
	room -= 2 // for the names of the columns, and for the line that says so
	scroll = len(lines) - 1 - room
	from := min(max(offset, 0), scroll)
	note := "  … " + words.Count(scroll-from, "more line") + " below" + words.If(from > 0, ", %d above", from)
	return slices.Concat(lines[:1], lines[1+from:1+from+room], []string{t.In(report.Faint, note)}), scroll
}

// clip cuts a line that is wider than the terminal, which would break it and push others out. Styles still end.
func clip(line string, width int) string {
	n, escape := 0, false
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\x1b':
			escape = true
		case escape:
			escape = r != 'm'
		default:
			if n++; n > width {
				return -1
			}
		}
		return r
	}, line)
}

func drawHeader(t *report.Text, l *bottleneck.Look, v *View) {
	line := report.Cut(strings.Join([]string{"mpps top", l.Host, l.At.Format("15:04:05"),
		fmt.Sprintf("%.1f s watched", l.Seconds)}, " · ")+words.If(l.Method == facts.ByCounters, " · counters only")+
		words.If(l.Seconds > 0, " · takes %.1f %% of a CPU", l.CostMS/l.Seconds/10), t.Width)
	if v.Paused && t.Width >= 60 {
		note := "PAUSED"
		if v.Past != nil && v.Past.Newest() != nil {
			if ago := v.Past.Newest().At.Sub(l.At).Round(time.Second); ago > 0 {
				note = fmt.Sprintf("PAUSED %v ago", ago)
			}
		}
		t.Line("%s  %s", t.In(report.Bold, report.Cut(line, t.Width-2-len(note)-1)), t.In(report.Yellow, note))
		return
	}
	t.Heading(line)
}

// drawVerdict says what limits the path.
func drawVerdict(t *report.Text, d *bottleneck.Diagnosis) {
	switch {
	case d == nil:
	case d.Bottleneck == nil:
		t.Wrap("", t.In(report.Green, "✓ ")+d.Why)
	default:
		b := d.Bottleneck
		t.Wrap(t.In(report.RedBold, "▶ "), fmt.Sprintf("%s (%.0f %% sure)",
			words.Join(": ", b.Say, b.Advice), b.Confidence*100))
		see := words.If(len(b.Knobs) > 0, "see: mpps explain %s", strings.Join(b.Knobs[:min(len(b.Knobs), 3)], ", "))
		t.Field("  ", t.In(report.Faint, see))
		if d.Next != nil {
			t.Wrap("  ", t.In(report.Faint, "then: "+d.Next.Say))
		}
		for _, b := range d.Besides {
			t.Wrap("  ", t.In(report.Faint, "besides: "+b.Say))
		}
	}
}

// levels draw how busy something is in one column.
var levels = []rune("·▁▂▃▄▅▆▇█")

// drawCPUs draws each CPU as one column, in groups of eight.
func drawCPUs(t *report.Text, cpus []facts.CPULoad, v *View) {
	const lead = 9
	perLine := max(8, (t.Width-lead+1)/9*8)
	limit := min(len(cpus), words.Either(v.Rows > 0 && v.Rows < 40, 2*perLine, len(cpus))) // the rest is the path's
	for from := 0; from < limit; from += perLine {
		line := report.Pad(fmt.Sprintf("CPU %d", cpus[from].CPU), lead)
		for i := from; i < min(from+perLine, len(cpus)); i++ {
			busy := min(max(cpus[i].Busy(), 0), 1)
			level := words.Either(busy >= 0.02, min(1+int(busy*8), 8), 0)
			line += words.If(i > from && (i-from)%8 == 0, " ") + t.In(heat(busy), string(levels[level]))
		}
		t.Line("%s", line)
	}
	rest := len(cpus) - limit
	t.LineIf(rest > 0, "%s", t.In(report.Faint, "         … and "+words.Count(rest, "more CPU")))
}

// heat returns the style of a share of use.
func heat(use float64) report.Style {
	switch {
	case use >= 0.9:
		return report.Red
	case use >= 0.7:
		return report.Yellow
	case use >= 0.02:
		return report.Green
	}
	return report.Faint
}

// keysLine returns the line of keys.
func keysLine(t *report.Text, v *View) string {
	if v.Typing {
		return report.Cut("guest: "+v.Guest+"▏ enter: keep · esc: all guests", t.Width)
	}
	pause := words.Either(v.Paused, "go on", "pause")
	line := fmt.Sprintf("q quit · space %s · e why · t trend · s sort: %s · g guest: %s · ? help", pause,
		cmp.Or(v.Sort, ByPath), report.Cut(cmp.Or(v.Guest, "all"), 12))
	return t.In(report.Faint, report.Cut(line, t.Width))
}

// drawHelp explains keys and columns.
func drawHelp(t *report.Text, v *View) {
	t.Heading("mpps top: the path from NIC to guest, live")
	t.Blank()
	t.Table([][]string{
		{"  q", "quit; Ctrl-C does too, Ctrl-Z stops for a while"},
		{"  space", "pause, and go on"},
		{"  ← →", "pause and go through the looks of the last minute"},
		{"  e", "why: what the verdict rests on, stage by stage"},
		{"  t", "trend: the last minute of each station, in red where packets were lost"},
		{"  s", "order of NICs, guests and queues: path, rate, use, lost"},
		{"  g", "type a part of guests' names; enter keeps it, esc shows all"},
		{"  d", "queues, threads and CPUs: as many as fit, all, or none"},
		{"  i", "what nothing passed, too"},
		{"  ↑ ↓", "scroll; PgUp, PgDn, Home, End too"},
		{"  ?", "this; any key goes back"},
	})
	t.Blank()
	t.Table([][]string{
		{"  in", "packets per second towards guests and applications"},
		{"  out", "packets per second towards the wire"},
		{"  use", "of a NIC its line rate, of a CPU its softirqs, of a thread its time on a CPU, of a limit its " +
			"rate; " + "▶ holds the path back"},
		{"  lost", "packets per second that went no further"},
	})
	if v.Every > 0 {
		t.Blank()
		t.Line("  A look every %v.", v.Every)
	}
}

// Press changes a view as a key asks for, and reports whether to leave it. scroll is what Draw returned, page how many
// lines it shows.
func (v *View) Press(k report.Key, scroll, page int) (quit bool) {
	if v.Typing {
		v.typeKey(k)
		return false
	}
	if v.Help {
		v.Help = false
		return k == "q"
	}
	switch k {
	case "q", "Q":
		return true
	case " ":
		v.Paused = !v.Paused
	case report.KeyLeft:
		v.Paused, v.Step = true, v.Step-1
	case report.KeyRight:
		v.Step++
	case "e":
		v.Why, v.Offset = !v.Why, 0
	case "t":
		v.Trend = !v.Trend
	case "s":
		v.Sort, v.Offset = next(Sorts, v.Sort), 0
	case "d":
		v.Detail = next(details, v.Detail)
	case "i":
		v.Idle = !v.Idle
	case "g", "/":
		v.Typing, v.Offset = true, 0
	case "?", "h":
		v.Help = true
	case report.KeyEscape:
		v.Guest, v.Offset, v.Why = "", 0, false
	case report.KeyUp, "k":
		v.Offset--
	case report.KeyDown, "j":
		v.Offset++
	case report.KeyPageUp:
		v.Offset -= page
	case report.KeyPageDown:
		v.Offset += page
	case report.KeyHome:
		v.Offset = 0
	case report.KeyEnd:
		v.Offset = scroll
	}
	v.Offset = min(max(v.Offset, 0), scroll)
	return false
}

// typeKey takes a key while a guest's name is being typed.
func (v *View) typeKey(k report.Key) {
	switch k {
	case report.KeyEnter:
		v.Typing = false
	case report.KeyEscape:
		v.Typing, v.Guest = false, ""
	case report.KeyBackspace:
		_, last := utf8.DecodeLastRuneInString(v.Guest)
		v.Guest = v.Guest[:len(v.Guest)-last]
	default:
		if utf8.RuneCountInString(string(k)) == 1 && len(v.Guest) < 64 {
			v.Guest += string(k)
		}
	}
}

// next returns what follows in a list, the first after the last. What is not in it counts as the first.
func next[T comparable](list []T, at T) T { return list[(max(slices.Index(list, at), 0)+1)%len(list)] }
