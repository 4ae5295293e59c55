package knob

import (
	"cmp"
	"fmt"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// giants is how many 1 GiB pages the host needs from the next boot on, by node, with a margin on each.
type giants struct {
	need    map[int]int // including pages that may come from any node
	placed  map[int]int // excluding those
	guests  []string    // that the goal is for
	smaller []string    // that the goal is for, defined with other page sizes
	without []string    // that the goal is for, and that cannot have such pages
	why     string      // why the first of these cannot
	others  []string    // already defined with 1 GiB pages
	noRoom  []string    // others that do not run and for which no room is left
	problem string
}

// inGoal reports whether the goal asks for 1 GiB pages for a guest.
func (v *View) inGoal(g *facts.Guest) bool {
	return g.Memory > 0 && v.Goal.ForGuest(g.Name) && (g.Active() || v.Goal.Guest == g.Name)
}

// defaultPageUsers returns the guests outside the goal that use pages of the default size, if that is not 1 GiB.
func (v *View) defaultPageUsers() []string {
	var names []string
	if now := v.DefaultHugepage(); now == giant || v.nextDefault() == giant {
		return nil
	}
	for i := range v.Guests {
		g := &v.Guests[i]
		if !g.Managed || !g.Hugepages || v.inGoal(g) {
			continue
		}
		for _, need := range pageNeedsOf(g, 0) {
			if need.size == 0 {
				names = append(names, g.Name)
				break
			}
		}
	}
	return names
}

// nextDefault returns the default page size on the next boot's command line, in bytes; 0 if it names none.
func (v *View) nextDefault() uint64 {
	size, _ := setting.MemParse(v.Readings.At(bootArgument("default_hugepagesz")).Value)
	return size
}

// giantPages counts the 1 GiB pages that the goal's guests need on each node, plus those of other guests, which would
// not start after the reboot without them. If memory does not suffice, other guests that do not run are left out.
func (v *View) giantPages() giants {
	g := v.countGiants(true)
	if g.problem == "" {
		return g
	}
	if running := v.countGiants(false); running.problem == "" {
		return running
	}
	return g
}

func (v *View) countGiants(all bool) giants {
	c := giants{need: map[int]int{}, placed: map[int]int{}}
	if len(v.Topology.Nodes) == 0 {
		c.problem = "the NUMA nodes are not known"
		return c
	}
	byDefault := uint64(giant) // what the next boot makes of it
	if len(v.defaultPageUsers()) > 0 {
		byDefault = v.DefaultHugepage()
	}
	loose := 0
	for i := range v.Guests {
		g := &v.Guests[i]
		mine := v.inGoal(g)
		if !mine && (!g.Managed || !g.Hugepages || g.Memory == 0) {
			continue
		}
		needs := []pageNeed{{size: giant, bytes: g.Memory, nodes: g.MemoryNodes}}
		if g.Hugepages {
			needs = pageNeedsOf(g, byDefault)
		}
		pages := 0
		for _, need := range needs {
			if need.size == giant {
				pages += int(need.pages())
			}
		}
		if why := v.pageless(g); mine && !g.Hugepages && why != "" {
			c.without, c.why = append(c.without, g.Name), cmp.Or(c.why, why)
			continue
		}
		words := fmt.Sprintf("%s (%.4g GiB)", g.Name, gib(g.Memory))
		switch {
		case pages == 0 && mine:
			c.smaller = append(c.smaller, g.Name)
			continue
		case pages == 0:
			continue
		case !mine && !all && !g.Active():
			c.noRoom = append(c.noRoom, g.Name)
			continue
		case mine:
			c.guests = append(c.guests, words)
		default:
			c.others = append(c.others, words)
		}
		for _, need := range needs {
			if need.size != giant {
				continue
			}
			nodes := need.nodes
			if placed := v.Placement().Guest(g.Name); mine && placed != nil && !v.choseMemory(g) && (len(nodes) == 0 ||
				len(placed.Nodes) == 1 && len(needs) == 1) { // where domain.numatune will bind it
				nodes = placed.Nodes
			}
			if len(nodes) == 0 && mine {
				c.problem = fmt.Sprintf("which node the memory of %s belongs on is not known: there is no place for it",
					g.Name)
				return c
			}
			pages := int(need.pages())
			if len(nodes) == 0 {
				loose += pages
			}
			for i, node := range nodes { // evenly, what is left over on the first
				share := pages / len(nodes)
				if i < pages%len(nodes) {
					share++
				}
				c.placed[node] += share
			}
		}
	}
	for node, pages := range c.placed {
		c.placed[node] = pages + spare
		c.need[node] = pages + spare
	}
	c.problem = v.placeLoose(c.need, loose)
	return c
}

// maxLoose bounds loose: no host has as many 1 GiB pages.
const maxLoose = 1 << 16

// placeLoose adds pages that may come from any node to need, one by one where most room is left, and says where they do
// not fit.
func (v *View) placeLoose(need map[int]int, loose int) (problem string) {
	room := func(n facts.Node) int64 { // pages that could be had
		return (int64(n.Memory)-int64(nodeReserve+otherPools(n)))/giant - int64(need[n.ID])
	}
	for loose = min(loose, maxLoose); loose > 0; loose-- {
		best, most := v.Topology.Nodes[0].ID, int64(-1)
		for _, n := range v.Topology.Nodes {
			if left := room(n); left > most {
				best, most = n.ID, left
			}
		}
		if most <= 0 {
			need[best] += loose
			break
		}
		need[best]++
	}
	for _, n := range v.Topology.Nodes {
		if n.Memory > 0 && room(n) < 0 && need[n.ID] > 0 {
			return fmt.Sprintf("node %d has %.1f GiB: %d pages of 1 GiB and 2 GiB for the host do not fit%s", n.ID,
				gib(n.Memory), need[n.ID], v.otherPoolsWords(n))
		}
	}
	return ""
}

// otherPools returns the bytes of a node in pools of other page sizes.
func otherPools(n facts.Node) (bytes uint64) {
	for _, p := range n.Hugepages {
		if p.Size != giant {
			bytes += p.Size * p.Total
		}
	}
	return bytes
}

// OrdinaryLeft returns the bytes of ordinary memory left on a guest's nodes once the next boot has reserved the huge
// pages, and whether the guest can start in them.
func (v *View) OrdinaryLeft(g *facts.Guest) (left uint64, starts bool) {
	need, nodes := v.giantPages().need, g.MemoryNodes
	if placed := v.Placement().Guest(g.Name); len(nodes) == 0 && placed != nil {
		nodes = placed.Nodes
	}
	for _, n := range v.Topology.Nodes {
		if len(nodes) > 0 && !nodes.Has(n.ID) {
			continue
		}
		if n.Memory == 0 {
			return 0, true // not known
		}
		taken := uint64(need[n.ID])*giant + nodeReserve + otherPools(n)
		left += n.Memory - min(taken, n.Memory)
	}
	return left, left >= g.Memory+qemuOwn(g)
}

// otherPoolsWords says how much of a node is in a pool of another size, to end a sentence with.
func (v *View) otherPoolsWords(n facts.Node) string {
	for _, p := range n.Hugepages {
		if p.Size != giant && p.Total > 0 {
			return fmt.Sprintf(" beside %.1f GiB in pages of %s", gib(p.Size*p.Total), sizeWords(p.Size))
		}
	}
	return ""
}

func takesPages(names []string) string {
	if len(names) == 1 {
		return names[0] + " takes pages"
	}
	return strings.Join(names, ", ") + " take pages"
}
