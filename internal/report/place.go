package report

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/facts"
	"mpps/internal/placement"
	"mpps/internal/setting"
)

// Placing is a placement with the host that it is for.
type Placing struct {
	Host   *facts.Host
	Result *placement.Result
	Added  []string // guests that the host does not have: what if
}

// Place draws who sits where: sockets, nodes and cores, then guest by guest with the reasons.
func Place(t *Text, p *Placing) {
	r := p.Result
	t.Wrapped("", t.In(Bold, placeHeadline(p)))
	t.Blank()
	seats := seatsOf(p)
	for _, s := range socketsOf(p) {
		for _, n := range s.nodes {
			drawNode(t, seats, s, n)
		}
	}
	t.Wrapped("", seats.legend())
	for i := range r.Guests {
		t.Blank()
		added := slices.Contains(p.Added, r.Guests[i].Name)
		placedGuest(t, seats, &r.Guests[i], added, slices.Contains(r.Moved, r.Guests[i].Name), added || len(r.Guests) <= fewGuests)
	}
	for _, f := range r.Refused {
		t.Blank()
		t.Wrapped(t.In(RedBold, "no place for "+f.Guest+": "), f.Shortage)
		t.Wrapped("  hint: ", f.Relax)
	}
	placedHost(t, r)
}

// placeHeadline is the answer in a sentence.
func placeHeadline(p *Placing) string {
	r := p.Result
	if len(p.Added) > 0 {
		var no []string
		for _, name := range p.Added {
			if r.Refusal(name) != nil {
				no = append(no, name)
			}
		}
		if len(no) > 0 {
			return fmt.Sprintf("no: %s does not fit on %s", strings.Join(no, ", "), p.Host.Name)
		}
		text := fmt.Sprintf("yes: %s fits on %s, and no other guest moves", strings.Join(p.Added, ", "), p.Host.Name)
		if len(r.Moved) > 0 {
			text = fmt.Sprintf("yes: %s fits on %s, and %s", strings.Join(p.Added, ", "), p.Host.Name, count(len(r.Moved), "guest moves", "guests move"))
		}
		if n := len(r.Relaxed); n > 0 {
			text += ", but " + count(n, "rule gives way", "rules give way")
		}
		return text
	}
	text := count(len(r.Guests), "guest has a place", "guests have places")
	if len(r.Guests) == 0 {
		text = "no guest to place"
	}
	if n := len(r.Refused); n > 0 {
		text += fmt.Sprintf(", %d not", n)
	}
	if n := len(r.Relaxed); n > 0 {
		text += ", " + count(n, "rule gives way", "rules give way")
	}
	return p.Host.Name + ": " + text
}

// drawNode draws the cores of a node, one column each, one row for each of their threads.
func drawNode(t *Text, seats *seating, s socket, n nodeBox) {
	words := []string{fmt.Sprintf("socket %d, node %d", s.id, n.id), count(len(n.cores), "core"), CPUs(n.cpus)}
	if n.use.Memory > 0 {
		words = append(words, fmt.Sprintf("%s memory, %s left", Bytes(n.use.Memory), Bytes(n.use.Left)))
	}
	for _, pool := range n.use.Pools {
		if pool.Pages > 0 {
			words = append(words, fmt.Sprintf("%d of %d pages of %s left", pool.Left, pool.Pages, Bytes(pool.Size)))
		}
	}
	if len(n.nics) > 0 {
		words = append(words, "NIC "+strings.Join(n.nics, ", "))
	}
	t.Wrapped("", t.In(Bold, words[0])+" · "+strings.Join(words[1:], " · "))
	const margin = len("  CPU 1234  ")
	cell := seats.width + 1
	perLine := max(8, (t.Width-margin)*8/(8*cell+1)/8*8)
	for from := 0; from < len(n.cores); from += perLine {
		line := n.cores[from:min(from+perLine, len(n.cores))]
		threads := 0
		for _, core := range line {
			threads = max(threads, len(core))
		}
		for thread := range threads {
			var b strings.Builder
			for i, core := range line {
				if i > 0 && i%8 == 0 {
					b.WriteByte(' ')
				}
				text := ""
				if thread < len(core) {
					text = seats.at(t, core[thread])
				}
				b.WriteString(text + strings.Repeat(" ", cell-visible(text)))
			}
			label := ""
			if thread < len(line[0]) {
				label = fmt.Sprintf("CPU %d", line[0][thread])
			}
			t.Line("  %8s  %s", label, strings.TrimRight(b.String(), " "))
		}
	}
	t.Blank()
}

