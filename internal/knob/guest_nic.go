package knob

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/datapath"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

var guestChannels = &Knob{
	ID: "guest.channels", Title: "The guest uses all queues that it was given", Stage: datapath.Guest, Risk: goal.Blip,
	After: []string{"guest.kernel"}, Tiers: viaKernel(),
	Doc: Doc{
		Want:   "as many as it has vCPUs, or queues where these are fewer",
		Why:    "The domain XML offers queues, the guest's driver enables some of them. Queues that are not enabled have a vhost thread that sleeps, and the work of the others.",
		Cost:   "The guest's NIC is set up anew: packets are lost for a moment, and the driver sets XPS and affinities of its queues again.",
		Verify: "ethtool -l DEV in the guest: Combined current against maximum.",
		Traps: []string{
			"virtio_net enables as many as there are vCPUs by itself, on older kernels (up to about 4.9) only one: ethtool -L DEV combined N, at each boot.",
			"vCPUs that were plugged in later do not bring their queue.",
			"In the guest, nic.channels plans the change; there this only tells.",
			"Masks and affinities that somebody had set in the guest by hand are the driver's own afterwards, also after a rollback: plan again for guest.xps and guest.irqbalance.",
			"Without ethtool in the guest its host can neither tell nor set it.",
			guestSets,
			guestTrap,
		},
		Sources: []Source{
			{"min(vCPUs, queues)", "drivers/net/virtio_net.c, virtnet_probe: num_online_cpus"},
		},
	},
	Where: insideNICs("channels", func(n *facts.NIC) []setting.Address {
		if n.Channels == nil || n.Channels.MaxCombined == 0 {
			return nil
		}
		return []setting.Address{setting.Of(setting.NICChannels, n.Name, "combined")}
	}),
	Want: func(v *View, a setting.Address) Advice {
		in, n, advice, ok := v.withinNIC(a, "how many queues its driver uses")
		switch {
		case !ok:
			return advice
		case n == nil:
			return Skips("it has no virtio NIC")
		case n.Channels == nil:
			return Unsure("its driver does not tell how many queues it uses" + whyUnseen(in.Host, facts.UnseenChannels, n.Name, " (in a guest: ethtool tells)"))
		}
		want := min(n.Channels.MaxCombined, len(in.Topology.Online))
		has := fmt.Sprintf("%d of %d", n.Channels.Combined, n.Channels.MaxCombined)
		if n.Channels.Combined < want {
			return shown(a, has, Wants(setting.Exact(fmt.Sprint(want)), fmt.Sprintf("%s that the host offers are not used", count(want-n.Channels.Combined, "queue"))).At(High))
		}
		return shown(a, has, Fine("every queue that a vCPU can use is enabled"))
	},
}

// shown is advice of which a fact shows what was found; a value that can be set has its reading.
func shown(a setting.Address, found string, advice Advice) Advice {
	if a.Kind != setting.Fact {
		return advice
	}
	return seen(found, advice)
}

// withinNIC is the inside that an address speaks of with the virtio NIC that it names. n is nil where it names a guest: one
// without such a NIC, or without the value.
func (v *View) withinNIC(a setting.Address, what string) (in *View, n *facts.NIC, advice Advice, ok bool) {
	in, advice, ok = v.within(a, what)
	if !ok {
		return nil, nil, advice, false
	}
	name := a.Object()
	if a.Kind == setting.Inside {
		inner, err := a.Inner()
		if err != nil {
			return nil, nil, Unsure(err.Error()), false
		}
		if name = inner.Object(); inner.Kind == setting.SysfsCPUs {
			name, _ = queueFile(inner)
		}
	} else if in != v { // a guest's fact: the first NIC says why there is nothing to set
		for i := range in.NICs {
			if in.NICs[i].Driver == "virtio_net" {
				return in, &in.NICs[i], Advice{}, true
			}
		}
	}
	return in, in.nics[name], Advice{}, true
}

// lastOwnChoice is the build of RHEL 7.8's kernel. Later ones may look at XPS: it was asked for RHEL 7 in December 2019. Where
// they do not, a mask does no harm.
const lastOwnChoice = 1127

// picksByCPU tells a kernel whose virtio_net picks the transmit queue by the number of the CPU itself and does not look at XPS:
// from 3.8, the first with several queues, to 3.12, and RHEL 7's 3.10 to RHEL 7.8.
func picksByCPU(release string) bool {
	var major, minor, build int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		return false
	}
	if _, err := fmt.Sscanf(release, "3.10.0-%d.", &build); err == nil && strings.Contains(release, ".el7") && build > lastOwnChoice {
		return false
	}
	return major == 3 && minor >= 8 && minor <= 12
}

