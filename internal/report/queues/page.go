package queues

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"time"

	"mpps/internal/advise/queuepath"
	"mpps/internal/report"
	"mpps/internal/report/page"
	"mpps/internal/report/svg"
	"mpps/internal/words"
)

//go:embed queues.html.tmpl style.css
var files embed.FS

var write = page.New(files, template.FuncMap{"stops": stops, "watched": watchedText})

// HTML writes a path as a page.
func HTML(w io.Writer, host string, p *queuepath.Path, warnings []report.Warning, version string,
	made time.Time) error {
	b := body{Path: p, More: len(p.Lanes) - maxRows, Healthy: len(p.Lanes) > 0 && len(p.Faults) == 0 && p.Joined()}
	for i := range p.Lanes[:min(len(p.Lanes), maxRows)] {
		b.Rows = append(b.Rows, laneRow{&p.Lanes[i], cpusText(p, p.Lanes[i:i+1])})
	}
	b.Devices = slices.DeleteFunc(slices.Clone(p.Devices), func(d queuepath.Device) bool { // no packet was seen there
		return !slices.ContainsFunc(p.Rows, func(r queuepath.Row) bool { return r.To.Device == d.Name })
	})
	for _, way := range ways {
		wide := flowOf(p, way.way, false)
		if wide == nil {
			continue
		}
		lanes := lanesOf(p, way.way)
		pps, share := total(lanes)
		n := words.Count(len(lanes), "lane")
		label := way.title + ": " + n
		b.Ways = append(b.Ways, wayView{words.Sentence(way.title),
			fmt.Sprintf("%s packets per second on %s, %s of all.", words.SI(pps, 3), n, words.Share(share)),
			wide.svg(label), flowOf(p, way.way, true).svg(label)})
	}
	for _, g := range gridsOfPath(p) {
		b.Grids = append(b.Grids, page.Card{Title: g.source() + " → " + g.title(), Picture: g.svg(),
			Note: words.Grouped(g.sum) + " packets" + words.If(g.whole, ", end to end")})
	}
	return write(w, page.Page{Title: "Which queues packets take on " + host, Verdict: headline(p),
		Body: b, Warnings: warnings, Version: version, Made: made, Data: p})
}

type body struct {
	*queuepath.Path
	Ways    []wayView
	Grids   []page.Card
	Rows    []laneRow
	More    int // lanes that have no row
	Devices []queuepath.Device
	Healthy bool
}

// laneRow is a row of the table of lanes.
type laneRow struct {
	*queuepath.Lane
	Where string
}

type wayView struct {
	Title, Note  string
	Wide, Narrow template.HTML
}

// maxRows is how many lanes the table has, the widest first; the JSON has all.
const maxRows = 200

// svg draws a matrix: a field for each pair of queues, the darker the more packets.
func (g *grid) svg() template.HTML {
	const left, top = 96.0, 18.0
	dense := len(g.from) > 40
	cell, row := min(26.0, max(13, 900/float64(len(g.to)))), words.Either(dense, 7.0, 15)
	d := &svg.Drawing{Width: left + cell*float64(len(g.to)) + 8, Y: top + row*float64(len(g.from)) + 4, Fixed: true}
	step := 1 // every how many columns have a head
	for c := range g.to {
		if g.mixed() || cell < 18 {
			step = max(step, int((float64(len(g.column(c)))*6+4)/cell)+1)
		}
	}
	for c := 0; c < len(g.to); c += step {
		d.Text("tick", "middle", left+cell*(float64(c)+0.5), top-5, g.column(c))
	}
	most := float64(g.most())
	for r, f := range g.from {
		y := top + row*float64(r)
		first := r == 0 || g.from[r-1].side != f.side
		if first || !dense {
			text := f.side.Device + words.If(!dense, " %s", queueNumbers(f.queue...))
			d.Text("tick", "end", left-6, y+row/2+3.6, report.Cut(text, 16))
		}
		if first && r > 0 {
			d.Line("grid", left, y, d.Width-8, y)
		}
		for c, n := range g.cells[r] {
			share, title := 0.0, ""
			if n > 0 {
				share = 0.15 + 0.85*float64(n)/most
				title = fmt.Sprintf("%s → %s: %s packets, %s", f, g.to[c], words.Grouped(n),
					words.Share(float64(n)/float64(g.sum)))
			}
			d.Cell(share, left+cell*float64(c)+0.5, y+0.5, cell-1, row-1, title)
		}
	}
	return d.HTML("matrix")
}
