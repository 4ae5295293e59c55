// Package seats renders a placement: which guest has which CPU of a host, and why.
package seats

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/advise/placement"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/report"
	"mpps/internal/words"
)

// Placing is a placement with the host that it is for.
type Placing struct {
	Host   *facts.Host
	Result *placement.Result
	Added  []string // hypothetical guests
}

// headline returns the answer in a sentence.
func (p *Placing) headline() string {
	r := p.Result
	relaxed := words.Count(len(r.Relaxed), "rule relaxed", "rules relaxed")
	if len(p.Added) == 0 {
		text := words.Count(len(r.Guests), "guest placed", "guests placed")
		return p.Host.Name + ": " + words.Either(len(r.Guests) > 0, text, "no guest to place") +
			words.If(len(r.Left) > 0, ", %d left as they are", len(r.Left)) +
			words.If(len(r.Refused) > 0, ", %d not", len(r.Refused)) + words.If(len(r.Relaxed) > 0, "; %s", relaxed)
	}
	if no := slices.DeleteFunc(slices.Clone(p.Added),
		func(name string) bool { return r.Refusal(name) == nil }); len(no) > 0 {
		return fmt.Sprintf("no: %s does not fit on %s", strings.Join(no, ", "), p.Host.Name)
	}
	moved := words.Either(len(r.Moved) > 0, words.Count(len(r.Moved), "guest moves", "guests move"),
		"no other guest moves")
	return fmt.Sprintf("yes: %s fits on %s, and %s%s", strings.Join(p.Added, ", "), p.Host.Name, moved,
		words.If(len(r.Relaxed) > 0, "; %s", relaxed))
}

// note says what a placement means for a guest, and in which style.
func (p *Placing) note(g *placement.Placed) (note string, style report.Style) {
	switch {
	case slices.Contains(p.Added, g.Name):
		return "new", report.Green
	case slices.Contains(p.Result.Moved, g.Name):
		return "moves", report.Yellow
	case g.Kept:
		return "stays", ""
	}
	return "", ""
}

// houseRows returns the CPUs of daemons and of interrupts, with the reason.
func (p *Placing) houseRows() [][2]string {
	var rows [][2]string
	for _, d := range p.Result.Daemons {
		rows = append(rows, [2]string{d.Name, d.CPUs.Words() + ": " + d.Why})
	}
	for _, n := range p.Result.NICs {
		rows = append(rows, [2]string{"interrupts of " + n.Name, setting.CPUs(n.CPUs...).Words() + ": " + n.Why})
	}
	return rows
}

// drawServing says what each choice of CPUs for busy interrupts costs, once for the NICs of a node.
func (p *Placing) drawServing(t *report.Text) {
	seen := map[string]bool{}
	for _, n := range p.Result.NICs {
		drawn := fmt.Sprint(n.Others)
		if !seen[drawn] {
			drawOthers(t, n.Others)
		}
		seen[drawn] = true
	}
}

// drawOthers draws the choices for some threads or interrupts, with their points.
func drawOthers(t *report.Text, others []placement.Alternative) {
	for _, o := range others {
		t.Wrap(fmt.Sprintf("    %-7s %4d  ", words.Either(o.Chosen, "chosen", "instead"), o.Cost), o.What+": "+o.Why)
	}
}

func memoryText(g *placement.Placed) string {
	return strings.Join(words.Each(g.Memory, func(m placement.MemoryOn) string {
		return fmt.Sprintf("%s on node %d", words.Bytes(m.Bytes), m.Node)
	}), ", ")
}

func vhostCPUs(g *placement.Placed) setting.CPUSet {
	var all []int
	for _, v := range g.Vhost {
		all = append(append(all, v.CPU), v.Stays...)
	}
	return setting.CPUs(all...)
}

// costText returns what a placement costs and what room it leaves.
func costText(c placement.Cost) string {
	number := func(n int, one, many string) string { return words.Either(n > 0, words.Count(n, one, many), "") }
	room := fmt.Sprintf("%s left, room for a guest of %s", words.Count(c.Spare, "core"), words.Count(c.Largest, "vCPU"))
	return words.Join("; ", fmt.Sprintf("distance %d, vhost threads sharing %d, balance %d of 1000", c.Distance,
		c.Crowding, c.Balance), number(c.Refused, "guest refused", "guests refused"),
		number(c.Sharing, "vCPU shares a core", "vCPUs share cores"),
		number(c.Spread, "node more than guests should need",
			"nodes more than guests should need"), number(c.Reserve, "core missing for the host",
			"cores missing for the host"),
		number(c.Interrupts, "core missing for busy interrupts", "cores missing for busy interrupts"),
		number(c.Exposed, "vCPU off the isolated CPUs", "vCPUs off the isolated CPUs"),
		number(c.Away, "vCPU away from its memory", "vCPUs away from their memory"),
		number(c.Pages, "guest without the huge pages it asks for", "guests without the huge pages they ask for"),
		words.Either(c.Largest > 0, room, "no core is left"))
}

