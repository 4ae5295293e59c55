package report

import (
	"fmt"
	"strings"
	"time"

	"mpps/internal/bottleneck"
	"mpps/internal/facts"
)

// TopView is how a look at the path is drawn: what its reader has chosen, and how much room there is.
type TopView struct {
	Rows   int     // lines that the terminal has; 0: as many as it takes
	Sort   TopSort // what stands first among NICs, guests and queues
	Guest  string  // part of the names of the guests that are shown; empty: all
	Detail TopDetail
	Idle   bool // what nothing passed is shown too
	Offset int  // how many lines of the path are scrolled away

	Keys   bool          // there is a keyboard: the line of keys is drawn
	Typing bool          // the guest's name is being typed
	Paused bool          // the look is an old one
	Help   bool          // the keys are explained in place of the path
	Every  time.Duration // between two looks
}

// TopSort is an order of a live view.
type TopSort string

// The orders.
const (
	SortPath TopSort = "path" // as packets pass, by number and name
	SortRate TopSort = "rate"
	SortUse  TopSort = "use"
	SortLost TopSort = "lost"
)

// TopSorts are the orders in the order in which a key goes through them.
var TopSorts = []TopSort{SortPath, SortRate, SortUse, SortLost}

// TopDetail is whether queues, threads and CPUs are shown beside their stations.
type TopDetail string

// The details.
const (
	DetailFit  TopDetail = "as fits" // where there is room; else those alone that hold the path back or lose packets
	DetailAll  TopDetail = "all"
	DetailNone TopDetail = "none"
)

// TopDetails are the details in the order in which a key goes through them.
var TopDetails = []TopDetail{DetailFit, DetailAll, DetailNone}

// Top draws a look at the path: what holds it back, how busy the CPUs are, and every station from the NICs to the guests with its
// rate, use, and what was lost there. It returns how far the path can be scrolled.
func Top(t *Text, l *bottleneck.Look, v *TopView) (scroll int) {
	if v.Help {
		topHelp(t, v)
		return 0
	}
	topHeader(t, l, v)
	topVerdict(t, l.Diagnosis)
	topCPUs(t, l.CPUs, v)
	room := v.Rows - strings.Count(t.b.String(), "\n")
	if v.Keys {
		room--
	}
	lines := topBody(t, l, v, v.Detail)
	if v.Rows > 0 && len(lines) > room && (v.Detail == DetailFit || v.Detail == "") {
		lines = topBody(t, l, v, DetailFit)
	}
	if v.Rows > 0 {
		lines, scroll = window(t, lines, v.Offset, max(room, 2))
	}
	t.b.WriteString(strings.Join(lines, ""))
	if v.Keys {
		topKeys(t, v)
	}
	if v.Rows > 0 {
		clip(t)
	}
	return scroll
}

// TopWaits is drawn until there is a look.
func TopWaits(t *Text, v *TopView) {
	t.Line("%s", t.In(Bold, "mpps top"))
	t.Line("looking for %v …", v.Every)
}

// topBody are the lines of the path.
func topBody(t *Text, l *bottleneck.Look, v *TopView, detail TopDetail) []string {
	body := &Text{color: t.color, Width: t.Width}
	topTable(body, l, v, detail)
	lines := strings.SplitAfter(body.b.String(), "\n")
	return lines[:len(lines)-1]
}

// window cuts the path to the room that is left, and says how much is above and below.
func window(t *Text, lines []string, offset, room int) (shown []string, scroll int) {
	if len(lines) <= room {
		return lines, 0
	}
	room -= 2 // for the names of the columns, and for the line that says so
	scroll = len(lines) - 1 - room
	from := min(max(offset, 0), scroll)
	shown = append(shown, lines[0])
	shown = append(shown, lines[1+from:1+from+room]...)
	note := fmt.Sprintf("  … %s below", count(scroll-from, "more line"))
	if from > 0 {
		note += fmt.Sprintf(", %d above", from)
	}
	return append(shown, t.In(Faint, note)+"\n"), scroll
}

// clip cuts what is wider than the terminal, which would break it and push lines out.
func clip(t *Text) {
	lines := strings.SplitAfter(t.b.String(), "\n")
	t.b.Reset()
	for _, line := range lines {
		n, escape := 0, false
		for _, r := range line {
			switch {
			case r == '\x1b':
				escape = true
			case escape:
				escape = r != 'm'
			case r != '\n':
				if n++; n > t.Width {
					continue // styles behind it still end
				}
			}
			t.b.WriteRune(r)
		}
	}
}

