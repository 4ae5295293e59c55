package knob

import (
	"fmt"
	"slices"
	"strconv"

	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/reach"
	"mpps/internal/model/setting"
)

// pmdKnob is a knob on Open vSwitch's polling threads, with an opinion where they have vrings of a running guest.
func pmdKnob(k Knob, at setting.Address, want func(v *View, o *facts.OpenVSwitch) Advice) *Knob {
	k.Stage = datapath.Bridge
	k.Tiers = tiers(goal.Standard, goal.Aggressive, goal.Passthrough, goal.Realtime)
	k.Where = onPaths(reach.VhostUser, fixed(at))
	k.Want = func(v *View, _ setting.Address) Advice {
		if !v.sharesVrings() {
			return Skips(noVrings)
		}
		return want(v, v.OpenVSwitch)
	}
	return &k
}

const noVrings = "no running guest shares vrings with Open vSwitch"

// sharesVrings reports whether a running guest shares vrings with polling threads of Open vSwitch.
func (v *View) sharesVrings() bool {
	return slices.ContainsFunc(v.paths.Paths, func(p reach.Path) bool { return p.Active && p.Has(reach.VhostUser) })
}

// ovsPMDCPUs wants polling threads on CPUs that nothing else uses, on each node that a port of DPDK is on.
var ovsPMDCPUs = pmdKnob(Knob{ID: "ovs.pmd_cpus", Title: "Polling threads of Open vSwitch have dedicated CPUs",
	Risk: goal.Blip}, setting.Of(setting.OVSDB, "pmd-cpu-mask"), (*View).pmdCPUs)

func (v *View) pmdCPUs(o *facts.OpenVSwitch) Advice {
	now := o.Polled.PMDCPUs()
	// what was set a moment ago counts, wherever the threads were when they were looked at
	if r := v.Readings.At(setting.Of(setting.OVSDB, "pmd-cpu-mask")); r.State == setting.Known && len(now) > 0 {
		if cpus, err := setting.ParseOVSMask(r.Value); err == nil && len(cpus) > 0 {
			now = cpus
		}
	}
	if len(now) == 0 {
		return Unsure("no polling thread runs: Open vSwitch has no port that one polls yet")
	}
	found := func(a Advice) Advice { return a.byDefault(setting.OVSMask(now)) }
	used := v.usedBesidePMDs()
	bad, why := v.badPMDCPU(now, used)
	missing, port := v.nodeWithoutPMD(o, now)
	switch {
	case bad < 0 && missing < 0:
		return found(Fine("polling threads on " + now.Words() + ", which nothing else has, on the nodes of the ports"))
	case bad < 0:
		why = fmt.Sprintf("%s is on node %d, where no thread polls: each packet crosses to another", port, missing)
	}
	free := v.setAside().Minus(used).Minus(now)
	wanted := now
	for _, cpu := range now { // another one on the node in place of each that something else has
		if b, _ := v.badPMDCPU(setting.CPUs(cpu), used); b < 0 {
			continue
		}
		c, there := v.freeOn(free, v.nodeOf(cpu))
		if !there {
			return Unsure(why + ", and no isolated CPU of its node is free: isolate one ('mpps place') or move the " +
				"others")
		}
		wanted, free = wanted.Minus(setting.CPUs(cpu)).Or(setting.CPUs(c)), free.Minus(setting.CPUs(c))
	}
	if missing >= 0 {
		c, there := v.freeOn(free, missing)
		if !there {
			return Unsure(why + ", and no isolated CPU there is free")
		}
		wanted = wanted.Or(setting.CPUs(c))
	}
	return found(exact(setting.OVSMask(wanted), why).At(High).
		warn("threads that poll are stopped and started: packets of all ports are lost for some milliseconds"))
}

// usedBesidePMDs returns the CPUs of running guests' vCPUs and emulators: where the placement puts them, which keeps
// off the CPUs that are polled now, else where they are pinned.
func (v *View) usedBesidePMDs() (used setting.CPUSet) {
	for g := range facts.Each(v.Guests) {
		if !g.Active() {
			continue
		}
		if placed, _ := v.seat(g); placed != nil {
			used = used.Or(placed.VCPUSet()).Or(placed.Emulator)
			continue
		}
		for _, t := range g.Threads {
			if len(t.Affinity) > 0 && len(t.Affinity) < len(v.Topology.Online) {
				used = used.Or(t.Affinity)
			}
		}
		for _, pin := range g.Pins {
			used = used.Or(pin)
		}
	}
	return used
}

// badPMDCPU returns the first CPU of polling threads that they share, and why; −1 if there is none.
func (v *View) badPMDCPU(cpus, used setting.CPUSet) (int, string) {
	aside := v.setAside()
	for _, cpu := range cpus {
		switch {
		case used.Has(cpu):
			return cpu, fmt.Sprintf("the polling thread on CPU %d shares it with threads of guests", cpu)
		case !aside.Has(cpu):
			return cpu, fmt.Sprintf("the polling thread on CPU %d shares it with the host's own work: it is not "+
				"isolated", cpu)
		}
	}
	return -1, ""
}

