// Package placement says which CPUs, nodes and pages should serve what on one host: the guests' vCPUs and memory, the
// vhost threads that carry their packets, their emulator threads, the NICs' interrupts, and the host itself. It is
// pure: it sees a description of the host and gives back choices with their reasons, or a refusal that names the
// shortage.
//
// Nothing is booked twice, no memory is promised twice, realtime guests sit on isolated CPUs and nobody else does:
// these always hold, and a guest that cannot have them is refused. What else is wanted is a sum of costs (see Cost)
// whose weights are so far apart that a rule gives way only when those below it cannot help:
//
//  1. a place for every guest;
//  2. no vCPU on a core that has another one;
//  3. all vCPUs and memory of a guest on one NUMA node;
//  4. a core or two of every node kept for the host; huge pages for guests that ask for them;
//  5. the shortest way: guest on the node of its NIC, vhost threads on its node, on cores of their own;
//  6. nodes equally full; whole cores left over.
//
// A guest's vhost threads stay together: on cores of their own on one node, on the idle threads beside its vCPUs, or on
// CPUs kept for the host.
//
// Cores of one node are interchangeable, so the search is over counts: for each guest its node, and where its vhost
// threads go (see options). That is a multiple-choice knapsack with a few resources; it is solved exactly by dynamic
// programming over the nodes' loads, with Lagrangian bounds that leave few states (see search). Which cores of a node a
// guest gets is then canonical: the lowest numbers, one L3 cache where it fits.
package placement

import "mpps/internal/model/setting"

// Ask is what is to be placed.
type Ask struct {
	CPUs     []CPU     // every online CPU that may be used
	Nodes    []Node    // in the kernel's order
	NICs     []NIC     // those that carry guests' packets
	Guests   []Guest   // those to be placed
	Daemons  []Daemon  // what else the host runs
	Reserves []Reserve // what is kept for the host, where not the usual

	// CPUs that are to be isolated: like those that are, they serve nobody but their guest's vCPUs
	Quiet  setting.CPUSet
	Kept   setting.CPUSet // CPUs that the host keeps already: it goes on with them
	Strict bool           // no rule gives way: a guest that would need it is refused, and the refusal says which

	content bool // to know whether everybody fits is enough
}

// aside reports whether a CPU is isolated, or is to be.
func (a *Ask) aside(c CPU) bool { return c.Isolated || a.Quiet.Has(c.ID) }

// CPU is a logical processor.
type CPU struct {
	ID       int
	Core     int // unique over the machine
	Node     int
	L3       int // number of its L3 cache, −1 where there is none
	Isolated bool
}

// Node is a NUMA node. Memory is in bytes, 0 where it is not known.
type Node struct {
	ID        int
	Memory    uint64
	Pages     []Pages     // pools of huge pages, part of Memory
	Distances map[int]int // to other nodes; 10 = local
}

// Pages is a pool of huge pages on one node.
type Pages struct {
	Size  uint64 // bytes
	Count uint64
}

// NIC is a physical NIC.
type NIC struct {
	Name string
	Node int // −1 is unknown
}

// Guest is one guest.
type Guest struct {
	Name        string
	VCPUs       int
	Memory      uint64 // bytes
	NICs        []Interface
	Rate        float64        // packets per second that it should carry; 0 is not said
	Pins        []int          // CPUs that its vCPUs are pinned to today, one each; empty where they are not pinned so
	Emulator    setting.CPUSet // where its emulator threads are pinned today
	Allowed     setting.CPUSet // CPUs that the user gives to its vCPUs; empty: the placement chooses
	Hugepages   bool           // its memory should be in huge pages
	Passthrough bool           // it has a device passed through: all its memory is pinned at its start
	Realtime    bool           // only isolated CPUs will do, where the host has any
	Fixed       bool           // must not be moved: it stays where it is pinned, well or not
	Seat        *Placed        // it stays exactly there, with its threads

	fresh bool // it is not there yet: nothing of it is pinned
	tuned bool // somebody chose the queues of one of its NICs: the others were left at one on purpose
}

// Interface is a guest's NIC.
type Interface struct {
	MAC    string
	NIC    string // physical NIC behind it, "" where there is none
	Queues int    // vhost threads; 0 counts as one
	VF     bool   // a passed-through function: no vhost threads
	Node   int    // of a passed-through function, −1 is unknown

	asked bool // the number of queues follows from the rate
}

// Daemon is something else that needs CPUs: storage, for one.
type Daemon struct {
	Name   string
	Node   int
	CPUs   int
	Memory uint64 // bytes
}

// Reserve is what a node keeps for the host instead of the usual.
type Reserve struct {
	Node   int
	CPUs   int
	Memory uint64 // bytes
}

