package placement

import (
	"cmp"
	"math"
	"slices"

	"mpps/internal/model/domain"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/reach"
	"mpps/internal/model/setting"
)

// From returns the ask of a host for a goal. Its guests are the active ones, paused ones included, and the one that the
// goal names. Guests that the goal does not concern stay where they are pinned; only unpinned ones are placed.
func From(h *facts.Host, g goal.Goal) Ask {
	var ask Ask
	aside := h.SetAside()
	if g.Tier() == goal.Realtime {
		ask.Quiet = g.CPUs
		if len(aside) == 0 && len(g.CPUs) == 0 { // what guests get is to be isolated
			ask.Host = setting.CPUs(facts.BootCPU)
		}
	}
	kinds := h.Topology.Kinds()
	for _, c := range h.Topology.CPUs {
		if c.Online {
			slow := slices.Index(kinds, c.Kind)
			ask.CPUs = append(ask.CPUs, CPU{ID: c.ID, Core: c.Core, Node: c.Node, Slow: slow,
				Alike: alike(h, c)*len(kinds) + slow, Isolated: aside.Has(c.ID)})
		}
	}
	for _, p := range h.Pollers {
		ask.Taken = ask.Taken.Or(wholeCores(ask.CPUs, p.CPUs))
	}
	if h.OpenVSwitch != nil { // threads that sleep now and then (pmd-sleep-max) are no pollers
		ask.Taken = ask.Taken.Or(wholeCores(ask.CPUs, h.OpenVSwitch.Polled.PMDCPUs()))
	}
	ask.Barred = barred(h)
	someMemory := slices.ContainsFunc(h.Topology.Nodes, func(n facts.Node) bool { return n.Memory > 0 })
	for i, n := range h.Topology.Nodes {
		node := Node{ID: n.ID, Memory: n.Memory, Empty: n.Memory == 0 && someMemory, Distances: map[int]int{}}
		for j, d := range n.Distances {
			if j < len(h.Topology.Nodes) && j != i {
				node.Distances[h.Topology.Nodes[j].ID] = d
			}
		}
		for _, p := range n.Hugepages {
			node.Pages = append(node.Pages, Pages{Size: p.Size, Count: p.Total})
		}
		ask.Nodes = append(ask.Nodes, node)
	}

	paths := reach.Of(h)
	for _, n := range h.NICs {
		ask.NICs = append(ask.NICs, NIC{Name: n.Name, Node: n.Node, Left: !n.Up || n.PhysFn != "" ||
			paths.Carries(n.Name) != facts.Yes || paths.Declined(n.Name) != nil,
			Queues: busyQueues(&n, g)})
	}
	slices.SortFunc(ask.NICs, func(a, b NIC) int { return cmp.Compare(a.Name, b.Name) })

	for _, s := range h.Storage {
		ask.Daemons = append(ask.Daemons, Daemon{Name: s.Name, Node: s.Node, CPUs: s.Count, Memory: s.Memory})
	}
	for guest := range facts.Each(h.Guests) {
		if guest.VCPUs > 0 && (guest.Active() || g.Guest == guest.Name) {
			ask.Guests = append(ask.Guests, describeGuest(h, guest, paths, g))
		}
	}
	ask.quietNICs()
	ask.chooseQueues()
	return ask
}

// alike returns the number of the cores that are like that of a CPU, but for their kind: they share its L3 cache and
// have as many threads online. Performance cores of a hybrid processor often have two, its efficiency cores have one.
func alike(h *facts.Host, c facts.CPU) int {
	const most = 8 // threads of a core
	return most*(c.L3+1) + min(len(c.Siblings.And(h.Topology.Online)), most-1)
}

// confined returns the CPUs that the control groups of a guest leave it: a pod's, and the top-level one. A thread gets
// no others: sched_setaffinity(2) fails with EINVAL, or takes only those that the groups have (cpuset(7)).
func confined(h *facts.Host, guest *facts.Guest) (cpus setting.CPUSet) {
	for _, c := range []*facts.Cgroup{h.TopGroup(guest), h.OwnGroup(guest)} {
		switch {
		case c == nil || len(c.CPUs) == 0 || len(c.Effective) == 0:
		case len(cpus) == 0:
			cpus = c.Effective
		case len(cpus.And(c.Effective)) > 0:
			cpus = cpus.And(c.Effective)
		}
	}
	return cpus
}

