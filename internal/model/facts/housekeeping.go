package facts

// Housekeeping is host activity other than packets that can take a CPU away from a vCPU for a moment.
type Housekeeping struct {
	Swap      []SwapArea     `json:"swap"`
	Available uint64         `json:"memory_available_bytes"` // MemAvailable: memory available without swapping
	KSM       *KSM           `json:"ksm"`                    // null if the kernel has no KSM
	Threads   []KernelThread `json:"kernel_threads"`         // of softirqs and RCU
	IRQs      []IRQ          `json:"irqs"`                   // that have a handler and belong to no NIC
	// VFFiles are the files that create VFs at boot: units, udev rules, .link files and module options that mention
	// them.
	VFFiles []VFFile `json:"vf_files"`
}

// SwapArea is one line of /proc/swaps. Sizes are in bytes.
type SwapArea struct {
	Name     string `json:"name"` // /dev/sda2
	Type     string `json:"type"` // partition or file
	Size     uint64 `json:"size_bytes"`
	Used     uint64 `json:"used_bytes"`
	Priority int    `json:"priority"` // negative: chosen by the kernel
}

// KSM is the state of page merging (/sys/kernel/mm/ksm).
type KSM struct {
	Run    int    `json:"run"` // 0 stopped, 1 running, 2 stopped and unmerged
	Shared uint64 `json:"pages_shared"`
}

// KernelThread is a kernel thread.
type KernelThread struct {
	Name     string `json:"name"` // ksoftirqd/3
	PID      int    `json:"pid"`
	Policy   string `json:"policy"` // SCHED_OTHER, SCHED_FIFO …
	Priority int    `json:"priority"`
}

// VFFile is a file that creates VFs at boot.
type VFFile struct {
	Path   string `json:"path"`
	Device string `json:"device,omitempty"` // device it names, empty if unknown
}

// stableHousekeeping omits what changes by itself: swap in use, merged pages, thread IDs, counts.
func stableHousekeeping(k *Housekeeping) *Housekeeping {
	if k == nil {
		return nil
	}
	c := *k
	c.Available = 0
	c.Swap = edited(k.Swap, func(s *SwapArea) { s.Used = 0 })
	if k.KSM != nil {
		c.KSM = &KSM{Run: k.KSM.Run}
	}
	c.Threads = edited(k.Threads, func(t *KernelThread) { t.PID = 0 })
	c.IRQs = edited(k.IRQs, (*IRQ).dropLive)
	return &c
}
