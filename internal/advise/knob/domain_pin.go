package knob

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/advise/placement"
	"mpps/internal/model/datapath"
	"mpps/internal/model/domain"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// pinned returns the tiers in which guests have dedicated CPUs.
func pinned() []goal.Tier {
	return tiers(goal.Standard, goal.Aggressive, goal.Passthrough, goal.Realtime)
}

// eachPin lists pins of a guest's definition and, if it runs, its live ones: libvirt moves threads of a running guest.
func eachPin(paths ...string) func(g *facts.Guest) []setting.Address {
	return func(g *facts.Guest) []setting.Address {
		all := eachInDefinition(paths...)(g)
		if g.Active() {
			for _, path := range paths {
				all = append(all, setting.Of(setting.DomainLive, g.Name, path))
			}
		}
		return all
	}
}

// pin advises CPUs for threads of a guest, of a running one both now and after its next start. If the running guest's
// CPUs are unknown, the change waits for that start.
func (v *View) pin(g *facts.Guest, a setting.Address, cpus, because string) Advice {
	advice := exact(cpus, because)
	live := v.Readings.At(setting.Of(setting.DomainLive, g.Name, a.Rest()))
	if a.Kind == setting.Domain && live.State != setting.Known {
		return advice.restart(g.Name)
	}
	return advice
}

// oneCPU says why nothing is pinned on a host that has no choice.
const oneCPU = "the host has one CPU online: there is nothing to choose"

var domainVCPUPin = &Knob{
	ID: "domain.vcpupin", Title: "A CPU for each vCPU", Stage: datapath.Domain, Risk: goal.None, Tiers: pinned(),
	Where: eachGuest(managed, func(g *facts.Guest) []setting.Address {
		var paths []string
		for n := range min(g.VCPUs, maxAddresses) {
			paths = append(paths, "vcpupin/"+strconv.Itoa(n))
		}
		return eachPin(paths...)(g)
	}),
	Want: forGuest(func(v *View, g *facts.Guest, a setting.Address) Advice {
		if len(v.Topology.Online) == 1 {
			return Skips(oneCPU)
		}
		placed, why := v.seat(g)
		if placed == nil {
			return why
		}
		vcpu, err := strconv.Atoi(a.Path[strings.LastIndexByte(a.Path, '/')+1:])
		if err != nil {
			return Skips("no such vCPU")
		}
		cpu, ok := placed.CPU(vcpu)
		if !ok {
			return Skips("no such vCPU")
		}
		because := placed.Why
		if placed.Kept && v.Readings.At(a).State == setting.Absent {
			because = "its thread has that CPU, and the definition does not say so: it would not at the next start"
		}
		return v.givingWay(g.Name, v.pin(g, a, strconv.Itoa(cpu), because).At(High))
	}),
}

