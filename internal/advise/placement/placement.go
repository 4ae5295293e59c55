// Package placement assigns the CPUs, nodes and huge pages of one host: to the guests' vCPUs and memory, their vhost
// and emulator threads, the NICs' interrupts, and the host itself. It is pure: from a description of the host it makes
// choices with their reasons, or a refusal that names the shortage.
//
// No CPU and no memory is assigned twice, realtime guests run on isolated CPUs if the host has any, and CPUs of
// poll-mode threads are nobody's. These rules always hold; a guest that cannot have them is refused. All other rules
// are a sum of costs (see Cost) whose weights are so far apart that a rule gives way only if those below it cannot
// help:
//
//  1. a place for every guest;
//  2. no vCPU on a core that has another one;
//  3. all vCPUs and memory of a guest on one NUMA node;
//  4. vCPUs on isolated CPUs, if the host has any, and on the nodes that the guest's memory is bound to;
//  5. a core or two of every node kept for the host; huge pages for guests that ask for them;
//  6. CPUs for the interrupts of busy NICs on their own node, one for each four queues (see serving);
//  7. the shortest path: guest on the node of its NIC, vhost threads on its node, on dedicated cores;
//  8. nodes equally full; whole cores left over.
//
// A guest's vhost threads stay together: on dedicated cores on one node, on CPUs kept for the host, or, where those
// are crowded, on the idle siblings of its vCPUs or else on its own CPUs. They never go to isolated CPUs while the host
// has others.
//
// A guest that is pinned one vCPU to a CPU moves only if that mends a rule for it and makes none worse, for it or for
// another guest (see settle). Guests that share CPUs on a host with isolated CPUs get ordinary dedicated CPUs if
// there are enough, and are left as they are otherwise.
//
// Cores of one node are interchangeable, so the search is over counts: for each guest its node, and where its vhost
// threads go (see option). That is a multiple-choice knapsack with a few resources, solved exactly by dynamic
// programming over the nodes' loads, with Lagrangian bounds that leave few states (see sweep). Which cores of a node a
// guest gets is then canonical: the lowest numbers, behind one L3 cache if it fits, and on cores that are alike.
package placement

import (
	"slices"

	"mpps/internal/model/facts"
	"mpps/internal/model/reach"
	"mpps/internal/model/setting"
)

// Ask is a host with the guests to place on it.
type Ask struct {
	CPUs     []CPU     // online CPUs that may be used
	Nodes    []Node    // in the kernel's order
	NICs     []NIC     // physical NICs
	Guests   []Guest   // guests to place
	Daemons  []Daemon  // other services of the host
	Reserves []Reserve // what nodes keep for the host instead of the default

	// CPUs that will be isolated: like isolated ones, they run nothing but their guest's vCPUs
	Quiet  setting.CPUSet
	Kept   setting.CPUSet // CPUs already kept for the host; they stay so
	Host   setting.CPUSet // CPUs that only the host can have: never given away
	Taken  setting.CPUSet // CPUs of poll-mode threads, and the other threads of their cores: nobody else gets them
	Barred setting.CPUSet // CPUs outside the cpusets that guests run in: the host has them, no guest can
	Strict bool           // no rule gives way: a guest that would need it is refused, and the refusal says which

	feasibleOnly bool // any placement without refusals will do
}

// setAside reports whether a CPU is isolated or will be.
func (a *Ask) setAside(c CPU) bool { return c.Isolated || a.Quiet.Has(c.ID) }

// CPU is a logical processor.
type CPU struct {
	ID       int
	Core     int // unique over the machine
	Node     int
	Alike    int // the same for cores that are alike: of one kind, behind one L3 cache, with as many threads
	Slow     int // how many kinds of core are faster
	Isolated bool
}

// Node is a NUMA node. Memory is in bytes, 0 if not known or Empty.
type Node struct {
	ID        int
	Memory    uint64
	Empty     bool        // it has no memory
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
	Node int  // −1: not known
	Left bool // its interrupts stay where they are: no guest's packets pass it, or the way that they take is not judged
	// queues whose interrupts the goal keeps busy; 0: so few packets that one CPU serves them all
	Queues int
}

