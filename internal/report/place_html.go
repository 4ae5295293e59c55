package report

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"mpps/internal/facts"
	"mpps/internal/placement"
	"mpps/internal/setting"
)

//go:embed place.html.tmpl
var placeTemplate string

//go:embed place.css
var placeStyle string

var placePage = template.Must(template.New("place").Parse(placeTemplate))

// guestColours is how many colours guests have in turn; the tag, not the colour, tells them apart.
const guestColours = 7

// PlaceHTML writes a placement as one file that needs no network and no script, with the result embedded as JSON.
func PlaceHTML(w io.Writer, p *Placing, version string, made time.Time) error {
	data, err := json.Marshal(facts.Whole(p.Result)) // escapes <, > and &: safe inside a script element
	if err != nil {
		return fmt.Errorf("embed the placement in the page: %w", err)
	}
	seats := seatsOf(p)
	view := placeView{
		Title: "Who sits where on " + p.Host.Name, Headline: placeHeadline(p), Result: p.Result,
		Cost: costLine(p.Result.Cost), Kept: CPUs(p.Result.Housekeeping), Style: template.CSS(pageStyle + placeStyle), Data: template.JS(data),
		Version: version, Date: made.UTC().Format("2 January 2006, 15:04 MST"),
	}
	for _, s := range socketsOf(p) {
		view.Sockets = append(view.Sockets, socketRow(s, seats))
	}
	for i := range p.Result.Guests {
		view.Guests = append(view.Guests, guestRow(&p.Result.Guests[i], seats, p))
	}
	for _, d := range p.Result.Daemons {
		view.Housed = append(view.Housed, factRow{d.Name, CPUs(d.CPUs) + ": " + d.Why})
	}
	for _, n := range p.Result.NICs {
		view.Housed = append(view.Housed, factRow{"interrupts of " + n.Name, CPUs(setting.CPUs(n.CPUs...)) + ": " + n.Why})
	}
	return placePage.Execute(w, view)
}

type placeView struct {
	*placement.Result
	Title, Headline, Cost, Kept, Version, Date string
	Style                                      template.CSS
	Data                                       template.JS
	Sockets                                    []socketView
	Guests                                     []placedView
	Housed                                     []factRow
}

type socketView struct {
	Name  string
	Nodes []nodeView
}

type nodeView struct {
	Name, Facts string
	Cores       [][]seatView
}

// seatView is one CPU in the picture.
type seatView struct{ Class, Tag, Title string }

type placedView struct {
	*placement.Placed
	Tag, Class, Note, On, Memory, Threads, QEMU string
}

func socketRow(s socket, seats *seating) socketView {
	view := socketView{Name: fmt.Sprintf("Socket %d", s.id)}
	for _, n := range s.nodes {
		words := []string{count(len(n.cores), "core"), fmt.Sprintf("%d spare", n.use.Spare)}
		if n.use.Memory > 0 {
			words = append(words, fmt.Sprintf("%s of %s left", Bytes(n.use.Left), Bytes(n.use.Memory)))
		}
		for _, pool := range n.use.Pools {
			if pool.Pages > 0 {
				words = append(words, fmt.Sprintf("%d of %d pages of %s left", pool.Left, pool.Pages, Bytes(pool.Size)))
			}
		}
		if len(n.nics) > 0 {
			words = append(words, "NIC "+strings.Join(n.nics, ", "))
		}
		row := nodeView{Name: fmt.Sprintf("Node %d", n.id), Facts: strings.Join(words, " · ")}
		for _, core := range n.cores {
			var threads []seatView
			for _, cpu := range core {
				k, tag, title := seats.of(cpu)
				threads = append(threads, seatView{Class: string(k) + seats.colour(cpu), Tag: tag, Title: title})
			}
			row.Cores = append(row.Cores, threads)
		}
		view.Nodes = append(view.Nodes, row)
	}
	return view
}

// colour is the class of a CPU's guest.
func (s *seating) colour(cpu int) string {
	name := s.vcpus[cpu].guest
	if name == "" && len(s.vhost[cpu]) == 1 {
		name = s.vhost[cpu][0]
	}
	if i := slices.Index(s.order, name); i >= 0 {
		return fmt.Sprintf(" g%d", i%guestColours)
	}
	return ""
}

func guestRow(g *placement.Placed, seats *seating, p *Placing) placedView {
	view := placedView{Placed: g, Tag: seats.tags[g.Name], On: CPUs(g.VCPUSet()), Threads: CPUs(vhostCPUs(g)), QEMU: CPUs(g.Emulator)}
	view.Class = fmt.Sprintf("g%d", slices.Index(seats.order, g.Name)%guestColours)
	switch {
	case slices.Contains(p.Added, g.Name):
		view.Note = "new"
	case slices.Contains(p.Result.Moved, g.Name):
		view.Note = "moves"
	case g.Kept:
		view.Note = "stays"
	}
	var memory []string
	for _, m := range g.Memory {
		memory = append(memory, fmt.Sprintf("%s on node %d", Bytes(m.Bytes), m.Node))
	}
	view.Memory = strings.Join(memory, ", ")
	return view
}
