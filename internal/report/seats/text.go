package seats

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/placement"
	"mpps/internal/report"
	"mpps/internal/report/words"
)

// Text draws who sits where: sockets, nodes and cores, then guest by guest with the reasons.
func Text(t *report.Text, p *Placing) {
	r := p.Result
	t.Wrapped("", t.In(report.Bold, p.headline()))
	t.Blank()
	seats := seatsOf(p)
	for _, n := range nodesOf(p) {
		drawNode(t, seats, n)
	}
	t.Wrapped("", seats.legend())
	for i := range r.Guests {
		t.Blank()
		drawGuest(t, seats, p, &r.Guests[i])
	}
	for _, f := range r.Refused {
		t.Blank()
		t.Wrapped(t.In(report.RedBold, "no place for "+f.Guest+": "), f.Shortage)
		t.Wrapped("  hint: ", f.Relax)
	}
	t.Blank()
	t.Wrapped("host        ", words.CPUs(r.Housekeeping)+" kept for it")
	for _, row := range p.kept() {
		t.Wrapped("  "+row[0]+"  ", row[1])
	}
	t.Each(t.In(report.Yellow, "relaxed: "), r.Relaxed)
	t.Wrapped("cost        ", cost(r.Cost))
	if !r.Proved {
		t.Wrapped(t.In(report.Yellow, "not proved: "),
			"there may be a cheaper placement: the search was cut short, because there are too many ways")
	}
}

// drawNode draws the cores of a node, one column each, one row for each of their threads.
func drawNode(t *report.Text, seats *seating, n node) {
	room := slices.Insert(n.room("%s memory, %s left"), 1, words.CPUs(n.cpus))
	t.Wrapped("", t.In(report.Bold, fmt.Sprintf("socket %d, node %d", n.socket, n.id))+" · "+strings.Join(room, " · "))
	const margin = len("  CPU 1234  ")
	cell := seats.width + 1
	perLine := max(8, (t.Width-margin)*8/(8*cell+1)/8*8)
	for line := range slices.Chunk(n.cores, perLine) {
		threads := 0
		for _, core := range line {
			threads = max(threads, len(core))
		}
		for thread := range threads {
			text, label := "", ""
			for i, core := range line {
				if i > 0 && i%8 == 0 {
					text += " "
				}
				mark := ""
				if thread < len(core) {
					s := seats.at(core[thread])
					mark = t.In(s.style, s.Tag)
				}
				text += report.Padded(mark, cell)
			}
			if thread < len(line[0]) {
				label = fmt.Sprintf("CPU %d", line[0][thread])
			}
			t.Line("  %8s  %s", label, strings.TrimRight(text, " "))
		}
	}
	t.Blank()
}

// drawGuest says where a guest is and why: with few guests, or for one that is new, also where else its vhost threads
// could be. --json and the page always have that.
func drawGuest(t *report.Text, seats *seating, p *Placing, g *placement.Placed) {
	note, style := p.note(g)
	t.Wrapped("", seats.tags[g.Name]+" "+t.In(report.Bold, g.Name)+words.If(note != "", " (%s)", t.In(style, note)))
	t.Wrapped("  vCPUs     ", fmt.Sprintf("%d on %s: %s", len(g.VCPUs), words.CPUs(g.VCPUSet()), g.Why))
	t.Wrapped("  memory    ", memory(g)+": "+g.MemoryWhy)
	if len(g.Vhost) > 0 {
		t.Wrapped("  vhost     ", fmt.Sprintf("%s on %s: %s", words.Count(len(g.Vhost), "thread"), words.CPUs(vhostCPUs(g)), g.VhostWhy))
		for _, o := range g.Others {
			if len(p.Result.Guests) > 6 && !slices.Contains(p.Added, g.Name) {
				break
			}
			mark := "instead"
			if o.Chosen {
				mark = "chosen"
			}
			t.Wrapped(fmt.Sprintf("    %-7s %4d  ", mark, o.Cost), o.What+": "+o.Why)
		}
	}
	for _, q := range g.Queues {
		t.Wrapped("  queues    ", fmt.Sprintf("%d on NIC %s: %s", q.Queues, q.NIC, q.Why))
	}
	t.Wrapped("  emulator  ", words.CPUs(g.Emulator))
}
