package queuepath

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"

	"mpps/internal/model/setting"
)

// scene is a host whose way of choosing queues is that of the kernel (net/core/dev.c, netdev_pick_tx): XPS, else the
// recorded queue, else a hash of the flow; a device with one queue erases what was recorded.
type scene struct {
	guests, queues int // queues of each guest
	flows          int // of each guest queue
	packets        uint64
	tunnel         *Device // nil: none
	nic            Device
	carried        bool           // a program carries windows of queues to the NIC: lane n to queue n
	windows        []setting.Lane // by guest, of the program
	cpu            func(guest, queue, flow int) int
	nodes          []int // by CPU
	memory         int   // node of guests' memory, −1: not told
	flap           func(guest, queue, flow int) bool
	wayBack        bool
	contention     []Contention
	requeues       []Requeues
	unseen         []Unseen
	noise          *rand.Rand // nil: none
}

func tapName(guest int) string { return fmt.Sprintf("vnet%d", guest) }

func hashOf(words ...int) int {
	h := fnv.New32a()
	fmt.Fprint(h, words)
	return int(h.Sum32() >> 1)
}

// pick is the queue that a device chooses for a packet with a recorded receive queue (−1: none).
func pick(d *Device, cpu, recorded, flow int) int {
	if d.TxQueues == 1 {
		return 0
	}
	var mine []int
	for q, set := range d.XPS {
		if set.Has(cpu) {
			mine = append(mine, q)
		}
	}
	switch {
	case len(mine) > 0:
		return mine[flow%len(mine)]
	case recorded >= 0:
		return recorded % d.TxQueues
	}
	return flow % d.TxQueues
}

type rowKey struct {
	origin, from, to Queue
	fromCPU, cpu     int
}

type counts map[rowKey]*Row

func (c counts) add(k rowKey, packets, moves uint64, thread int) {
	r := c[k]
	if r == nil {
		r = &Row{Origin: k.origin, From: k.from, To: k.to, FromCPU: k.fromCPU, CPU: k.cpu, Thread: thread}
		c[k] = r
	}
	r.Frames, r.Packets, r.Bytes, r.Moves = r.Frames+packets, r.Packets+packets, r.Bytes+64*packets, r.Moves+moves
}

// observe counts what the scene does.
func (s *scene) observe() *Observation {
	o := &Observation{Seconds: 5, Watched: 0.5, Nodes: s.nodes, Contention: s.contention, Requeues: s.requeues,
		Unseen: s.unseen}
	rows := counts{}
	for g := range s.guests {
		o.Devices = append(o.Devices, Device{Name: tapName(g), Kind: "tap", Guest: fmt.Sprintf("vm%d", g),
			TxQueues: s.queues, RxQueues: s.queues, Node: -1, Lockless: true})
		for q := range s.queues {
			thread := 1000 + g*s.queues + q
			for f := range s.flows {
				cpu := s.cpu(g, q, f)
				s.send(rows, g, q, f, cpu, thread)
				if f == 0 {
					v := Vhost{Guest: fmt.Sprintf("vm%d", g), Device: tapName(g), Queue: q, Thread: thread, CPU: cpu}
					if s.memory >= 0 {
						v.Memory = setting.CPUs(s.memory)
					}
					o.Vhost = append(o.Vhost, v)
				}
				if s.wayBack {
					s.receive(rows, g, q, f)
				}
			}
		}
	}
	if s.tunnel != nil {
		o.Devices = append(o.Devices, *s.tunnel)
	}
	o.Devices = append(o.Devices, s.nic)
	if s.noise != nil {
		s.stray(rows)
	}
	for _, r := range rows {
		o.Rows = append(o.Rows, *r)
	}
	return o
}

// send is a flow from a guest's queue to the wire.
func (s *scene) send(rows counts, g, q, f, cpu, thread int) {
	n := s.packets
	origin := Queue{tapName(g), Rx, q}
	turns := []int{q}
	var moves uint64
	if s.flap != nil && s.flap(g, q, f) { // the flow alternates with the next queue of the guest
		turns, moves, n = []int{q, (q + 1) % s.queues}, n/2, n/2
	}
	last := map[int]int{} // NIC queue by turn
	for pass := range 2 {
		for turn, q := range turns {
			origin.Queue = q
			at, recorded, flow := origin, q, hashOf(g, q, f)
			if moves > 0 {
				flow = hashOf(g, f)
			}
			if s.tunnel != nil {
				to := Queue{s.tunnel.Name, Tx, pick(s.tunnel, cpu, recorded, flow)}
				if pass == 1 {
					rows.add(rowKey{origin, at, to, cpu, cpu}, n, 0, 0)
				}
				at, recorded = to, to.Queue-1
			}
			to := Queue{s.nic.Name, Tx, pick(&s.nic, cpu, recorded, flow)}
			if s.windows != nil {
				to.Queue = QueueOf(s.windows[g], q)
			} else if s.carried {
				to.Queue = (g*s.queues + q) % s.nic.TxQueues
			}
			if last[turn] = to.Queue; pass == 0 {
				continue
			}
			there := moves
			if last[0] == last[len(turns)-1] {
				there = 0
			}
			rows.add(rowKey{origin, origin, origin, -1, cpu}, n, moves, thread)
			rows.add(rowKey{origin, at, to, cpu, cpu}, n, there, 0)
		}
	}
}

