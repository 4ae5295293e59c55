package placement

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestSpreadOnPurpose: a guest that is pinned over two nodes stays where no single node could hold it: for want of
// cores or of huge pages, or because it is shown the nodes as cells. Otherwise it moves onto one.
func TestSpreadOnPurpose(t *testing.T) {
	for _, c := range []struct {
		name  string
		more  int // vCPUs
		set   func(h *facts.Host, g *facts.Guest)
		stays bool
	}{
		{"as many as a node has", 0, func(*facts.Host, *facts.Guest) {}, false},
		{"more than a node has", 6, func(*facts.Host, *facts.Guest) {}, true},
		{"in huge pages", 0, func(h *facts.Host, g *facts.Guest) {
			g.Hugepages = true
			for n := range facts.Each(h.Topology.Nodes) {
				n.Hugepages = []facts.Hugepages{{Size: 1 << 30, Total: 6, Free: 2}}
			}
		}, true},
		{"in cells", 0, func(_ *facts.Host, g *facts.Guest) {
			g.Definition = "<domain><cpu><numa><cell id='0' cpus='0-5' memory='1'/>" +
				"<cell id='1' cpus='6-11' memory='1'/></numa></cpu></domain>"
		}, true},
	} {
		h := hostOf("")
		first, second := h.Topology.Nodes[0].CPUs, h.Topology.Nodes[1].CPUs
		half := 6 + c.more
		pins := slices.Concat(first[2:2+half], second[2:2+half])
		g := run(h, "wide", 2*half, pins, setting.CPUs(first[0], second[0]), nil)
		c.set(h, g)
		p := Place(From(h, goal.Goal{PPS: 1.8e6})).Guest("wide")
		must.Need(t, p != nil, "%s: no place", c.name)
		must.Equal(t, p.VCPUSet().Equal(setting.CPUs(pins...)), c.stays, "%s: %s, %s: it stays", c.name, p.VCPUSet(),
			p.Why)
	}
}

// TestPinsOfToday: the faults of a guest's pins name the guests that are pinned today, not those that a placement puts
// there.
func TestPinsOfToday(t *testing.T) {
	h := hostOf("")
	run(h, "twice", 2, []int{4, 4}, setting.CPUs(0), nil)
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		run(h, name, 4, nil, nil, nil)
	}
	r := Place(From(h, goal.Goal{PPS: 1.8e6}))
	p := r.Guest("twice")
	must.Need(t, p != nil && strings.Contains(p.Why, "CPU 4 has two vCPUs"), "%+v", p)
	must.Hold(t, !strings.Contains(p.Why, "belongs to"), "nobody else is pinned: %s", p.Why)
}

// TestAllShareOrNone: of guests that share CPUs beside isolated ones, none gets dedicated CPUs among those where others
// go on to share.
func TestAllShareOrNone(t *testing.T) {
	h := hostOf("8-31,40-63")
	run(h, "vnf", 4, []int{8, 9, 10, 11}, setting.CPUs(0, 32), nil)
	for _, name := range []string{"a", "b", "c", "d"} {
		run(h, name, 4, nil, nil, nil)
	}
	r := Place(From(h, goal.Goal{PPS: 1.8e6}))
	must.Hold(t, len(r.Left) == 4 && len(r.Guests) == 1, "left %+v, placed %s", r.Left, picture(r))
}

// TestBorrowedServing: a busy NIC gets CPUs of another node only where these have fewer queues to serve than its own.
func TestBorrowedServing(t *testing.T) {
	both := sized(2, 8, 1).nic(0).nic(1).guest("fw", 12, 1)
	for i := range both.NICs {
		both.NICs[i].Queues = 16
	}
	for _, s := range Place(both).NICs {
		for _, cpu := range s.CPUs {
			node := facts.Find(both.CPUs, func(c *CPU) bool { return c.ID == cpu }).Node
			must.Hold(t, fmt.Sprintf("eth%d", node) == s.Name, "%s has CPU %d of node %d", s.Name, cpu, node)
		}
	}
}