// Guest is one guest.
type Guest struct {
	Name        string
	VCPUs       int
	Threads     int    // of each core that it is shown, 0 or 1 if it is shown none
	Memory      uint64 // bytes
	NICs        []Interface
	Rate        float64          // packets per second that it should carry; 0: not specified
	Pins        []int            // CPUs that its vCPUs are pinned to today, one each; empty if they are not
	Masks       []setting.CPUSet // by vCPU, where it may run today; empty: anywhere, unless Pins says more
	Emulator    setting.CPUSet   // where its emulator threads are pinned today
	Workers     []Worker         // its vhost threads today, as far as they are known
	Home        setting.CPUSet   // nodes that the memory of the running guest is bound to; empty: not known
	Allowed     setting.CPUSet   // CPUs that the user gives to its vCPUs; empty: the placement chooses
	Confined    setting.CPUSet   // CPUs that its control groups have; none of its threads gets others; empty: any
	Hugepages   bool             // its memory should be in huge pages
	Passthrough bool             // with a device passed through, all its memory is pinned when it starts
	Realtime    bool             // only isolated CPUs will do, if the host has any
	Fixed       bool             // must not move: it stays where it is pinned, well or not
	Named       bool             // the user wants this guest tuned
	Declined    []reach.Kind     // ways of its packets to the wire that are not judged: its threads stay where they are
	Seat        *Placed          // it stays exactly there, with its threads
	// it shares CPUs with others, on a host that has isolated ones for guests that do not: it gets ordinary CPUs if
	// there are enough, and is left as it is otherwise
	Shared bool

	paged       bool // its definition puts its memory in huge pages
	cells       bool // its definition shows it several NUMA nodes
	isNew       bool // does not exist yet: nothing is pinned
	queuesSet   bool // one of its NICs has a chosen number of queues, so the others have one on purpose
	free        bool // the user lets it move
	left        *Left
	nodes       setting.CPUSet // it stays on these
	stays       Rule           // its vCPUs are left as they are, because this rule would become worse
	threadsStay bool           // its vhost threads are left as they are
	pinStays    bool           // its emulator threads are left where they are pinned, or unpinned
	refused     bool           // there is no other place for it
	was         *Guest         // where it is today, if the ask has it where a placement puts it; see placedAgain
	handed      bool           // a plan changes nothing of it: it is handed over to its platform
	vhostFollow bool           // its vhost threads follow its emulator: no plan moves them
	resized     bool           // a plan changes its numbers of queues that are too few or too many
	unmanaged   bool           // libvirt does not know it
}

// Worker is a vhost thread of a running guest, and the CPUs that it may use.
type Worker struct {
	NIC   string // MAC of the guest's interface
	Queue int
	CPUs  setting.CPUSet
}

// Interface is a guest's NIC.
type Interface struct {
	MAC    string
	NIC    string // physical NIC behind it, "" if there is none
	Queues int    // vhost threads; 0 counts as one
	VF     bool   // a VF passed through: no vhost threads
	Node   int    // of a VF, −1: not known

	// why it carries none of the target, and so needs but one queue; empty: it is a data NIC
	Aside string

	resized  bool // a plan gives it another number of queues than its definition has
	fromRate bool // the number of queues follows from the rate
}

// Daemon is another service that needs CPUs, such as storage.
type Daemon struct {
	Name   string
	Node   int
	CPUs   int
	Memory uint64 // bytes
}

// Reserve is what a node keeps for the host instead of the default.
type Reserve struct {
	Node   int
	CPUs   int
	Memory uint64 // bytes
}

// Result is a placement.
type Result struct {
	Guests       []Placed       `json:"guests"`
	NICs         []Serving      `json:"nics"`
	Daemons      []Housed       `json:"daemons"`
	Housekeeping setting.CPUSet `json:"housekeeping"` // CPUs kept for the host
	Relaxed      []string       `json:"relaxed"`      // rules that gave way, and why
	Refused      []Refusal      `json:"refused"`
	Left         []Left         `json:"left,omitempty"`      // guests that get no CPUs of their own
	GivesWay     []GivesWay     `json:"gives_way,omitempty"` // rules that are worse than they are today
	Moved        []string       `json:"moved"`               // guests that are pinned one vCPU to a CPU today, and move
	Nodes        []NodeUse      `json:"nodes"`
	Cost         Cost           `json:"cost"`
	Proved       bool           `json:"proved"` // no cheaper placement exists; false if the search was cut short
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
	Kept      bool           `json:"kept"` // it was pinned already and stays
	Why       string         `json:"why"`
	MemoryWhy string         `json:"memory_why"`
	VhostWhy  string         `json:"vhost_why,omitempty"`
	Others    []Alternative  `json:"alternatives"` // other places for its vhost threads, and their cost
}