// seating is the use of each CPU, with a short tag for every guest: a letter, and a number if there are more guests
// than letters. vCPUs have it in upper case, vhost threads in lower case.
type seating struct {
	tags    map[string]string
	order   []string // guests in the order of their tags
	width   int      // of a tag
	vcpus   map[int]vcpuSeat
	vhost   map[int][]string // guests
	kept    setting.CPUSet
	offline setting.CPUSet
}

type vcpuSeat struct {
	guest string
	vcpu  int
}

func seatsOf(p *Placing) *seating {
	s := &seating{tags: map[string]string{}, width: 1, vcpus: map[int]vcpuSeat{}, vhost: map[int][]string{},
		kept: p.Result.Housekeeping}
	for i, g := range p.Result.Guests {
		tag := string(rune('A'+i%26)) + words.If(len(p.Result.Guests) > 26, "%d", i/26)
		s.tags[g.Name], s.order = tag, append(s.order, g.Name)
		s.width = max(s.width, len(tag))
		for _, v := range g.VCPUs {
			s.vcpus[v.CPU] = vcpuSeat{g.Name, v.VCPU}
		}
		for _, v := range g.Vhost {
			if !slices.Contains(s.vhost[v.CPU], g.Name) {
				s.vhost[v.CPU] = append(s.vhost[v.CPU], g.Name)
			}
		}
	}
	for _, c := range p.Host.Topology.CPUs {
		if !c.Online {
			s.offline = s.offline.Or(setting.CPUs(c.ID))
		}
	}
	return s
}

// seat is the use of a CPU: the CSS class and the tag of its field, and a description.
type seat struct {
	Class, Tag, Title string
	style             report.Style
}

// at returns a CPU's seat.
func (s *seating) at(cpu int) seat {
	threads := strings.Join(s.vhost[cpu], ", ")
	title := func(text string) string { return fmt.Sprintf("CPU %d: %s", cpu, text) }
	switch v, seated := s.vcpus[cpu]; {
	case s.offline.Has(cpu):
		return seat{"offline", "×", title("offline"), report.Faint}
	case seated:
		return seat{"vcpu" + s.colour(v.guest), s.tags[v.guest], title(fmt.Sprintf("vCPU %d of %s",
			v.vcpu, v.guest)), report.Bold}
	case s.kept.Has(cpu):
		return seat{"host", "#", title("kept for the host" + words.If(threads != "", ", with vhost threads of %s",
			threads)), report.Yellow}
	case len(s.vhost[cpu]) > 1:
		return seat{"vhost", "+", title("vhost threads of " + threads), report.Cyan}
	case len(s.vhost[cpu]) == 1:
		return seat{"vhost" + s.colour(threads), strings.ToLower(s.tags[threads]), title("vhost of " + threads),
			report.Cyan}
	}
	return seat{"spare", "·", title("nobody's"), report.Faint}
}

// colour returns the class of a guest's colour.
func (s *seating) colour(guest string) string {
	return fmt.Sprintf(" g%d", slices.Index(s.order, guest)%7)
}

func (s *seating) legend() string {
	names := words.Each(s.order, func(name string) string { return s.tags[name] + " " + name })
	return words.Join(", ", "# kept for the host", "· nobody's", words.If(len(s.offline) > 0, "× offline"),
		words.If(len(names) > 0, "capital: vCPU, small: vhost of the same guest"), strings.Join(names, ", "))
}

// node is a NUMA node with its cores.
type node struct {
	id, socket int
	cpus       setting.CPUSet
	cores      [][]facts.CPU // each with its threads
	use        placement.NodeUse
	nics       []string
}

// nodesOf returns the nodes of a placement's host by their sockets.
func nodesOf(p *Placing) []node {
	var nodes []node
	for _, n := range p.Host.Topology.Nodes {
		box := node{id: n.ID, cpus: n.CPUs}
		for _, u := range p.Result.Nodes {
			if u.Node == n.ID {
				box.use = u
			}
		}
		for _, nic := range p.Host.NICs {
			if nic.Node == n.ID && p.Result.NIC(nic.Name) != nil {
				box.nics = append(box.nics, nic.Name)
			}
		}
		own := slices.DeleteFunc(slices.Clone(p.Host.Topology.CPUs), func(c facts.CPU) bool { return c.Node != n.ID })
		if len(own) == 0 {
			continue
		}
		box.socket = own[0].Package
		box.cores = report.Group(own, coreKey)
		nodes = append(nodes, box)
	}
	slices.SortStableFunc(nodes, func(a, b node) int { return cmp.Compare(a.socket, b.socket) })
	return nodes
}

