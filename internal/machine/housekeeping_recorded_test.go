package machine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// setAndPutBack reads a value on a recorded machine, sets another, and restores the first one. file is the value's
// file.
func setAndPutBack(t *testing.T, m *Machine, address, value, file string) {
	t.Helper()
	a := must.Get(setting.ParseAddress(address))(t)
	mechanisms := m.Mechanisms()
	before, text := mechanisms.Read(t.Context(), a), m.Line(file)
	must.Need(t, before.State == setting.Known && !before.ReadOnly && before.Value != value,
		"%s: reads %s (%s) before; want another value than %s that can be written", a, before, before.Why, value)
	for _, to := range []setting.Reading{setting.Value(value), before} {
		must.Do(t, mechanisms.Write(t.Context(), a, to))
		if r := mechanisms.Read(t.Context(), a); !r.Same(to) || m.Line(file) != to.Value {
			t.Errorf("%s: reads %s, the file says %q; want %s", a, r, m.Line(file), to)
		}
	}
	must.Equal(t, m.Line(file), text, "%s: the file says", a)
}

// TestGovernorOfRecordedHost: emulated processors have no cpufreq policy. Two CPUs share one here.
func TestGovernorOfRecordedHost(t *testing.T) {
	const cpu = "sys/devices/system/cpu/"
	m := recorded(t, map[string]string{
		cpu + "cpufreq/policy0/scaling_driver":              "acpi-cpufreq\n",
		cpu + "cpufreq/policy0/scaling_governor":            "ondemand\n",
		cpu + "cpufreq/policy0/scaling_available_governors": "conservative ondemand performance\n",
		cpu + "cpu0/cpufreq":                                "-> ../cpufreq/policy0",
		cpu + "cpu1/cpufreq":                                "-> ../cpufreq/policy0",
	})
	setAndPutBack(t, m, "sysfs:devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance", cpu+
		"cpufreq/policy0/scaling_governor")
	none := m.Mechanisms().Read(t.Context(),
		setting.Of(setting.Sysfs, "devices/system/cpu/cpu2/cpufreq/scaling_governor"))
	must.Equal(t, none.State, setting.Absent, "a CPU without a policy reads %s (%s)", none, none.Why)
}

// TestClockOfRecordedHost: what leads the clock of Intel's processors is set and put back.
func TestClockOfRecordedHost(t *testing.T) {
	const cpu = "sys/devices/system/cpu/"
	const floor = "intel_uncore_frequency/package_00_die_00/min_freq_khz"
	m := recorded(t, map[string]string{
		cpu + "cpufreq/policy0/energy_performance_preference": "balance_performance\n",
		cpu + "cpu0/cpufreq":                "-> ../cpufreq/policy0",
		cpu + "cpu0/power/energy_perf_bias": "6\n", cpu + floor: "800000\n",
	})
	setAndPutBack(t, m, "sysfs:devices/system/cpu/cpu0/cpufreq/energy_performance_preference", "performance",
		cpu+"cpufreq/policy0/energy_performance_preference")
	setAndPutBack(t, m, "sysfs:devices/system/cpu/cpu0/power/energy_perf_bias", "0", cpu+"cpu0/power/energy_perf_bias")
	setAndPutBack(t, m, "sysfs:devices/system/cpu/"+floor, "2400000", cpu+floor)
}

// TestLoadTimeParameters: parameters that are read when a module is loaded are read-only, with what to do.
func TestLoadTimeParameters(t *testing.T) {
	files := map[string]string{
		"sys/module/kvm/parameters/kvmclock_periodic_sync": "Y\n", "sys/module/kvm_intel/parameters/ple_gap": "128\n",
		"sys/module/kvm_amd/parameters/pause_filter_count": "3000\n", "sys/module/kvm/parameters/nx_huge_pages": "Y\n",
		"sys/module/kvm/parameters/lapic_timer_advance": "N\n", "sys/module/kvm_amd/parameters/avic": "N\n",
		"sys/module/kvm_intel/parameters/enable_apicv": "N\n", "sys/module/kvm_intel/parameters/enable_ipiv": "N\n",
	}
	m := recorded(t, files)
	for file := range files {
		if !strings.HasSuffix(file, "nx_huge_pages") {
			must.Do(t, os.Chmod(filepath.Join(m.Path, file), 0o444))
		}
	}
	for address, want := range map[string]string{"kvm/kvmclock_periodic_sync": "Y", "kvm_intel/ple_gap": "128",
		"kvm_amd/pause_filter_count": "3000", "kvm/lapic_timer_advance": "N", "kvm_amd/avic": "N",
		"kvm_intel/enable_apicv": "N", "kvm_intel/enable_ipiv": "N"} {
		r := m.Mechanisms().Read(t.Context(), setting.Address{Kind: setting.ModuleParam, Path: address})
		must.Hold(t, r.Value == want && r.ReadOnly && strings.Contains(r.Why, "modprobe.d") &&
			strings.Contains(r.Why, "all guests shut down"), "%s: %s, read-only %t (%s)", address, r, r.ReadOnly, r.Why)
	}
	setAndPutBack(t, m, "module-param:kvm/nx_huge_pages", "N", "sys/module/kvm/parameters/nx_huge_pages")
}
