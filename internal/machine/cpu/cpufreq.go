package cpu

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// Power reads the CPUs' power management into h.Power: cpufreq, cpuidle and the wake-up latency limit.
func Power(_ context.Context, m *tree.Tree, h *facts.Host) {
	p := &h.Power
	p.Governors, p.Preferences, p.IdleStates = map[string]int{}, map[string]int{}, []facts.IdleState{}
	cpus := m.Folder(Dir)
	defer cpus.Close()
	for _, cpu := range cpus.Numbers("cpu") {
		at := cpus.Folder("cpu" + strconv.Itoa(cpu))
		if at.Line("online") != "0" { // an offline CPU's files are empty or stale
			scaling(cpus, "cpu"+strconv.Itoa(cpu)+"/cpufreq/", p)
			idleStates(at, p)
		}
		at.Close()
	}
	switch {
	case cpus.Line("intel_pstate/no_turbo") != "":
		p.Turbo = map[string]string{"0": "on", "1": "off"}[cpus.Line("intel_pstate/no_turbo")]
	case cpus.Line("cpufreq/boost") != "":
		p.Turbo = map[string]string{"1": "on", "0": "off"}[cpus.Line("cpufreq/boost")]
	}
	p.Uncore = uncore(cpus)
	p.IdleDriver = cpus.Line("cpuidle/current_driver")
	p.IdleGovernor = cmp.Or(cpus.Line("cpuidle/current_governor"), cpus.Line("cpuidle/current_governor_ro"))
	p.LatencyLimit = latencyLimit(m)
}

// uncore returns Intel's uncore clock domains, one for each package and die; those of fabric clusters follow them.
func uncore(cpus *tree.Folder) (all []facts.Uncore) {
	domains := cpus.Folder("intel_uncore_frequency")
	defer domains.Close()
	for _, name := range domains.Names() {
		if strings.HasPrefix(name, "package_") {
			all = append(all, facts.Uncore{Name: name, Max: domains.Number(name+"/max_freq_khz", 0)})
		}
	}
	return all
}

// scaling reads a CPU's cpufreq policy. Its directory is a link to ../cpufreq/policyN, which a recorded tree resolves
// only from the directory of all CPUs.
func scaling(cpus *tree.Folder, at string, p *facts.Power) {
	if driver := cpus.Line(at + "scaling_driver"); driver != "" {
		p.ScalingDriver = driver
	}
	if governor := cpus.Line(at + "scaling_governor"); governor != "" {
		p.Governors[governor]++
	}
	if preference := cpus.Line(at + "energy_performance_preference"); preference != "" {
		p.Preferences[preference]++
	}
}
