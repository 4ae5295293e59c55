package facts

import "time"

// Firmware is the visible part of the machine's firmware setup.
type Firmware struct {
	DMAR   bool `json:"dmar"`           // ACPI table of Intel's IOMMU is present
	IVRS   bool `json:"ivrs"`           // ACPI table of AMD's IOMMU is present
	IORT   bool `json:"iort,omitempty"` // ACPI table of ARM's IOMMUs (SMMU) is present
	Tables bool `json:"tables"`         // ACPI tables could be listed
	Groups int  `json:"iommu_groups"`   // of the running kernel; 0 if it uses no IOMMU
	// Memory is the type of all memory modules, DDR4 or DDR5 (SMBIOS type 17); empty if unknown, mixed or another.
	Memory string `json:"memory,omitempty"`
}

// Power is the CPUs' power management.
type Power struct {
	// cpufreq: intel_pstate, amd-pstate-epp, acpi-cpufreq; empty without cpufreq
	ScalingDriver string         `json:"scaling_driver,omitempty"`
	Governors     map[string]int `json:"governors"`             // cpufreq governor → CPUs
	Preferences   map[string]int `json:"energy_preferences"`    // energy_performance_preference → CPUs
	Turbo         string         `json:"turbo,omitempty"`       // on, off; empty if the kernel does not report it
	Uncore        []Uncore       `json:"uncore,omitempty"`      // Intel's, one for each package and die
	IdleDriver    string         `json:"idle_driver,omitempty"` // cpuidle: intel_idle, acpi_idle, haltpoll, none
	IdleGovernor  string         `json:"idle_governor,omitempty"`
	IdleStates    []IdleState    `json:"idle_states"` // of the first CPU that has any
	// LatencyLimit is the wake-up latency in µs that a process requests through /dev/cpu_dma_latency; nil if it could
	// not be read. The kernel's default, 2,000,000,000, means no request.
	LatencyLimit *int `json:"latency_limit_us,omitempty"`
}

// Uncore is the clock range of what lies between cores, memory and PCIe in a die of Intel's
// (Documentation/admin-guide/pm/intel_uncore_frequency_scaling.rst).
type Uncore struct {
	Name string `json:"name"`    // package_00_die_00
	Max  int    `json:"max_khz"` // highest clock allowed now, in kHz; 0: not known
}

// IdleState is a C-state.
type IdleState struct {
	Name     string `json:"name"` // POLL, C1, C1E, C6 …
	Desc     string `json:"desc,omitempty"`
	Latency  int    `json:"latency_us"` // exit latency
	Disabled int    `json:"disabled"`   // number of CPUs on which it is disabled
	CPUs     int    `json:"cpus"`       // number of CPUs that have it
}

// Attestation is a person's statement about something that the operating system cannot see.
type Attestation struct {
	Value string    `json:"value"`
	By    string    `json:"by"`
	At    time.Time `json:"at"` // UTC
}
