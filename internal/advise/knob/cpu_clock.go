package knob

import (
	"fmt"

	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

const (
	governorFile = "devices/system/cpu/cpu%d/cpufreq/scaling_governor"
	eppFile      = "devices/system/cpu/cpu%d/cpufreq/energy_performance_preference"
	epbFile      = "devices/system/cpu/cpu%d/power/energy_perf_bias"
)

const slowClock = "the processor lowers the clock by itself while a CPU waits for packets"

var cpuEPP = &Knob{
	ID: "cpu.epp", Title: "The processor's own control of the clock leans to performance",
	Stage: datapath.CPU, Risk: goal.None, After: []string{"cpu.governor"}, Limit: onX86,
	Where: eachCPU(eppFile),
	Want: func(v *View, a setting.Address) Advice {
		if driver := v.Power.ScalingDriver; driver == "intel_pstate" || driver == "amd-pstate-epp" {
			// these refuse all other preferences (EBUSY) under that governor: a change could not be undone in its turn
			return Fine("with " + driver + " the governor performance sets it: cpu.governor")
		}
		return Wants(setting.Any("performance", "0"), slowClock).At(Medium)
	},
}

var cpuEPB = &Knob{
	ID: "cpu.epb", Title: "The processor's energy bias is performance",
	Stage: datapath.CPU, Risk: goal.None, After: []string{"cpu.epp"}, Limit: onIntel,
	Tiers: tiers(goal.Aggressive, goal.Passthrough, goal.Realtime),
	Where: eachCPU(epbFile),
	Want: func(v *View, _ setting.Address) Advice {
		if len(v.Power.Preferences) > 0 {
			return Skips("the processor follows the energy performance preference instead: cpu.epp")
		}
		return exact("0", slowClock).At(Low)
	},
}

var cpuUncore = &Knob{
	ID: "cpu.uncore", Title: "What lies between cores, memory and PCIe keeps its clock",
	Stage: datapath.CPU, Risk: goal.None, Limit: onIntel,
	Tiers: tiers(goal.Aggressive, goal.Passthrough, goal.Realtime),
	Where: func(h *facts.Host) []setting.Address {
		return facts.Map(h.Power.Uncore, uncoreFloor)
	},
	Want: func(v *View, a setting.Address) Advice {
		for _, u := range v.Power.Uncore {
			if a == uncoreFloor(u) && u.Max > 0 {
				return exact(fmt.Sprint(u.Max), "with few busy cores the mesh and the cache run slowly, and every "+
					"packet from and to the NIC passes them").At(Low)
			}
		}
		return Unsure("the highest clock could not be read")
	},
}

// uncoreFloor returns the address of the lowest clock of an uncore domain, in kHz.
func uncoreFloor(u facts.Uncore) setting.Address {
	return setting.Of(setting.Sysfs, "devices/system/cpu/intel_uncore_frequency", u.Name, "min_freq_khz")
}