// receive is the answers to a flow, by the NIC's hash on its receive queues and by the tap's memory of the flow on the
// guest's queue.
func (s *scene) receive(rows counts, g, q, f int) {
	queue := hashOf(f, q, g, 7) % s.nic.RxQueues
	cpu := queue % len(s.nodes)
	for s.nic.Node >= 0 && s.nodes[cpu] != s.nic.Node {
		cpu = (cpu + 1) % len(s.nodes)
	}
	origin := Queue{s.nic.Name, Rx, queue}
	rows.add(rowKey{origin, origin, origin, -1, cpu}, s.packets, 0, 0)
	rows.add(rowKey{origin, origin, Queue{tapName(g), Tx, q}, cpu, cpu}, s.packets, 0, 0)
}

// stray adds what no host is without: ARP and the like from every guest by any queue, an administrator's session, a
// thread that the scheduler moved once, a few waits for a lock.
func (s *scene) stray(rows counts) {
	for g := range s.guests {
		origin := Queue{tapName(g), Rx, s.noise.IntN(s.queues)}
		cpu := s.noise.IntN(len(s.nodes))
		few := uint64(1 + s.noise.IntN(20))
		rows.add(rowKey{origin, origin, origin, -1, cpu}, few, min(few, 3), 0)
		rows.add(rowKey{origin, origin, Queue{s.nic.Name, Tx, s.noise.IntN(s.nic.TxQueues)}, cpu, cpu}, few,
			min(few, 3), 0)
		if s.flows > 0 {
			q := Queue{tapName(g), Rx, 0}
			rows.add(rowKey{q, q, q, -1, cpu}, s.packets/200, 1, 0)
			rows.add(rowKey{q, q, Queue{s.nic.Name, Tx, s.noise.IntN(s.nic.TxQueues)}, cpu, cpu}, s.packets/200, 1, 0)
		}
	}
	for range 3 {
		own := Queue{s.nic.Name, Tx, s.noise.IntN(s.nic.TxQueues)}
		rows.add(rowKey{own, own, own, -1, s.noise.IntN(len(s.nodes))}, 15, 0, 0)
	}
	s.contention = append(s.contention, Contention{Device: s.nic.Name, Queue: 0, Lock: "xmit", Waits: 12, WaitNS: 9000})
}

// healthy is a random host whose lanes stay apart as far as its NIC has queues.
func healthy(r *rand.Rand) *scene {
	s := &scene{guests: 1 + r.IntN(6), queues: 1 << r.IntN(4), flows: 1 + r.IntN(8),
		packets: uint64(500 + r.IntN(5000)), memory: -1, noise: r, wayBack: r.IntN(2) == 0}
	lanes := s.guests * s.queues
	s.nic = Device{Name: "eth0", Kind: "nic", TxQueues: 1 << (2 + r.IntN(5)), Node: -1, Qdisc: "mq"}
	s.nic.RxQueues = s.nic.TxQueues
	s.nodes = make([]int, max(lanes, 4))
	s.cpu = func(g, q, _ int) int { return g*s.queues + q }
	switch r.IntN(3) {
	case 0:
		s.tunnel = &Device{Name: "vxlan0", Kind: "vxlan", TxQueues: 1, RxQueues: 1, Lockless: true, Node: -1,
			Qdisc: "noqueue", Lower: []string{"eth0"}}
	case 1:
		s.tunnel = &Device{Name: "gre0", Kind: "gretap", TxQueues: s.nic.TxQueues, RxQueues: 1, Lockless: true,
			Node: -1, Qdisc: "noqueue", Lower: []string{"eth0"}}
	}
	if s.carried = r.IntN(2) == 0; !s.carried {
		s.spread()
	}
	return s
}

// spread sets XPS so that every CPU has a queue and no queue more CPUs than it must.
func (s *scene) spread() {
	sets := make([][]int, s.nic.TxQueues)
	for cpu := range s.nodes {
		sets[cpu%s.nic.TxQueues] = append(sets[cpu%s.nic.TxQueues], cpu)
	}
	s.nic.XPS = nil
	for _, set := range sets {
		s.nic.XPS = append(s.nic.XPS, setting.CPUs(set...))
	}
}

// twoNodes gives the host a second node, with the NIC and every thread on the first.
func (s *scene) twoNodes() {
	n := len(s.nodes)
	s.nodes = append(s.nodes, make([]int, n)...)
	for cpu := n; cpu < 2*n; cpu++ {
		s.nodes[cpu] = 1
	}
	s.nic.Node, s.memory = 0, 0
	if !s.carried {
		s.spread()
	}
}
