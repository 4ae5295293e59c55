package knob

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/advise/placement"
	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

var vhostZeroCopy = &Knob{
	ID: "vhost.zero_copy", Title: "Zero-copy transmit stays off",
	Stage: datapath.Vhost, Risk: goal.GuestRestart, Tiers: viaKernel(), Check: true,
	Where: fixed(setting.Of(setting.ModuleParam, "vhost_net", "experimental_zcopytx")),
	Want:  always(exact("0", "zero copy loses batching and waits for the NIC: it helps large packets only").At(Low)),
}

var vhostThreads = &Knob{
	ID: "vhost.threads", Title: "A CPU for each vhost thread",
	Stage: datapath.Vhost, Risk: goal.None,
	After: []string{"nic.irq_affinity", "domain.vcpupin", "domain.emulatorpin", "domain.queues"}, Tiers: viaKernel(),
	Where: func(h *facts.Host) []setting.Address {
		var all []setting.Address
		for _, g := range h.Guests {
			for _, t := range g.Threads {
				if t.Role == "vhost" && t.NIC != "" && t.Queue >= 0 {
					all = append(all, setting.Of(setting.ThreadAffinity, g.Name, "vhost", t.NIC, strconv.Itoa(t.Queue)))
				}
			}
		}
		return all
	},
	Want: func(v *View, a setting.Address) Advice {
		g := v.guests[a.Object()]
		if g == nil || !v.Goal.ForGuest(a.Object()) {
			return Skips("the goal is for guest " + v.Goal.Guest)
		}
		parts := strings.Split(a.Path, "/")
		queue, err := strconv.Atoi(parts[len(parts)-1])
		if err != nil || len(parts) != 4 {
			return Skips("no such thread")
		}
		if slices.ContainsFunc(g.Threads,
			func(t facts.Thread) bool { return t.NIC == parts[2] && t.Sure == facts.NotByOrder }) {
			return Unsure("which thread serves it is in doubt: packets of its NIC did not make the threads run that " +
				"the order of creation gives it")
		}
		placed, why := v.seat(g)
		if placed == nil {
			return why
		}
		if !g.Managed && !pinnedOneByOne(g) {
			return Skips("its vCPUs are not pinned, and no plan pins those of a guest that libvirt does not know: on " +
				"fewer CPUs its vhost threads would wait for them")
		}
		place := placed.Queue(parts[2], queue)
		if place == nil {
			return Skips("a thread that the placement does not know: the guest's definition has fewer queues")
		}
		own := placed.VCPUSet()
		if cpus, known := v.cpusAt(a); known && cpus.Equal(setting.CPUs(place.CPU)) && !own.Has(place.CPU) {
			return Fine(fmt.Sprintf("CPU %d is its own, apart from all vCPUs", place.CPU))
		}
		switch stays := Fine(place.Stays.Words() + ": " + placed.VhostWhy); {
		case len(place.Stays.Minus(own)) > 0:
			return stays
		case own.Has(place.CPU):
			return v.onOwnCPUs(a, placed, own)
		case len(place.Stays) > 0:
			return stays
		}
		advice := v.givingWay(g.Name, exact(strconv.Itoa(place.CPU), placed.VhostWhy).At(High))
		for _, t := range g.Threads {
			if t.Role == "vhost" && t.NIC == parts[2] && t.Queue == queue && t.Sure != "" {
				advice.Because += " (thread found by " + string(t.Sure) + ")"
			}
		}
		return advice
	},
}

// onOwnCPUs advises on a vhost thread for which no CPU without a vCPU is left: it takes turns with its guest's vCPUs,
// on whichever has the time, and not always with the same one.
func (v *View) onOwnCPUs(a setting.Address, placed *placement.Placed, own setting.CPUSet) Advice {
	if cpus, known := v.cpusAt(a); known && len(cpus) > 0 && len(cpus.Minus(own)) == 0 {
		return Fine("no CPU without a vCPU is left for it: it runs on those of its guest that have time")
	}
	return v.givingWay(placed.Name, exact(own.String(), placed.VhostWhy).At(High))
}

