package facts

import "mpps/internal/model/setting"

// Observation is what CPUs did while mpps watched: which threads and interrupts took their time. It is data like
// everything else of a host, so that a snapshot can carry it.
type Observation struct {
	Seconds float64        `json:"seconds"`
	CPUs    setting.CPUSet `json:"cpus"`  // whose threads and interrupts were watched
	Times   []CPUTime      `json:"times"` // of every online CPU
	Threads []ThreadRun    `json:"threads"`
	IRQs    []IRQRun       `json:"irqs"` // that came to one of CPUs at least once
	Looked  int            `json:"threads_looked_at"`
	Omitted int            `json:"threads_omitted"` // that may run on CPUs, did not, and are too many to be listed
	CostMS  float64        `json:"cost_ms"`         // CPU time that watching took
	Unseen  []Unseen       `json:"unseen"`
}

// CPUTime is where the time of one CPU went, in milliseconds (/proc/stat, whose unit is 10 ms).
type CPUTime struct {
	CPU     int     `json:"cpu"`
	Busy    float64 `json:"busy_ms"` // neither idle nor waiting for a disk; with the parts below
	IRQ     float64 `json:"irq_ms"`
	Softirq float64 `json:"softirq_ms"`
	Steal   float64 `json:"steal_ms"`
	Guest   float64 `json:"guest_ms"` // in vCPUs
	// Switches is how often a thread came onto the CPU, the idle one not counted (/proc/schedstat); −1 where the kernel
	// does not count.
	Switches int64 `json:"switches"`
}

// ThreadRun is one thread that ran, or may run, on the watched CPUs.
type ThreadRun struct {
	TID      int            `json:"tid"`
	PID      int            `json:"pid"` // of its process
	Comm     string         `json:"comm"`
	Kernel   bool           `json:"kernel"`
	Fixed    bool           `json:"fixed"` // the kernel lets nobody change its CPUs (PF_NO_SETAFFINITY)
	Affinity setting.CPUSet `json:"affinity"`
	CPU      int            `json:"cpu"` // ran there last
	Policy   string         `json:"policy"`
	Priority int            `json:"priority"`
	// RunNS is how long it ran within the interval, on whatever CPU. A thread that runs without pause on a CPU without
	// a tick is brought up to date by the kernel once a second.
	RunNS    uint64 `json:"run_ns"`
	Switches uint64 `json:"switches"` // how often it came onto a CPU
	New      bool   `json:"new"`      // it is younger than the interval
}

// IRQRun is how often an interrupt came to the watched CPUs.
type IRQRun struct {
	Number int            `json:"number"` // −1: one of the CPU's own
	Name   string         `json:"name"`   // its first handler, or LOC, RES, CAL, TLB, NMI …
	Counts map[int]uint64 `json:"counts"` // by CPU; those with none left out
}

// Time is what is known of a CPU's time and whether anything is.
func (o *Observation) Time(cpu int) (CPUTime, bool) {
	if o != nil {
		for _, t := range o.Times {
			if t.CPU == cpu {
				return t, true
			}
		}
	}
	return CPUTime{}, false
}