func topHeader(t *Text, l *bottleneck.Look, v *TopView) {
	words := []string{"mpps top", l.Host, l.At.Format("15:04:05"), fmt.Sprintf("%.1f s watched", l.Seconds)}
	if l.Method == facts.ByCounters {
		words = append(words, "counters only")
	}
	if l.Seconds > 0 {
		words = append(words, fmt.Sprintf("takes %.1f %% of a CPU", l.CostMS/l.Seconds/10))
	}
	line := cut(strings.Join(words, " · "), t.Width)
	switch {
	case v.Paused && t.Width >= 60:
		line = cut(line, t.Width-9)
		t.Line("%s  %s", t.In(Bold, line), t.In(Yellow, "PAUSED"))
	default:
		t.Line("%s", t.In(Bold, line))
	}
}

// topVerdict says what holds the path back.
func topVerdict(t *Text, d *bottleneck.Diagnosis) {
	if d == nil {
		return
	}
	if d.Bottleneck == nil {
		t.Wrapped("", t.In(Green, "✓ ")+d.Why)
		return
	}
	b := d.Bottleneck
	say := b.Say
	if b.Advice != "" {
		say += ": " + b.Advice
	}
	t.Wrapped(t.In(RedBold, "▶ "), fmt.Sprintf("%s (%.0f %% sure)", say, b.Confidence*100))
	if len(b.Knobs) > 0 {
		t.Wrapped("  ", t.In(Faint, "see: mpps explain "+strings.Join(b.Knobs[:min(len(b.Knobs), 3)], ", ")))
	}
	if d.Next != nil {
		t.Wrapped("  ", t.In(Faint, "then: "+d.Next.Say))
	}
}

// levels draw how busy something is in one column.
var levels = []rune("·▁▂▃▄▅▆▇█")

// topCPUs draws each CPU as one column, in groups of eight.
func topCPUs(t *Text, cpus []facts.CPULoad, v *TopView) {
	const lead = 9
	perLine := max(8, (t.Width-lead+1)/9*8)
	limit := len(cpus)
	if v.Rows > 0 && v.Rows < 40 {
		limit = 2 * perLine // the rest of a small terminal is the path's
	}
	for from := 0; from < min(len(cpus), limit); from += perLine {
		var b strings.Builder
		for i := from; i < min(from+perLine, len(cpus)); i++ {
			if i > from && (i-from)%8 == 0 {
				b.WriteByte(' ')
			}
			busy := min(max(cpus[i].Busy(), 0), 1)
			level := 0
			if busy >= 0.02 {
				level = min(1+int(busy*8), 8)
			}
			b.WriteString(t.In(heat(busy), string(levels[level])))
		}
		t.Line("%-*s%s", lead, fmt.Sprintf("CPU %d", cpus[from].CPU), b.String())
	}
	if len(cpus) > limit {
		t.Line("%s", t.In(Faint, fmt.Sprintf("         … and %s", count(len(cpus)-limit, "more CPU"))))
	}
}

// heat is the style of a share of use.
func heat(use float64) Style {
	switch {
	case use >= 0.9:
		return Red
	case use >= 0.7:
		return Yellow
	case use >= 0.02:
		return Green
	}
	return Faint
}

func topKeys(t *Text, v *TopView) {
	if v.Typing {
		t.b.WriteString(cut("guest: "+tame(v.Guest, false)+"▏ enter: keep · esc: all guests", t.Width))
		return
	}
	guest := v.Guest
	if guest == "" {
		guest = "all"
	}
	line := fmt.Sprintf("q quit · space %s · s sort: %s · g guest: %s · d detail · i idle · ? help",
		map[bool]string{true: "go on", false: "pause"}[v.Paused], v.Sort, cut(tame(guest, false), 12))
	t.b.WriteString(t.In(Faint, cut(line, t.Width)))
}

// topHelp explains keys and columns.
func topHelp(t *Text, v *TopView) {
	t.Heading("mpps top: the path from NIC to guest, live")
	t.Blank()
	t.Table([][]string{
		{"  q", "quit; Ctrl-C does too, Ctrl-Z stops for a while"},
		{"  space", "pause, and go on"},
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
		{"  use", "of a NIC its line rate, of a CPU its softirqs, of a thread its time on a CPU, of a limit its rate; ▶ holds the path back"},
		{"  lost", "packets per second that went no further"},
	})
	if v.Every > 0 {
		t.Blank()
		t.Line("  A look every %v.", v.Every)
	}
}
