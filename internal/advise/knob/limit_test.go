package knob

import (
	"slices"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// x86Only are addresses that only x86_64 has, whichever knob they belong to.
var x86Only = []string{
	"kernel-arg:iommu", "kernel-arg:intel_iommu", "kernel-arg:idle", "kernel-arg:intel_pstate", "kernel-arg:tsc",
	"kernel-arg:processor.max_cstate", "kernel-arg:intel_idle.max_cstate", "kernel-arg:mce",
	"sysfs:devices/system/clocksource/clocksource0/current_clocksource", "fact:host/txt", "fact:host/c6",
	"fact:host/port_60_64", "fact:host/wr_crc", "fact:host/package_c_state", "fact:host/numa_per_socket",
	"domain:vm 1/cpu/cache.mode", "domain:vm 1/clock/timer/kvmclock.present", "domain:vm 1/features/hyperv/synic.state",
	"domain:vm 1/cpu/migratable", "domain:vm 1/features/kvm/hint-dedicated.state", "fact:vm 1/machine",
	"module-param:kvm_intel/ept", "module-param:kvm/lapic_timer_advance",
	"sysfs:devices/system/machinecheck/machinecheck0/ignore_ce", "sysctl:kernel.split_lock_mitigate",
}

// everyArch are addresses that every architecture has.
var everyArch = []string{
	"kernel-arg:isolcpus", "kernel-arg:nohz_full", "kernel-arg:rcu_nocbs", "kernel-arg:irqaffinity",
	"kernel-arg:skew_tick", "kernel-arg:mitigations", "domain:vm 1/cpu/mode", "nic-ring:eth0/rx",
	"sysfs:devices/system/cpu/cpu0/power/pm_qos_resume_latency_us", "sysctl:net.core.netdev_budget",
}

func TestLimits(t *testing.T) {
	h := everything()
	for arch, expected := range map[string]string{facts.X86: "", facts.ARM64: "skip", "": "unsure", "riscv64": "skip"} {
		h.Kernel.Arch, h.Topology.Vendor = arch, "GenuineIntel"
		if arch != facts.X86 {
			h.Topology.Vendor, h.KVM.Vendor = "", ""
		} else {
			h.KVM.Vendor = "kvm_intel"
		}
		for address, want := range map[*[]string]string{&x86Only: expected, &everyArch: ""} {
			for _, text := range *address {
				if found, known := limitAt(t, h, text); known && found != want {
					t.Errorf("%s on %q: %q, expected %q", text, arch, found, want)
				}
			}
		}
	}
}

// limitAt returns what the limit of the knob of an address says on a host: skip, unsure, or nothing.
func limitAt(t *testing.T, h *facts.Host, text string) (limit string, known bool) {
	a, err := setting.ParseAddress(text)
	if err != nil {
		t.Fatal(err)
	}
	host := everything()
	for _, k := range Catalogue() {
		if !slices.Contains(k.Where(host), a) {
			continue
		}
		advice, limited := k.Limited(h, a)
		switch {
		case !limited:
			return "", true
		case advice.Skip != "":
			return "skip", true
		}
		return "unsure", true
	}
	t.Errorf("no knob speaks of %s", text)
	return "", false
}

// TestVendors: values of one maker's processors are not judged on those of another, nor where the maker is not known.
func TestVendors(t *testing.T) {
	for _, c := range []struct{ vendor, address, want string }{
		{"GenuineIntel", "kernel-arg:intel_iommu", ""}, {"AuthenticAMD", "kernel-arg:intel_iommu", "skip"},
		{"HygonGenuine", "kernel-arg:intel_pstate", "skip"}, {"CentaurHauls", "kernel-arg:intel_pstate", "unsure"},
		{"AuthenticAMD", "kernel-arg:intel_idle.max_cstate", "skip"},
		{"AuthenticAMD", "kernel-arg:processor.max_cstate", ""}, {"CentaurHauls", "kernel-arg:iommu", ""},
	} {
		h := &facts.Host{Kernel: facts.Kernel{Arch: facts.X86}, Topology: facts.Topology{Vendor: c.vendor}}
		if found, _ := limitAt(t, h, c.address); found != c.want {
			t.Errorf("%s on %s: %q, expected %q", c.address, c.vendor, found, c.want)
		}
	}
}
