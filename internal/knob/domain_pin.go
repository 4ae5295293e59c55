package knob

import (
	"fmt"
	"strconv"
	"strings"

	"mpps/internal/datapath"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

// pinned are the tiers in which guests have CPUs of their own.
func pinned() []goal.Tier {
	return tiers(goal.Standard, goal.Aggressive, goal.Passthrough, goal.Realtime)
}

// pinsOf are pins of a guest's definition, and those that it runs with: libvirt moves threads of a running guest.
func pinsOf(paths ...string) func(g *facts.Guest) []setting.Address {
	return func(g *facts.Guest) []setting.Address {
		all := inDefinition(paths...)(g)
		if g.Active() {
			for _, path := range paths {
				all = append(all, setting.Of(setting.DomainLive, g.Name, path))
			}
		}
		return all
	}
}

// pin wants CPUs for threads of a guest: of a running one now and after its next start. Where the running one's cannot be told
// what the definition says waits for that start.
func (v *View) pin(g *facts.Guest, a setting.Address, cpus, because string) Advice {
	advice := Wants(setting.Exact(cpus), because)
	if a.Kind == setting.Domain && v.Readings.At(setting.Of(setting.DomainLive, g.Name, a.Rest())).State != setting.Known {
		return advice.restart(g.Name)
	}
	return advice
}

var domainVCPUPin = &Knob{
	ID: "domain.vcpupin", Title: "A CPU for each vCPU", Stage: datapath.Domain, Risk: goal.None,
	Tiers: pinned(),
	Doc: Doc{
		Want: "a CPU for each vCPU, of the NIC's node, no two on one core",
		Why: "A vCPU that the scheduler moves loses its caches, and one that waits for a CPU keeps packets waiting in the ring until it overflows. " +
			"Each vCPU gets a CPU of its own on the node of the NIC; no two vCPUs share the two threads of a core, and vhost threads and interrupts stay off these CPUs.",
		Cost:   "These CPUs are no longer there for others: no overcommit. A pinned guest cannot use an idle CPU elsewhere.",
		Verify: "virsh vcpupin NAME; /proc/PID/task/TID/status of the threads \"CPU n/KVM\", Cpus_allowed_list.",
		Traps: []string{
			"Pinning all vCPUs to the same set of CPUs (cpuset='0-15' for each) is not pinning: the scheduler still moves them.",
			"A guest that is pinned well already (a CPU each, no core shared, one node) is left where it is, wherever that is.",
			"The kernel's housekeeping needs a core of every node; without it kswapd and interrupts run on a vCPU's CPU.",
		},
		Sources: []Source{
			{"vcpupin", "libvirt formatdomain, \"CPU Tuning\""},
			{"1 to 9 for the 9 vCPUs of the guest that routed 1.8 Mpps", "founding measurements"},
			{"1–2 CPUs and 2–4 GiB of each node stay with the host, or kswapd eats the gain", "founding measurements"},
		},
	},
	Where: eachGuest(managed, func(g *facts.Guest) []setting.Address {
		var paths []string
		for n := range min(g.VCPUs, maxAddresses) {
			paths = append(paths, "vcpupin/"+strconv.Itoa(n))
		}
		return pinsOf(paths...)(g)
	}),
	Want: func(v *View, a setting.Address) Advice {
		g, advice, ok := v.guest(a)
		if !ok {
			return advice
		}
		if refused := v.Placement().Refusal(g.Name); refused != nil {
			return Skips("no place for it: " + refused.Shortage + "; " + refused.Relax)
		}
		placed := v.Placement().Guest(g.Name)
		vcpu, err := strconv.Atoi(a.Path[strings.LastIndexByte(a.Path, '/')+1:])
		if placed == nil || err != nil {
			return Skips("no such vCPU")
		}
		cpu, ok := placed.CPU(vcpu)
		if !ok {
			return Skips("no such vCPU")
		}
		return v.pin(g, a, strconv.Itoa(cpu), placed.Why).At(High)
	},
}

var domainEmulatorPin = &Knob{
	ID: "domain.emulatorpin", Title: "QEMU's own threads stay off the vCPUs' CPUs", Stage: datapath.Domain, Risk: goal.None,
	After: []string{"domain.vcpupin"}, Tiers: pinned(),
	Doc: Doc{
		Want:   "CPUs that no vCPU has",
		Why:    "QEMU's main loop, its workers and, where they inherit it, vhost threads run anywhere unless told otherwise: on a vCPU's CPU they take its time in the middle of a burst.",
		Cost:   "They share the CPUs that vhost has, or those kept for the host.",
		Verify: "virsh emulatorpin NAME; Cpus_allowed_list of the QEMU process's main thread.",
		Traps: []string{
			"Counting on emulatorpin to hold the vhost threads: whether they inherit it depends on the kernel and on the moment of their start; vhost.threads places them directly.",
		},
		Sources: []Source{
			{"emulatorpin", "libvirt formatdomain, \"CPU Tuning\""},
			{"vhost workers are tasks of the QEMU process since 6.4, kernel threads in its cgroups before", "kernel commit 6e890c5d5021 (vhost: use vhost_tasks for worker threads); drivers/vhost/vhost.c"},
		},
	},
	Where: eachGuest(managed, pinsOf("emulatorpin")),
	Want: func(v *View, a setting.Address) Advice {
		g, advice, ok := v.guest(a)
		if !ok {
			return advice
		}
		placed := v.Placement().Guest(g.Name)
		if placed == nil || len(placed.Emulator) == 0 {
			return Skips("no place for the guest on this host")
		}
		if placed.Emulator.Equal(g.EmulatorPin) {
			return v.pin(g, a, placed.Emulator.String(), "pinned off all vCPUs already").At(Medium)
		}
		return v.pin(g, a, placed.Emulator.String(), "QEMU's own threads take time from vCPUs unless they are kept off their CPUs; these are vhost's: "+placed.VhostWhy).At(Medium)
	},
}

var domainNumatune = &Knob{
	ID: "domain.numatune", Title: "The guest's memory on the node of its CPUs", Stage: datapath.Domain, Risk: goal.GuestRestart,
	After: []string{"domain.vcpupin"}, Tiers: pinned(),
	Doc: Doc{
		Want:   "the node of its vCPUs",
		Why:    "Every packet is copied into the guest's memory and read from there: on another node both cost the distance between the nodes. Memory that is bound to the node cannot wander to where there happened to be room at start.",
		Cost:   "The guest does not start, or is killed, where the node lacks the memory (mode strict); the other nodes' free memory is of no use to it.",
		Verify: "numastat -p PID shows the guest's memory on one node.",
		Traps: []string{
			"<memnode cellid=…> binds single vNUMA cells and is as good; <memory mode='preferred'> only prefers.",
			"Automatic NUMA balancing works against fixed placement (memory.numa_balancing).",
			"The node needs 2 GiB or more beside its guests, or kswapd runs.",
		},
		Sources: []Source{
			{"numatune", "libvirt formatdomain, \"NUMA Node Tuning\""},
			{"2–4 GiB of each node stay with the host", "founding measurements"},
		},
	},
	Where: eachGuest(managed, inDefinition("numatune/memory.nodeset")),
	Want: func(v *View, a setting.Address) Advice {
		g, advice, ok := v.guest(a)
		if !ok {
			return advice
		}
		if len(v.Topology.Nodes) < 2 {
			return Skips("the host has one NUMA node")
		}
		if strings.Contains(g.Definition, "<memnode") {
			return Fine("its vNUMA cells are bound to nodes one by one (memnode)")
		}
		placed := v.Placement().Guest(g.Name)
		if placed == nil || len(placed.Nodes) == 0 {
			return Skips("no place for the guest on this host")
		}
		if len(placed.Nodes) > 1 {
			return Skips("its vCPUs are spread over nodes " + placed.Nodes.String())
		}
		return Wants(setting.Exact(placed.Nodes.String()), fmt.Sprintf("its vCPUs run on node %s: memory elsewhere costs the distance for every packet", placed.Nodes)).At(Medium).restart(g.Name)
	},
}
