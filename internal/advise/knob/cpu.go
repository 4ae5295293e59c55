package knob

import (
	"fmt"
	"time"

	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

var cpuGovernor = &Knob{
	ID: "cpu.governor", Title: "CPUs run at full clock", Stage: datapath.CPU, Risk: goal.None,
	Where: eachCPU(governorFile),
	Want:  always(exact("performance", "the clock falls while a CPU waits for packets")),
}

// latencyFile is a CPU's wake-up limit in µs (PM QoS resume latency).
const latencyFile = "devices/system/cpu/cpu%d/power/pm_qos_resume_latency_us"

// noDelay in pm_qos_resume_latency_us allows no delay at all; 0 there means no limit.
const noDelay = "n/a"

// wakePackets is how many packets of the target may arrive while a CPU wakes up: a quarter of a guest's smallest ring
// (256 entries).
const wakePackets = 64

// wakeBudget returns the longest time in µs that waking up may take for the goal: a tenth of its latency, or else the
// time in which wakePackets packets arrive; 0 if the goal names neither.
func (v *View) wakeBudget() int {
	switch {
	case v.Goal.Latency > 0:
		return max(1, int(v.Goal.Latency/time.Microsecond)/10)
	case v.Goal.PPS > 0:
		return max(1, int(wakePackets*1e6/v.Goal.PPS))
	}
	return 0
}

// wakeLimit returns the limit to set for a budget, and false if it is unknown. A limit below the exit latency of
// the shallowest state has the kernel poll instead (drivers/cpuidle/governors/menu.c, menu_select): not where another
// thread of the core would pay for it.
func (v *View) wakeLimit(budget int) (limit int, known bool) {
	smt, smtKnown := v.smt()
	if smtKnown && !smt {
		return budget, true
	}
	shallowest := -1
	for _, s := range v.Power.IdleStates {
		if stateOf(s) != "POLL" && (shallowest < 0 || s.Latency < shallowest) {
			shallowest = s.Latency
		}
	}
	if shallowest < 0 {
		return budget, budget >= usualC1
	}
	return max(budget, shallowest), true
}

// usualC1 is the exit latency of C1 in µs in the tables of drivers/idle/intel_idle.c; ACPI's and AMD's are no longer.
const usualC1 = 2

var cpuLatency = &Knob{
	ID: "cpu.latency", Title: "Guests' CPUs wake up in time",
	Stage: datapath.CPU, Risk: goal.None, Tiers: tiers(goal.Aggressive, goal.Passthrough, goal.Realtime),
	Where: eachCPU(latencyFile),
	Want: func(v *View, a setting.Address) Advice {
		if v.Tier == goal.Realtime {
			return limitedWakeUp(v, a)
		}
		var cpu int
		if _, err := fmt.Sscanf(a.Path, latencyFile, &cpu); err != nil || !v.setAside().Has(cpu) {
			return Skips("shared with the host's own work: idle states there leave power and turbo to the busy cores")
		}
		if len(v.Guests) > 0 && !v.occupied().Has(cpu) {
			return Skips("no guest's thread has it: idle states there leave power and turbo to the busy cores")
		}
		return judgeWakeUp(v, a)
	},
}

// setAside returns the CPUs that were set aside for guests by hand: isolated, without a tick, or named in the goal.
func (v *View) setAside() setting.CPUSet {
	return v.Topology.Isolated.Or(v.Topology.NohzFull).Or(v.Goal.CPUs)
}

// occupied returns the CPUs that vCPUs and vhost threads are bound to or are to have, and those that the goal names;
// computed at the first call.
func (v *View) occupied() setting.CPUSet {
	if v.taken == nil {
		v.taken = append(setting.CPUSet{}, v.Goal.CPUs...)
		for g := range facts.Each(v.Guests) {
			v.taken = v.taken.Or(pinnedCPUs(g))
		}
		for _, p := range v.Placement().Guests {
			v.taken = v.taken.Or(p.VCPUSet()).Or(p.VhostCPUs())
		}
	}
	return v.taken
}

var limitedWakeUp = forGuestCPU(latencyFile, judgeWakeUp)

// judgeWakeUp judges the wake-up limit of a guest's CPU.
func judgeWakeUp(v *View, a setting.Address) Advice {
	budget := v.wakeBudget()
	if budget == 0 {
		return Skips("the goal names no latency and no packet rate")
	}
	most, known := v.wakeLimit(budget)
	if value, given := v.runningArgument("idle"); given && value == "poll" {
		return Fine("idle=poll: no idle state is entered")
	}
	if v.Power.IdleDriver == "none" {
		return Fine("the kernel has no idle states to choose from (no cpuidle driver)")
	}
	if len(v.Power.IdleStates) > 0 && !v.hasSlowState(most) {
		return Fine(fmt.Sprintf("no idle state that is in use takes longer than %d µs to leave", most))
	}
	if limit := v.Power.LatencyLimit; limit != nil && *limit <= most {
		return Fine(fmt.Sprintf("somebody holds /dev/cpu_dma_latency at %d µs, for as long as that process runs",
			*limit))
	}
	if limit, set := wakeUpLimit(v.Readings.At(a)); set && limit <= int64(most) {
		return Fine("idle states that take longer to leave are not entered")
	}
	if !known {
		return Unsure("which idle states the CPUs have is not known: a limit below the shallowest would have them " +
			"poll, and take half of their siblings' cores")
	}
	because := "idle states may take any time to leave; a tenth of the target is what waking up may take"
	if v.Goal.Latency == 0 {
		because = fmt.Sprintf("idle states may take any time to leave; in %d µs %d packets of the target arrive",
			budget, wakePackets)
	}
	advice := exact(fmt.Sprint(most), because+v.slowestState()).At(Medium)
	if v.Tier != goal.Realtime {
		advice = advice.At(Low)
	}
	return advice
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
