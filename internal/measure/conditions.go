package measure

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Conditions are what can spoil a measurement, read on the near machine before it begins. Values that could not be read
// are absent and cause no warning.
type Conditions struct {
	CPUs int `json:"cpus"` // online
	// scaling governor → number of CPUs; empty: no frequency scaling visible
	Governors map[string]int `json:"governors,omitempty"`
	BusyCPUs  float64        `json:"busy_cpus"` // by others, before anything was sent
	Steal     float64        `json:"steal"`     // share of the time stolen by the hypervisor, 0–1
	// Throttled is how often CPUs were throttled for heat since boot; nil if no CPU counts it.
	Throttled   *uint64 `json:"throttled,omitempty"`
	Clocksource string  `json:"clocksource,omitempty"`
}

// Warnings returns what a reader must know of the conditions.
func (c Conditions) Warnings() []Warning {
	var all []Warning
	slow := maps.Clone(c.Governors)
	delete(slow, "performance")
	if len(slow) > 0 {
		var kinds []string
		for _, g := range slices.Sorted(maps.Keys(slow)) {
			kinds = append(kinds, fmt.Sprintf("%s on %d", g, slow[g]))
		}
		all = append(all, Warning{Code: "governor", Text: "the CPU frequency governor is not performance: " +
			strings.Join(kinds, ", ") + " CPUs: clocks follow the load, and results with them",
			Hint: "'mpps explain cpu.governor'"})
	}
	if c.CPUs > 0 && c.BusyCPUs/float64(c.CPUs) > disturbed {
		all = append(all, Warning{Code: "other-load", Text: fmt.Sprintf("%.1f of %d CPUs were busy before anything "+
			"was sent", c.BusyCPUs, c.CPUs),
			Hint: "end other load: it takes CPU time from the path and counts towards its cost"})
	}
	if c.Steal > 0.01 {
		all = append(all, Warning{Code: "steal", Text: fmt.Sprintf("the hypervisor below took %s of the CPU time "+
			"before anything was sent", percent(c.Steal)),
			Hint: "measure when the machine is quiet, or on one that is not shared"})
	}
	switch c.Clocksource {
	case "", "tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter":
	default:
		all = append(all, Warning{Code: "slow-clock", Text: "the clock source is " + c.Clocksource +
			": each clock read is an access to a device, and is part of every latency",
			Hint: "the kernel log says why it did not take tsc"})
	}
	return all
}

// Between returns warnings about what happened between two readings.
func (c Conditions) Between(after Conditions) []Warning {
	if c.Throttled == nil || after.Throttled == nil || *after.Throttled <= *c.Throttled {
		return nil
	}
	return []Warning{{Code: "throttled", Text: fmt.Sprintf("CPUs were slowed down for heat %d times during the "+
		"measurement", *after.Throttled-*c.Throttled),
		Hint: "look after the cooling, and measure again"}}
}