// fewGuests is up to how many guests each is shown with where else its vhost threads could be; --json and the page always have
// that.
const fewGuests = 6

// placedGuest says where a guest is and why.
func placedGuest(t *Text, seats *seating, g *placement.Placed, added, moved, whole bool) {
	var notes []string
	switch {
	case added:
		notes = append(notes, t.In(Green, "new"))
	case moved:
		notes = append(notes, t.In(Yellow, "moves"))
	case g.Kept:
		notes = append(notes, "stays")
	}
	title := fmt.Sprintf("%s %s", seats.tags[g.Name], t.In(Bold, g.Name))
	if len(notes) > 0 {
		title += " (" + strings.Join(notes, ", ") + ")"
	}
	t.Wrapped("", title)
	t.Wrapped("  vCPUs     ", fmt.Sprintf("%d on %s: %s", len(g.VCPUs), CPUs(g.VCPUSet()), g.Why))
	var memory []string
	for _, m := range g.Memory {
		memory = append(memory, fmt.Sprintf("%s on node %d", Bytes(m.Bytes), m.Node))
	}
	t.Wrapped("  memory    ", strings.Join(memory, ", ")+": "+g.MemoryWhy)
	if len(g.Vhost) > 0 {
		t.Wrapped("  vhost     ", fmt.Sprintf("%s on %s: %s", count(len(g.Vhost), "thread"), CPUs(vhostCPUs(g)), g.VhostWhy))
		for _, o := range g.Others {
			if !whole {
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
	t.Wrapped("  emulator  ", CPUs(g.Emulator))
}

// CPUs writes a set with its noun: "CPU 3", "CPUs 4-7".
func CPUs(set setting.CPUSet) string { return set.Words() }

func vhostCPUs(g *placement.Placed) setting.CPUSet {
	var all []int
	for _, v := range g.Vhost {
		all = append(all, v.CPU)
	}
	return setting.CPUs(all...)
}

// placedHost says what is the host's, which rules gave way and what the placement costs.
func placedHost(t *Text, r *placement.Result) {
	t.Blank()
	t.Wrapped("host        ", CPUs(r.Housekeeping)+" kept for it")
	for _, d := range r.Daemons {
		t.Wrapped("  "+d.Name+"  ", CPUs(d.CPUs)+": "+d.Why)
	}
	for _, n := range r.NICs {
		t.Wrapped("  interrupts of "+n.Name+"  ", CPUs(setting.CPUs(n.CPUs...))+": "+n.Why)
	}
	for _, text := range r.Relaxed {
		t.Wrapped(t.In(Yellow, "gave way: "), text)
	}
	t.Wrapped("cost        ", costLine(r.Cost))
	if !r.Proved {
		t.Wrapped(t.In(Yellow, "not proved: "), "there may be a cheaper placement: the search was cut short, because there are too many ways")
	}
}

func costLine(c placement.Cost) string {
	words := []string{fmt.Sprintf("distance %d, vhost threads sharing %d, balance %d of 1000", c.Distance, c.Crowding, c.Balance)}
	for _, breach := range []struct {
		n         int
		one, many string
	}{
		{c.Refused, "guest refused", "guests refused"}, {c.Sharing, "vCPU shares a core", "vCPUs share cores"},
		{c.Spread, "node more than guests should need", "nodes more than guests should need"},
		{c.Reserve, "core missing for the host", "cores missing for the host"},
		{c.Pages, "guest without the huge pages it asks for", "guests without the huge pages they ask for"},
	} {
		if breach.n > 0 {
			words = append(words, count(breach.n, breach.one, breach.many))
		}
	}
	if c.Largest == 0 {
		return strings.Join(append(words, "no core is left"), "; ")
	}
	return strings.Join(append(words, fmt.Sprintf("%s left, room for a guest of %s", count(c.Spare, "core"), count(c.Largest, "vCPU"))), "; ")
}
