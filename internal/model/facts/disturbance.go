package facts

// Disturbance is a kind of thing that can keep a thread from running when it is due, as far as a host counts it.
type Disturbance string

// The disturbances, those first that are the more certain to be a cause and not a consequence.
const (
	SMI Disturbance = "smi" // system management interrupts: the firmware had the CPU; times
	// the hypervisor below ran something else; nanoseconds, seen in steps of 10 ms
	Steal        Disturbance = "steal"
	MachineCheck Disturbance = "machine-check" // machine check exceptions and polls; times
	Throttle     Disturbance = "throttle"      // the CPU was slowed down for heat or power; times
	OtherThread  Disturbance = "other-thread"  // another thread ran on the CPU; nanoseconds
	Migration    Disturbance = "migration"     // the guest's thread came to another CPU; times
	PageFault    Disturbance = "page-fault"    // of the guest's thread: memory that was not there; times
	Interrupt    Disturbance = "interrupt"     // of a device, or of the CPU's own timer; times
	// interrupts that other CPUs sent: TLB shootdowns, function calls, rescheduling; times
	IPI           Disturbance = "ipi"
	NMI           Disturbance = "nmi"            // watchdog and performance monitoring; times
	SoftIRQ       Disturbance = "softirq"        // work behind interrupts; times
	Memory        Disturbance = "memory"         // pages of the host compacted, migrated, reclaimed or merged; times
	IdleEntry     Disturbance = "idle-state"     // the CPU went into an idle state that takes time to leave; times
	Frequency     Disturbance = "frequency"      // the clock was changed; times
	RunDelay      Disturbance = "run-delay"      // the thread was ready and waited for the CPU; nanoseconds
	ContextSwitch Disturbance = "context-switch" // the CPU went from one thread to another; times
	VMExit        Disturbance = "vm-exit"        // the guest, with all its vCPUs, left to the host; times
)

// Disturbances are all kinds, the more certain ones first.
func Disturbances() []Disturbance {
	return []Disturbance{SMI, Steal, MachineCheck, Throttle, OtherThread, Migration, PageFault, Interrupt, IPI, NMI,
		SoftIRQ, Memory, IdleEntry,
		Frequency, RunDelay, ContextSwitch, VMExit}
}

// Counter names something that a host counts from boot on.
type Counter struct {
	Kind Disturbance
	Name string // which one: "IRQ 45 eth0-rx-0", "kworker/3:1 (812)", "C6"
	CPU  int    // on which physical CPU; −1: of the whole host, or of a guest
}

// Tally are readings of counters at one moment.
type Tally map[Counter]uint64