// stripe divides CPUs among queues as virtio_net does from Linux 4.19 on (virtnet_set_affinity): neighbours stay together,
// the first queues get what is left over, and queues beyond the CPUs begin again with the first.
func stripe(cpus setting.CPUSet, queues int) []setting.CPUSet {
	all := make([]setting.CPUSet, queues)
	if len(cpus) == 0 {
		return all
	}
	at, size, more := 0, max(len(cpus)/queues, 1), 0
	if len(cpus) >= queues {
		more = len(cpus) % queues
	}
	for q := range all {
		n := size
		if q < more {
			n++
		}
		for range n {
			all[q] = append(all[q], cpus[at%len(cpus)])
			at++
		}
		slices.Sort(all[q])
	}
	return all
}

var guestXPS = &Knob{
	ID: "guest.xps", Title: "Every transmit queue of the guest is reached", Stage: datapath.Guest, Risk: goal.None,
	After: []string{"guest.channels"}, Tiers: viaKernel(),
	Doc: Doc{
		Want:   "a vCPU for each queue, and a queue for each vCPU",
		Why:    "XPS says which vCPU sends on which queue. With fewer queues than vCPUs, and masks that leave a vCPU or a queue out, some queues carry everything and others nothing: the guest is then as fast as its busiest queue.",
		Cost:   "None.",
		Verify: "grep . /sys/class/net/DEV/queues/tx-*/xps_cpus in the guest; tx_queue_N_packets of ethtool -S grow alike.",
		Traps: []string{
			"Up to Linux 3.12, and with RHEL 7's 3.10 up to 7.8, the driver picks the queue by CPU itself and does not look at XPS. From 3.13 to 4.18 XPS decides, and the driver sets it only where there are as many queues as vCPUs. From 4.19 it stripes it over all vCPUs: look before \"fixing\".",
			"With as many queues as vCPUs there is nothing to set.",
			"In the guest, nic.xps plans the change; there this only tells.",
			guestSets,
			guestTrap,
		},
		Sources: []Source{
			{"striping", "drivers/net/virtio_net.c, virtnet_set_affinity; kernel commit 2ca653d607ce (virtio_net: Stripe queue affinities across cores), 4.19"},
			{"RHEL 7's 3.10 got the change late", "mailing list virtualization, December 2019, [RHEL7] virtio-net: switch to use XPS to choose txq (Red Hat bug 1769479)"},
			{"its own choice until 3.12, XPS since", "drivers/net/virtio_net.c of 3.10, virtnet_select_queue; kernel commit 9bb8ca86075f (virtio-net: switch to use XPS to choose txq), 3.13"},
			{"set only for as many queues as vCPUs until 4.18", "drivers/net/virtio_net.c of 4.18, virtnet_set_affinity: max_queue_pairs != num_online_cpus()"},
			{"fewer queues than vCPUs need it set on 4.18", "founding experience"},
		},
	},
	Where: insideNICs("xps", func(n *facts.NIC) []setting.Address {
		if n.TxQueues < 2 {
			return nil
		}
		return queueFiles("tx", "xps_cpus", func(n *facts.NIC) int { return n.TxQueues })(n)
	}),
	Want: func(v *View, a setting.Address) Advice {
		in, n, advice, ok := v.withinNIC(a, "which vCPU sends on which queue")
		switch {
		case !ok:
			return advice
		case n == nil:
			return Skips("it has no virtio NIC")
		case n.TxQueues < 2:
			return Skips("it has one transmit queue")
		case len(n.XPS) != n.TxQueues:
			return Unsure("its XPS masks could not be read")
		case picksByCPU(in.Kernel.Release):
			return shown(a, "not looked at", Fine("this kernel's driver picks the queue by CPU itself"))
		}
		var set setting.CPUSet
		var idle []string
		for q, mask := range n.XPS {
			if len(mask) == 0 {
				idle = append(idle, strconv.Itoa(q))
			}
			set = set.Or(mask)
		}
		without := in.Topology.Online.Minus(set)
		wanted := stripe(in.Topology.Online, n.TxQueues)
		each := func(fact string) setting.Want {
			if a.Kind == setting.Fact {
				return setting.Exact(fact)
			}
			inner, err := a.Inner()
			if _, q := queueFile(inner); err == nil && q < len(wanted) {
				return setting.Exact(wanted[q].String())
			}
			return setting.Exact("")
		}
		switch {
		case len(set) == 0:
			return shown(a, "not set", Wants(each("a queue for each vCPU"), "without XPS the flow's hash picks the queue: flows of different vCPUs meet in one").At(Low))
		case len(idle) > 0 && n.TxQueues <= len(in.Topology.Online):
			return shown(a, count(len(idle), "queue")+" left out", Wants(each("a vCPU for each queue"), "queues "+strings.Join(idle, ", ")+" are never chosen").At(Medium))
		case len(without) > 0:
			return shown(a, count(len(without), "vCPU")+" left out", Wants(each("a queue for each vCPU"), fmt.Sprintf("vCPUs %s have no queue of their own: the flow's hash picks one", without)).At(Low))
		}
		return shown(a, "every queue", Fine("every queue has a vCPU, and every vCPU a queue"))
	},
}

