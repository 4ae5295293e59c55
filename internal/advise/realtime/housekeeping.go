package realtime

import (
	"fmt"

	"mpps/internal/model/facts"
	"mpps/internal/words"
)

var (
	houseNone    = kind("house.none")
	houseCore    = kind("house.core")
	houseNode    = kind("house.node")
	houseBusy    = kind("house.busy")
	houseVectors = kind("house.vectors")
	houseStorage = kind("house.storage")
	houseHelpers = kind("house.helpers")
)

// Bounds of what one CPU of the host can take.
const (
	busyShare     = 80.0 // per cent
	vectors       = 200  // arch/x86/include/asm/irq_vectors.h: 256 less exceptions and system vectors
	helpersPerCPU = 4
)

// judgeHousekeeping judges whether the CPUs left for the host are enough.
func judgeHousekeeping(v *view) {
	if len(v.house) == 0 {
		v.add(houseNone, "housekeeping", v.s.CPUs, fmt.Sprintf("all %s that are online should be quiet",
			words.Count(len(v.h.Topology.Online), "CPU")), "give back a core of each node: take it out of the pins, "+
			"isolcpus and nohz_full").with("cpus", 0)
		return
	}
	v.judgeCores()
	for _, node := range v.h.Topology.Nodes {
		quiet, left := node.CPUs.And(v.s.CPUs), node.CPUs.And(v.house)
		if len(quiet) > 0 && len(left) == 0 {
			v.add(houseNode, fmt.Sprintf("node %d", node.ID), quiet, fmt.Sprintf("all of its %s should be quiet",
				words.Count(len(quiet), "CPU")), "give one core of the node back to the host")
		}
	}
	if v.o != nil && v.o.Seconds > 0 {
		v.judgeLoad()
	}
	for _, s := range v.h.Storage {
		node, _ := v.h.Topology.Node(s.Node)
		if left := node.CPUs.And(v.house); s.Count > len(left) {
			v.add(houseStorage, fmt.Sprintf("node %d %s", s.Node, s.Name), left,
				fmt.Sprintf("%s, and the host keeps %s of the node", words.Count(s.Count, "daemon"),
					words.Count(len(left), "CPU")),
				"more CPUs of the node for the host, or the daemons on another node").with("daemons",
				float64(s.Count)).with("cpus", float64(len(left)))
		}
	}
	devices := facts.Count(v.irqs, func(irq facts.IRQ) bool { return !placedByKernel(irq) })
	if devices > vectors*len(v.house) {
		v.add(houseVectors, "housekeeping", v.house, fmt.Sprintf("%d interrupts, %s of about %d vectors", devices,
			words.Count(len(v.house), "CPU"), vectors),
			"fewer queues of the NICs (nic.channels), or more CPUs for the host").with("interrupts",
			float64(devices)).with("cpus", float64(len(v.house)))
	}
	helpers := 0
	for _, g := range v.guests {
		if g.active() {
			helpers += facts.Count(g.f.Threads,
				func(t facts.Thread) bool { return t.Role == "vhost" || t.Role == "iothread" })
		}
	}
	if helpers > helpersPerCPU*len(v.house) {
		v.add(houseHelpers, "housekeeping", v.house, fmt.Sprintf("%d vhost and I/O threads on %s", helpers,
			words.Count(len(v.house), "CPU")), "fewer queues of the guests' NICs, or more CPUs for the host").with(
			"threads", float64(helpers)).with("cpus", float64(len(v.house)))
	}
}

// judgeCores judges whether the host has a core with all of its threads.
func (v *view) judgeCores() {
	smt := false
	for _, cpu := range v.house {
		c, found := v.h.Topology.CPU(cpu)
		if !found {
			continue
		}
		siblings := c.Siblings.And(v.h.Topology.Online)
		smt = smt || len(siblings) > 1
		if len(siblings.And(v.s.CPUs)) == 0 {
			return
		}
	}
	if smt {
		v.add(houseCore, "housekeeping", v.house, fmt.Sprintf("of %s each shares its core with a quiet one",
			v.house.Words()), "set whole cores aside, and leave whole cores to the host").withCPUs()
	}
}

// judgeLoad judges how busy the CPUs of the host were.
func (v *view) judgeLoad() {
	var busy, n float64
	for _, cpu := range v.house {
		if t, seen := v.o.Time(cpu); seen {
			busy, n = busy+t.Busy, n+1
		}
	}
	if n == 0 {
		v.addUnjudged("how busy the host's CPUs are", "their times were not seen")
		return
	}
	if share := percent(busy, 1000*v.o.Seconds*n); share >= busyShare {
		v.add(houseBusy, "housekeeping", v.house, fmt.Sprintf("%s: busy %.0f %% of the time", v.house.Words(), share),
			"more CPUs for the host, or less work on it").with("busy_percent", share)
	}
}
