// Package seats shows a placement: which guest sits on which CPU of a host, and why.
package seats

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/facts"
	"mpps/internal/placement"
	"mpps/internal/report"
	"mpps/internal/report/words"
	"mpps/internal/setting"
)

// Placing is a placement with the host that it is for.
type Placing struct {
	Host   *facts.Host
	Result *placement.Result
	Added  []string // guests that the host does not have: what if
}

// headline is the answer in a sentence.
func (p *Placing) headline() string {
	r := p.Result
	relaxed := words.Count(len(r.Relaxed), "rule relaxed", "rules relaxed")
	if len(p.Added) == 0 {
		text := words.Count(len(r.Guests), "guest placed", "guests placed")
		if len(r.Guests) == 0 {
			text = "no guest to place"
		}
		return p.Host.Name + ": " + text + words.If(len(r.Refused) > 0, ", %d not", len(r.Refused)) +
			words.If(len(r.Relaxed) > 0, "; %s", relaxed)
	}
	if no := slices.DeleteFunc(slices.Clone(p.Added), func(name string) bool { return r.Refusal(name) == nil }); len(no) > 0 {
		return fmt.Sprintf("no: %s does not fit on %s", strings.Join(no, ", "), p.Host.Name)
	}
	moved := "no other guest moves"
	if n := len(r.Moved); n > 0 {
		moved = words.Count(n, "guest moves", "guests move")
	}
	return fmt.Sprintf("yes: %s fits on %s, and %s%s", strings.Join(p.Added, ", "), p.Host.Name, moved,
		words.If(len(r.Relaxed) > 0, "; %s", relaxed))
}

// note says what a placement means for a guest, and how to set that off.
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

// kept are the CPUs of daemons and of interrupts, with the reason.
func (p *Placing) kept() [][2]string {
	var rows [][2]string
	for _, d := range p.Result.Daemons {
		rows = append(rows, [2]string{d.Name, words.CPUs(d.CPUs) + ": " + d.Why})
	}
	for _, n := range p.Result.NICs {
		rows = append(rows, [2]string{"interrupts of " + n.Name, words.CPUs(setting.CPUs(n.CPUs...)) + ": " + n.Why})
	}
	return rows
}

func memory(g *placement.Placed) string {
	var parts []string
	for _, m := range g.Memory {
		parts = append(parts, fmt.Sprintf("%s on node %d", words.Bytes(m.Bytes), m.Node))
	}
	return strings.Join(parts, ", ")
}

func vhostCPUs(g *placement.Placed) setting.CPUSet {
	var all []int
	for _, v := range g.Vhost {
		all = append(all, v.CPU)
	}
	return setting.CPUs(all...)
}

// cost is what a placement costs and what room it leaves.
func cost(c placement.Cost) string {
	number := func(n int, one, many string) string { return words.If(n > 0, "%s", words.Count(n, one, many)) }
	left := "no core is left"
	if c.Largest > 0 {
		left = fmt.Sprintf("%s left, room for a guest of %s", words.Count(c.Spare, "core"), words.Count(c.Largest, "vCPU"))
	}
	return words.Join("; ",
		fmt.Sprintf("distance %d, vhost threads sharing %d, balance %d of 1000", c.Distance, c.Crowding, c.Balance),
		number(c.Refused, "guest refused", "guests refused"), number(c.Sharing, "vCPU shares a core", "vCPUs share cores"),
		number(c.Spread, "node more than guests should need", "nodes more than guests should need"),
		number(c.Reserve, "core missing for the host", "cores missing for the host"),
		number(c.Pages, "guest without the huge pages it asks for", "guests without the huge pages they ask for"), left)
}

// seating is who has each CPU, with a short tag for every guest: a letter, and a number where there are more guests than
// letters. vCPUs have it in capitals, vhost threads in small letters.
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
	s := &seating{tags: map[string]string{}, width: 1, vcpus: map[int]vcpuSeat{}, vhost: map[int][]string{}, kept: p.Result.Housekeeping}
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

// seat is what a CPU is for: the class of its field on the page, the tag there and on a terminal, and both in words.
type seat struct {
	Class, Tag, Title string
	style             report.Style
}

// at is a CPU's seat.
func (s *seating) at(cpu int) seat {
	threads := strings.Join(s.vhost[cpu], ", ")
	title := func(text string) string { return fmt.Sprintf("CPU %d: %s", cpu, text) }
	switch v, seated := s.vcpus[cpu]; {
	case s.offline.Has(cpu):
		return seat{"offline", "×", title("offline"), report.Faint}
	case seated:
		return seat{"vcpu" + s.colour(v.guest), s.tags[v.guest], title(fmt.Sprintf("vCPU %d of %s", v.vcpu, v.guest)), report.Bold}
	case s.kept.Has(cpu):
		return seat{"host", "#", title("kept for the host" + words.If(threads != "", ", with vhost threads of %s", threads)), report.Yellow}
	case len(s.vhost[cpu]) > 1:
		return seat{"vhost", "+", title("vhost threads of " + threads), report.Cyan}
	case len(s.vhost[cpu]) == 1:
		return seat{"vhost" + s.colour(threads), strings.ToLower(s.tags[threads]), title("vhost of " + threads), report.Cyan}
	}
	return seat{"spare", "·", title("nobody's"), report.Faint}
}

// colour is the class of a guest's colour.
func (s *seating) colour(guest string) string {
	return fmt.Sprintf(" g%d", slices.Index(s.order, guest)%7)
}

func (s *seating) legend() string {
	parts := []string{"# kept for the host", "· nobody's"}
	if len(s.offline) > 0 {
		parts = append(parts, "× offline")
	}
	if len(s.order) > 0 {
		parts = append(parts, "capital: vCPU", "small: vhost of the same guest")
	}
	for _, name := range s.order {
		parts = append(parts, s.tags[name]+" "+name)
	}
	return strings.Join(parts, ", ")
}

// node is a NUMA node with its cores, each a list of CPUs.
type node struct {
	id, socket int
	cpus       setting.CPUSet
	cores      [][]int
	use        placement.NodeUse
	nics       []string
}

// nodesOf are the nodes of a placement's host by their sockets.
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
		for _, core := range report.Group(own, coreKey) {
			var cpus []int
			for _, c := range core {
				cpus = append(cpus, c.ID)
			}
			box.cores = append(box.cores, cpus)
		}
		nodes = append(nodes, box)
	}
	slices.SortStableFunc(nodes, func(a, b node) int { return cmp.Compare(a.socket, b.socket) })
	return nodes
}

// coreKey tells cores apart; an offline CPU, whose core is not known, is one by itself.
func coreKey(c facts.CPU) int {
	if c.Core < 0 {
		return -1 - c.ID
	}
	return c.Core
}

// room is what a node has left, and the NICs there. lead is how its memory is worded.
func (n node) room(left string) []string {
	parts := []string{words.Count(len(n.cores), "core")}
	if n.use.Memory > 0 {
		parts = append(parts, fmt.Sprintf(left, words.Bytes(n.use.Memory), words.Bytes(n.use.Left)))
	}
	for _, pool := range n.use.Pools {
		if pool.Pages > 0 {
			parts = append(parts, fmt.Sprintf("%d of %d pages of %s left", pool.Left, pool.Pages, words.Bytes(pool.Size)))
		}
	}
	if len(n.nics) > 0 {
		parts = append(parts, "NIC "+strings.Join(n.nics, ", "))
	}
	return parts
}
