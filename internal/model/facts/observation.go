package facts

import "mpps/internal/model/setting"

// Observation is the activity on a set of CPUs while mpps watched: the threads and interrupts that used them. It is
// part of the host so that a snapshot can contain it.
type Observation struct {
	Seconds float64        `json:"seconds"`
	CPUs    setting.CPUSet `json:"cpus"`  // the watched CPUs
	Times   []CPUTime      `json:"times"` // every online CPU
	Threads []ThreadRun    `json:"threads"`
	IRQs    []IRQRun       `json:"irqs"` // those that occurred on the watched CPUs
	Looked  int            `json:"threads_looked_at"`
	Omitted int            `json:"threads_omitted"` // threads that may run on the CPUs but did not, and are too many to list
	CostMS  float64        `json:"cost_ms"`         // CPU time spent on watching
	Unseen  []Unseen       `json:"unseen"`
}

// CPUTime splits the time of one CPU, in milliseconds (/proc/stat counts in units of 10 ms).
type CPUTime struct {
	CPU     int     `json:"cpu"`
	Busy    float64 `json:"busy_ms"` // neither idle nor iowait; includes the parts below
	IRQ     float64 `json:"irq_ms"`
	Softirq float64 `json:"softirq_ms"`
	Steal   float64 `json:"steal_ms"`
	Guest   float64 `json:"guest_ms"` // running vCPUs
	// Switches is the number of times a thread other than idle was scheduled (/proc/schedstat); −1 if the kernel does
	// not count.
	Switches int64 `json:"switches"`
}

// ThreadRun is a thread that ran, or may run, on the watched CPUs.
type ThreadRun struct {
	TID      int            `json:"tid"`
	PID      int            `json:"pid"` // process ID
	Comm     string         `json:"comm"`
	Kernel   bool           `json:"kernel"`
	Fixed    bool           `json:"fixed"` // its affinity cannot be changed (PF_NO_SETAFFINITY)
	Affinity setting.CPUSet `json:"affinity"`
	CPU      int            `json:"cpu"` // CPU it last ran on
	Policy   string         `json:"policy"`
	Priority int            `json:"priority"`
	// RunNS is its CPU time in the interval, on any CPU. The kernel updates a thread that runs without pause on a
	// tickless CPU once a second.
	RunNS    uint64 `json:"run_ns"`
	Switches uint64 `json:"switches"` // number of times it was scheduled
	New      bool   `json:"new"`      // started within the interval
}

// IRQRun counts an interrupt on the watched CPUs.
type IRQRun struct {
	Number int            `json:"number"` // −1: a CPU-internal one
	Name   string         `json:"name"`   // its first handler, or LOC, RES, CAL, TLB, NMI …
	Counts map[int]uint64 `json:"counts"` // by CPU; zeros omitted
}

// Time returns a CPU's times, and whether they are known.
func (o *Observation) Time(cpu int) (CPUTime, bool) {
	if o == nil {
		return CPUTime{}, false
	}
	return first(o.Times, func(t CPUTime) bool { return t.CPU == cpu })
}
