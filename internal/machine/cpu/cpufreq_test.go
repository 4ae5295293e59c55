package cpu

import (
	"testing"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

func TestPower(t *testing.T) {
	const cpu = "sys/devices/system/cpu/"
	m := treetest.Lines(t, files{
		cpu + "cpu0/cpufreq/scaling_driver": "intel_pstate", cpu + "cpu0/cpufreq/scaling_governor": "performance", cpu +
			"cpu0/cpufreq/energy_performance_preference": "performance",
		cpu + "cpu1/cpufreq/scaling_driver": "intel_pstate", cpu + "cpu1/cpufreq/scaling_governor": "powersave", cpu +
			"cpu1/cpufreq/energy_performance_preference": "balance_performance",
		cpu + "cpu2/online": "0", cpu + "cpu2/cpufreq/scaling_governor": "ondemand",
		cpu + "intel_pstate/no_turbo": "0", cpu + "cpuidle/current_driver": "intel_idle", cpu +
			"cpuidle/current_governor_ro": "menu",
		cpu + "cpu0/cpuidle/state0/name": "POLL", cpu + "cpu0/cpuidle/state0/latency": "0", cpu +
			"cpu0/cpuidle/state0/disable": "0",
		cpu + "cpu0/cpuidle/state10/name": "C6", cpu + "cpu0/cpuidle/state10/desc": "MWAIT 0x20", cpu +
			"cpu0/cpuidle/state10/latency": "133", cpu + "cpu0/cpuidle/state10/disable": "1",
		cpu + "cpu1/cpuidle/state0/name": "POLL", cpu + "cpu1/cpuidle/state10/name": "C6", cpu +
			"cpu1/cpuidle/state10/disable": "2",
		"dev/cpu_dma_latency": "\x02\x00\x00\x00",
		cpu + "intel_uncore_frequency/package_01_die_00/max_freq_khz": "2400000",
		cpu + "intel_uncore_frequency/uncore00/max_freq_khz":          "2400000",
	})
	var h facts.Host
	Power(t.Context(), m, &h)
	p := h.Power
	must.Hold(t, p.ScalingDriver == "intel_pstate" && p.Turbo == "on" && p.IdleDriver == "intel_idle" &&
		p.IdleGovernor == "menu" && len(p.Governors) == 2 && p.Governors["performance"] == 1 &&
		p.Preferences["balance_performance"] == 1, "found %+v", p)
	must.Hold(t, len(p.IdleStates) == 2 &&
		p.IdleStates[1] == (facts.IdleState{Name: "C6", Desc: "MWAIT 0x20", Latency: 133, Disabled: 1, CPUs: 2}),
		"idle states %+v", p.IdleStates)
	must.Hold(t, p.LatencyLimit != nil && *p.LatencyLimit == 2, "latency limit %v, expected 2", p.LatencyLimit)
	must.Hold(t, len(p.Uncore) == 1 && p.Uncore[0] == (facts.Uncore{Name: "package_01_die_00", Max: 2400000}),
		"uncore %+v", p.Uncore)
	Power(t.Context(), treetest.Lines(t, files{"sys/x": ""}), &h)
	must.Hold(t, h.Power.LatencyLimit == nil && len(h.Power.IdleStates) == 0,
		"a machine without any tells %+v", h.Power)
}

// TestPowerOfRecordedTree: each CPU's cpufreq is a link to its policy.
func TestPowerOfRecordedTree(t *testing.T) {
	const cpu = "sys/devices/system/cpu/"
	m := treetest.Lines(t, files{cpu + "cpufreq/policy0/scaling_driver": "acpi-cpufreq", cpu +
		"cpufreq/policy0/scaling_governor": "ondemand", cpu + "cpu0/topology/core_id": "0", cpu +
		"cpu1/topology/core_id": "1"})
	for _, id := range []string{"0", "1"} {
		must.Do(t, m.Root.Symlink("../cpufreq/policy0", cpu+"cpu"+id+"/cpufreq"))
	}
	var h facts.Host
	Power(t.Context(), m, &h)
	if p := h.Power; p.ScalingDriver != "acpi-cpufreq" || p.Governors["ondemand"] != 2 {
		t.Errorf("found %+v", p)
	}
}