// MemoryOn is the part of a guest's memory on one node.
type MemoryOn struct {
	Node  int    `json:"node"`
	Bytes uint64 `json:"bytes"`
	Pages uint64 `json:"pages"` // huge pages taken from the node's pool
}

// Queued is the number of queues of a guest's NIC.
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
	// the CPUs that it may use today, if it stays there; CPU is one of them
	Stays setting.CPUSet `json:"stays,omitempty"`
}

// Serving is the CPUs that serve a physical NIC's interrupts: queue n belongs on CPUs[n modulo their number].
type Serving struct {
	Name string `json:"name"`
	CPUs []int  `json:"cpus"`
	Why  string `json:"why"`
	// CPUs of its node that would serve it as well: an interrupt there may stay, if the goal keeps no queue busy
	Stay setting.CPUSet `json:"-"`
	// the most queues that one of the CPUs serves, of all NICs, 0 if the goal keeps none of them busy
	Most   int           `json:"queues_per_cpu,omitempty"`
	Others []Alternative `json:"alternatives,omitempty"` // other CPUs for busy interrupts, and their cost
}

// Housed is a daemon's place.
type Housed struct {
	Name string         `json:"name"`
	CPUs setting.CPUSet `json:"cpus"`
	Why  string         `json:"why"`
}

// Refusal is a guest without a place.
type Refusal struct {
	Guest    string `json:"guest"`
	Room     int    `json:"room"` // CPUs that it could have
	Shortage string `json:"shortage"`
	Relax    string `json:"relax"` // the smallest thing that would make it fit
}

// Left is a guest that gets no dedicated CPUs: its vCPUs run where they may run today.
type Left struct {
	Guest string         `json:"guest"`
	CPUs  setting.CPUSet `json:"cpus"`
	Rule  Rule           `json:"rule,omitempty"`  // that would become worse
	Paths []reach.Kind   `json:"paths,omitempty"` // ways of its packets that are not judged; neither: it shares CPUs
	Why   string         `json:"why"`
}

// Guest returns a guest's place, nil if it has none.
func (r *Result) Guest(name string) *Placed {
	return facts.Find(r.Guests, func(p *Placed) bool { return p.Name == name })
}

// NIC returns the CPUs that serve a NIC, nil if there are none.
func (r *Result) NIC(name string) *Serving {
	return facts.Find(r.NICs, func(s *Serving) bool { return s.Name == name })
}

// Refusal returns why a guest was refused, nil if it was not.
func (r *Result) Refusal(name string) *Refusal {
	return facts.Find(r.Refused, func(f *Refusal) bool { return f.Guest == name })
}

// LeftAlone returns why a guest is left as it is, nil if it is not.
func (r *Result) LeftAlone(name string) *Left {
	return facts.Find(r.Left, func(l *Left) bool { return l.Guest == name })
}

// GivingWay returns the rules that become worse because of a guest's place.
func (r *Result) GivingWay(name string) []GivesWay {
	return slices.DeleteFunc(slices.Clone(r.GivesWay), func(w GivesWay) bool { return w.For != name })
}

// CPU returns the CPU of a vCPU, false if it has none.
func (p *Placed) CPU(vcpu int) (int, bool) {
	if vcpu < 0 || vcpu >= len(p.VCPUs) {
		return 0, false
	}
	return p.VCPUs[vcpu].CPU, true
}

// VCPUSet returns the CPUs of all its vCPUs.
func (p *Placed) VCPUSet() setting.CPUSet {
	return setting.CPUs(facts.Map(p.VCPUs, func(v VCPU) int { return v.CPU })...)
}

// VhostCPUs returns the CPUs of all its vhost threads.
func (p *Placed) VhostCPUs() setting.CPUSet {
	return setting.CPUs(facts.Map(p.Vhost, func(v Vhost) int { return v.CPU })...)
}

// Queue returns the place of one vhost thread, nil if the queue has none.
func (p *Placed) Queue(mac string, queue int) *Vhost {
	return facts.Find(p.Vhost, func(v *Vhost) bool { return v.NIC == mac && v.Queue == queue })
}
