package host

import (
	"testing"
	"time"

	"mpps/internal/facts"
)

func TestPower(t *testing.T) {
	const cpu = "sys/devices/system/cpu/"
	m := lines(t, files{
		cpu + "cpu0/cpufreq/scaling_driver": "intel_pstate", cpu + "cpu0/cpufreq/scaling_governor": "performance", cpu + "cpu0/cpufreq/energy_performance_preference": "performance",
		cpu + "cpu1/cpufreq/scaling_driver": "intel_pstate", cpu + "cpu1/cpufreq/scaling_governor": "powersave", cpu + "cpu1/cpufreq/energy_performance_preference": "balance_performance",
		cpu + "cpu2/online": "0", cpu + "cpu2/cpufreq/scaling_governor": "ondemand",
		cpu + "intel_pstate/no_turbo": "0", cpu + "cpuidle/current_driver": "intel_idle", cpu + "cpuidle/current_governor_ro": "menu",
		cpu + "cpu0/cpuidle/state0/name": "POLL", cpu + "cpu0/cpuidle/state0/latency": "0", cpu + "cpu0/cpuidle/state0/disable": "0",
		cpu + "cpu0/cpuidle/state10/name": "C6", cpu + "cpu0/cpuidle/state10/desc": "MWAIT 0x20", cpu + "cpu0/cpuidle/state10/latency": "133", cpu + "cpu0/cpuidle/state10/disable": "1",
		cpu + "cpu1/cpuidle/state0/name": "POLL", cpu + "cpu1/cpuidle/state10/name": "C6", cpu + "cpu1/cpuidle/state10/disable": "2",
		"dev/cpu_dma_latency": "\x02\x00\x00\x00",
	})
	var h facts.Host
	m.power(t.Context(), &h)
	p := h.Power
	if p.ScalingDriver != "intel_pstate" || p.Turbo != "on" || p.IdleDriver != "intel_idle" || p.IdleGovernor != "menu" || len(p.Governors) != 2 || p.Governors["performance"] != 1 || p.Preferences["balance_performance"] != 1 {
		t.Errorf("found %+v", p)
	}
	if len(p.IdleStates) != 2 || p.IdleStates[1] != (facts.IdleState{Name: "C6", Desc: "MWAIT 0x20", Latency: 133, Disabled: 1, CPUs: 2}) {
		t.Errorf("idle states %+v", p.IdleStates)
	}
	if p.LatencyLimit == nil || *p.LatencyLimit != 2 {
		t.Errorf("latency limit %v, expected 2", p.LatencyLimit)
	}
	lines(t, files{"sys/x": ""}).power(t.Context(), &h)
	if h.Power.LatencyLimit != nil || len(h.Power.IdleStates) != 0 {
		t.Errorf("a machine without any tells %+v", h.Power)
	}
}

// TestPowerOfRecordedTree: each CPU's cpufreq is a link to the policy that it follows.
func TestPowerOfRecordedTree(t *testing.T) {
	const cpu = "sys/devices/system/cpu/"
	m := lines(t, files{cpu + "cpufreq/policy0/scaling_driver": "acpi-cpufreq", cpu + "cpufreq/policy0/scaling_governor": "ondemand", cpu + "cpu0/topology/core_id": "0", cpu + "cpu1/topology/core_id": "1"})
	for _, id := range []string{"0", "1"} {
		if err := m.Root.Symlink("../cpufreq/policy0", cpu+"cpu"+id+"/cpufreq"); err != nil {
			t.Fatal(err)
		}
	}
	var h facts.Host
	m.power(t.Context(), &h)
	if p := h.Power; p.ScalingDriver != "acpi-cpufreq" || p.Governors["ondemand"] != 2 {
		t.Errorf("found %+v", p)
	}
}

func TestFirmware(t *testing.T) {
	var h facts.Host
	lines(t, files{"sys/firmware/acpi/tables/DMAR": "x", "sys/firmware/acpi/tables/APIC": "x", "sys/kernel/iommu_groups/0/type": "DMA", "sys/kernel/iommu_groups/1/type": "DMA"}).firmware(t.Context(), &h)
	if f := h.Firmware; !f.Tables || !f.DMAR || f.IVRS || f.Groups != 2 {
		t.Errorf("found %+v", f)
	}
	h = facts.Host{}
	lines(t, files{"proc/cmdline": ""}).firmware(t.Context(), &h)
	if h.Firmware != (facts.Firmware{}) {
		t.Errorf("found %+v on a machine that shows nothing", h.Firmware)
	}
}

func TestAttest(t *testing.T) {
	m := lines(t, files{"proc/cmdline": ""})
	at := time.Date(2026, 5, 1, 2, 3, 4, 5, time.FixedZone("", 7200))
	if before, err := m.Attest("firmware.txt", "disabled", "Erika", at); err != nil || before.Value != "" {
		t.Fatal(before, err)
	}
	if before, err := m.Attest("firmware.txt", "enabled", "Max", at); err != nil || before.Value != "disabled" || before.By != "Erika" {
		t.Fatal(before, err)
	}
	var h facts.Host
	m.attestations(t.Context(), &h)
	if a := h.Attested["firmware.txt"]; len(h.Attested) != 1 || a.Value != "enabled" || a.By != "Max" || !a.At.Equal(time.Date(2026, 5, 1, 0, 3, 4, 0, time.UTC)) {
		t.Errorf("found %+v", h.Attested)
	}
	if _, err := m.Attest("firmware.txt", "", "", at); err != nil || m.Exists(attestFile) {
		t.Errorf("%v, file there: %v", err, m.Exists(attestFile))
	}
}
