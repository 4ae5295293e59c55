package knob

import (
	"fmt"
	"strconv"
	"time"

	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

var cpuGovernor = &Knob{
	ID: "cpu.governor", Title: "CPUs run at full clock", Stage: datapath.CPU, Risk: goal.None,
	Where: func(h *facts.Host) []setting.Address {
		var all []setting.Address
		for _, c := range h.Topology.CPUs {
			if c.Online {
				all = append(all,
					setting.Of(setting.Sysfs, "devices/system/cpu/cpu"+strconv.Itoa(c.ID), "cpufreq/scaling_governor"))
			}
		}
		return all
	},
	Want: func(v *View, a setting.Address) Advice {
		return Wants(setting.Exact("performance"), "the clock falls while a CPU waits for packets")
	},
}

// noDelay in pm_qos_resume_latency_us allows no delay at all; 0 there means no limit.
const noDelay = "n/a"

var cpuLatency = &Knob{
	ID: "cpu.latency", Title: "Guests' CPUs wake up in time",
	Stage: datapath.CPU, Risk: goal.None, Tiers: tiers(goal.Realtime),
	Where: func(h *facts.Host) []setting.Address {
		var all []setting.Address
		for _, c := range h.Topology.CPUs {
			if c.Online {
				all = append(all, latencyOf(c.ID))
			}
		}
		return all
	},
	Want: func(v *View, a setting.Address) Advice {
		quiet, _, advice, ok := v.split()
		if !ok {
			return advice
		}
		var cpu int
		if _, err := fmt.Sscanf(a.Path, "devices/system/cpu/cpu%d/", &cpu); err != nil || !quiet.Has(cpu) {
			return Skips("not a guest's CPU")
		}
		if value, told := v.runningArgument("idle"); told && value == "poll" {
			return Fine("idle=poll: no idle state is entered")
		}
		most := max(1, int64(v.Goal.Latency/time.Microsecond)/10)
		if v.Power.IdleDriver == "none" {
			return Fine("the kernel has no idle states to choose from (no cpuidle driver)")
		}
		if len(v.Power.IdleStates) > 0 && !v.slow(int(most)) {
			return Fine(fmt.Sprintf("no idle state that is in use takes longer than %d µs to leave", most))
		}
		if held := v.Power.LatencyLimit; held != nil && int64(*held) <= most {
			return Fine(fmt.Sprintf("somebody holds /dev/cpu_dma_latency at %d µs, for as long as that process runs",
				*held))
		}
		if limit, set := wakeUpLimit(v.Readings.At(a)); set && limit <= most {
			return Fine("idle states that take longer to leave are not entered")
		}
		return Wants(setting.Exact(fmt.Sprint(most)),
			fmt.Sprintf("idle states may take any time to leave; a tenth of the target is what waking up may take%s",
				v.slowest())).At(Medium)
	},
}

// latencyOf returns the address of a CPU's wake-up limit.
func latencyOf(cpu int) setting.Address {
	return setting.Of(setting.Sysfs, fmt.Sprintf("devices/system/cpu/cpu%d/power/pm_qos_resume_latency_us", cpu))
}

// wakeUpLimit returns a CPU's limit in µs; false if it has none.
func wakeUpLimit(r setting.Reading) (limit int64, set bool) {
	if r.State == setting.Known && r.Value == noDelay {
		return 0, true
	}
	limit, known := number(r)
	return limit, known && limit > 0
}

// slowest names the enabled idle state that takes longest to leave.
func (v *View) slowest() string {
	name, latency := "", 0
	for _, s := range v.Power.IdleStates {
		if s.Latency > latency && s.Disabled < s.CPUs {
			name, latency = s.Name, s.Latency
		}
	}
	if name == "" {
		return ""
	}
	return fmt.Sprintf(" (%s: %d µs)", name, latency)
}

// slow reports whether an enabled idle state takes longer to leave than a number of µs.
func (v *View) slow(least int) bool {
	for _, s := range v.Power.IdleStates {
		if s.Latency > least && s.Disabled < s.CPUs && stateOf(s) != "POLL" {
			return true
		}
	}
	return false
}
