package host

import (
	"context"
	"strconv"

	"mpps/internal/facts"
)

// power reads how the CPUs save power: cpufreq, cpuidle and what is asked of them.
func (m *Machine) power(_ context.Context, h *facts.Host) {
	p := &h.Power
	p.Governors, p.Preferences, p.IdleStates = map[string]int{}, map[string]int{}, []facts.IdleState{}
	cpus := m.folder(cpuFolder)
	defer cpus.close()
	for _, cpu := range cpus.numbered("cpu") {
		at := cpus.folder("cpu" + strconv.Itoa(cpu))
		if at.line("online") != "0" { // of an offline CPU the files tell nothing, or what was before
			scaling(cpus, "cpu"+strconv.Itoa(cpu)+"/cpufreq/", p)
			idleStates(at, p)
		}
		at.close()
	}
	switch {
	case cpus.line("intel_pstate/no_turbo") != "":
		p.Turbo = map[string]string{"0": "on", "1": "off"}[cpus.line("intel_pstate/no_turbo")]
	case cpus.line("cpufreq/boost") != "":
		p.Turbo = map[string]string{"1": "on", "0": "off"}[cpus.line("cpufreq/boost")]
	}
	p.IdleDriver, p.IdleGovernor = cpus.line("cpuidle/current_driver"), cpus.line("cpuidle/current_governor")
	if p.IdleGovernor == "" {
		p.IdleGovernor = cpus.line("cpuidle/current_governor_ro")
	}
	p.LatencyLimit = m.latencyLimit()
}

// scaling reads a CPU's clock policy. Its directory is a link to ../cpufreq/policyN, which in a recorded tree can be followed
// only from the directory of all CPUs.
func scaling(cpus *folder, at string, p *facts.Power) {
	if driver := cpus.line(at + "scaling_driver"); driver != "" {
		p.ScalingDriver = driver
	}
	if governor := cpus.line(at + "scaling_governor"); governor != "" {
		p.Governors[governor]++
	}
	if preference := cpus.line(at + "energy_performance_preference"); preference != "" {
		p.Preferences[preference]++
	}
}