var domainEmulatorPin = &Knob{
	ID: "domain.emulatorpin", Title: "QEMU's own threads stay off the vCPUs' CPUs",
	Stage: datapath.Domain, Risk: goal.None, After: []string{"domain.vcpupin"}, Tiers: pinned(),
	Where: eachGuest(managed, eachPin("emulatorpin")),
	Want: forGuest(func(v *View, g *facts.Guest, a setting.Address) Advice {
		if len(v.Topology.Online) == 1 {
			return Skips(oneCPU)
		}
		placed, why := v.seat(g)
		switch {
		case placed == nil:
			return why
		case len(placed.Emulator) == 0:
			return v.unplaced(g.Name)
		}
		if advice, is := v.everywhere(g, placed); is {
			return advice
		}
		if placed.Emulator.Equal(g.EmulatorPin) {
			why := "pinned off all vCPUs already"
			if len(placed.Emulator.And(v.vcpuCPUs())) > 0 {
				why = "pinned already, and no other CPUs are better"
			}
			return v.pin(g, a, placed.Emulator.String(), why).At(Medium)
		}
		live, _ := v.cpusAt(setting.Of(setting.DomainLive, g.Name, a.Rest()))
		if len(g.EmulatorPin) == 0 && placed.Emulator.Equal(live) && len(live.And(v.vcpuCPUs())) > 0 {
			return Fine("no CPU without a vCPU is left for them but isolated ones: they run where they may today")
		}
		set, known := v.cpusAt(a)
		known = known && len(set) > 0
		outside := v.vhostMoves(g, placed).Minus(set)
		switch off := known && len(set.And(v.vcpuCPUs())) == 0; {
		case off && len(outside) == 0 && (a.Kind == setting.Domain || len(g.EmulatorPin) > 0):
			return Fine("off all vCPUs already")
		case off && len(outside) == 0:
			return v.pin(g, a, placed.Emulator.String(), "off all vCPUs already, but not pinned: its definition "+
				"and its running threads get the same CPUs").At(Low)
		case off && len(placed.Emulator.And(outside)) == len(outside):
			return v.givingWay(g.Name, v.pin(g, a, placed.Emulator.String(), fmt.Sprintf("vhost threads go to %s: "+
				"libvirt keeps them in the cpuset of the emulator", outside)).At(Medium))
		}
		because := "QEMU's own threads take time from vCPUs unless they run on other CPUs"
		if len(placed.Emulator.Minus(placed.VCPUSet())) == 0 {
			because = onOwnCPUs
		} else if len(placed.Vhost) > 0 {
			because += ". They share the CPUs of the vhost threads: " + placed.VhostWhy
		}
		return v.givingWay(g.Name, v.pin(g, a, placed.Emulator.String(), because).At(Medium))
	}),
}

// onOwnCPUs is why a guest's other threads get the CPUs of its vCPUs.
const onOwnCPUs = "on all CPUs it takes time from other guests' vCPUs too, and no CPU that it may have is free of " +
	"vCPUs: its guest's are left"

// everywhere says why a guest's emulator threads may run on all CPUs or stay unpinned; false if they get certain ones.
func (v *View) everywhere(g *facts.Guest, placed *placement.Placed) (Advice, bool) {
	stays := slices.ContainsFunc(placed.Vhost, func(w placement.Vhost) bool { return len(w.Stays) > 0 })
	switch group := v.OwnGroup(g); {
	case len(g.EmulatorPin) == 0 && stays:
		return Fine(heldVhost), true
	case group != nil && len(group.CPUs) > 0 && len(group.CPUs.Minus(placed.Emulator)) == 0:
		return Fine("its control group has no other CPUs"), true
	case len(v.Topology.Online.Minus(placed.Emulator)) > 0:
		return Advice{}, false
	case len(v.Topology.Online.Minus(v.vcpuCPUs())) > 0:
		return Fine("no CPUs are better for them than all"), true
	}
	return Fine("each CPU has a vCPU: there is nothing to choose"), true
}

// heldVhost is why the emulator threads of a guest are left unpinned.
const heldVhost = "its vhost threads are held in the emulator's CPUs, and they stay where they may run"

// vcpuCPUs returns the CPUs of all guests' vCPUs, as they are placed, and those that only vCPUs should use; computed at
// the first call.
func (v *View) vcpuCPUs() setting.CPUSet {
	if v.vcpus == nil {
		v.vcpus = append(setting.CPUSet{}, v.guestCPUs()...)
		for _, p := range v.Placement().Guests {
			v.vcpus = v.vcpus.Or(p.VCPUSet())
		}
	}
	return v.vcpus
}

