package queuepath

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"mpps/internal/model/setting"
)

// leastRemote is the part of a guest's or device's packets below which a remote CPU is not named.
const leastRemote = 0.1

// node is a CPU's NUMA node, −1 where it is not known.
func (o *Observation) node(cpu int) int {
	if cpu < 0 || cpu >= len(o.Nodes) {
		return -1
	}
	return o.Nodes[cpu]
}

// remote is what crosses NUMA nodes: vhost threads on another node than the guest's memory or the NIC, then NICs whose
// packets are handled on another node for another reason, then what is handed from a CPU to one of another node on the
// way.
func (j *judge) remote() []Fault {
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
	return append(all, j.handedOver()...)
}

// far is what a guest's vhost threads handled far from something.
type far struct {
	packets, memory, nic uint64
	cpus, workers        map[int]bool // CPUs that are far; threads of these
	memoryNodes          setting.CPUSet
	nicName              string
	nicNode              int
	origins              map[Queue]bool
	queues               map[Queue]bool
}

// remoteGuests looks at the threads that carry guests' packets. It also lists whose packets were named.
func (j *judge) remoteGuests() ([]Fault, map[Queue]bool) {
	by := map[string]*far{}
	device := map[string]string{}
	for _, v := range j.Vhost {
		name := cmp.Or(v.Guest, v.Device)
		g := by[name]
		if g == nil {
			g = &far{cpus: map[int]bool{}, workers: map[int]bool{}, origins: map[Queue]bool{}, queues: map[Queue]bool{},
				nicNode: -1}
			by[name], device[name] = g, v.Device
		}
		g.memoryNodes = g.memoryNodes.Or(v.Memory)
		if l := j.at[Queue{v.Device, Rx, v.Queue}]; l != nil {
			nic := j.nicOf(Queue{v.Device, Rx, v.Queue})
			for cpu, n := range l.byCPU {
				g.count(j, v, Queue{v.Device, Rx, v.Queue}, nic, cpu, n)
			}
		}
		if l := j.at[Queue{v.Device, Tx, v.Queue}]; l != nil { // sent by whoever it came from, read by the thread
			g.count(j, v, Queue{v.Device, Tx, v.Queue}, j.nicOf(Queue{v.Device, Tx, v.Queue}), v.CPU, l.packets)
		}
	}
	named := map[Queue]bool{}
	var all []Fault
	for _, name := range slices.Sorted(maps.Keys(by)) {
		g := by[name]
		away := max(g.memory, g.nic)
		if !j.weighs(away) || float64(away) < leastRemote*float64(g.packets) {
			continue
		}
		f := Fault{Kind: RemoteNode, Object: "vhost of " + name, Device: device[name], Packets: away,
			Share: j.share(away), origins: g.origins,
			Queues: slices.SortedFunc(maps.Keys(g.queues), compareQueues)}
		maps.Copy(named, g.origins)
		cpus := setting.CPUs(slices.Collect(maps.Keys(g.cpus))...)
		f.Evidence = fmt.Sprintf("%s of the packets of %s are handled by %s, of another node than ",
			percent(float64(away)/float64(g.packets)), name, cpuWords(cpus))
		f.Mend = Mend{Text: "put the threads on the guest's node, where the NIC should be too", Command: "mpps plan",
			Knob: "vhost.threads"}
		switch {
		case float64(g.memory) >= leastRemote*float64(g.packets):
			f.Evidence += fmt.Sprintf("the guest's memory (node %s)", g.memoryNodes)
			f.Cause = fmt.Sprintf("%s run far from the memory that they copy from and to",
				some(len(g.workers), "vhost thread"))
		default:
			f.Evidence += fmt.Sprintf("%s (node %d)", g.nicName, g.nicNode)
			f.Cause = fmt.Sprintf("%s run far from %s", some(len(g.workers), "vhost thread"), g.nicName)
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

func (g *far) count(j *judge, v Vhost, q Queue, nic *Device, cpu int, n uint64) {
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
	for origin := range j.at[q].byOrigin {
		g.origins[origin] = true
	}
}

// nicOf is the NIC at the other end of the widest lane that begins or ends at a queue, nil where there is none.
func (j *judge) nicOf(q Queue) *Device {
	for i := range j.lanes {
		l := &j.lanes[i]
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

// remoteNICs are NICs whose packets are received or sent on another node, those of guests that were named left out.
func (j *judge) remoteNICs(named map[Queue]bool) []Fault {
	var all []Fault
	for _, side := range j.orderedSides() {
		d := j.Device(side.Device)
		if d == nil || d.Kind != "nic" || d.Node < 0 {
			continue
		}
		var packets, away uint64
		cpus, queues := map[int]bool{}, map[Queue]bool{}
		for i := range j.Rows {
			r := &j.Rows[i]
			if r.To.Side() != side || named[r.Origin] || side.Direction == Rx && !r.First() {
				continue
			}
			packets += r.Packets
			if n := j.node(r.CPU); n >= 0 && n != d.Node {
				away += r.Packets
				cpus[r.CPU], queues[r.To] = true, true
			}
		}
		if !j.weighs(away) || float64(away) < leastRemote*float64(packets) {
			continue
		}
		set := setting.CPUs(slices.Collect(maps.Keys(cpus))...)
		f := Fault{Kind: RemoteNode, Object: d.Name + " " + string(side.Direction), Device: d.Name, Packets: away,
			Share:  j.share(away),
			Queues: slices.SortedFunc(maps.Keys(queues), compareQueues)}
		f.Evidence = fmt.Sprintf("%s of its packets are handled by %s; it is on node %d",
			percent(float64(away)/float64(packets)), cpuWords(set), d.Node)
		f.Cause = "its interrupts go to CPUs of another node"
		f.Mend = Mend{Text: "give its interrupts CPUs of node " + fmt.Sprint(d.Node), Command: "mpps plan",
			Knob: "nic.irq_affinity"}
		if side.Direction == Tx {
			f.Cause = "who sends runs on CPUs of another node"
			f.Mend = Mend{Text: "keep what sends by it on CPUs of node " + fmt.Sprint(d.Node), Command: "mpps place",
				Knob: "nic.numa"}
		}
		all = append(all, f)
	}
	return all
}

// handedOver are the devices before which packets went on to a CPU of another node: RPS, or a program.
func (j *judge) handedOver() []Fault {
	var all []Fault
	for _, side := range j.orderedSides() {
		var packets, away uint64
		cpus, queues := map[int]bool{}, map[Queue]bool{}
		for i := range j.Rows {
			r := &j.Rows[i]
			if r.To.Side() != side || r.First() {
				continue
			}
			packets += r.Packets
			if from, to := j.node(r.FromCPU), j.node(r.CPU); from >= 0 && to >= 0 && from != to {
				away += r.Packets
				cpus[r.CPU], queues[r.To] = true, true
			}
		}
		if !j.weighs(away) || float64(away) < leastRemote*float64(packets) {
			continue
		}
		f := Fault{Kind: RemoteNode, Object: side.Device + " " + string(side.Direction), Device: side.Device,
			Packets: away, Share: j.share(away),
			Queues: slices.SortedFunc(maps.Keys(queues), compareQueues)}
		f.Evidence = fmt.Sprintf("%s of its packets came from a CPU of another node to %s",
			percent(float64(away)/float64(max(packets, 1))),
			cpuWords(setting.CPUs(slices.Collect(maps.Keys(cpus))...)))
		f.Cause = "RPS, or the CPU that takes up a queue's backlog, is on another node than the one before"
		f.Mend = Mend{Text: "let the NIC's queues spread packets, not RPS, or only to CPUs of the NIC's node",
			Command: "mpps plan", Knob: "nic.rps"}
		all = append(all, f)
	}
	return all
}