// barred returns the online CPUs that no guest may use, because the top-level groups that guests run in have a cpuset
// without them: with AllowedCPUs= of machine.slice, pinning a vCPU elsewhere fails with EINVAL (cpuset(7)).
func barred(h *facts.Host) setting.CPUSet {
	var open setting.CPUSet
	for g := range facts.Each(h.Guests) {
		if !g.Active() {
			continue
		}
		group := h.TopGroup(g)
		if group == nil || len(group.CPUs) == 0 || len(group.Effective) == 0 {
			return nil
		}
		open = open.Or(group.Effective)
	}
	if len(open) == 0 {
		return nil
	}
	return h.Topology.Online.Minus(open)
}

// quietNICs takes those NICs for quiet that only guests' NICs without a part of the target leave by.
func (ask *Ask) quietNICs() {
	data, aside := map[string]bool{}, map[string]bool{}
	for _, g := range ask.Guests {
		for _, n := range g.NICs {
			data[n.NIC] = data[n.NIC] || n.Aside == ""
			aside[n.NIC] = aside[n.NIC] || n.Aside != ""
		}
	}
	for n := range facts.Each(ask.NICs) {
		if aside[n.Name] && !data[n.Name] {
			n.Queues = 0
		}
	}
}

// chooseQueues sets the number of queues of NICs that have none: one if that carries the guest's rate, else as many as
// the host has CPUs for vhost threads. Those that a plan gives another number (domain.queues) get it here.
func (ask *Ask) chooseQueues() {
	for _, g := range ask.Guests {
		least, most, write := Queues(*ask, g.VCPUs, g.Rate)
		for n := range facts.Each(g.NICs) {
			switch own := max(1, n.Queues); {
			case n.VF || n.Aside != "":
			case g.resized && g.queuesSet && (own < least || own > most):
				n.Queues, n.resized = write, true
			case n.Queues > 0 || g.queuesSet:
			case least == 1:
				n.Queues = 1
			default:
				n.Queues = write
			}
		}
	}
}

func describeGuest(h *facts.Host, guest *facts.Guest, paths *reach.Map, g goal.Goal) Guest {
	d := Guest{
		Name: guest.Name, VCPUs: guest.VCPUs, Threads: guest.CoreThreads, Memory: guest.Memory,
		Emulator: guest.EmulatorPin, Masks: vcpuMasks(guest), Workers: workers(guest),
		Realtime: g.Latency > 0 && g.ForGuest(guest.Name), Fixed: !g.ForGuest(guest.Name),
		Hugepages: guest.Hugepages || g.Latency > 0 && g.ForGuest(guest.Name), Passthrough: len(guest.Hostdevs) > 0,
	}
	d.Confined = confined(h, guest)
	if g.ForGuest(guest.Name) {
		d.Allowed, d.Rate = g.CPUs, g.PPS
	}
	aside := asideNICs(h, guest, paths, g)
	for _, i := range guest.NICs() {
		behind := paths.Behind(i)
		if i.VDPA() && len(behind) > 0 { // hardware, to which all of the guest's memory is mapped
			d.Passthrough = true
			d.NICs = append(d.NICs, Interface{MAC: i.MAC, NIC: behind[0], VF: true, Node: nodeOf(h, behind[0])})
		}
		if !Tapped(i) {
			continue
		}
		n := Interface{MAC: i.MAC}
		if i.Queues > 1 {
			n.Queues = min(i.Queues, TapQueues)
			d.queuesSet = true
		}
		if len(behind) > 0 {
			n.NIC = behind[0]
		}
		n.Aside = aside[i.MAC]
		d.NICs = append(d.NICs, n)
	}
	cells, _ := domain.CellsOf(guest.Definition) // domain.vnuma says what is wrong with them
	d.paged, d.cells = guest.Hugepages, len(cells) > 1
	d.unmanaged, d.vhostFollow = !guest.Managed, !movesVhost(g.Tier())
	d.handed = guest.Rewrites() && !g.Consents(goal.Platform)
	d.resized = guest.Managed && !guest.Rewrites() && guest.VCPUs > 1 && g.ForGuest(guest.Name) && !d.vhostFollow
	d.addStarting()
	for _, v := range h.FunctionsOf(guest) {
		d.NICs = append(d.NICs, Interface{MAC: v.MAC, NIC: v.PF, VF: true, Node: nodeOf(h, v.PF)})
	}
	for _, pin := range d.Masks {
		if len(pin) != 1 {
			d.Pins = nil
			break
		}
		d.Pins = append(d.Pins, pin[0])
	}
	if guest.Active() {
		d.Home = besideCPUs(h, guest.MemoryNodes)
	}
	for _, p := range paths.Of(guest.Name) {
		d.Declined = append(d.Declined, p.Declined()...)
	}
	slices.Sort(d.Declined)
	d.Declined = slices.Compact(d.Declined)
	d.Named = g.Guest == guest.Name
	d.Shared = len(h.SetAside()) > 0 && d.Pins == nil && !d.Named && len(d.Allowed) == 0 &&
		(!d.Realtime || besideIsolated(h, guest))
	switch {
	case d.Pins != nil && (guest.Migrates() || guest.State != "running" && !d.Named): // a plan leaves them alone
		d.Fixed = true
	case d.Pins != nil && d.unmanaged:
		d.stays = notOurs
	case guest.Migrates():
		d.stayAsIs("it is being migrated (" + guest.Job + "): nothing of it is moved until that is over")
	case guest.State != "running" && guest.Active() && !d.Named:
		d.stayAsIs("it is " + guest.State + ": nothing of it is moved until it runs")
	case d.Shared && d.Realtime:
		d.Realtime = false
		d.stayAsIs(Bystander)
	}
	d.threadsStay = d.Fixed || d.staysWithEmulator()
	return d
}

