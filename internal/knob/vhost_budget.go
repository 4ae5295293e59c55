package knob

import (
	"fmt"

	"mpps/internal/datapath"
	"mpps/internal/goal"
	"mpps/internal/placement"
	"mpps/internal/setting"
)

var vhostBudget = &Knob{
	ID: "vhost.budget", Stage: datapath.Vhost, Risk: goal.None, Check: true,
	Tiers: viaKernel(),
	Where: fixed(setting.Of(setting.Fact, "host", "vhost-threads")),
	Want: func(v *View, a setting.Address) Advice {
		threads, loose := 0, 0
		var vcpus setting.CPUSet
		for _, g := range v.Guests {
			if !g.Active() && g.Name != v.Goal.Guest {
				continue
			}
			for _, i := range g.NICs() {
				if placement.Tapped(i) && virtio(i.Model) && i.Backend != "qemu" {
					threads += max(1, i.Queues)
				}
			}
			own := pins(&g)
			if len(own) == 0 {
				loose++
			}
			vcpus = vcpus.Or(own)
		}
		room := len(v.Topology.Online.Minus(vcpus))
		switch {
		case threads == 0:
			return Skips("no guest that runs has a NIC for vhost")
		case len(v.Topology.Online) == 0:
			return Unsure("the number of CPUs is not known")
		case loose > 0:
			return Unsure(fmt.Sprintf("%s not pinned: vCPUs run on any CPU, and no CPU is vhost's alone", guestsAre(loose)))
		}
		found := fmt.Sprintf("%s on %s", count(threads, "thread"), count(room, "CPU")+" without a vCPU")
		advice := Fine(fmt.Sprintf("%s for %s of vhost", count(room, "CPU")+" without a vCPU", count(threads, "thread")))
		if threads > room {
			advice = Wants(setting.Exact(fmt.Sprintf("at most %s", count(room, "thread"))),
				fmt.Sprintf("%s of vhost share %s: fewer queues where they carry little, or fewer vCPUs", count(threads, "thread"), count(room, "CPU"))).At(Medium)
		}
		return seen(found, advice)
	},
}

func guestsAre(n int) string {
	if n == 1 {
		return "1 guest is"
	}
	return fmt.Sprintf("%d guests are", n)
}