var guestIRQBalance = &Knob{
	ID: "guest.irqbalance", Title: "The guest's queues interrupt different vCPUs", Stage: datapath.Guest, Risk: goal.None,
	After: []string{"guest.channels", "guest.xps"}, Tiers: viaKernel(),
	Doc: Doc{
		Want:   "queues that interrupt different vCPUs: irqbalance runs, or each has its vCPU",
		Why:    "Each queue's interrupt takes one vCPU. Without irqbalance and without affinity they may all go to the same one, which then receives everything. virtio_net spreads them itself as long as it has as many queues as vCPUs.",
		Cost:   "None; irqbalance wakes every ten seconds.",
		Verify: "/proc/interrupts in the guest: virtioN-input.M count on different CPUs.",
		Traps: []string{
			"With fewer queues than vCPUs the driver sets no affinity on kernels before 4.19.",
			"A mask of several vCPUs does not spread: one of them takes all.",
			"For realtime guests it must not run, and affinity is set by hand.",
			"Where there is a service irqbalance it is started; where there is none, each queue's interrupts get a vCPU.",
			guestSets,
			guestTrap,
		},
		Sources: []Source{
			{"the driver's affinity", "drivers/net/virtio_net.c, virtnet_set_affinity"},
			{"running, or queues pinned", "founding experience"},
		},
	},
	Where: insideNICs("irqs", func(n *facts.NIC) []setting.Address {
		all := []setting.Address{irqbalance}
		for _, irq := range n.IRQs {
			if _, isQueue := QueueOf(irq.On); isQueue {
				all = append(all, n.Address(irq))
			}
		}
		return all
	}),
	Want: func(v *View, a setting.Address) Advice {
		if inner, err := a.Inner(); err == nil && inner == irqbalance {
			return v.balancedInside(a)
		}
		in, n, advice, ok := v.withinNIC(a, "which vCPUs its queues interrupt")
		switch {
		case !ok:
			return advice
		case n == nil:
			return Skips("it has no virtio NIC")
		}
		queues, taken := interrupted(n)
		switch {
		case queues == 0:
			return Unsure("the interrupts of its queues could not be seen")
		case queues == 1 || len(in.Topology.Online) < 2:
			return Skips("one queue, or one vCPU")
		case len(taken) > 1:
			return shown(a, count(len(taken), "vCPU"), Fine(fmt.Sprintf("%d queues on %s", queues, count(len(taken), "vCPU"))))
		}
		advice = Wants(setting.Exact("a vCPU for each queue"), fmt.Sprintf("one vCPU takes the interrupts of all %d queues", queues)).At(Medium)
		if in.runs("irqbalance") {
			advice.Because += ", although irqbalance runs: it moves them under load"
			advice.Severity = Info
		}
		if a.Kind == setting.Fact {
			return seen("1 vCPU", advice)
		}
		if r := in.Readings.At(irqbalance); r.State == setting.Known && !r.ReadOnly || in.runs("irqbalance") {
			return Fine(fmt.Sprintf("one vCPU takes all %d queues; irqbalance is there to move them", queues))
		}
		inner, err := a.Inner()
		if err != nil {
			return Unsure(err.Error())
		}
		name, _, _ := strings.Cut(inner.Rest(), "/")
		queue, _ := QueueOf(name)
		spread := stripe(in.Topology.Online, queues)
		advice.Want.Value = strconv.Itoa(spread[queue%len(spread)][0])
		return advice
	},
}

// irqbalance is the service that moves interrupts.
var irqbalance = setting.Of(setting.Service, "irqbalance")

// interrupted is how many queues of a virtio NIC interrupt upon receiving, and which CPUs take them: the only one of the mask,
// which the next interrupt goes to, or of several the one that the kernel has chosen.
func interrupted(n *facts.NIC) (queues int, cpus map[int]bool) {
	cpus = map[int]bool{}
	for _, irq := range n.IRQs {
		if !strings.Contains(irq.On, "input") {
			continue
		}
		queues++
		set := irq.Effective
		if len(set) == 0 || len(irq.Affinity) == 1 {
			set = irq.Affinity
		}
		if len(set) > 0 {
			cpus[set[0]] = true
		}
	}
	return queues, cpus
}

// balancedInside is advice about the service of a guest: it is to run where one vCPU takes the interrupts of all queues of a NIC.
func (v *View) balancedInside(a setting.Address) Advice {
	in, advice, ok := v.within(a, "which vCPUs its queues interrupt")
	if !ok {
		return advice
	}
	for _, n := range in.NICs {
		queues, taken := interrupted(&n)
		if n.Driver == "virtio_net" && queues > 1 && len(taken) == 1 && len(in.Topology.Online) > 1 {
			return Wants(setting.Exact("running"), fmt.Sprintf("one vCPU takes the interrupts of all %d queues of %s", queues, n.Name)).At(Medium)
		}
	}
	return Fine("its queues interrupt different vCPUs, or it has one")
}
