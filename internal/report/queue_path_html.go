package report

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"mpps/internal/facts"
	"mpps/internal/queuepath"
	"mpps/internal/setting"
)

//go:embed queue_path.html.tmpl
var queuePathTemplate string

//go:embed queue_path.css
var queuePathStyle string

var queuePathPage = template.Must(template.New("path").Parse(queuePathTemplate))

// QueuePathPage is a path with what its page says besides.
type QueuePathPage struct {
	Host     string
	Path     *queuepath.Path
	Warnings []Warning
}

// QueuePathHTML writes a path as one file that needs no network and no script, with the result embedded as JSON.
func QueuePathHTML(w io.Writer, page *QueuePathPage, version string, made time.Time) error {
	p := page.Path
	data, err := json.Marshal(facts.Whole(p)) // escapes <, > and &: safe inside a script element
	if err != nil {
		return fmt.Errorf("embed the path in the page: %w", err)
	}
	view := queuePathView{
		Title: "Which queues packets take on " + page.Host, Headline: queuePathHeadline(p), Watched: queuePathWatched(p),
		Healthy: len(p.Lanes) > 0 && len(p.Faults) == 0 && p.Joined(), Warnings: page.Warnings, Devices: deviceRows(p), Lanes: laneRows(p),
		Style: template.CSS(pageStyle + queuePathStyle), Data: template.JS(data), Version: version, Date: made.UTC().Format("2 January 2006, 15:04 MST"),
	}
	for i := range p.Faults {
		f := &p.Faults[i]
		view.Faults = append(view.Faults, faultView{Fault: f, Number: i + 1, Share: queuePathShare(f.Share)})
	}
	for _, way := range ways {
		wide := flowOf(p, way.way, false)
		if wide == nil {
			continue
		}
		label := fmt.Sprintf("%s: %s", way.title, count(len(lanesOf(p, way.way)), "lane"))
		view.Ways = append(view.Ways, wayView{Title: sentence(way.title), Wide: wide.svg(label), Narrow: flowOf(p, way.way, true).svg(label), Note: wayNote(p, way.way)})
	}
	for _, g := range gridsOfPath(p) {
		note := grouped(g.sum) + " packets"
		if g.whole {
			note += ", end to end"
		}
		view.Grids = append(view.Grids, gridView{Title: sourceTitle(&g) + " → " + g.title(), Note: note, Drawing: gridSVG(&g)})
	}
	return queuePathPage.Execute(w, view)
}

type queuePathView struct {
	Title, Headline, Watched, Version, Date string
	Healthy                                 bool
	Faults                                  []faultView
	Ways                                    []wayView
	Grids                                   []gridView
	Lanes                                   laneTable
	Devices                                 []deviceRow
	Warnings                                []Warning
	Style                                   template.CSS
	Data                                    template.JS
}

type faultView struct {
	*queuepath.Fault
	Number int
	Share  string
}

type wayView struct {
	Title, Note  string
	Wide, Narrow template.HTML
}

type gridView struct {
	Title, Note string
	Drawing     template.HTML
}

type deviceRow struct{ Name, Kind, Queues, Lock, XPS string }

type laneTable struct {
	Rows []laneRow
	More int // lanes that are not in the table
}

type laneRow struct{ Way, Guest, Stops, PPS, Share, Where string }

// sentence begins a text with a capital letter.
func sentence(text string) string {
	first, n := utf8.DecodeRuneInString(text)
	if n == 0 {
		return text
	}
	return string(unicode.ToUpper(first)) + text[n:]
}

// wayNote says how much a way carries.
func wayNote(p *queuepath.Path, way queuepath.Way) string {
	var pps, share float64
	n := 0
	for i := range p.Lanes {
		if l := &p.Lanes[i]; l.Way == way {
			pps, share, n = pps+l.PPS, share+l.Share, n+1
		}
	}
	return fmt.Sprintf("%s packets per second on %s, %s of all.", siDigits(pps, 3), count(n, "lane"), queuePathShare(share))
}

// sourceTitle names the device that leads into a grid, or how many do.
func sourceTitle(g *grid) string {
	names := map[string]bool{}
	for _, f := range g.from {
		names[f.side.Device] = true
	}
	if len(names) > 1 {
		return count(len(names), "device")
	}
	return g.from[0].side.Device + " " + string(g.from[0].side.Direction)
}

// maxLaneRows is how many lanes the table has, the widest first; the JSON has all.
const maxLaneRows = 200

