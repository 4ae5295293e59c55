package knob

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

var guestChannels = &Knob{
	ID: "guest.channels", Title: "The guest uses all queues that it was given",
	Stage: datapath.Guest, Risk: goal.Blip, After: []string{"guest.kernel"}, Tiers: viaKernel(),
	Where: insideNICs("channels", func(n *facts.NIC) []setting.Address {
		if n.Channels == nil || n.Channels.MaxCombined == 0 {
			return nil
		}
		return []setting.Address{setting.Of(setting.NICChannels, n.Name, "combined")}
	}),
	Want: func(v *View, a setting.Address) Advice {
		in, n, advice, ok := v.insideNIC(a, "how many queues its driver uses")
		switch {
		case !ok:
			return advice
		case n == nil:
			return Skips("it has no virtio NIC")
		case n.Channels == nil:
			return Unsure("its driver does not tell how many queues it uses" + whyUnseen(in.Host,
				facts.UnseenChannels, n.Name, " (in a guest: ethtool tells)"))
		}
		want := min(n.Channels.MaxCombined, len(in.Topology.Online))
		has := fmt.Sprintf("%d of %d", n.Channels.Combined, n.Channels.MaxCombined)
		if n.Channels.Combined < want {
			return factOnly(a, has, exact(fmt.Sprint(want),
				fmt.Sprintf("%s that the host offers are not used", Count(want-n.Channels.Combined, "queue"))).At(High))
		}
		return factOnly(a, has, Fine("every queue that a vCPU can use is enabled"))
	},
}

// factOnly adds what was found to advice on a fact. A value that can be set has a reading instead.
func factOnly(a setting.Address, found string, advice Advice) Advice {
	if a.Kind != setting.Fact {
		return advice
	}
	return fact(found, advice)
}

// insideNIC returns the inside that an address is about and its virtio NIC. n is nil if the address names only the
// guest, because the guest has no such NIC or the NIC no such value.
func (v *View) insideNIC(a setting.Address, what string) (in *View, n *facts.NIC, advice Advice, ok bool) {
	in, advice, ok = v.insideOf(a, what)
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
	} else if in != v { // a fact of the guest: its first NIC shows why there is nothing to set
		for i := range in.NICs {
			if in.NICs[i].Driver == "virtio_net" {
				return in, &in.NICs[i], Advice{}, true
			}
		}
	}
	return in, in.nics[name], Advice{}, true
}

// lastOwnChoice is the build of RHEL 7.8's kernel. Later builds may use XPS, which was requested for RHEL 7 in December
// 2019; if they do not, a mask does no harm.
const lastOwnChoice = 1127

// picksByCPU reports whether a kernel's virtio_net picks the transmit queue by CPU number and ignores XPS: from 3.8,
// the first with several queues, to 3.12, and RHEL 7's 3.10 up to RHEL 7.8.
func picksByCPU(release string) bool {
	major, minor, ok := version(release)
	var build int
	if _, err := fmt.Sscanf(release, "3.10.0-%d.",
		&build); err == nil && strings.Contains(release, ".el7") && build > lastOwnChoice {
		return false
	}
	return ok && major == 3 && minor >= 8 && minor <= 12
}

// stripe divides CPUs among queues as virtio_net does since Linux 4.19 (virtnet_set_affinity): neighbours stay
// together, the first queues get the remainder, and surplus queues start again with the first CPU.
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
	ID: "guest.xps", Title: "Every transmit queue of the guest is reached",
	Stage: datapath.Guest, Risk: goal.None, After: []string{"guest.channels"}, Tiers: viaKernel(),
	Where: insideNICs("xps", func(n *facts.NIC) []setting.Address {
		if n.TxQueues < 2 {
			return nil
		}
		return queueFiles("tx", "xps_cpus", func(n *facts.NIC) int { return n.TxQueues })(n)
	}),
	Want: func(v *View, a setting.Address) Advice {
		in, n, advice, ok := v.insideNIC(a, "which vCPU sends on which queue")
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
			return factOnly(a, "not looked at", Fine("this kernel's driver picks the queue by CPU itself"))
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
			return factOnly(a, "not set", Wants(each("a queue for each vCPU"),
				"without XPS the flow's hash picks the queue: flows of different vCPUs meet in one").At(Low))
		case len(idle) > 0 && n.TxQueues <= len(in.Topology.Online):
			return factOnly(a, Count(len(idle), "queue")+" left out",
				Wants(each("a vCPU for each queue"), "queues "+strings.Join(idle, ", ")+" are never chosen").At(Medium))
		case len(without) > 0:
			return factOnly(a, Count(len(without), "vCPU")+" left out", Wants(each("a queue for each vCPU"),
				fmt.Sprintf("vCPUs %s have no queue of their own: the flow's hash picks one", without)).At(Low))
		}
		return factOnly(a, "every queue", Fine("every queue has a vCPU, and every vCPU a queue"))
	},
}

var guestIRQBalance = &Knob{
	ID: "guest.irqbalance", Title: "The guest's queues interrupt different vCPUs",
	Stage: datapath.Guest, Risk: goal.None, After: []string{"guest.channels", "guest.xps"}, Tiers: viaKernel(),
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
			return v.irqbalanceAdvice(a)
		}
		in, n, advice, ok := v.insideNIC(a, "which vCPUs its queues interrupt")
		switch {
		case !ok:
			return advice
		case n == nil:
			return Skips("it has no virtio NIC")
		}
		queues, taken := irqCPUs(n)
		switch {
		case queues == 0:
			return Unsure("the interrupts of its queues could not be seen")
		case queues == 1 || len(in.Topology.Online) < 2:
			return Skips("one queue, or one vCPU")
		case len(taken) > 1:
			return factOnly(a, Count(len(taken), "vCPU"),
				Fine(fmt.Sprintf("%d queues on %s", queues, Count(len(taken), "vCPU"))))
		}
		advice = exact("a vCPU for each queue",
			fmt.Sprintf("one vCPU takes the interrupts of all %d queues", queues)).At(Medium)
		if in.runs("irqbalance") {
			advice.Because += ", although irqbalance runs: it moves them under load"
			advice.Severity = Info
		}
		if a.Kind == setting.Fact {
			return fact("1 vCPU", advice)
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

// irqCPUs returns the number of receive queues of a virtio NIC and the CPUs that take their interrupts: the mask's only
// CPU, where the next interrupt goes, or the one that the kernel chose.
func irqCPUs(n *facts.NIC) (queues int, cpus map[int]bool) {
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

// irqbalanceAdvice is advice on irqbalance in a guest: it should run if one vCPU takes the interrupts of all queues of
// a NIC.
func (v *View) irqbalanceAdvice(a setting.Address) Advice {
	in, advice, ok := v.insideOf(a, "which vCPUs its queues interrupt")
	if !ok {
		return advice
	}
	for _, n := range in.NICs {
		queues, taken := irqCPUs(&n)
		if n.Driver == "virtio_net" && queues > 1 && len(taken) == 1 && len(in.Topology.Online) > 1 {
			return exact("running",
				fmt.Sprintf("one vCPU takes the interrupts of all %d queues of %s", queues, n.Name)).At(Medium)
		}
	}
	return Fine("its queues interrupt different vCPUs, or it has one")
}
