package knob

import (
	"fmt"
	"strings"

	"mpps/internal/model/datapath"
	"mpps/internal/model/domain"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

var domainVNUMA = &Knob{
	ID: "domain.vnuma", Title: "The guest's own NUMA cells fit its vCPUs",
	Stage: datapath.Domain, Risk: goal.GuestRestart, Tiers: pinned(), Check: true,
	Where: eachGuest(managed, guestFact("vnuma")),
	Want: forGuest(func(v *View, g *facts.Guest, a setting.Address) Advice {
		if g.Definition == "" {
			return Unsure("its definition could not be read")
		}
		cells, err := domain.CellsOf(g.Definition)
		if err != nil {
			return Unsure(err.Error())
		}
		room := 0
		for _, cell := range cells {
			room += len(cell)
		}
		found := fmt.Sprintf("%s, %s", Count(len(cells), "cell"), Count(room, "vCPU"))
		nodes := v.nodesOf(pinnedCPUs(g))
		advice := Fine("its cells fit")
		switch {
		case len(nodes) > 1 && len(cells) < len(nodes) && !pinnedOneByOne(g):
			advice = Fine(fmt.Sprintf("its vCPUs move between nodes %s: cells would promise what holds only once they "+
				"are pinned one by one", nodes))
		case len(nodes) > 1 && len(cells) < len(nodes):
			advice = exact(Count(len(nodes), "cell"), fmt.Sprintf("its vCPUs run on nodes %s, and the guest does not "+
				"know which memory is near", nodes)).At(Medium)
		case room > 2*g.VCPUs && room > g.VCPUs+8:
			advice = exact(fmt.Sprintf("room for %s", Count(g.VCPUs, "vCPU")), fmt.Sprintf("its cells span %d vCPUs, "+
				"of which it uses %d: its kernel prepares for all of them; odd, not wrong", room, g.VCPUs)).At(Info)
		}
		return fact(found, advice)
	}),
}

var domainMachine = &Knob{
	ID: "domain.machine", Title: "Machine type of the guest",
	Limit: onX86,
	Stage: datapath.Domain, Risk: goal.GuestRestart, Tiers: pinned(), Check: true,
	Where: eachGuest(managed, guestFact("machine")),
	Want: forGuest(func(v *View, g *facts.Guest, a setting.Address) Advice {
		if g.Machine == "" {
			return Unsure("its machine type is not known")
		}
		if strings.Contains(g.Machine, "i440fx") || g.Machine == "pc" {
			return fact(g.Machine, exact("q35",
				"i440fx has no PCI Express: odd for a new guest, not wrong for one that works").At(Info))
		}
		return fact(g.Machine, Fine("not i440fx"))
	}),
}