func laneRows(p *queuepath.Path) laneTable {
	var t laneTable
	for i := range p.Lanes {
		if i == maxLaneRows {
			t.More = len(p.Lanes) - i
			break
		}
		l := &p.Lanes[i]
		var stops []string
		for _, s := range l.Stops {
			stops = append(stops, plainQueue(s.Queue))
		}
		s := stripOf(p, p.Lanes[i:i+1], map[queuepath.Side]int{}, 1, nil)
		text := strings.Join(stops, " → ")
		if !l.Left {
			text += " (ends here)"
		}
		t.Rows = append(t.Rows, laneRow{Way: string(l.Way), Guest: l.Guest, Stops: text, PPS: siDigits(l.PPS, 3), Share: queuePathShare(l.Share), Where: s.where})
	}
	return t
}

// deviceRows are the devices that packets were seen on.
func deviceRows(p *queuepath.Path) []deviceRow {
	seen := map[string]bool{}
	for i := range p.Rows {
		seen[p.Rows[i].To.Device] = true
	}
	var rows []deviceRow
	for _, d := range p.Devices {
		if !seen[d.Name] {
			continue
		}
		row := deviceRow{Name: d.Name, Kind: d.Kind, Queues: fmt.Sprintf("%d tx, %d rx", d.TxQueues, d.RxQueues), Lock: "lock by queue", XPS: "none"}
		if d.Guest != "" {
			row.Kind += " of " + d.Guest
		}
		if d.Lockless {
			row.Lock = "no lock"
		}
		if d.Qdisc != "" {
			row.Lock += ", " + d.Qdisc
		}
		var sets []string
		for q, set := range d.XPS {
			if len(set) > 0 {
				sets = append(sets, fmt.Sprintf("%d: %s", q, set))
			}
		}
		if len(sets) > 0 {
			row.XPS = strings.Join(sets, "; ")
		}
		rows = append(rows, row)
	}
	return rows
}

// gridSVG draws a matrix: a field for each pair of queues, the darker the more packets.
func gridSVG(g *grid) template.HTML {
	var most uint64
	for _, line := range g.cells {
		for _, n := range line {
			most = max(most, n)
		}
	}
	const left, top = 96.0, 18.0
	cell, row := min(26.0, max(13, 900/float64(len(g.to)))), 15.0
	dense := len(g.from) > 40
	if dense {
		row = 7
	}
	var d drawing
	width, height := left+cell*float64(len(g.to))+8, top+row*float64(len(g.from))+4
	step := 1
	for c := range g.to {
		text := g.column(c)
		if g.mixed() || cell < 18 {
			step = max(step, int((float64(len(text))*6+4)/cell)+1)
		}
	}
	for c := range g.to {
		if c%step == 0 {
			d.text("tick", "middle", left+cell*(float64(c)+0.5), top-5, g.column(c))
		}
	}
	for r, f := range g.from {
		y := top + row*float64(r)
		if first := r == 0 || g.from[r-1].side != f.side; !dense || first {
			text := f.side.Device
			if !dense {
				text += " " + setting.CPUs(f.queue...).String()
				if f.queue[0] < 0 {
					text = f.side.Device + " ?"
				}
			}
			d.text("tick", "end", left-6, y+baseline(row), cut(text, 16))
			if first && r > 0 {
				d.line("grid", left, y, width-8, y)
			}
		}
		for c, n := range g.cells[r] {
			x := left + cell*float64(c)
			if n == 0 {
				fmt.Fprintf(&d.b, `<rect class="idle" x="%s" y="%s" width="%s" height="%s"/>`, px(x+0.5), px(y+0.5), px(cell-1), px(row-1))
				continue
			}
			part := float64(n) / float64(most)
			fmt.Fprintf(&d.b, `<rect class="heat" fill-opacity="%.2f" x="%s" y="%s" width="%s" height="%s"><title>%s</title></rect>`, 0.15+0.85*part, px(x+0.5), px(y+0.5), px(cell-1), px(row-1),
				template.HTMLEscapeString(fmt.Sprintf("%s → %s: %s packets, %s", f, g.to[c], grouped(n), queuePathShare(float64(n)/float64(g.sum)))))
		}
	}
	return template.HTML(fmt.Sprintf(`<svg style="width:%spx;max-width:none" viewBox="0 0 %s %s" role="img" aria-label="matrix">%s</svg>`, px(width), px(width), px(height), d.b.String()))
}

// baseline is where the base line of small text stands in a row of some height.
func baseline(row float64) float64 { return row/2 + 3.6 }
