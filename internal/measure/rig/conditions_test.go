package rig

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mpps/internal/measure"
	"mpps/internal/must"
)

func TestConditions(t *testing.T) {
	const stat = "cpu 1 2 3\ncpu0 10 0 10 10 0 0 0 0 0 0\ncpu1 10 0 10 10 0 0 0 0 0 0\n"
	m := recorded(t, map[string]string{
		"proc/stat": stat,
		"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor":                   "performance\n",
		"sys/devices/system/cpu/cpu1/cpufreq/scaling_governor":                   "powersave\n",
		"sys/devices/system/cpu/cpufreq/policy0/scaling_governor":                "not a CPU's\n",
		"sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count":       "2\n",
		"sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count":       "3\n",
		"sys/devices/system/cpu/cpu1/thermal_throttle/package_throttle_count":    "4\n",
		"sys/devices/system/clocksource/clocksource0/current_clocksource":        "tsc\n",
		"sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_max_time_ms": "99\n",
	})
	c, err := m.Conditions(t.Context(), time.Millisecond)
	must.Do(t, err)
	nine := uint64(9)
	if d := cmp.Diff(measure.Conditions{CPUs: 2, Governors: map[string]int{"performance": 1, "powersave": 1},
		Throttled: &nine, Clocksource: "tsc"}, c); d != "" {
		t.Error(d)
	}
	// A machine that tells nothing but its CPU times.
	c, err = recorded(t, map[string]string{"proc/stat": stat}).Conditions(t.Context(), time.Millisecond)
	if err != nil || c.CPUs != 2 || c.Throttled != nil || len(c.Governors) != 0 || c.Clocksource != "" {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := recorded(t, nil).Conditions(t.Context(), time.Millisecond); err == nil {
		t.Error("a machine without CPU times was accepted")
	}
	bad := recorded(t, map[string]string{"proc/stat": stat,
		"sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count": "many\n"})
	if _, err := bad.Conditions(t.Context(), time.Millisecond); err == nil {
		t.Error(`a count of "many" was accepted`)
	}
}
