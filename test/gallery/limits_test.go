package gallery

import (
	"strings"

	"mpps/internal/advise/plan"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// checkPossible: no plan pins a guest's thread to CPUs that its control group lacks, nor binds its memory to a node
// that has none.
func (s *Spec) checkPossible(h *facts.Host, v verdict, p problems) {
	for _, c := range v.plan.Changes {
		g := facts.Find(h.Guests, func(g *facts.Guest) bool { return g.Name == c.Address.Object() })
		if g == nil || c.To.State != setting.Known {
			continue
		}
		set, err := setting.ParseCPUs(c.To.Value)
		if err != nil {
			continue
		}
		switch group := h.TopGroup(g); {
		case c.Address.Rest() == "numatune/memory.nodeset":
			s.checkNodes(h, c, set, p)
		case group == nil || len(group.CPUs) == 0 || !pins(c.Address):
		case len(set.Minus(group.Effective)) > 0:
			p.add(s.Name+" cpuset "+c.ID, "with %q: %s is to be %s, and its group has %s", v.flags, c.Address, c.To,
				group.Effective)
		}
	}
}

// pins reports whether an address holds the CPUs of a guest's thread.
func pins(a setting.Address) bool {
	return a.Kind == setting.ThreadAffinity || strings.Contains(a.Rest(), "pin")
}

func (s *Spec) checkNodes(h *facts.Host, c plan.Change, nodes setting.CPUSet, p problems) {
	for _, id := range nodes {
		if n, known := h.Topology.Node(id); known && n.Memory == 0 {
			p.add(s.Name+" memory "+c.ID, "%s is to be %s, and node %d has no memory", c.Address, c.To, id)
		}
	}
}
