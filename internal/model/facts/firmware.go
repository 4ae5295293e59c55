package facts

import "time"

// Firmware is what can be seen of how the machine was set up before any kernel ran.
type Firmware struct {
	DMAR   bool `json:"dmar"`         // ACPI table of Intel's IOMMU
	IVRS   bool `json:"ivrs"`         // ACPI table of AMD's
	Tables bool `json:"tables"`       // ACPI tables could be listed at all
	Groups int  `json:"iommu_groups"` // of the running kernel; 0 where it uses no IOMMU
}

// Power is how the CPUs save power.
type Power struct {
	// cpufreq: intel_pstate, amd-pstate-epp, acpi-cpufreq; empty without cpufreq
	ScalingDriver string         `json:"scaling_driver,omitempty"`
	Governors     map[string]int `json:"governors"`             // cpufreq governor → CPUs
	Preferences   map[string]int `json:"energy_preferences"`    // energy_performance_preference → CPUs
	Turbo         string         `json:"turbo,omitempty"`       // on, off, empty where the kernel does not tell
	IdleDriver    string         `json:"idle_driver,omitempty"` // cpuidle: intel_idle, acpi_idle, haltpoll, none
	IdleGovernor  string         `json:"idle_governor,omitempty"`
	IdleStates    []IdleState    `json:"idle_states"` // of the first CPU that has any
	// LatencyLimit is the wake-up latency in µs that somebody holds /dev/cpu_dma_latency open for; nil where it could
	// not be read. The kernel's default, 2,000,000,000, means nobody.
	LatencyLimit *int `json:"latency_limit_us,omitempty"`
}

// NoLatencyLimit is what /dev/cpu_dma_latency reads where nobody asks for anything (include/linux/pm_qos.h,
// PM_QOS_CPU_LATENCY_DEFAULT_VALUE), in µs.
const NoLatencyLimit = 2_000_000_000

// IdleState is one C-state of the kernel's list.
type IdleState struct {
	Name     string `json:"name"` // POLL, C1, C1E, C6 …
	Desc     string `json:"desc,omitempty"`
	Latency  int    `json:"latency_us"` // to wake up
	Disabled int    `json:"disabled"`   // on how many CPUs somebody switched it off
	CPUs     int    `json:"cpus"`       // that have it
}

// Attestation is what a person says of a thing that the operating system cannot see.
type Attestation struct {
	Value string    `json:"value"`
	By    string    `json:"by"`
	At    time.Time `json:"at"` // UTC
}
