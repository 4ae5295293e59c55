package facts

// Disturbance is a kind of event that can keep a thread from running when it is due, as far as the host counts it.
type Disturbance string

// The disturbances, ordered from certain cause to possible consequence.
const (
	SMI Disturbance = "smi" // system management interrupts: the firmware had the CPU; count
	// the underlying hypervisor ran something else; nanoseconds, in steps of 10 ms
	Steal        Disturbance = "steal"
	MachineCheck Disturbance = "machine-check" // machine check exceptions and polls; count
	Throttle     Disturbance = "throttle"      // thermal or power throttling; count
	OtherThread  Disturbance = "other-thread"  // another thread ran on the CPU; nanoseconds
	Migration    Disturbance = "migration"     // the guest's thread moved to another CPU; count
	PageFault    Disturbance = "page-fault"    // the guest's thread touched absent memory; count
	Interrupt    Disturbance = "interrupt"     // from a device or the local timer; count
	// inter-processor interrupts: TLB shootdowns, function calls, rescheduling; count
	IPI           Disturbance = "ipi"
	NMI           Disturbance = "nmi"            // watchdog and performance monitoring; count
	SoftIRQ       Disturbance = "softirq"        // deferred interrupt work; count
	Memory        Disturbance = "memory"         // host pages compacted, migrated, reclaimed or merged; count
	IdleEntry     Disturbance = "idle-state"     // the CPU entered an idle state with exit latency; count
	Frequency     Disturbance = "frequency"      // the clock frequency changed; count
	RunDelay      Disturbance = "run-delay"      // the thread was runnable and waited for the CPU; nanoseconds
	ContextSwitch Disturbance = "context-switch" // the CPU switched threads; count
	VMExit        Disturbance = "vm-exit"        // exits of the guest, all vCPUs together; count
)

// Disturbances returns all kinds, in the order of the constants.
func Disturbances() []Disturbance {
	return []Disturbance{SMI, Steal, MachineCheck, Throttle, OtherThread, Migration, PageFault, Interrupt, IPI, NMI,
		SoftIRQ, Memory, IdleEntry, Frequency, RunDelay, ContextSwitch, VMExit}
}

// Counter identifies a counter of the host.
type Counter struct {
	Kind Disturbance
	Name string // which one: "IRQ 45 eth0-rx-0", "kworker/3:1 (812)", "C6"
	CPU  int    // physical CPU; −1: the whole host, or a guest
}

// Tally holds the readings of counters at one moment.
type Tally map[Counter]uint64
