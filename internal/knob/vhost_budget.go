package knob

import (
	"fmt"

	"mpps/internal/datapath"
	"mpps/internal/goal"
	"mpps/internal/placement"
	"mpps/internal/setting"
)

var vhostBudget = &Knob{
	ID: "vhost.budget", Title: "CPUs for vhost threads, in all guests together", Stage: datapath.Vhost, Risk: goal.None, Check: true,
	Tiers: viaKernel(),
	Doc: Doc{
		Want: "no more threads than there are CPUs without a vCPU",
		Why: "Every queue of every NIC of every guest is a thread that copies packets. Those that find no CPU of their own take turns with vCPUs or with each other, and the guest sees the loss. " +
			"When one guest must do the most, half of the CPUs are vhost's: 14 vCPUs and 14 vhost threads on 2×16 cores. For less, one or two threads carry several 100 kpps.",
		Cost:   "CPUs that vhost has are not for vCPUs.",
		Verify: "The number of threads vhost-PID on the host (ps -eLo comm) against the CPUs that no vCPU is pinned to; top -H shows none of them waiting.",
		Traps: []string{
			"Queues are cheap to ask for: 8 queues on each of 3 NICs of 20 guests are 480 threads.",
			"A queue without traffic costs a thread that sleeps and memory for its rings, no CPU time: what counts are queues under load at the same time.",
			"The sibling threads of the vCPUs' cores are half a CPU, and cost the vCPU the other half.",
		},
		Sources: []Source{
			{"half of the CPUs; 14 + 14 on 2×16 cores", "founding measurements"},
			{"a worker for each device", "drivers/vhost/vhost.c, vhost_dev_set_owner"},
		},
	},
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
