package knob

import (
	"slices"
	"strings"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// x86Only are addresses that only x86_64 has, whichever knob they belong to.
var x86Only = []string{
	"kernel-arg:iommu", "kernel-arg:intel_iommu", "kernel-arg:idle", "kernel-arg:intel_pstate", "kernel-arg:tsc",
	"kernel-arg:processor.max_cstate", "kernel-arg:intel_idle.max_cstate", "kernel-arg:mce",
	"sysfs:devices/system/clocksource/clocksource0/current_clocksource", "fact:host/txt", "fact:host/c6",
	"fact:host/port_60_64", "fact:host/wr_crc", "fact:host/package_c_state",
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
	a := must.Get(setting.ParseAddress(text))(t)
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
		{"HygonGenuine", "kernel-arg:intel_pstate", "skip"}, {"CentaurHauls", "kernel-arg:intel_pstate", "skip"},
		{"Unheard-of", "kernel-arg:intel_pstate", "unsure"}, {"  Shanghai  ", "fact:host/txt", "skip"},
		{"  Shanghai  ", "fact:host/df_c_states", "skip"}, {"  Shanghai  ", "kernel-arg:intel_iommu", ""},
		{"AuthenticAMD", "kernel-arg:intel_idle.max_cstate", "skip"},
		{"AuthenticAMD", "kernel-arg:processor.max_cstate", ""}, {"CentaurHauls", "kernel-arg:iommu", ""},
	} {
		h := &facts.Host{Kernel: facts.Kernel{Arch: facts.X86}, Topology: facts.Topology{Vendor: c.vendor}}
		if found, _ := limitAt(t, h, c.address); found != c.want {
			t.Errorf("%s on %s: %q, expected %q", c.address, c.vendor, found, c.want)
		}
	}
}

// argumentArch says which architectures parse each kernel argument of the catalogue, as
// Documentation/admin-guide/kernel-parameters.txt marks it; nil: every one.
var argumentArch = map[string][]string{
	"default_hugepagesz": nil, "hugepagesz+hugepages": nil, "idle": {facts.X86}, "intel_idle.max_cstate": {facts.X86},
	"intel_iommu": {facts.X86}, "intel_pstate": {facts.X86}, "iommu": {facts.X86},
	"iommu.passthrough": {facts.ARM64}, "iommu.strict": {facts.ARM64}, // x86 has them too, where they are left alone
	"irqaffinity": nil, "isolcpus": nil, "kvm-arm.vgic_v4_enable": {facts.ARM64}, "l1tf": {facts.X86},
	"mce": {facts.X86}, "mds": {facts.X86}, "mitigations": nil,
	"nohz_full": nil, "noibpb": {facts.X86}, "noibrs": {facts.X86},
	"nopti": {facts.X86}, "nospec_store_bypass_disable": {facts.X86}, "nospectre_v1": {facts.X86}, "nospectre_v2": nil,
	"pcie_aspm": nil, "pcie_aspm.policy": nil, "processor.max_cstate": {facts.X86}, "quiet": nil, "rcu_nocbs": nil,
	"rhgb": nil, "skew_tick": nil, "tsc": {facts.X86},
}

// TestArguments: nobody adds a kernel argument without looking up who parses it, nor a firmware item without a limit.
func TestArguments(t *testing.T) {
	anywhere := []string{"firmware.smt", "firmware.vt_d", "firmware.sriov"} // judged by what the kernel shows
	for _, k := range Catalogue() {
		if strings.HasPrefix(k.ID, "firmware.") && len(k.Limit.Arch) == 0 && !slices.Contains(anywhere, k.ID) {
			t.Errorf("%s is asked of every architecture", k.ID)
		}
		for _, a := range ModelAddresses(k) {
			if a.Kind != setting.KernelArg {
				continue
			}
			want, listed := argumentArch[a.Path]
			must.Hold(t, listed && slices.Equal(want, k.limitOf(a).Arch),
				"%s: %s is for %v, expected %v (listed: %t)", k.ID, a, k.limitOf(a).Arch, want, listed)
		}
	}
}
