package queuepath

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

// leastRemote is the share of a guest's or device's packets below which remote CPUs are no fault.
const leastRemote = 0.1

// node returns a CPU's NUMA node, −1 if it is not known.
func (o *Observation) node(cpu int) int {
	if cpu < 0 || cpu >= len(o.Nodes) {
		return -1
	}
	return o.Nodes[cpu]
}

// remoteFaults returns what crosses NUMA nodes: vhost threads on another node than the guest's memory or the NIC, then
// NICs whose packets are handled on another node for another reason, then packets that a CPU passes to one of another
// node.
func (j *judge) remoteFaults() []Fault {
	nodes := map[int]bool{}
	for _, n := range j.Nodes {
		if n >= 0 {
			nodes[n] = true
		}
	}
	if len(nodes) < 2 {
		return nil
	}
	all, named := j.remoteGuests()
	all = append(all, j.remoteNICs(named)...)
	return append(all, j.handovers()...)
}

// remoteUse counts what a guest's vhost threads handled on other nodes.
type remoteUse struct {
	packets, memory, nic uint64
	cpus, workers        map[int]bool // remote CPUs, and the threads on them
	memoryNodes          setting.CPUSet
	nicName              string
	nicNode              int
	origins              map[Queue]bool
	queues               map[Queue]bool
}

// remoteGuests checks the threads that carry guests' packets. It also returns the origins of the faults' packets.
func (j *judge) remoteGuests() ([]Fault, map[Queue]bool) {
	by := map[string]*remoteUse{}
	device := map[string]string{}
	for _, v := range j.Vhost {
		name := cmp.Or(v.Guest, v.Device)
		g := by[name]
		if g == nil {
			g = &remoteUse{cpus: map[int]bool{}, workers: map[int]bool{}, origins: map[Queue]bool{},
				queues: map[Queue]bool{}, nicNode: -1}
			by[name], device[name] = g, v.Device
		}
		g.memoryNodes = g.memoryNodes.Or(v.Memory)
		rx, tx := Queue{v.Device, Rx, v.Queue}, Queue{v.Device, Tx, v.Queue}
		if l := j.loads[rx]; l != nil {
			nic := j.nicBehind(rx)
			for cpu, n := range l.byCPU {
				g.add(j, v, rx, nic, cpu, n)
			}
		}
		if l := j.loads[tx]; l != nil { // sent on any CPU, read by the thread
			g.add(j, v, tx, j.nicBehind(tx), v.CPU, l.packets)
		}
	}
	named := map[Queue]bool{}
	var all []Fault
	for _, name := range slices.Sorted(maps.Keys(by)) {
		g := by[name]
		away := max(g.memory, g.nic)
		if !j.matters(away) || float64(away) < leastRemote*float64(g.packets) {
			continue
		}
		f := Fault{Kind: RemoteNode, Object: "vhost of " + name, Device: device[name], Packets: away,
			Share: j.share(away), origins: g.origins, Queues: slices.SortedFunc(maps.Keys(g.queues), compareQueues)}
		maps.Copy(named, g.origins)
		cpus := setting.CPUs(slices.Collect(maps.Keys(g.cpus))...)
		f.Evidence = fmt.Sprintf("%s of the packets of %s are handled by %s, of another node than ",
			words.Share(float64(away)/float64(g.packets)), name, cpuWords(cpus))
		f.Mend = Mend{Text: "put the threads on the guest's node, where the NIC should be too", Command: "mpps plan",
			Knob: "vhost.threads"}
		switch {
		case float64(g.memory) >= leastRemote*float64(g.packets):
			f.Evidence += fmt.Sprintf("the guest's memory (node %s)", g.memoryNodes)
			f.Cause = fmt.Sprintf("%s run far from the memory that they copy from and to",
				words.Count(len(g.workers), "vhost thread"))
		default:
			f.Evidence += fmt.Sprintf("%s (node %d)", g.nicName, g.nicNode)
			f.Cause = fmt.Sprintf("%s run far from %s", words.Count(len(g.workers), "vhost thread"), g.nicName)
			if len(g.memoryNodes) > 0 && !g.memoryNodes.Has(g.nicNode) {
				f.Cause = "the guest itself has its place far from " + g.nicName
				f.Mend = Mend{Text: "move the guest to the NIC's node, or its traffic to a NIC of its node",
					Command: "mpps place", Knob: "nic.numa"}
			}
		}
		all = append(all, f)
	}
	return all, named
}

