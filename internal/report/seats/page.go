package seats

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"time"

	"mpps/internal/advise/placement"
	"mpps/internal/report"
	"mpps/internal/report/page"
	"mpps/internal/words"
)

//go:embed seats.html.tmpl style.css
var files embed.FS

var write = page.New(files, template.FuncMap{"cost": costText, "memory": memoryText, "vhost": vhostCPUs})

// HTML writes a placement as a page.
func HTML(w io.Writer, p *Placing, version string, made time.Time) error {
	seats := seatsOf(p)
	b := body{Result: p.Result, Housed: p.houseRows()}
	for _, nodes := range report.Runs(nodesOf(p), func(a, b node) bool { return a.socket == b.socket }) {
		s := socketView{Name: fmt.Sprintf("Socket %d", nodes[0].socket)}
		for _, n := range nodes {
			s.Nodes = append(s.Nodes, nodeOf(n, seats))
		}
		b.Sockets = append(b.Sockets, s)
	}
	for i := range p.Result.Guests {
		g := &p.Result.Guests[i]
		note, _ := p.note(g)
		b.Guests = append(b.Guests, guestView{g, seats.tags[g.Name], seats.colour(g.Name), note})
	}
	return write(w, page.Page{Title: "Who sits where on " + p.Host.Name, Verdict: p.headline(), Body: b,
		Version: version, Made: made, Data: p.Result})
}

type body struct {
	*placement.Result
	Sockets []socketView
	Guests  []guestView
	Housed  [][2]string
}

type socketView struct {
	Name  string
	Nodes []nodeView
}

type nodeView struct {
	Name, Facts string
	Cores       [][]seat
}

type guestView struct {
	*placement.Placed
	Tag, Class, Note string
}

func nodeOf(n node, seats *seating) nodeView {
	view := nodeView{Name: fmt.Sprintf("Node %d", n.id), Facts: words.Join(" · ", words.Count(len(n.cores), "core"),
		fmt.Sprintf("%d spare", n.use.Spare), n.roomText("%[2]s of %[1]s left"))}
	for _, core := range n.cores {
		var threads []seat
		for _, cpu := range core {
			threads = append(threads, seats.at(cpu.ID))
		}
		view.Cores = append(view.Cores, threads)
	}
	return view
}