// vhostMoves returns the CPUs that vhost.threads moves threads of a guest to: now, and once more queues have brought
// more threads, which begin on the CPUs of the emulator.
func (v *View) vhostMoves(g *facts.Guest, placed *placement.Placed) setting.CPUSet {
	if !slices.Contains(viaKernel(), v.Goal.Tier()) {
		return nil
	}
	var to []int
	for _, w := range placed.Vhost {
		a := setting.Of(setting.ThreadAffinity, g.Name, "vhost", w.NIC, strconv.Itoa(w.Queue))
		cpus, known := v.cpusAt(a)
		if len(w.Stays) == 0 && startsLater(g, w) {
			to = append(to, w.CPU)
		}
		if known && len(w.Stays) == 0 && !cpus.Equal(setting.CPUs(w.CPU)) {
			to = append(to, w.CPU)
		}
	}
	return setting.CPUs(to...)
}

// startsLater reports whether a guest that runs has no thread yet for a queue that it is to have: false where some of
// its vhost threads were not identified.
func startsLater(g *facts.Guest, w placement.Vhost) bool {
	return g.Active() && !slices.ContainsFunc(g.Threads, func(t facts.Thread) bool {
		return t.Role == "vhost" && (t.NIC == "" || t.NIC == w.NIC && t.Queue == w.Queue)
	})
}

var vhostBudget = &Knob{
	ID: "vhost.budget", Title: "CPUs for vhost threads, in all guests together",
	Stage: datapath.Vhost, Risk: goal.None, Tiers: viaKernel(), Check: true,
	Where: fixed(hostFact("vhost-threads")),
	Want: func(v *View, a setting.Address) Advice {
		threads, loose := 0, 0
		var vcpus setting.CPUSet
		for _, g := range v.Guests {
			if !g.Active() && g.Name != v.Goal.Guest {
				continue
			}
			for _, i := range g.NICs() {
				if placement.Tapped(i) && i.Virtio() && i.Backend != "qemu" {
					threads += max(1, i.Queues)
				}
			}
			own := pinnedCPUs(&g)
			if len(own) == 0 || !pinnedOneByOne(&g) {
				loose++
			}
			vcpus = vcpus.Or(own)
		}
		room := len(v.Topology.Online.Minus(vcpus).Minus(v.SetAside()).Minus(v.ask().Taken))
		switch {
		case threads == 0:
			return Skips("no guest that runs has a NIC for vhost")
		case len(v.Topology.Online) == 0:
			return Unsure("the number of CPUs is not known")
		case loose > 0:
			return Unsure(fmt.Sprintf("%s not pinned one by one: vCPUs move, and no CPU is vhost's alone",
				guestsAre(loose)))
		}
		found := fmt.Sprintf("%s on %s", Count(threads, "thread"), Count(room, "CPU")+" without a vCPU")
		advice := Fine(fmt.Sprintf("%s for %s of vhost", Count(room, "CPU")+" without a vCPU",
			Count(threads, "thread")))
		if threads > room {
			if room == 0 {
				return fact(found, exact("a CPU without a vCPU", fmt.Sprintf("%s of vhost take turns with vCPUs: "+
					"fewer vCPUs leave them CPUs", Count(threads, "thread"))).At(Medium))
			}
			advice = exact(fmt.Sprintf("at most %s", Count(room, "thread")),
				fmt.Sprintf("%s of vhost share %s: fewer queues where they carry little, or fewer vCPUs",
					Count(threads, "thread"), Count(room, "CPU"))).At(Medium)
		}
		return fact(found, advice)
	},
}

func guestsAre(n int) string {
	if n == 1 {
		return "1 guest is"
	}
	return fmt.Sprintf("%d guests are", n)
}
