package trace

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/advise/queuepath"
	"mpps/internal/model/facts"
)

// none is the number of a missing queue or CPU (NONE in bpf/watch.bpf.c).
const none = 0xffff

// observation reads the counts.
func (w *watcher) observation() (*queuepath.Observation, error) {
	o := &queuepath.Observation{
		Seconds: w.passed.Seconds(), Watched: w.watched.Seconds(), EveryPacket: w.EveryPacket,
		Nodes: cpuNodes(w.host), Vhost: vhost(w.host, w.ns), Unseen: w.bypassing(),
	}
	if err := w.rows(o); err != nil {
		return nil, err
	}
	if err := w.updateDevices(); err != nil {
		return nil, err
	}
	for _, index := range slices.Sorted(maps.Keys(w.devices)) {
		o.Devices = append(o.Devices, w.devices[index])
	}
	if err := w.contention(o); err != nil {
		return nil, err
	}
	sum, _, _, err := w.tally(nil)
	if err != nil {
		return nil, err
	}
	if sum.Locks > 0 {
		o.Unseen = append(o.Unseen, queuepath.Unseen{What: fmt.Sprintf("waits for %d locks of transmit queues",
			sum.Locks), Why: "their table was full"})
	}
	o.Lost = queuepath.Lost{Rows: sum.Rows + sum.Unknown, Joins: sum.Joins}
	o.Requeues, err = w.requeued()
	return o, err
}

var directions = [...]queuepath.Direction{queuepath.Rx, queuepath.Tx}

// numberOf returns a queue or CPU number, −1 for none.
func numberOf(n uint16) int {
	if n == none {
		return -1
	}
	return int(n)
}

// queue names a queue. A device that went away before its name was read is named by its index.
func (v *inventory) queue(index uint32, n uint16, dir uint8) queuepath.Queue {
	d, known := v.devices[int(index)]
	if !known {
		d.Name = fmt.Sprintf("if%d", index)
	}
	return queuepath.Queue{Device: d.Name, Direction: directions[dir&1], Queue: numberOf(n)}
}

// rows reads the rows, in the order of the packets' path: by origin, then by from and to.
func (w *watcher) rows(o *queuepath.Observation) error {
	var h watchHop
	var r watchRow
	all := w.coll.Maps[watchMapRows].Iterate()
	for all.Next(&h, &r) {
		row := queuepath.Row{
			Origin: w.queue(h.Origin, h.OriginQueue, h.OriginDir), From: w.queue(h.From, h.FromQueue, h.FromDir),
			To: w.queue(h.To, h.ToQueue, h.ToDir), FromCPU: numberOf(h.FromCpu), CPU: int(h.Cpu),
			Frames: r.Frames, Packets: r.Packets, Bytes: r.Bytes, Moves: r.Moves, Thread: int(r.Thread),
		}
		o.Rows = append(o.Rows, row)
	}
	if err := all.Err(); err != nil {
		return fmt.Errorf("read the rows: %w", err)
	}
	slices.SortFunc(o.Rows, func(a, b queuepath.Row) int {
		return cmp.Or(compareQueues(a.Origin, b.Origin), cmp.Compare(order(&a), order(&b)),
			compareQueues(a.From, b.From), compareQueues(a.To, b.To),
			cmp.Compare(a.FromCPU, b.FromCPU), cmp.Compare(a.CPU, b.CPU))
	})
	return nil
}

// order sorts the first rows of a path to the front.
func order(r *queuepath.Row) int {
	if r.First() {
		return 0
	}
	return 1
}

func compareQueues(a, b queuepath.Queue) int {
	return cmp.Or(strings.Compare(a.Device, b.Device), strings.Compare(string(a.Direction), string(b.Direction)),
		cmp.Compare(a.Queue, b.Queue))
}

// updateDevices adds what the kernel's own structures say about the devices that packets were seen on.
func (w *watcher) updateDevices() error {
	var index uint32
	var t watchTold
	all := w.coll.Maps[watchMapTellings].Iterate()
	for all.Next(&index, &t) {
		d, known := w.devices[int(index)]
		if !known {
			continue
		}
		d.TxQueues, d.RxQueues, d.Lockless = int(t.TxQueues), int(t.RxQueues), t.Lockless != 0
		w.devices[int(index)] = d
	}
	if err := all.Err(); err != nil {
		return fmt.Errorf("read what was told of devices: %w", err)
	}
	return nil
}

var lockKinds = [...]string{"xmit", "qdisc", "busy", "seq"}

func (w *watcher) contention(o *queuepath.Observation) error {
	if w.noWaits != nil {
		o.Unseen = append(o.Unseen, queuepath.Unseen{Blind: queuepath.BlindLocks,
			What: "waits for the locks of transmit queues", Why: w.noWaits.Error()})
		return nil
	}
	if u := w.unseenWaits(); u.Blind != 0 {
		o.Unseen = append(o.Unseen, u)
	}
	var address uint64
	var l watchLock
	all := w.coll.Maps[watchMapLocks].Iterate()
	for all.Next(&address, &l) {
		if l.Waits == 0 {
			continue
		}
		o.Contention = append(o.Contention, queuepath.Contention{
			Device: w.queue(l.Ifindex, 0, 0).Device, Queue: numberOf(l.Queue),
			Lock: lockKinds[min(int(l.Kind), len(lockKinds)-1)], Waits: l.Waits, WaitNS: l.Ns,
		})
	}
	if err := all.Err(); err != nil {
		return fmt.Errorf("read the waits for locks: %w", err)
	}
	slices.SortFunc(o.Contention, func(a, b queuepath.Contention) int {
		return cmp.Or(cmp.Compare(b.WaitNS, a.WaitNS), strings.Compare(a.Device, b.Device),
			cmp.Compare(a.Queue, b.Queue), strings.Compare(a.Lock, b.Lock))
	})
	return nil
}

// cpuNodes returns the NUMA node of each CPU, indexed by CPU number; −1 for unused numbers.
func cpuNodes(h *facts.Host) []int {
	if h == nil || len(h.Topology.CPUs) == 0 {
		return nil
	}
	nodes := make([]int, h.Topology.CPUs[len(h.Topology.CPUs)-1].ID+1)
	for i := range nodes {
		nodes[i] = -1
	}
	for _, c := range h.Topology.CPUs {
		nodes[c.ID] = c.Node
	}
	return nodes
}

// vhost returns the vhost workers of the guests' NICs. The guests' taps are in the host's own namespace.
func vhost(h *facts.Host, ns namespace) []queuepath.Vhost {
	if h == nil || ns.name != "" {
		return nil
	}
	var all []queuepath.Vhost
	for _, g := range h.Guests {
		for _, t := range g.Threads {
			if t.Role != "vhost" || t.NIC == "" {
				continue
			}
			for _, nic := range g.NICs() {
				if nic.MAC == t.NIC && g.TapHere(&nic) != "" {
					all = append(all, queuepath.Vhost{Guest: g.Name, Device: nic.Tap, Queue: t.Queue, Thread: t.TID,
						CPU: lastCPU(t), Memory: g.MemoryNodes})
				}
			}
		}
	}
	return all
}

// lastCPU returns the CPU that a thread last ran on: now, or when the inventory was taken if the thread is gone
// (proc(5), field 39 of stat).
func lastCPU(t facts.Thread) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", t.TID))
	if err != nil {
		return t.CPU
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // a name may contain blanks and brackets
	const processor = 39 - 3
	if len(fields) <= processor {
		return t.CPU
	}
	cpu, err := strconv.Atoi(fields[processor])
	if err != nil {
		return t.CPU
	}
	return cpu
}
