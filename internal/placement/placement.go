// Package placement says which CPUs should serve what on one host: the guests' vCPUs, the vhost threads that carry
// their packets, their emulator threads, the NICs' interrupts, and the host itself. It is pure: it sees a description of
// the host and gives back choices with their reasons, or a refusal that names the shortage.
//
// The rules, in the order in which they give way on a host that is too small for all of them:
//
//  1. nothing is booked twice: a vCPU has a CPU of its own, always;
//  2. no two vCPUs of a guest on the two threads of one core;
//  3. all vCPUs of a guest on one NUMA node, that of its NIC first;
//  4. a core or two of every node are kept for the host;
//  5. vhost threads on CPUs of their own: whole cores of the guest's node, else of the next node, else the sibling
//     threads of the guest's own cores, else the CPUs kept for the host.
package placement

import "mpps/internal/setting"

// Ask is what is to be placed.
type Ask struct {
	CPUs    []CPU    // every online CPU that may be used
	Nodes   []Node   // in the kernel's order
	NICs    []NIC    // those that carry guests' packets
	Guests  []Guest  // those to be placed
	Daemons []Daemon // what else the host runs
}

// CPU is a logical processor.
type CPU struct {
	ID   int
	Core int // unique over the machine
	Node int
}

// Node is a NUMA node. Memory is in bytes.
type Node struct {
	ID        int
	Memory    uint64
	Distances map[int]int // to other nodes; 10 = local
}

// NIC is a physical NIC.
type NIC struct {
	Name string
	Node int // −1 is unknown
}

// Guest is one guest.
type Guest struct {
	Name     string
	VCPUs    int
	Memory   uint64
	NICs     []Interface
	Pins     []int          // CPUs that its vCPUs are pinned to today, one each; empty where they are not pinned so
	Emulator setting.CPUSet // where its emulator threads are pinned today
	Allowed  setting.CPUSet // CPUs that the user gives to its vCPUs; empty: the placement chooses
	Realtime bool
	Fixed    bool // must not be moved: it stays where it is pinned, well or not

	tuned bool // somebody chose the queues of one of its NICs: the others were left at one on purpose
}

// Interface is a guest's NIC behind a tap.
type Interface struct {
	MAC    string
	NIC    string // physical NIC behind it, "" where there is none
	Queues int    // vhost threads; 0 counts as one
}

// Daemon is something else that needs CPUs: storage, for one.
type Daemon struct {
	Name string
	Node int
	CPUs int
}

// Result is who sits where.
type Result struct {
	Guests       []Placed       `json:"guests"`
	NICs         []Serving      `json:"nics"`
	Housekeeping setting.CPUSet `json:"housekeeping"`
	Relaxed      []string       `json:"relaxed"` // rules that had to give way, and why
	Refused      []Refusal      `json:"refused"`
}

// Placed is one guest's place.
type Placed struct {
	Name     string         `json:"name"`
	VCPUs    []VCPU         `json:"vcpus"`
	Vhost    []Vhost        `json:"vhost"`
	Emulator setting.CPUSet `json:"emulator"`
	Nodes    setting.CPUSet `json:"nodes"` // of its memory
	Kept     bool           `json:"kept"`  // it was well pinned already and stays where it is
	Why      string         `json:"why"`
	VhostWhy string         `json:"vhost_why,omitempty"`
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