// Result is who sits where.
type Result struct {
	Guests       []Placed       `json:"guests"`
	NICs         []Serving      `json:"nics"`
	Daemons      []Housed       `json:"daemons"`
	Housekeeping setting.CPUSet `json:"housekeeping"` // CPUs kept for the host
	Relaxed      []string       `json:"relaxed"`      // rules that had to give way, and why
	Refused      []Refusal      `json:"refused"`
	Moved        []string       `json:"moved"` // guests that are pinned well today and get another place all the same
	Nodes        []NodeUse      `json:"nodes"`
	Cost         Cost           `json:"cost"`
	Proved       bool           `json:"proved"` // no cheaper placement exists; false where the search was cut short
}

// Placed is one guest's place.
type Placed struct {
	Name      string         `json:"name"`
	VCPUs     []VCPU         `json:"vcpus"`
	Vhost     []Vhost        `json:"vhost"`
	Emulator  setting.CPUSet `json:"emulator"`
	Nodes     setting.CPUSet `json:"nodes"` // of its memory
	Memory    []MemoryOn     `json:"memory"`
	PageSize  uint64         `json:"page_bytes"` // 0: ordinary pages
	Queues    []Queued       `json:"queues"`
	Kept      bool           `json:"kept"` // it was well pinned already and stays where it is
	Why       string         `json:"why"`
	MemoryWhy string         `json:"memory_why"`
	VhostWhy  string         `json:"vhost_why,omitempty"`
	Others    []Alternative  `json:"alternatives"` // where else its vhost threads could be, and what that costs
}

// MemoryOn is how much of a guest's memory is on a node.
type MemoryOn struct {
	Node  int    `json:"node"`
	Bytes uint64 `json:"bytes"`
	Pages uint64 `json:"pages"` // huge pages taken from the node's pool
}

// Queued is how many queues a guest's NIC has.
type Queued struct {
	NIC    string `json:"nic"` // MAC of the guest's interface
	Queues int    `json:"queues"`
	Why    string `json:"why"`
}

// Alternative is one way to place a guest's vhost threads.
type Alternative struct {
	What   string `json:"what"`
	Cost   int64  `json:"cost"` // points, see Cost
	Why    string `json:"why"`
	Chosen bool   `json:"chosen"`
}

// VCPU is one vCPU's place.
type VCPU struct {
	VCPU int `json:"vcpu"`
	CPU  int `json:"cpu"`
}

// Vhost is the place of one vhost thread.
type Vhost struct {
	NIC   string `json:"nic"` // MAC of the guest's interface
	Queue int    `json:"queue"`
	CPU   int    `json:"cpu"`
}

// Serving is the CPUs that serve a physical NIC's interrupts: queue n belongs on CPUs[n modulo their number].
type Serving struct {
	Name string `json:"name"`
	CPUs []int  `json:"cpus"`
	Why  string `json:"why"`
}

// Housed is the place of a daemon.
type Housed struct {
	Name string         `json:"name"`
	CPUs setting.CPUSet `json:"cpus"`
	Why  string         `json:"why"`
}

// Refusal is a guest that found no place.
type Refusal struct {
	Guest    string `json:"guest"`
	Shortage string `json:"shortage"`
	Relax    string `json:"relax"` // the smallest thing that would make it fit
}

// Guest is a guest's place, nil where it has none.
func (r *Result) Guest(name string) *Placed {
	for i := range r.Guests {
		if r.Guests[i].Name == name {
			return &r.Guests[i]
		}
	}
	return nil
}

// NIC is who serves a NIC, nil where nobody does.
func (r *Result) NIC(name string) *Serving {
	for i := range r.NICs {
		if r.NICs[i].Name == name {
			return &r.NICs[i]
		}
	}
	return nil
}

// Refusal is why a guest was refused, nil where it was not.
func (r *Result) Refusal(name string) *Refusal {
	for i := range r.Refused {
		if r.Refused[i].Guest == name {
			return &r.Refused[i]
		}
	}
	return nil
}

// CPU is the place of a vCPU, false where it has none.
func (p *Placed) CPU(vcpu int) (int, bool) {
	if vcpu < 0 || vcpu >= len(p.VCPUs) {
		return 0, false
	}
	return p.VCPUs[vcpu].CPU, true
}

// VCPUSet is the CPUs of all its vCPUs.
func (p *Placed) VCPUSet() setting.CPUSet {
	all := make([]int, len(p.VCPUs))
	for i, v := range p.VCPUs {
		all[i] = v.CPU
	}
	return setting.CPUs(all...)
}

// Queue is the CPU of one vhost thread, false where none was asked for.
func (p *Placed) Queue(mac string, queue int) (int, bool) {
	for _, w := range p.Vhost {
		if w.NIC == mac && w.Queue == queue {
			return w.CPU, true
		}
	}
	return 0, false
}