// staysWithEmulator reports whether nothing moves a guest's vhost threads.
func (g *Guest) staysWithEmulator() bool {
	return len(g.Declined) > 0 || g.vhostFollow && g.knowsWorkers() && (len(g.Emulator) > 0 || g.unmanaged)
}

// movesVhost reports whether advice for a tier moves vhost threads by themselves. Otherwise they follow the emulator,
// and stay where it is pinned already or the guest has no definition that could pin it.
func movesVhost(tier goal.Tier) bool { return tier == goal.Standard || tier == goal.Aggressive }

// stayAsIs leaves a guest where it may run today.
func (g *Guest) stayAsIs(why string) {
	g.left = &Left{Guest: g.Name, Why: why}
	for _, mask := range g.Masks {
		g.left.CPUs = g.left.CPUs.Or(mask)
	}
}

// Bystander is why a goal of latency that names no guest leaves a guest as it is that floats while others have isolated
// CPUs.
const Bystander = "it shares CPUs, beside guests that have isolated ones, and so is no realtime guest: --guest makes " +
	"it one"

// besideCPUs replaces nodes without CPUs by the nearest ones that have some: HBM and CXL memory are separate nodes.
func besideCPUs(h *facts.Host, nodes setting.CPUSet) setting.CPUSet {
	var near []int
	for _, id := range nodes {
		n, known := h.Topology.Node(id)
		if !known || len(n.CPUs) > 0 || len(n.Distances) != len(h.Topology.Nodes) {
			near = append(near, id)
			continue
		}
		best := -1
		for i, other := range h.Topology.Nodes {
			if len(other.CPUs) > 0 && (best < 0 || n.Distances[i] < n.Distances[best]) {
				best = i
			}
		}
		if best >= 0 {
			near = append(near, h.Topology.Nodes[best].ID)
		}
	}
	return setting.CPUs(near...)
}

// besideIsolated reports whether vCPUs of other guests have isolated CPUs: a guest beside them that floats and is not
// named is no realtime guest.
func besideIsolated(h *facts.Host, guest *facts.Guest) bool {
	aside := h.SetAside()
	return facts.Find(h.Guests, func(g *facts.Guest) bool {
		return g.Name != guest.Name && g.Active() && slices.ContainsFunc(vcpuMasks(g), func(set setting.CPUSet) bool {
			return len(set) == 1 && aside.Has(set[0])
		})
	}) != nil
}

