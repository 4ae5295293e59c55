package facts

// Housekeeping is what the host does besides carrying packets: what can take a CPU away from a vCPU for a moment.
type Housekeeping struct {
	Swap      []SwapArea     `json:"swap"`
	Available uint64         `json:"memory_available_bytes"` // MemAvailable: what can be had without swapping
	KSM       *KSM           `json:"ksm"`                    // null where the kernel has no page merging
	Threads   []KernelThread `json:"kernel_threads"`         // those of softirqs and RCU
	IRQs      []IRQ          `json:"irqs"`                   // with a handler, and of no NIC
	// VFFiles are the files that make virtual functions when the host boots: units, udev rules, .link files and module
	// options that name them.
	VFFiles []VFFile `json:"vf_files"`
}

// SwapArea is one line of /proc/swaps. Sizes are in bytes.
type SwapArea struct {
	Name     string `json:"name"` // /dev/sda2
	Type     string `json:"type"` // partition or file
	Size     uint64 `json:"size_bytes"`
	Used     uint64 `json:"used_bytes"`
	Priority int    `json:"priority"` // negative: given by the kernel
}

// KSM is the state of page merging (/sys/kernel/mm/ksm).
type KSM struct {
	Run    int    `json:"run"` // 0 stopped, 1 running, 2 stopped and taken apart
	Shared uint64 `json:"pages_shared"`
}

// KernelThread is one thread of the kernel.
type KernelThread struct {
	Name     string `json:"name"` // ksoftirqd/3
	PID      int    `json:"pid"`
	Policy   string `json:"policy"` // SCHED_OTHER, SCHED_FIFO …
	Priority int    `json:"priority"`
}

// VFFile is a file that makes virtual functions at boot.
type VFFile struct {
	Path   string `json:"path"`
	Device string `json:"device,omitempty"` // the device it names, empty where that cannot be told
}

// stillHousekeeping is without what changes by itself: how much swap is in use, merged pages, numbers of threads,
// counts.
func stillHousekeeping(k *Housekeeping) *Housekeeping {
	if k == nil {
		return nil
	}
	c := *k
	c.Available = 0
	c.Swap = append([]SwapArea{}, k.Swap...)
	for i := range c.Swap {
		c.Swap[i].Used = 0
	}
	if k.KSM != nil {
		c.KSM = &KSM{Run: k.KSM.Run}
	}
	c.Threads = append([]KernelThread{}, k.Threads...)
	for i := range c.Threads {
		c.Threads[i].PID = 0
	}
	c.IRQs = append([]IRQ{}, k.IRQs...)
	for i := range c.IRQs {
		c.IRQs[i].Count, c.IRQs[i].Effective = 0, nil
	}
	return &c
}
