// Package queuepath finds which queue of which device packets take between guests and the wire, what is wrong with that
// path, and what would keep lanes apart. It is pure: package measure/trace watches the kernel, and package
// machine/lanes attaches the program that carries a queue's number on.
package queuepath

import (
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

// Direction is a packet's direction through a device, as the kernel sees it: a tap receives what its guest sends.
type Direction string

// The directions.
const (
	Rx Direction = "rx" // the device hands it to the stack (netif_receive_skb)
	Tx Direction = "tx" // the stack hands it to the device (net_dev_start_xmit)
)

// Queue is one queue of a device.
type Queue struct {
	Device    string    `json:"device"`
	Direction Direction `json:"direction"`
	// from 0; −1 where the device recorded none (a receive queue that no driver named)
	Queue int `json:"queue"`
}

// Row counts what passed from one queue to the next in an interval. It holds no packets: the kernel counts rows.
type Row struct {
	Origin  Queue `json:"origin"` // where the host saw the packet first
	From    Queue `json:"from"`   // the queue before; at the packet's first sight From, To and Origin are equal
	To      Queue `json:"to"`
	FromCPU int   `json:"from_cpu"` // CPU that had the packet at From; −1 for the first sight
	CPU     int   `json:"cpu"`      // and at To

	Frames  uint64 `json:"frames"`  // socket buffers, as a capture on the queue sees them
	Packets uint64 `json:"packets"` // on the wire: each segment of a GSO frame counts
	Bytes   uint64 `json:"bytes"`   // of the frames, without FCS
	// frames whose flow took another queue of the device the time before
	Moves uint64 `json:"moves"`
	// thread that was on the CPU at a first sight (a vhost worker); 0: none, softirq of an idle CPU
	Thread int `json:"thread,omitempty"`
}

// First reports whether a row is a packet's first sight on the host.
func (r *Row) First() bool { return r.From == r.To }

// Chooser returns the CPU that chose the queue To: the one that had the packet at From. Another CPU may pass it to the
// device: after a full ring, the one that gets the completion interrupt sends what waits (net/core/dev.c,
// netif_schedule_queue).
func (r *Row) Chooser() int { return words.Either(r.First(), r.CPU, r.FromCPU) }

// Device is a device that packets were seen on, with its properties.
type Device struct {
	Name  string `json:"name"`
	Index int    `json:"ifindex"`
	// nic, tap, veth, bridge, vxlan, geneve, gretap, vlan, bond, … (facts.Tunnel.Type)
	Kind     string `json:"kind"`
	Guest    string `json:"guest,omitempty"`
	TxQueues int    `json:"tx_queues"` // in use (real_num_tx_queues)
	RxQueues int    `json:"rx_queues"`
	Node     int    `json:"numa_node"` // −1: none or not known
	// NETIF_F_LLTX, or no lock is taken because it has no queue discipline and declares so
	Lockless bool             `json:"lockless"`
	Qdisc    string           `json:"qdisc,omitempty"`
	XPS      []setting.CPUSet `json:"xps,omitempty"`    // by transmit queue; empty: none is set or known
	Lower    []string         `json:"lower,omitempty"`  // devices below a tunnel, bond or VLAN
	Master   string           `json:"master,omitempty"` // bridge or bond that it is a port of
	// windows of its transmit queues that the lane program gives to taps, by the taps' names
	Lanes []setting.Lane `json:"lanes,omitempty"`
}

// Terminal reports whether packets leave the host's stack by the device, to the wire or to a guest. They do not by a
// macvtap: what its guest sends is transmitted on it and goes on to the device below (drivers/net/tap.c, tap_get_user).
func (d *Device) Terminal() bool { return d.Kind == "nic" || d.Kind == "tap" || d.Kind == "veth" }

// Contention is how often CPUs waited for one lock of a device in the interval.
type Contention struct {
	Device string `json:"device"`
	Queue  int    `json:"queue"` // transmit queue; −1: the lock of the root queue discipline
	// xmit (netdev_queue._xmit_lock), qdisc (Qdisc.q.lock), busy (Qdisc.busylock), seq (Qdisc.seqlock)
	Lock   string `json:"lock"`
	Waits  uint64 `json:"waits"`
	WaitNS uint64 `json:"wait_ns"` // of all waits together
}

// Requeues is how often a device's queue discipline got a packet back because a ring was full or stopped.
type Requeues struct {
	Device string `json:"device"`
	Count  uint64 `json:"count"`
}

// Vhost is a vhost worker of a guest's NIC.
type Vhost struct {
	Guest  string `json:"guest"`
	Device string `json:"device"` // its tap
	Queue  int    `json:"queue"`
	Thread int    `json:"thread"`
	CPU    int    `json:"cpu"` // where it ran last

	Memory setting.CPUSet `json:"memory_nodes,omitempty"` // NUMA nodes of the guest's memory; empty: not known
}

// Observation is what was observed in an interval.
type Observation struct {
	Seconds     float64      `json:"seconds"`      // the whole interval
	Watched     float64      `json:"watched"`      // the part in which every packet was counted
	EveryPacket bool         `json:"every_packet"` // watched all the time, at any cost
	Devices     []Device     `json:"devices"`
	Rows        []Row        `json:"rows"`
	Contention  []Contention `json:"contention"`
	Requeues    []Requeues   `json:"requeues"`
	Vhost       []Vhost      `json:"vhost"`
	Nodes       []int        `json:"cpu_nodes"` // NUMA node by CPU number
	Lost        Lost         `json:"lost"`
	Unseen      []Unseen     `json:"unseen"` // what this kernel does not show
}

// Lost counts what the tables had no room for.
type Lost struct {
	Rows  uint64 `json:"rows"`  // frames whose row was not counted: the table was full
	Joins uint64 `json:"joins"` // frames whose path so far was forgotten
}

// Blind is something that could not be seen and that rules depend on.
type Blind int

// What rules depend on.
const (
	BlindLocks Blind = iota + 1 // waits for the locks of transmit queues
	BlindWays                   // the path of packets from queue to queue
	// the first of the CPUs that wait for a lock: the counted waits are a lower bound
	BlindFirst
)

// Unseen is what could not be seen, and why.
type Unseen struct {
	What  string `json:"what"`
	Why   string `json:"why"`
	Blind Blind  `json:"-"`
}

// Device returns a device by name; nil if none of that name was seen.
func (o *Observation) Device(name string) *Device {
	return facts.Find(o.Devices, func(d *Device) bool { return d.Name == name })
}
