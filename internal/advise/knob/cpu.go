package knob

import (
	"fmt"
	"time"

	"mpps/internal/model/datapath"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

var cpuGovernor = &Knob{
	ID: "cpu.governor", Title: "CPUs run at full clock", Stage: datapath.CPU, Risk: goal.None,
	Where: eachCPU("devices/system/cpu/cpu%d/cpufreq/scaling_governor"),
	Want:  always(exact("performance", "the clock falls while a CPU waits for packets")),
}

// latencyFile is a CPU's wake-up limit in µs (PM QoS resume latency).
const latencyFile = "devices/system/cpu/cpu%d/power/pm_qos_resume_latency_us"

// noDelay in pm_qos_resume_latency_us allows no delay at all; 0 there means no limit.
const noDelay = "n/a"

var cpuLatency = &Knob{
	ID: "cpu.latency", Title: "Guests' CPUs wake up in time",
	Stage: datapath.CPU, Risk: goal.None, Tiers: tiers(goal.Realtime),
	Where: eachCPU(latencyFile),
	Want: forGuestCPU(latencyFile, func(v *View, a setting.Address) Advice {
		if value, given := v.runningArgument("idle"); given && value == "poll" {
			return Fine("idle=poll: no idle state is entered")
		}
		most := max(1, int64(v.Goal.Latency/time.Microsecond)/10)
		if v.Power.IdleDriver == "none" {
			return Fine("the kernel has no idle states to choose from (no cpuidle driver)")
		}
		if len(v.Power.IdleStates) > 0 && !v.hasSlowState(int(most)) {
			return Fine(fmt.Sprintf("no idle state that is in use takes longer than %d µs to leave", most))
		}
		if limit := v.Power.LatencyLimit; limit != nil && int64(*limit) <= most {
			return Fine(fmt.Sprintf("somebody holds /dev/cpu_dma_latency at %d µs, for as long as that process runs",
				*limit))
		}
		if limit, set := wakeUpLimit(v.Readings.At(a)); set && limit <= most {
			return Fine("idle states that take longer to leave are not entered")
		}
		return exact(fmt.Sprint(most), fmt.Sprintf("idle states may take any time to leave; a tenth of the target is "+
			"what waking up may take%s", v.slowestState())).At(Medium)
	}),
}

// wakeUpLimit returns the wake-up limit of a CPU in µs; false if it has none.
func wakeUpLimit(r setting.Reading) (limit int64, set bool) {
	if r.State == setting.Known && r.Value == noDelay {
		return 0, true
	}
	limit, known := number(r)
	return limit, known && limit > 0
}

// slowestState names the enabled idle state with the longest exit latency, in parentheses.
func (v *View) slowestState() string {
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

// hasSlowState reports whether an enabled idle state takes more than least µs to leave.
func (v *View) hasSlowState(least int) bool {
	for _, s := range v.Power.IdleStates {
		if s.Latency > least && s.Disabled < s.CPUs && stateOf(s) != "POLL" {
			return true
		}
	}
	return false
}