func (g *remoteUse) add(j *judge, v Vhost, q Queue, nic *Device, cpu int, n uint64) {
	node := j.node(cpu)
	g.packets += n
	if node < 0 {
		return
	}
	away := false
	if len(v.Memory) > 0 && !v.Memory.Has(node) {
		g.memory, away = g.memory+n, true
	}
	if nic != nil && nic.Node >= 0 && nic.Node != node {
		g.nic, g.nicName, g.nicNode, away = g.nic+n, nic.Name, nic.Node, true
	}
	if !away {
		return
	}
	g.cpus[cpu], g.workers[v.Thread], g.queues[q] = true, true, true
	for origin := range j.loads[q].byOrigin {
		g.origins[origin] = true
	}
}

// nicBehind returns the NIC at the other end of the widest lane that begins or ends at a queue, nil if there is none.
func (j *judge) nicBehind(q Queue) *Device {
	for l := range facts.Each(j.lanes) {
		var other Queue
		switch q {
		case l.Origin():
			other = l.Exit()
		case l.Exit():
			other = l.Origin()
		default:
			continue
		}
		if d := j.Device(other.Device); d != nil && d.Kind == "nic" {
			return d
		}
	}
	return nil
}

// remoteNICs finds NICs whose packets are received or sent on another node, without the packets of other faults.
func (j *judge) remoteNICs(named map[Queue]bool) []Fault {
	var all []Fault
	for _, side := range j.orderedSides() {
		d := j.Device(side.Device)
		if d == nil || d.Kind != "nic" || d.Node < 0 {
			continue
		}
		f, share, cpus := j.crossing(side, func(r *Row) (counts, crosses bool) {
			n := j.node(r.CPU)
			return !named[r.Origin] && (side.Direction == Tx || r.First()), n >= 0 && n != d.Node
		})
		if f == nil {
			continue
		}
		f.Evidence = fmt.Sprintf("%s of its packets are handled by %s; it is on node %d", share, cpus, d.Node)
		f.Cause = "its interrupts go to CPUs of another node"
		f.Mend = Mend{Text: "give its interrupts CPUs of node " + fmt.Sprint(d.Node), Command: "mpps plan",
			Knob: "nic.irq_affinity"}
		if side.Direction == Tx {
			f.Cause = "who sends runs on CPUs of another node"
			f.Mend = Mend{Text: "keep what sends by it on CPUs of node " + fmt.Sprint(d.Node), Command: "mpps place",
				Knob: "nic.numa"}
		}
		all = append(all, *f)
	}
	return all
}

// handovers finds devices before which packets were passed to a CPU of another node, by RPS or a program.
func (j *judge) handovers() []Fault {
	var all []Fault
	for _, side := range j.orderedSides() {
		f, share, cpus := j.crossing(side, func(r *Row) (counts, crosses bool) {
			from, to := j.node(r.FromCPU), j.node(r.CPU)
			return !r.First(), from >= 0 && to >= 0 && from != to
		})
		if f == nil {
			continue
		}
		f.Evidence = fmt.Sprintf("%s of its packets came from a CPU of another node to %s", share, cpus)
		f.Cause = "RPS, or the CPU that takes up a queue's backlog, is on another node than the one before"
		f.Mend = Mend{Text: "let the NIC's queues spread packets, not RPS, or only to CPUs of the NIC's node",
			Command: "mpps plan", Knob: "nic.rps"}
		all = append(all, *f)
	}
	return all
}

// crossing returns the fault of a side, nil if too few packets cross nodes, with their share and CPUs in words.
func (j *judge) crossing(side Side, check func(*Row) (counts, crosses bool)) (f *Fault, share, cpus string) {
	var packets, away uint64
	var at []int
	queues := map[Queue]bool{}
	for r := range facts.Each(j.Rows) {
		counts, crosses := check(r)
		if r.To.Side() != side || !counts {
			continue
		}
		packets += r.Packets
		if crosses {
			away += r.Packets
			at, queues[r.To] = append(at, r.CPU), true
		}
	}
	if !j.matters(away) || float64(away) < leastRemote*float64(packets) {
		return nil, "", ""
	}
	return &Fault{Kind: RemoteNode, Object: side.Device + " " + string(side.Direction), Device: side.Device,
			Packets: away, Share: j.share(away), Queues: slices.SortedFunc(maps.Keys(queues), compareQueues)},
		words.Share(float64(away) / float64(packets)), cpuWords(setting.CPUs(at...))
}