// coreKey returns a key for a CPU's core; an offline CPU, whose core is unknown, has its own key.
func coreKey(c facts.CPU) int { return words.Either(c.Core < 0, -1-c.ID, c.Core) }

// roomText returns what a node has left, and the NICs there. lead is how its memory is worded.
func (n node) roomText(left string) string {
	pools := words.Each(n.use.Pools, func(p placement.PoolUse) string {
		return words.If(p.Pages > 0, "%d of %d pages of %s left", p.Left, p.Pages, words.Bytes(p.Size))
	})
	return words.Join(" · ", words.If(n.use.Memory > 0, left, words.Bytes(n.use.Memory), words.Bytes(n.use.Left)),
		words.Join(" · ", pools...), words.If(len(n.nics) > 0, "NIC %s", strings.Join(n.nics, ", ")))
}

// Text draws who sits where: sockets, nodes and cores, then guest by guest with the reasons.
func Text(t *report.Text, p *Placing) {
	r := p.Result
	t.Wrap("", t.In(report.Bold, p.headline()))
	t.Blank()
	seats := seatsOf(p)
	for _, n := range nodesOf(p) {
		drawNode(t, seats, n)
	}
	t.Wrap("", seats.legend())
	for i := range r.Guests {
		t.Blank()
		drawGuest(t, seats, p, &r.Guests[i])
	}
	for _, l := range r.Left {
		t.Blank()
		t.Wrap(t.In(report.Bold, l.Guest)+" (stays): ", l.CPUs.Words()+"; "+l.Why)
	}
	for _, f := range r.Refused {
		t.Blank()
		t.Wrap(t.In(report.RedBold, "no place for "+f.Guest+": "), f.Shortage)
		t.Wrap("  hint: ", f.Relax)
	}
	t.Blank()
	t.Wrap("host        ", r.Housekeeping.Words()+" kept for it")
	for _, row := range p.houseRows() {
		t.Wrap("  "+row[0]+"  ", row[1])
	}
	p.drawServing(t)
	t.Each(t.In(report.Yellow, "relaxed: "), r.Relaxed)
	t.Each(t.In(report.Yellow, "gives way: "), words.Each(r.GivesWay, placement.GivesWay.Words))
	t.Wrap("cost        ", costText(r.Cost))
	t.WrapIf(!r.Proved, t.In(report.Yellow, "not proved: "),
		"there may be a cheaper placement: the search was cut short, because there are too many ways")
}

// drawNode draws the cores of a node, one column each, one row for each of their threads.
func drawNode(t *report.Text, seats *seating, n node) {
	t.Wrap("", words.Join(" · ", t.In(report.Bold, fmt.Sprintf("socket %d, node %d", n.socket, n.id)),
		words.Count(len(n.cores), "core"), n.cpus.Words(), n.roomText("%s memory, %s left")))
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
				mark := ""
				if thread < len(core) {
					s := seats.at(core[thread].ID)
					mark = t.In(s.style, s.Tag)
				}
				text += words.If(i > 0 && i%8 == 0, " ") + report.Pad(mark, cell)
			}
			if thread < len(line[0]) {
				label = fmt.Sprintf("CPU %d", line[0][thread].ID)
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
	t.Wrap("", seats.tags[g.Name]+" "+t.In(report.Bold, g.Name)+words.If(note != "", " (%s)", t.In(style, note)))
	t.Wrap("  vCPUs     ", fmt.Sprintf("%d on %s: %s", len(g.VCPUs), g.VCPUSet().Words(), g.Why))
	t.Wrap("  memory    ", memoryText(g)+": "+g.MemoryWhy)
	if len(g.Vhost) > 0 {
		t.Wrap("  vhost     ", fmt.Sprintf("%s on %s: %s",
			words.Count(len(g.Vhost), "thread"), vhostCPUs(g).Words(), g.VhostWhy))
		if len(p.Result.Guests) <= 6 || slices.Contains(p.Added, g.Name) {
			drawOthers(t, g.Others)
		}
	}
	for _, q := range g.Queues {
		t.Wrap("  queues    ", fmt.Sprintf("%d on NIC %s: %s", q.Queues, q.NIC, q.Why))
	}
	t.Wrap("  emulator  ", g.Emulator.Words())
}
