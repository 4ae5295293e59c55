package knob

import (
	"fmt"
	"slices"

	"mpps/internal/model/datapath"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

var sriovVectors = &Knob{
	ID: "sriov.vf.vectors", Title: "A virtual function has an interrupt vector for each vCPU",
	Stage: datapath.SRIOV, Risk: goal.GuestRestart, After: []string{"sriov.numvfs"}, Tiers: tiers(goal.Passthrough),
	Check: true,
	Where: eachGuest(passthrough, guestFact("vf-vectors")),
	Want: func(v *View, a setting.Address) Advice {
		g, advice, ok := v.guest(a)
		if !ok {
			return advice
		}
		adjustable, unread := 0, 0
		for _, f := range v.VFs {
			pf := v.nics[f.PF]
			if !slices.Contains(g.Hostdevs, f.PCI) || pf == nil || pf.SRIOV == nil || pf.SRIOV.Vectors == 0 {
				continue
			}
			adjustable++
			// One vector is for the function's own events, the others are for queues.
			switch queues := f.Vectors - 1; {
			case f.Vectors == 0:
				unread++
			case queues < g.VCPUs:
				return fact(fmt.Sprintf("function %d of %s: %s", f.Index, f.PF, Count(f.Vectors, "vector")),
					exact(fmt.Sprintf("%d vectors", g.VCPUs+1), fmt.Sprintf("the guest's %d vCPUs share %s; %s "+
						"has %d vectors to give out: sriov_vf_msix_count, while no driver has the function",
						g.VCPUs, Count(max(queues, 1), "queue"), f.PF, pf.SRIOV.Vectors)).At(Info))
			}
		}
		switch {
		case adjustable == 0:
			return Skips("the drivers of its functions' ports do not give out vectors one by one")
		case unread > 0:
			return Unsure("how many vectors its functions have is read from their configuration space, as root")
		}
		return fact("enough", Fine("a vector for each vCPU"))
	},
}