// vcpuMasks returns the CPUs that each vCPU of a guest may use: its pin in the definition, else what its thread is
// bound to, by whomever.
func vcpuMasks(guest *facts.Guest) []setting.CPUSet {
	masks := make([]setting.CPUSet, min(guest.VCPUs, maxJudged))
	for _, t := range guest.Threads {
		if t.Role == "vcpu" && t.Index >= 0 && t.Index < len(masks) {
			masks[t.Index] = t.Affinity
		}
	}
	for v, pin := range guest.Pins[:min(len(guest.Pins), len(masks))] {
		if len(pin) > 0 {
			masks[v] = pin
		}
	}
	return masks
}

// workers returns a guest's vhost threads.
func workers(guest *facts.Guest) (all []Worker) {
	for _, t := range guest.Threads {
		if t.Role == "vhost" && t.NIC != "" && t.Queue >= 0 {
			all = append(all, Worker{NIC: t.NIC, Queue: t.Queue, CPUs: t.Affinity})
		}
	}
	return all
}

// addStarting adds the vhost threads of queues that the definition of a running guest has and its NICs do not have yet:
// they will begin on the CPUs of the emulator.
func (g *Guest) addStarting() {
	if len(g.Emulator) == 0 || len(g.Workers) == 0 {
		return
	}
	for _, n := range g.NICs {
		for q := range n.Queues {
			if g.worker(n.MAC, 0) != nil && g.worker(n.MAC, q) == nil {
				g.Workers = append(g.Workers, Worker{NIC: n.MAC, Queue: q, CPUs: g.Emulator})
			}
		}
	}
}

// nodeOf returns the node of a NIC, −1 if it is not known.
func nodeOf(h *facts.Host, nic string) int {
	if n := facts.Find(h.NICs, func(n *facts.NIC) bool { return n.Name == nic }); n != nil {
		return n.Node
	}
	return -1
}

// TapQueues is the most queues that a tap can have (drivers/net/tun.c, MAX_TAP_QUEUES).
const TapQueues = 256

// Tapped reports whether an interface's packets pass a tap on this host, by libvirt's type of it or, of a guest that
// libvirt does not know, QEMU's (tap). Those of a VF passed through do not, nor those that another process carries.
func Tapped(i facts.Interface) bool {
	return slices.Contains([]string{"bridge", "network", "ethernet", "direct", "tap"}, i.Type)
}

// queueBudget returns how many queues one data NIC of a guest may have so that vhost threads need at most half of the
// host's CPUs, at least 1. Of a guest's data NICs two share a CPU, queue by queue, as packets that arrive by one leave
// by the other: the guest of the bridge guide had two NICs of nine queues, and nine CPUs for their 18 threads.
func queueBudget(ask Ask) int {
	nics := 0 // pairs
	for g := range facts.Each(ask.Guests) {
		data := 0
		for _, n := range g.NICs {
			if !n.VF && n.Aside == "" {
				data++
			}
		}
		nics += (data + 1) / 2
	}
	cpus, aside, realtime := len(ask.CPUs), 0, 0
	for _, c := range ask.CPUs {
		if ask.setAside(c) {
			aside++
		}
	}
	for g := range facts.Each(ask.Guests) {
		if g.Realtime {
			realtime += g.VCPUs
		}
	}
	cpus -= min(cpus, max(aside, realtime)) // vhost threads stay off isolated CPUs, and those that will be
	if nics == 0 {
		return cpus / 2
	}
	return max(1, cpus/2/nics)
}

// Queues returns how many queues a guest NIC should have: the useful range, and the value to write if today's is
// outside it. Measured for 9 vCPUs: 4 to 9 queues; fewer vCPUs need one queue each, and a rate (packets per second; 0:
// not known) that fewer queues carry needs no more.
func Queues(ask Ask, vcpus int, rate float64) (least, most, write int) {
	most = max(1, min(vcpus, TapQueues))
	share := min(queueBudget(ask), most)
	least = min(4, most, share)
	if rate > 0 {
		least = min(least, int(math.Ceil(rate/PerQueue)))
	}
	return least, most, max(least, share)
}

// wholeCores returns some CPUs with the other threads of their cores.
func wholeCores(cpus []CPU, some setting.CPUSet) setting.CPUSet {
	cores := map[int]bool{}
	for _, c := range cpus {
		cores[c.Core] = cores[c.Core] || some.Has(c.ID)
	}
	var all []int
	for _, c := range cpus {
		if cores[c.Core] {
			all = append(all, c.ID)
		}
	}
	return setting.CPUs(all...)
}