var domainNumatune = &Knob{
	ID: "domain.numatune", Title: "The guest's memory on the node of its CPUs",
	Stage: datapath.Domain, Risk: goal.GuestRestart, After: []string{"domain.vcpupin"}, Tiers: pinned(),
	Where: eachGuest(managed, eachInDefinition("numatune/memory.nodeset")),
	Want: forGuest(func(v *View, g *facts.Guest, a setting.Address) Advice {
		if len(v.Topology.Nodes) < 2 {
			return Skips("the host has one NUMA node")
		}
		if strings.Contains(g.Definition, "<memnode") {
			return Fine("its vNUMA cells are bound to nodes one by one (memnode)")
		}
		if v.choseMemory(g) {
			return Fine(fmt.Sprintf("its memory is bound to node %s, not all with CPUs: memory of another kind, such "+
				"as HBM or CXL's, which somebody chose", g.MemoryNodes))
		}
		placed, why := v.seat(g)
		switch {
		case placed == nil:
			return why
		case len(placed.Nodes) == 0:
			return v.unplaced(g.Name)
		}
		if len(placed.Nodes) > 1 {
			return Skips("its vCPUs are spread over nodes " + placed.Nodes.String())
		}
		if n, known := v.Topology.Node(placed.Nodes[0]); known && n.Memory == 0 && v.memoryElsewhere(n.ID) {
			return Skips(fmt.Sprintf("its vCPUs run on node %s, which has no memory: bound to it the guest would not "+
				"start", placed.Nodes))
		}
		if g.Hugepages && placed.PageSize == 0 && v.Tier != goal.Realtime {
			return Skips(fmt.Sprintf("its memory is in huge pages, and node %s has too few of them: bound to it the "+
				"guest would not start", placed.Nodes))
		}
		return exact(placed.Nodes.String(), fmt.Sprintf("its vCPUs run on node %s: memory elsewhere costs the "+
			"distance for every packet", placed.Nodes)).At(Medium).restart(g.Name)
	}),
}

// choseMemory reports whether a guest's memory is bound to nodes some of which have no CPUs. domain.numatune leaves it
// there.
func (v *View) choseMemory(g *facts.Guest) bool {
	return slices.ContainsFunc(g.MemoryNodes, func(id int) bool { return len(v.cpusOf(setting.CPUs(id))) == 0 })
}

// memoryElsewhere reports whether another node is known to have memory.
func (v *View) memoryElsewhere(node int) bool {
	return slices.ContainsFunc(v.Topology.Nodes, func(n facts.Node) bool { return n.ID != node && n.Memory > 0 })
}

// ioThreads returns the paths of the I/O threads' pins in a guest's definition: "iothreadpin/1".
func ioThreads(g *facts.Guest) (paths []string) {
	if !strings.Contains(g.Definition, "<iothread") {
		return nil
	}
	doc, err := domain.Parse([]byte(g.Definition))
	if err != nil {
		return nil
	}
	for _, n := range doc.Threads("iothreadpin") {
		if len(paths) < maxVCPUs {
			paths = append(paths, "iothreadpin/"+strconv.Itoa(n))
		}
	}
	return paths
}

var domainIOThreadPin = &Knob{
	ID: "domain.iothreadpin", Title: "I/O threads stay off the vCPUs' CPUs",
	Stage: datapath.Domain, Risk: goal.None, After: []string{"domain.emulatorpin"}, Tiers: pinned(),
	Where: eachGuest(func(g *facts.Guest) bool { return managed(g) && len(ioThreads(g)) > 0 },
		func(g *facts.Guest) []setting.Address {
			return eachPin(ioThreads(g)...)(g)
		}),
	Want: forGuest(func(v *View, g *facts.Guest, a setting.Address) Advice {
		placed, why := v.seat(g)
		switch {
		case placed == nil:
			return why
		case len(placed.Emulator) == 0:
			return v.unplaced(g.Name)
		}
		set, known := v.cpusAt(a)
		if known && len(set) > 0 && len(set.And(placed.VCPUSet().Or(v.guestCPUs()))) == 0 {
			return Fine("off all vCPUs of its guest")
		}
		if advice, is := v.everywhere(g, placed); is {
			return advice
		}
		because := "without a pin, it runs on any CPU that the guest may use, including those of its vCPUs"
		if len(placed.Emulator.Minus(placed.VCPUSet())) == 0 {
			because = onOwnCPUs
		} else if a.Kind == setting.Domain && known && len(set) > 0 {
			because = fmt.Sprintf("it is pinned to %s, which vCPUs have or are to have", set.Words())
		}
		return v.pin(g, a, placed.Emulator.String(), because).At(Medium)
	}),
}
