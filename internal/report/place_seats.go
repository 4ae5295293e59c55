package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/facts"
	"mpps/internal/placement"
	"mpps/internal/setting"
)

// seating is who has each CPU, with a short tag for every guest: a letter, with a number behind it where there are more
// guests than letters. vCPUs have it in capitals, vhost threads in small letters.
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
		tag := string(rune('A' + i%26))
		if len(p.Result.Guests) > 26 {
			tag += fmt.Sprint(i / 26)
		}
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

// kind of use of a CPU, as pictures name it.
type kind string

const (
	forVCPU  kind = "vcpu"
	forVhost kind = "vhost"
	forHost  kind = "host"
	forNone  kind = "spare"
	isOff    kind = "offline"
)

// of is what a CPU is for, for which guest (its tag) and in words.
func (s *seating) of(cpu int) (k kind, tag, words string) {
	switch v, seated := s.vcpus[cpu]; {
	case s.offline.Has(cpu):
		return isOff, "×", fmt.Sprintf("CPU %d: offline", cpu)
	case seated:
		return forVCPU, s.tags[v.guest], fmt.Sprintf("CPU %d: vCPU %d of %s", cpu, v.vcpu, v.guest)
	case s.kept.Has(cpu) && len(s.vhost[cpu]) > 0:
		return forHost, "#", fmt.Sprintf("CPU %d: kept for the host, with vhost threads of %s", cpu, strings.Join(s.vhost[cpu], ", "))
	case s.kept.Has(cpu):
		return forHost, "#", fmt.Sprintf("CPU %d: kept for the host", cpu)
	case len(s.vhost[cpu]) > 1:
		return forVhost, "+", fmt.Sprintf("CPU %d: vhost threads of %s", cpu, strings.Join(s.vhost[cpu], ", "))
	case len(s.vhost[cpu]) == 1:
		return forVhost, strings.ToLower(s.tags[s.vhost[cpu][0]]), fmt.Sprintf("CPU %d: vhost of %s", cpu, s.vhost[cpu][0])
	}
	return forNone, "·", fmt.Sprintf("CPU %d: nobody's", cpu)
}

// at is a CPU's mark in the terminal's picture.
func (s *seating) at(t *Text, cpu int) string {
	k, tag, _ := s.of(cpu)
	return t.In(map[kind]Style{forVCPU: Bold, forVhost: Cyan, forHost: Yellow, forNone: Faint, isOff: Faint}[k], tag)
}

func (s *seating) legend() string {
	words := []string{"# kept for the host", "· nobody's"}
	if len(s.offline) > 0 {
		words = append(words, "× offline")
	}
	if len(s.order) > 0 {
		words = append(words, "capital: vCPU", "small: vhost of the same guest")
	}
	for _, name := range s.order {
		words = append(words, s.tags[name]+" "+name)
	}
	return strings.Join(words, ", ")
}

// socket is a package of the machine with its nodes.
type socket struct {
	id    int
	nodes []nodeBox
}

// nodeBox is a NUMA node with its cores, each a list of CPUs.
type nodeBox struct {
	id    int
	cpus  setting.CPUSet
	cores [][]int
	use   placement.NodeUse
	nics  []string
}

// socketsOf are the sockets of a placement's host in the order of their numbers.
func socketsOf(p *Placing) []socket {
	var sockets []socket
	h := p.Host
	for _, n := range h.Topology.Nodes {
		box := nodeBox{id: n.ID, cpus: n.CPUs}
		if i := slices.IndexFunc(p.Result.Nodes, func(u placement.NodeUse) bool { return u.Node == n.ID }); i >= 0 {
			box.use = p.Result.Nodes[i]
		}
		for _, nic := range h.NICs {
			if nic.Node == n.ID && p.Result.NIC(nic.Name) != nil {
				box.nics = append(box.nics, nic.Name)
			}
		}
		at, home := map[int]int{}, -1
		for _, c := range h.Topology.CPUs {
			if c.Node != n.ID {
				continue
			}
			if home < 0 {
				home = c.Package
			}
			core := coreKey(c)
			if i, known := at[core]; known {
				box.cores[i] = append(box.cores[i], c.ID)
				continue
			}
			at[core] = len(box.cores)
			box.cores = append(box.cores, []int{c.ID})
		}
		if len(box.cores) == 0 {
			continue
		}
		i := slices.IndexFunc(sockets, func(s socket) bool { return s.id == home })
		if i < 0 {
			i = len(sockets)
			sockets = append(sockets, socket{id: home})
		}
		sockets[i].nodes = append(sockets[i].nodes, box)
	}
	slices.SortStableFunc(sockets, func(a, b socket) int { return cmp.Compare(a.id, b.id) })
	return sockets
}

// coreKey tells cores apart; an offline CPU, whose core is not known, is one by itself.
func coreKey(c facts.CPU) int {
	if c.Core < 0 {
		return -1 - c.ID
	}
	return c.Core
}