// nodeWithoutPMD returns a node with a port of DPDK on which no thread polls, with the port; −1 if there is none.
func (v *View) nodeWithoutPMD(o *facts.OpenVSwitch, cpus setting.CPUSet) (int, string) {
	for _, i := range o.PolledInterfaces() {
		node, err := strconv.Atoi(i.Status["numa_id"])
		there := func(n facts.Node) bool { return n.ID == node }
		if err != nil || i.Type != "dpdk" || !slices.ContainsFunc(v.Topology.Nodes, there) {
			continue
		}
		if !slices.ContainsFunc(cpus, func(cpu int) bool { return v.nodeOf(cpu) == node }) {
			return node, i.Name
		}
	}
	return -1, ""
}

// nodeOf returns the NUMA node of a CPU; −1 if it is not known.
func (v *View) nodeOf(cpu int) int {
	if c, there := v.Topology.CPU(cpu); there {
		return c.Node
	}
	return -1
}

// freeOn returns the first free CPU of a node whose siblings are free too, or else the first one.
func (v *View) freeOn(free setting.CPUSet, node int) (int, bool) {
	of := slices.DeleteFunc(slices.Clone(free), func(cpu int) bool { return v.nodeOf(cpu) != node })
	for _, cpu := range of {
		if c, there := v.Topology.CPU(cpu); there && len(c.Siblings.Minus(of)) == 0 {
			return cpu, true
		}
	}
	if len(of) == 0 {
		return 0, false
	}
	return of[0], true
}

// Shares of a polling thread's time in the last minute, in per cent: pmd-auto-lb acts on a thread that is busier than
// 95 by default (lib/dpif-netdev.c, ALB_LOAD_THRESHOLD).
const (
	pmdFull = 95
	pmdFree = 50
)

var ovsPMDBalance = pmdKnob(Knob{ID: "ovs.pmd_balance", Title: "Queues move from a polling thread that is full",
	Risk: goal.Blip}, setting.Of(setting.OVSDB, "pmd-auto-lb"), func(v *View, o *facts.OpenVSwitch) Advice {
	told := false
	for full := range facts.Each(o.Polled.PMDs) {
		told = told || slices.ContainsFunc(full.Queues, func(q facts.PMDQueue) bool { return q.Usage >= 0 })
		busy := facts.Where(full.Queues, func(q facts.PMDQueue) bool { return q.Usage > 0 })
		free := idleBeside(o.Polled, full)
		if full.LastMinute() < pmdFull || len(busy) < 2 || full.Isolated || free == nil {
			continue
		}
		why := fmt.Sprintf("the polling thread on CPU %d is full with %s, and that on CPU %d has time left", full.CPU,
			Count(len(full.Queues), "queue"), free.CPU)
		if o.Config["pmd-rxq-assign"] == "roundrobin" {
			return Unsure(why + ": with pmd-rxq-assign=roundrobin queues do not move; remove that key first")
		}
		return exact("true", why).At(High).byDefault("false").
			warn("queues that move lose or reorder packets for some milliseconds")
	}
	if !told && len(o.Polled.PMDs) > 1 {
		return Unsure("Open vSwitch does not tell yet how busy its queues are: it takes a minute after a start")
	}
	return Fine("no polling thread is full while another of its node has time left").byDefault("false")
})

var ovsVhostDrops = pmdKnob(Knob{ID: "ovs.vhost_drops", Title: "Guests empty the rings that they share",
	Risk: goal.None, Check: true}, hostFact("ovs-vhost_drops"), func(v *View, _ *facts.OpenVSwitch) Advice {
	if advice, needed := v.noInterval(); needed {
		return advice
	}
	if v.Interval.Polled == nil {
		return Unsure("Open vSwitch did not tell twice what its ports counted")
	}
	var worst *facts.PolledPort
	dropped, all := uint64(0), uint64(0)
	for p := range facts.Each(v.Interval.Polled.Ports) {
		if p.Type != "dpdkvhostuser" && p.Type != "dpdkvhostuserclient" {
			continue
		}
		dropped, all = dropped+p.TxDropped, all+p.TxDropped+p.TxPackets
		if worst == nil || p.TxDropped > worst.TxDropped {
			worst = p
		}
	}
	found := fmt.Sprintf("%d of %d dropped", dropped, all)
	if dropped == 0 {
		return fact(found, Fine("every packet to a guest found room in its ring "+v.overInterval()))
	}
	return fact(found, exact("0 dropped", fmt.Sprintf("reported only: most at %s, whose guest does not empty its ring "+
		"fast enough: a ring of 1024, vCPUs of its own for the guest's driver, or options:tx-retries-max of the port",
		worst.Name)).At(lossSeverity(dropped, all)))
})

var ovsMbufs = pmdKnob(Knob{ID: "ovs.mbufs", Title: "Packet buffers of Open vSwitch are not used up",
	Risk: goal.None, Check: true}, hostFact("ovs-mbufs"), func(_ *View, o *facts.OpenVSwitch) Advice {
	var least *facts.MbufPool
	for p := range facts.Each(o.Polled.Pools) {
		if p.Size > 0 && (least == nil || p.Free*least.Size < least.Free*p.Size) {
			least = p
		}
	}
	if least == nil {
		return Unsure("Open vSwitch does not tell how many buffers its pools have")
	}
	found := fmt.Sprintf("%d of %d free", least.Free, least.Size)
	if float64(least.Free) >= 0.1*float64(least.Size) {
		return fact(found, Fine("in the emptiest pool"))
	}
	return fact(found, exact("at least a tenth free", fmt.Sprintf("reported only: pool %s is nearly used up; without "+
		"a buffer ports receive nothing: more memory (dpdk-socket-mem), or shorter rings (options:n_rxq_desc)",
		least.Name)).At(High))
})
